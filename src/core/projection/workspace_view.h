// SPDX-License-Identifier: Apache-2.0
// What the sandbox's workspace holds at the paths that a projection or an entry concerns. Reads the entries
// of their top folders, and the content of those files only that may be what we compare with.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/projection/stat_cache.h"

namespace ascope {

struct WorkspaceItem {
  EntryType type = EntryType::file;  // a hard link to a file is a file
  std::uint32_t mode = 0;            // of a file: 0755 or 0644
  FileStat stat;
  std::string sha256;  // of a concerned file whose size is one of those asked for; else "": it differs
};

// Path relative to the workspace root → what is there. Holds the concerned paths, the folders above them,
// what lies below a concerned path that is a folder there, and names with ".agent" in them.
using WorkspaceView = std::map<std::string, WorkspaceItem>;

// For each concerned path the sizes its content may have to be worth reading.
using ConcernedPaths = std::map<std::string, std::set<std::uint64_t>>;

Result<WorkspaceView> view_workspace(const OpContext& ctx, Toolbox& files, const std::string& workspace_root,
                                     const ConcernedPaths& concerned,
                                     const std::vector<std::string>& excluded, StatCache& cache);

// SHA-256 of the present file of `source`, holes as zeros.
Result<std::string> hash_content(const OpContext& ctx, TreeSource& source, const TreeEntry& entry);
// The n-th name for what moves aside from `path`: NAME.agent, NAME.agent.2 …, cut to what a folder can hold.
std::string aside_candidate(const std::string& path, std::size_t n);
// The first of them that is free in the workspace.
Result<std::string> free_aside_name(const OpContext& ctx, Toolbox& files, const std::string& workspace_root,
                                    const std::string& path);

// The folders above `path`, top first: "a/b/c" → "a", "a/b".
std::vector<std::string> parents_of(const std::string& path);
// True if `path` is one of `places` or below one.
bool is_within(const std::string& path, const std::vector<std::string>& places);

}  // namespace ascope
