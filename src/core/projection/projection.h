// SPDX-License-Identifier: Apache-2.0
// Host → workspace, one way, by SHA-256: three-way between the host now, what was last projected, and what is
// in the workspace (product 9).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/base/json.h"

namespace ascope {

struct ProjectedFile {
  std::uint32_t mode = 0;  // 0755 if its owner may execute it, else 0644
  std::uint64_t size_bytes = 0;
  std::string sha256;
  bool operator==(const ProjectedFile&) const = default;
};
using ProjectionManifest = std::map<std::string, ProjectedFile>;  // workspace path → what was last put there

enum class ProjectionAction {
  copy,              // missing in the workspace, or changed on the host alone
  keep,              // same, or changed by the agent alone
  replace_conflict,  // changed by both, on_conflict: host; the agent's copy goes to `aside`
  keep_conflict,     // changed by both, on_conflict: agent
  remove,            // gone from the host, untouched by the agent
  keep_removed,      // gone from the host, edited by the agent: kept and named
  refuse,  // a link that leaves the source root or leads to a folder, a special file, a reserved name
};
std::string_view to_string(ProjectionAction action);

struct ProjectionStep {
  ProjectionAction action = ProjectionAction::keep;
  std::string path;    // in the workspace
  std::string source;  // host path of the file
  std::string
      aside;  // NAME.agent, NAME.agent.2 …: where what the agent has at `path` goes; "" = nothing moves
  std::string reason;
  ProjectedFile file;  // as it will be
};

struct ProjectionPlan {
  std::vector<ProjectionStep> steps;  // by path
  std::string source_hash;            // AgentScope's workspaceProjectionHash (reference 7.3)
  ProjectionManifest next;            // the manifest when the plan has been applied
  std::vector<std::string> folders;   // missing parents of what is copied, parents first
  std::vector<std::string> remove;    // in the order of ApplyOptions::remove: files, then folders left empty
  std::vector<TreeNote> notes;        // a `.git` file that points outside the source …
  [[nodiscard]] bool changes() const;
  [[nodiscard]] Json summary() const;  // counts by action, and lists of conflicts, kept and refused paths
};

struct ProjectionRequest {
  std::string source;  // absolute host folder; "" = none (skills alone)
  std::vector<std::string> include;
  std::string skills_cache;  // absolute folder projected as ".skills-cache"; "" = none
  std::string on_conflict = "host";
  std::string workspace_root;
  std::vector<std::string>
      excluded;  // paths in the workspace that are not ours: mount points (excluded_paths())
  std::string
      stat_cache;  // a file of this slot's in the cache folder: unchanged trees cost a stat walk; "" = none
};

// Reads the host and the workspace (through the sandbox's toolbox) and decides; changes nothing but the stat
// cache. `config` for a source that does not exist or an include that leaves it; a missing include is
// skipped.
Result<ProjectionPlan> plan_projection(const OpContext& ctx, const ProjectionRequest& request,
                                       const ProjectionManifest& last, Toolbox& files);
// Executes that very plan. `conflict` if a host file is not any more what the plan saw; what was laid down
// until then is whole, and planning again goes on from there.
Result<ApplyReport> apply_projection(const OpContext& ctx, const ProjectionRequest& request,
                                     const ProjectionPlan& plan, Toolbox& files);

// As Aux::projection keeps it: {"files":[{"path","mode","size","sha256"}]}; {} and null are an empty one.
Json manifest_json(const ProjectionManifest& manifest);
Result<ProjectionManifest> parse_manifest(const Json& json);

}  // namespace ascope
