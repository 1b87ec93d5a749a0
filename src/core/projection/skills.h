// SPDX-License-Identifier: Apache-2.0
// Marketplace skills: fetched from Git repositories and folders into a cache of ours, complete, later over
// earlier (product 9, reference 7.6).
#pragma once

#include <string>
#include <vector>

#include "core/base/op_context.h"
#include "core/profile/profile.h"

namespace ascope {

struct StagedSkills {
  std::string folder;               // absolute; holds <namespace>/<skill>/…; "" if the profile has no skills
  std::vector<std::string> skills;  // "namespace/name"
  std::vector<std::string> warnings;  // a repository that could not be reached keeps its last content
};

// Stages all sources below `cache_dir`. Safe beside other processes (lock; atomic switch). `config` for a
// source that is neither; a Git failure with nothing cached is `io`.
Result<StagedSkills> stage_skills(const OpContext& ctx, const std::vector<SkillSource>& sources,
                                  const std::string& cache_dir);

// A Git tree at `ref` as plain files in `folder` (made; must be missing): for git_repo entries. No hooks, no
// submodule commands, no prompts; the host's git with a private HOME-less environment.
Result<void> fetch_git(const OpContext& ctx, const std::string& url, const std::string& ref,
                       const std::string& cache_dir, const std::string& folder, bool keep_git_dir);

// The URL as it may be shown and stand on a command line: without user and password, but with the user of an
// SSH URL.
std::string git_url_without_credentials(const std::string& url);

}  // namespace ascope
