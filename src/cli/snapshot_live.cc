// SPDX-License-Identifier: Apache-2.0
#include "cli/snapshot_live.h"

#include "cli/snapshot_common.h"
#include "core/engine/finish.h"
#include "core/engine/save.h"

namespace ascope {

Result<std::unique_ptr<TreeSource>> LiveTree::open(App& app, SnapshotPart part, bool metadata_only) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  const Profile& profile = services->profile();
  TreeSelection selection = other_selection(profile);
  if (part == SnapshotPart::workspace) {
    ASCOPE_TRY_ASSIGN(selection, workspace_selection(app.ctx(), sandbox_->files(), profile));
  }
  if (selection.roots.empty()) {
    return std::unique_ptr<TreeSource>(std::make_unique<EmptyTree>());
  }
  selection.metadata_only = metadata_only;
  ASCOPE_TRY_ASSIGN(std::unique_ptr<TreeReader> reader, sandbox_->files().read_tree(app.ctx(), selection));
  return std::unique_ptr<TreeSource>(std::move(reader));
}

Result<std::unique_ptr<LiveTree>> open_live(App& app, const SlotKey& slot) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(const SlotView view, read_known_slot(app, slot));
  ASCOPE_TRY_ASSIGN(AttachedSlot attached, attach_slot(*services, app.ctx(), slot, view));
  return std::make_unique<LiveTree>(std::move(attached.sandbox));
}

}  // namespace ascope
