// SPDX-License-Identifier: Apache-2.0
// Host → workspace, one way, by SHA-256: three-way between the host now, what was last projected, and what is
// in the workspace (product 9).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/base/json.h"

namespace ascope {

struct ProjectedFile {
  std::uint32_t mode = 0;
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
  refuse,            // a link that leaves the source root, or a special file
};
std::string_view to_string(ProjectionAction action);

struct ProjectionStep {
  ProjectionAction action = ProjectionAction::keep;
  std::string path;    // in the workspace
  std::string source;  // host path of the file
  std::string aside;   // NAME.agent, NAME.agent.2 …
  std::string reason;
  ProjectedFile file;  // as it will be
};

struct ProjectionPlan {
  std::vector<ProjectionStep> steps;  // by path
  std::string source_hash;            // AgentScope's workspaceProjectionHash (reference 7.3)
  ProjectionManifest next;            // the manifest when the plan has been applied
  [[nodiscard]] bool changes() const;
  [[nodiscard]] Json summary() const;  // counts by action, and lists of conflicts, kept and refused paths
};

struct ProjectionRequest {
  std::string source;  // absolute host folder
  std::vector<std::string> include;
  std::string skills_cache;  // absolute folder projected as ".skills-cache"; "" = none
  std::string on_conflict = "host";
  std::string workspace_root;
  std::string stat_cache;  // file in the cache folder: unchanged trees cost a stat walk; "" = none
};

// Reads the host and the workspace (through the sandbox's toolbox) and decides; changes nothing.
Result<ProjectionPlan> plan_projection(const OpContext& ctx, const ProjectionRequest& request,
                                       const ProjectionManifest& last, Toolbox& files);
// Executes that very plan.
Result<void> apply_projection(const OpContext& ctx, const ProjectionRequest& request,
                              const ProjectionPlan& plan, Toolbox& files);

Json manifest_json(const ProjectionManifest& manifest);
Result<ProjectionManifest> parse_manifest(const Json& json);

}  // namespace ascope
