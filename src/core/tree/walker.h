// SPDX-License-Identifier: Apache-2.0
// Reads a tree of a hostile owner from disk, by folder descriptors only (protocols 4.5): no path is followed
// twice, no link is followed, other file systems are not entered, no file is opened that fstat does not call
// regular.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/tree/tree.h"

namespace ascope {

struct WalkOptions {
  std::vector<std::string>
      start;  // relative paths to walk; empty: the whole root. A missing one is not_found, or:
  bool start_may_vanish = false;  // it, and what lies where a folder on the way was, gives nothing
  // Paths (relative to the root) left out together with what is below them; for the root's own marks, mounts,
  // caches.
  std::vector<std::string> skip_paths;
  std::vector<std::string> exclude;  // profile globs ("*.sock", "build/"): see exclude_matches
  std::uint32_t id_base = 0;  // subtracted from host ids in [base, base+65536): the sandbox's own id range
  // Ids to report instead, for an ordinary user's sandbox: host uid `map_from_uid` is `map_to_uid` inside.
  std::optional<std::uint32_t> map_from_uid, map_to_uid, map_from_gid, map_to_gid;
  bool include_root = true;  // yield the entry "" first
  // Entries only: read() gives nothing, no file is opened, holes are not looked for.
  bool metadata_only = false;
  // With metadata_only; false: those of regular files are not asked for, which spares most of the time.
  bool file_xattrs = true;
};

// Walks in path order (raw bytes) below `root`. Memory: one folder's names a level, bounded descriptors at
// any depth. Sockets are skipped with a note; fifos and devices are yielded. A file that changes while it is
// read keeps the size announced by its entry (padded with zeros or cut) and is named in notes(). Vanished
// files are noted, not errors.
class TreeWalker : public TreeSource {
 public:
  [[nodiscard]] virtual const std::vector<TreeNote>& notes() const = 0;
};
Result<std::unique_ptr<TreeWalker>> walk_tree(UniqueFd root, WalkOptions options);

// Profile `exclude` patterns as gitignore has them without negation: no slash matches a name at any depth; a
// slash anchors at the root; `*`, `?`, `[…]` do not match '/', `**` does; a trailing slash matches folders
// only.
bool exclude_matches(const std::vector<std::string>& patterns, std::string_view path, bool is_directory);

}  // namespace ascope
