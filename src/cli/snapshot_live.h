// SPDX-License-Identifier: Apache-2.0
// The workspace of a slot's sandbox as it is now, read like a snapshot.
#pragma once

#include <memory>

#include "cli/app.h"
#include "core/backend.h"
#include "core/repository/repository.h"

namespace ascope {

class LiveTree {
 public:
  explicit LiveTree(std::unique_ptr<Sandbox> sandbox) : sandbox_(std::move(sandbox)) {}
  // What a snapshot taken now would hold; nothing is frozen.
  Result<std::unique_ptr<TreeSource>> open(App& app, SnapshotPart part, bool metadata_only);

 private:
  std::unique_ptr<Sandbox> sandbox_;
};

// `not_found` if the slot has no sandbox whose disk can be read here.
Result<std::unique_ptr<LiveTree>> open_live(App& app, const SlotKey& slot);

}  // namespace ascope
