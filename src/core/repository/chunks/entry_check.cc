// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/entry_check.h"

#include "core/repository/chunks/page_format.h"

namespace ascope::chunks {

Result<void> check_entry(const TreeEntry& entry) {
  ASCOPE_TRY(check_tree_path(entry.path, entry.type == EntryType::directory));
  if (entry.type == EntryType::hardlink) {
    ASCOPE_TRY(check_tree_path(entry.link_target, false));
  }
  if (entry.size_bytes > kMaxFileSize || entry.mode > kModeBits || entry.link_target.size() > kMaxText) {
    return make_error(ErrorKind::corrupt, "'" + entry.path + "' has an impossible size, mode or target");
  }
  std::size_t bytes = 0;
  bool fits = entry.xattrs.size() <= kMaxXattrs;
  for (const auto& [name, value] : entry.xattrs) {
    bytes += name.size() + value.size();
    fits = fits && !name.empty() && name.size() <= kMaxXattrName && value.size() <= kMaxText;
  }
  return fits && bytes <= kMaxXattrBytes
             ? ok()
             : Result<void>(make_error(ErrorKind::unsupported,
                                       "'" + entry.path + "' has more extended attributes than can be kept"));
}

}  // namespace ascope::chunks
