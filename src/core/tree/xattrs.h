// SPDX-License-Identifier: Apache-2.0
// Extended attributes of the two families that snapshots keep: user.* and security.capability.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace ascope {

using XattrList = std::vector<std::pair<std::string, std::string>>;

bool is_kept_xattr(std::string_view name);

// What is on the inode behind `path` (a proc_path), sorted by name. `others` (may be null) is set if there
// are access control lists, which are not kept. `corrupt` if there is more than kMaxXattrBytes.
Result<XattrList> read_xattrs(const std::string& path, bool* others);
// The same of what is open as `fd`, which is no O_PATH descriptor.
Result<XattrList> read_xattrs(int fd, bool* others);
// Makes the kept families on the inode exactly `wanted`; `present` is what read_xattrs gave. Errors by errno.
Result<void> write_xattrs(const std::string& path, const XattrList& present, const XattrList& wanted);

}  // namespace ascope
