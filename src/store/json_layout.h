// SPDX-License-Identifier: Apache-2.0
// AgentScope's JSON file store (reference 4.3) as the services of `json:` use it: where a slot lies, how its
// record looks on disk, and the lock of its folder. For the files of src/store/json_*.cc only.
//
//   <root>/__anon__/<segment>/<key>.json       a value
//                             _ascope_slot     the slot's full name, where the segment cannot say it
//                             _ascope.lock     taken (flock) by our writers; Java takes none
//                             .ascope.<hex>    a record on its way in, or the one that came out
//                             (json_state.cc) .ascope-tmp.<hex>  any other value on its way in
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "core/store.h"

namespace ascope {

inline constexpr std::string_view kSlotNameFile = "_ascope_slot";

class JsonLayout {
 public:
  explicit JsonLayout(std::string root) : users_(std::move(root) + "/__anon__") {}

  // The slot's folder. `unsupported` for a name that would lie in the folder of another one.
  [[nodiscard]] Result<std::string> folder(std::string_view slot) const;
  // The folder, made if missing, with the file of the full name where the segment cannot say it. Durable.
  Result<std::string> make_folder(std::string_view slot) const;
  // Names of the slots that hold a record, sorted.
  [[nodiscard]] Result<std::vector<std::string>> slots() const;

 private:
  [[nodiscard]] Result<std::string> slot_of(const std::string& segment) const;
  std::string users_;
};

// `folder`/`key`.json; `internal` for a key that is no plain file name.
Result<std::string> json_value_file(const std::string& folder, std::string_view key);

// A record as AgentScope writes it to a file (two blanks of indent, " : " between key and value), and back.
// Every value has a file that gives just it back; what is not a compact JSON object stays as it is.
std::string to_java_form(std::string_view value);
std::string from_java_form(std::string_view file);

// The lock of a slot's folder, held until destruction; the kernel drops it when the process dies.
class FolderLock {
 public:
  // Waits up to the context's deadline, else 30 s (`timeout`). Makes the folder.
  static Result<FolderLock> acquire(const OpContext& ctx, const JsonLayout& layout, std::string_view slot);
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  FolderLock(UniqueFd fd, std::string folder) : fd_(std::move(fd)), folder_(std::move(folder)) {}
  UniqueFd fd_;
  std::string folder_;
};

Result<std::unique_ptr<StateStore>> open_json_state(const OpContext& ctx, const StoreUrl& url,
                                                    const StoreContext& context);
Result<std::unique_ptr<ReceiptStore>> open_json_receipts(const OpContext& ctx, const StoreUrl& url,
                                                         const StoreContext& context);

}  // namespace ascope
