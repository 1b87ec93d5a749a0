// SPDX-License-Identifier: Apache-2.0
// The tree of a sandbox as a save of format chunks wants it: names and times of everything, content only of
// what was touched since the snapshot before.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/engine/services.h"
#include "core/repository/repository.h"

namespace ascope {

// What a save reads of one sandbox, for its whole length.
class SandboxTrees {
 public:
  // `tree`: its id. `parent`: what it was when it was last saved or laid out; may be null.
  SandboxTrees(EngineServices& services, const OpContext& ctx, Toolbox& files, const std::string& tree,
               const HistoryItem* parent);
  ~SandboxTrees();
  SandboxTrees(const SandboxTrees&) = delete;
  SandboxTrees& operator=(const SandboxTrees&) = delete;

  // Sets the request's sources, or its scan where content need not be read to know what is left out.
  Result<void> fill(SaveRequest& request);
  // What was skipped, changed while read, or looks like a credential. Complete after the save.
  [[nodiscard]] std::vector<TreeNote> notes() const;
  // The tree is what `snapshot` holds.
  void keep(const std::string& snapshot);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// After a restore: notes how the tree looks, so that the next save reads only what is touched from now on,
// and the paths `noted`, of which something was to be said.
Result<void> remember_tree(EngineServices& services, const OpContext& ctx, Toolbox& files,
                           const std::string& tree, const std::string& snapshot,
                           const std::set<std::string>& noted);

}  // namespace ascope
