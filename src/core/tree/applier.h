// SPDX-License-Identifier: Apache-2.0
// Writes entries below a root folder, by folder descriptors only; never leaves it, whatever the source says.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/op_context.h"
#include "core/tree/tree.h"

namespace ascope {

enum class ApplyMode {
  exact,  // the root becomes what the source says: what is there and not in the source goes (but skip_paths,
          // spare)
  overlay,  // entries are laid over what is there; a thing of another type in the way is replaced
  fresh,    // the root must be empty (or missing): no comparison, no staging
};

struct ApplyOptions {
  ApplyMode mode = ApplyMode::overlay;
  std::vector<std::string> skip_paths;  // left alone: never written, never removed (mounts, marks)
  // `exact`: globs (exclude_matches) of what stays although the source does not hold it.
  std::vector<std::string> spare;
  std::vector<std::string> only;  // `exact` and `overlay`: only these paths and what is below them
  std::uint32_t id_base = 0;      // added to entry ids when we may chown (root)
  bool set_owner = false;         // chown as the entries say; else everything is the caller's own
  // Without set_owner: the inside ids that the caller's own stand for; entries of others are counted as not
  // set.
  std::optional<std::uint32_t> own_uid, own_gid;
  bool allow_setid =
      false;  // keep setuid/setgid bits (only inside an id range of its own); else cleared and noted
  bool allow_devices = false;  // device nodes; else noted and left out
  // Done in this order before the first entry of the source is laid over (`overlay` only; below the root by
  // folder descriptors, checked like entry paths); they stay done if the source fails later. What is missing
  // is passed over, so that a repeat is harmless.
  std::vector<std::string> remove;  // files and links go; a folder only if it is empty; in this order
  std::vector<std::pair<std::string, std::string>> rename;  // from, to; `to` there already: `conflict`
  bool dry_run = false;  // change nothing, only count and list what would be
  // `exact` over a living tree: called once after everything is staged and checked and before the first
  // change to the tree (protocols 5.2, R5). Its error ends the apply with nothing changed.
  std::function<Result<void>()> before_change;
};

struct ApplyReport {
  std::uint64_t written = 0;  // files whose content was written
  std::uint64_t unchanged = 0;
  std::uint64_t removed = 0;
  std::uint64_t metadata = 0;  // entries of which only mode, owner, time or xattrs were set
  std::uint64_t bytes_written = 0;
  std::uint64_t owners_not_set = 0;  // one summary, never a note a file
  std::vector<TreeNote> notes;       // what did not come back as it was; at most 1000, then one "and N more"
  // dry_run: what would happen, at most 100 000: "A path", "M path", "D path", "T path" (type), "P path"
  // (metadata only)
  std::vector<std::pair<char, std::string>> changes;
};

// Applies `source` below `root` (a folder). Content that differs is first staged in "<root>/.ascope-stage"
// (exact mode), then renamed in; unchanged inodes stay. Folder modes and times are set last, deepest first.
// Duplicate paths, paths that check_tree_path refuses and hard links to what this apply did not write or keep
// are `corrupt`, before anything changed. `io` (disk full) in staging: stage removed, tree untouched. In the
// change phase: `incomplete`; the caller's mark stays.
Result<ApplyReport> apply_tree(const OpContext& ctx, UniqueFd root, TreeSource& source,
                               const ApplyOptions& options);

// Removes everything below `root` (not root itself), read-only folders too; never follows a link or leaves
// the file system. `keep`: relative top-level names left alone.
Result<void> remove_tree_contents(UniqueFd root, const std::vector<std::string>& keep);

}  // namespace ascope
