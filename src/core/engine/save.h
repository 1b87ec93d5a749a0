// SPDX-License-Identifier: Apache-2.0
// Saving a sandbox's tree as a snapshot, and the parts of a record that follow from it. Shared by run,
// snapshot, stop, rm, start (stranded work) and restore (safety).
#pragma once

#include <string>

#include "core/engine/services.h"
#include "core/engine/session.h"
#include "core/receipt.h"

namespace ascope {

// What an equal parent has to pass before a save says "unchanged".
enum class ParentCheck {
  look,  // its objects are there, of the right size and version
  read   // every byte of them, for the caller may destroy the tree
};

struct SavedTree {
  bool changed = true;  // false: equal to `parent`, nothing was written
  HistoryItem item;     // complete: kind, time, parent, rev, fence, host, tree filled in
};

// What a snapshot holds: the workspace root without mount points of entries and without what the profile's
// `exclude` and the workspace's own .ascopeignore name (gitignore's patterns, no negation), and what else the
// profile persists (no roots: nothing else), relative to "/".
Result<TreeSelection> workspace_selection(const OpContext& ctx, Toolbox& files, const Profile& profile);
// The patterns of both, which a restore leaves alone too: no snapshot has what they match.
Result<std::vector<std::string>> excluded_patterns(const OpContext& ctx, Toolbox& files,
                                                   const Profile& profile);
TreeSelection other_selection(const Profile& profile);

// Saves the workspace (and what else the profile persists) of `sandbox`, frozen where it runs. Not committed:
// the caller puts the item into the history and commits. `not_found` if the workspace root is missing (never
// an empty archive over a good one). On failure nothing is left in the store. `parent` may be null.
Result<SavedTree> save_tree(EngineServices& services, const OpContext& ctx, SlotSession& session,
                            Sandbox& sandbox, const ResourceInfo& info, const HistoryItem* parent,
                            std::string_view kind, ParentCheck parent_check, Receipt& receipt);

// Whose snapshot a save of this session makes.
Result<SnapshotOrigin> snapshot_origin(EngineServices& services, const OpContext& ctx,
                                       const SlotSession& session);

// The record's head for an item.
HeadRef head_ref(const EngineServices& services, const HistoryItem& item);

// The live mark for a sandbox.
Result<LiveMark> live_mark(EngineServices& services, const OpContext& ctx, const ResourceInfo& info,
                           bool clean);

// The part "snapshot" of AgentScope's document; `snapshot_id` "" = none.
Result<Json> snapshot_document(const EngineServices& services, const std::string& snapshot_id);

// AgentScope's document for the slot as the profile and the sandbox say now. `session_id` of the present
// document is kept; `snapshot_id` "" = none. `owned` false: external.
Result<std::string> slot_document(EngineServices& services, const SlotRecord& present,
                                  const ResourceInfo* info, const std::string& snapshot_id, bool owned,
                                  const std::string& projection_hash);

// The newest history item that is a commit of the slot (not stranded, not safety), or null.
const HistoryItem* find_item(const Aux& aux, std::string_view snapshot);

}  // namespace ascope
