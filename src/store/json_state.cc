// SPDX-License-Identifier: Apache-2.0
// Records in AgentScope's JSON folders, beside Java agents that rename over them without a lock
// (protocols 1.3). Our writers hold the folder's lock among themselves. Against Java, a new record is
// exchanged with the present one in one step, and what came out is compared afterwards: if it is not what was
// expected, it goes back in the same way.
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/record.h"
#include "store/json_layout.h"

namespace ascope {

namespace {

constexpr std::string_view kExchangePrefix = ".ascope.";
constexpr std::string_view kTempPrefix = ".ascope-tmp.";

std::string on_disk(std::string_view key, std::string_view value) {
  return key == kRecordKey ? to_java_form(value) : std::string(value);
}

std::string from_disk(std::string_view key, std::string file) {
  return key == kRecordKey ? from_java_form(file) : std::move(file);
}

// nullopt: no such file.
Result<std::optional<std::string>> read_if_there(const std::string& path) {
  auto bytes = read_file(path);
  if (bytes) {
    return std::optional(std::move(bytes).value());
  }
  if (bytes.error().kind == ErrorKind::not_found) {
    return std::optional<std::string>{};
  }
  return std::move(bytes).error();
}

// A new file with `bytes`, synced, for its owner alone; removed with the object.
class TempFile {
 public:
  static Result<TempFile> write(const std::string& folder, std::string_view prefix, std::string_view bytes) {
    TempFile temp(folder + "/" + std::string(prefix) + random_hex(8));
    ASCOPE_TRY_ASSIGN(UniqueFd fd, open_file(temp.path_, O_WRONLY | O_CREAT | O_EXCL));
    ASCOPE_TRY(write_all(fd.get(), bytes));
    if (::fsync(fd.get()) != 0) {
      return errno_error("fsync of '" + temp.path_ + "'", errno);
    }
    ASCOPE_TRY(fd.close());
    return temp;
  }
  TempFile(TempFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TempFile& operator=(TempFile&&) = delete;
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() {
    if (!path_.empty()) {
      ::unlink(path_.c_str());
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Stays on disk: it may hold the only copy of somebody's record.
  void keep() { path_.clear(); }

 private:
  explicit TempFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

enum class Exchange { done, gone, impossible };

Result<Exchange> exchange(const std::string& temp, const std::string& target) {
  if (::renameat2(AT_FDCWD, temp.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return Exchange::done;
  }
  if (errno == ENOENT) {
    return Exchange::gone;
  }
  if (errno == EINVAL || errno == ENOSYS) {
    return Exchange::impossible;
  }
  return errno_error("exchanging '" + target + "'", errno);
}

// The temporary file holds the foreign record `hand`, the target `put`. Puts the foreign record back; one
// that came in meanwhile, and so comes out now, is the newer one and goes back next. Ends when our own comes
// out.
Result<void> put_back(TempFile& temp, const std::string& target, std::string put, std::string hand) {
  while (true) {
    ASCOPE_TRY_ASSIGN(const Exchange step, exchange(temp.path(), target));
    if (step != Exchange::done) {
      // Removed under us: what came out is the last record there was.
      if (::link(temp.path().c_str(), target.c_str()) != 0) {
        return errno_error("putting '" + target + "' back", errno);
      }
      return ok();
    }
    ASCOPE_TRY_ASSIGN(std::string out, read_file(temp.path()));
    if (out == put) {
      return ok();
    }
    put = std::exchange(hand, std::move(out));
  }
}

class JsonStateStore final : public StateStore {
 public:
  explicit JsonStateStore(std::string root) : layout_(std::move(root)) {}

  Result<std::optional<std::string>> read(const OpContext& ctx, std::string_view slot,
                                          std::string_view key) override {
    ASCOPE_TRY(ctx.check("reading the state store"));
    ASCOPE_TRY_ASSIGN(const std::string folder, layout_.folder(slot));
    ASCOPE_TRY_ASSIGN(const std::string file, json_value_file(folder, key));
    auto bytes = read_if_there(file);
    if (!bytes) {
      return read_failure(std::move(bytes).error());
    }
    return *bytes ? std::optional(from_disk(key, **std::move(bytes))) : std::nullopt;
  }

  Result<bool> swap(const OpContext& ctx, std::string_view slot, std::string_view key,
                    const std::optional<std::string>& expected, std::string_view desired) override {
    // Nothing is made for a swap that cannot succeed.
    if (expected) {
      ASCOPE_TRY_ASSIGN(const auto present, read(ctx, slot, key));
      if (present != expected) {
        return false;
      }
    }
    auto swapped = write(ctx, slot, key, expected, desired);
    return swapped ? std::move(swapped) : Result<bool>(write_failure(std::move(swapped).error()));
  }

  Result<void> remove(const OpContext& ctx, std::string_view slot, std::string_view key) override {
    ASCOPE_TRY_ASSIGN(const std::string folder, layout_.folder(slot));
    ASCOPE_TRY_ASSIGN(const std::string file, json_value_file(folder, key));
    ASCOPE_TRY_ASSIGN(const bool exists, path_exists(file));
    if (!exists) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const FolderLock lock, FolderLock::acquire(ctx, layout_, slot));
    ASCOPE_TRY(remove_file(file));
    return sync_dir(folder);
  }

  Result<std::vector<std::string>> keys(const OpContext& ctx, std::string_view slot) override {
    ASCOPE_TRY(ctx.check("reading the state store"));
    ASCOPE_TRY_ASSIGN(const std::string folder, layout_.folder(slot));
    auto names = list_dir(folder);
    if (!names && names.error().kind == ErrorKind::not_found) {
      return std::vector<std::string>{};
    }
    if (!names) {
      return read_failure(std::move(names).error());
    }
    std::vector<std::string> out;
    for (const std::string& name : names.value()) {
      if (name.ends_with(".json") && name.front() != '.' && name.size() > 5) {
        out.push_back(name.substr(0, name.size() - 5));
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  Result<std::vector<std::string>> slots(const OpContext& ctx) override {
    ASCOPE_TRY(ctx.check("listing the state store"));
    auto names = layout_.slots();
    return names ? std::move(names)
                 : Result<std::vector<std::string>>(read_failure(std::move(names).error()));
  }

 private:
  Result<bool> write(const OpContext& ctx, std::string_view slot, std::string_view key,
                     const std::optional<std::string>& expected, std::string_view desired) const {
    ASCOPE_TRY_ASSIGN(const FolderLock lock, FolderLock::acquire(ctx, layout_, slot));
    ASCOPE_TRY_ASSIGN(const std::string target, json_value_file(lock.folder(), key));
    ASCOPE_TRY(tidy(lock.folder()));
    return expected ? replace(lock.folder(), target, key, *expected, desired)
                    : create(lock.folder(), target, key, desired);
  }

  static Result<bool> create(const std::string& folder, const std::string& target, std::string_view key,
                             std::string_view desired) {
    ASCOPE_TRY_ASSIGN(const bool exists, path_exists(target));
    if (exists) {
      return false;
    }
    ASCOPE_TRY_ASSIGN(const TempFile temp, TempFile::write(folder, kTempPrefix, on_disk(key, desired)));
    if (::link(temp.path().c_str(), target.c_str()) != 0) {
      return errno == EEXIST ? Result<bool>(false) : errno_error("creating '" + target + "'", errno);
    }
    ASCOPE_TRY(sync_dir(folder));
    return true;
  }

  static Result<bool> replace(const std::string& folder, const std::string& target, std::string_view key,
                              const std::string& expected, std::string_view desired) {
    ASCOPE_TRY_ASSIGN(const auto present, read_if_there(target));
    if (!present || from_disk(key, *present) != expected) {
      return false;
    }
    const std::string ours = on_disk(key, desired);
    ASCOPE_TRY_ASSIGN(TempFile temp,
                      TempFile::write(folder, key == kRecordKey ? kExchangePrefix : kTempPrefix, ours));
    ASCOPE_TRY_ASSIGN(const Exchange step, exchange(temp.path(), target));
    if (step == Exchange::gone) {
      return false;
    }
    if (step == Exchange::impossible) {
      return rename_over(folder, target, temp, *present);
    }
    auto out = read_file(temp.path());
    if (!out) {
      temp.keep();
      return std::move(out).error();
    }
    if (out.value() != *present) {
      log("store", LogLevel::info, "'{}' was written by another program meanwhile; its record goes back",
          target);
      auto back = put_back(temp, target, ours, std::move(out).value());
      if (!back) {
        temp.keep();
        return std::move(back).error();
      }
      ASCOPE_TRY(sync_dir(folder));
      return false;
    }
    ASCOPE_TRY(sync_dir(folder));
    return true;
  }

  // Where the file system has no exchange (NFS): compare once more, then rename. Safe among ours; a Java
  // agent that writes between the two steps loses its write.
  static Result<bool> rename_over(const std::string& folder, const std::string& target, TempFile& temp,
                                  const std::string& present) {
    ASCOPE_TRY_ASSIGN(const auto again, read_if_there(target));
    if (again != present) {
      return false;
    }
    if (::rename(temp.path().c_str(), target.c_str()) != 0) {
      return errno_error("replacing '" + target + "'", errno);
    }
    temp.keep();
    ASCOPE_TRY(sync_dir(folder));
    return true;
  }

  // Removes what writers that were killed left behind. A record of another program that one of them held in
  // its hand is the only copy: it stays, and is said.
  static Result<void> tidy(const std::string& folder) {
    ASCOPE_TRY_ASSIGN(const auto names, list_dir(folder));
    for (const std::string& name : names) {
      const std::string path = folder + "/" + name;
      if (name.starts_with(kTempPrefix)) {
        ASCOPE_TRY(remove_file(path));
      } else if (name.starts_with(kExchangePrefix)) {
        ASCOPE_TRY_ASSIGN(const auto bytes, read_if_there(path));
        if (bytes && parse_record(from_java_form(*bytes)).meta) {
          ASCOPE_TRY(remove_file(path));
        } else if (bytes) {
          log("store", LogLevel::warn,
              "'{}' holds a record of another program that was displaced by a killed writer", path);
        }
      }
    }
    return ok();
  }

  JsonLayout layout_;
};

}  // namespace

Result<std::unique_ptr<StateStore>> open_json_state(const OpContext& /*ctx*/, const StoreUrl& url,
                                                    const StoreContext& /*context*/) {
  ASCOPE_TRY(check_store_options(url));
  ASCOPE_TRY_ASSIGN(std::string root, store_path(url));
  return std::unique_ptr<StateStore>(std::make_unique<JsonStateStore>(std::move(root)));
}

}  // namespace ascope
