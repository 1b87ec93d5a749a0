// SPDX-License-Identifier: Apache-2.0
// Declared workspace entries (product 4 and 5): written inside the sandbox and nowhere else.
#pragma once

#include <string>
#include <vector>

#include "core/backend.h"
#include "core/base/json.h"
#include "core/profile/profile.h"

namespace ascope {

// Which entries a start writes. Whatever the pass: a non-ephemeral entry whose declared content has changed
// since it was written is written again if the workspace still holds what we last wrote; the agent's work
// wins.
enum class EntryPass {
  all,        // branch D: every entry
  missing,    // branch C: ephemeral ones, and those that the restored snapshot does not hold
  ephemeral,  // branches A and B: ephemeral ones
};

// Everything of the host is read first (`config` naming the entry if a source is missing), then written.
// `digests` is Aux::entries: entry path → digest of what was last written; brought up to date. `cache_dir`:
// for git_repo clones. Returns one object an entry that was looked at: {"path","action":
// "written"|"kept"|"unchanged","reason"}.
Result<Json> apply_entries(const OpContext& ctx, const Profile& profile, const std::string& cache_dir,
                           EntryPass pass, Json& digests, Toolbox& files);

// Paths relative to the workspace root that no snapshot, restore or projection touches: mount points of
// bind_mount entries.
std::vector<std::string> excluded_entry_paths(const Profile& profile);

// AgentScope's "manifest" of the profile: {"root","entries","environment"}, host paths as declared, values of
// environment variables that came from ${VAR} left out (reference 3.9).
Json manifest_document(const Profile& profile);

}  // namespace ascope
