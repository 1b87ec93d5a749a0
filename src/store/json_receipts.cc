// SPDX-License-Identifier: Apache-2.0
// Receipts beside the records of a json: store, one JSON line each, newest last, in "_ascope_receipts.jsonl"
// of the slot's folder. Appending costs one write; the file is cut back to 200 lines whenever it has come to
// 400.
#include <algorithm>
#include <fcntl.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "store/json_layout.h"

namespace ascope {

namespace {

constexpr std::size_t kCutAt = 400;

// The whole lines of the file. A line that a killed writer left half written is no receipt and is passed
// over.
Result<std::vector<std::string>> read_lines(const std::string& file, bool& ends_clean) {
  std::vector<std::string> lines;
  ends_clean = true;
  auto bytes = read_file(file);
  if (!bytes) {
    return bytes.error().kind == ErrorKind::not_found ? Result(std::move(lines)) : std::move(bytes).error();
  }
  std::string_view rest = bytes.value();
  ends_clean = rest.empty() || rest.ends_with('\n');
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!line.empty() && Json::accept(line)) {
      lines.emplace_back(line);
    }
  }
  return lines;
}

class JsonReceiptStore final : public ReceiptStore {
 public:
  explicit JsonReceiptStore(std::string root) : layout_(std::move(root)) {}

  Result<void> append(const OpContext& ctx, std::string_view slot, std::string_view receipt_json) override {
    if (receipt_json.find('\n') != std::string_view::npos) {
      return make_error(ErrorKind::internal, "a receipt of more than one line");
    }
    ASCOPE_TRY_ASSIGN(const FolderLock lock, FolderLock::acquire(ctx, layout_, slot));
    const std::string file = file_in(lock.folder());
    bool ends_clean = true;
    ASCOPE_TRY_ASSIGN(const auto lines, read_lines(file, ends_clean));
    if (lines.size() + 1 >= kCutAt) {
      std::string kept;
      for (std::size_t i = lines.size() - (kReceiptsKept - 1); i < lines.size(); ++i) {
        kept += lines[i] + "\n";
      }
      return write_file_atomic(file, kept + std::string(receipt_json) + "\n");
    }
    ASCOPE_TRY_ASSIGN(UniqueFd fd, open_file(file, O_WRONLY | O_CREAT | O_APPEND));
    ASCOPE_TRY(write_all(fd.get(), (ends_clean ? "" : "\n") + std::string(receipt_json) + "\n"));
    return fd.close();
  }

  Result<std::vector<std::string>> newest(const OpContext& ctx, std::string_view slot,
                                          std::size_t limit) override {
    ASCOPE_TRY(ctx.check("reading receipts"));
    ASCOPE_TRY_ASSIGN(const std::string folder, layout_.folder(slot));
    bool ends_clean = true;
    ASCOPE_TRY_ASSIGN(auto lines, read_lines(file_in(folder), ends_clean));
    std::reverse(lines.begin(), lines.end());
    lines.resize(std::min({lines.size(), limit, kReceiptsKept}));
    return lines;
  }

  Result<void> clear(const OpContext& ctx, std::string_view slot) override {
    ASCOPE_TRY_ASSIGN(const std::string folder, layout_.folder(slot));
    ASCOPE_TRY_ASSIGN(const bool exists, path_exists(file_in(folder)));
    if (!exists) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const FolderLock lock, FolderLock::acquire(ctx, layout_, slot));
    return remove_file(file_in(folder));
  }

 private:
  static std::string file_in(const std::string& folder) { return folder + "/_ascope_receipts.jsonl"; }
  JsonLayout layout_;
};

}  // namespace

Result<std::unique_ptr<ReceiptStore>> open_json_receipts(const OpContext& /*ctx*/, const StoreUrl& url,
                                                         const StoreContext& /*context*/) {
  ASCOPE_TRY(check_store_options(url));
  ASCOPE_TRY_ASSIGN(std::string root, store_path(url));
  return std::unique_ptr<ReceiptStore>(std::make_unique<JsonReceiptStore>(std::move(root)));
}

}  // namespace ascope
