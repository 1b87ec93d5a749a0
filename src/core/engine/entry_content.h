// SPDX-License-Identifier: Apache-2.0
// What a declared workspace entry consists of: read from the profile and the host, before anything is
// written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/profile/profile.h"
#include "core/projection/item_source.h"
#include "core/projection/stat_cache.h"

namespace ascope {

// Digest over a tree's paths, types, executable bits, contents and link targets: what we wrote, and what the
// workspace has now, compare by it. Times and owners do not enter, nor does a Git index, which looking alone
// rewrites.
class ContentDigest {
 public:
  // `path` relative to the entry, "" = the entry itself. `sha256` of a file, target of a link.
  void add(const std::string& path, EntryType type, bool executable, const std::string& value);
  [[nodiscard]] std::string finish() const;
  static bool is_ignored(std::string_view path) { return path == ".git/index"; }
  // The SHA-256 given for a file, "" if there is none.
  [[nodiscard]] std::string file_sha256(const std::string& path) const;

 private:
  struct Row {
    char type = '-';
    std::string value;
  };
  std::map<std::string, Row> rows_;
};

struct EntryContent {
  std::vector<TreeItem> items;  // paths relative to the workspace root, folders first
  std::string declared;         // digest of the declaration and of what it names on the host
  std::string content;          // ContentDigest of the items; "" of a git_repo until it is fetched
  std::vector<TreeNote> notes;  // what of a folder could not be taken
};

// Reads a file, dir, local_file or local_dir entry; of a git_repo only the declaration. `config` naming the
// entry if its source is missing or of another kind.
Result<EntryContent> read_entry(const WorkspaceEntry& entry, StatCache& cache);
// Adds the tree of a host folder (a clone of ours) to a git_repo's content. The folder must outlive the
// items.
Result<void> add_folder(const WorkspaceEntry& entry, const std::string& folder, StatCache& cache,
                        EntryContent& content);

}  // namespace ascope
