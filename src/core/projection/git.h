// SPDX-License-Identifier: Apache-2.0
// The host's git, run so that nothing of the user's configuration, no hook, filter, prompt or submodule has a
// say: what a repository holds is data.
#pragma once

#include <string>

#include "core/base/op_context.h"

namespace ascope {

struct GitCommit {
  std::string mirror;       // bare repository in our cache
  std::string commit;       // full id
  std::string branch;       // "" for a tag or commit
  std::string unreachable;  // why the remote could not be asked; then `commit` is what it had last time
};

// Brings the cached mirror of `url` up to date and resolves `ref` ("" or "HEAD": the remote's). Waits for
// other processes at the same mirror. `config` for a URL or ref that is none, `not_found` for a ref the
// remote does not have, `io` if the remote cannot be reached and the ref was never fetched.
Result<GitCommit> update_mirror(const OpContext& ctx, const std::string& url, const std::string& ref,
                                const std::string& cache_dir);
// True if `path` is a folder in the commit.
Result<bool> has_folder(const OpContext& ctx, const GitCommit& commit, const std::string& path);
// Writes the commit's folder `path` ("" = all) as plain files into `folder`, which is made.
Result<void> export_commit(const OpContext& ctx, const GitCommit& commit, const std::string& path,
                           const std::string& folder);
// A working clone of the commit with its own .git in `folder`, which is made; `url` becomes its origin,
// without credentials.
Result<void> clone_commit(const OpContext& ctx, const GitCommit& commit, const std::string& url,
                          const std::string& folder);

}  // namespace ascope
