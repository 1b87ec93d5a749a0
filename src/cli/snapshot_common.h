// SPDX-License-Identifier: Apache-2.0
// What the `snapshot` commands share: choosing a snapshot, showing it, and reading from it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/app.h"
#include "core/engine/session.h"

namespace ascope {

inline constexpr PositionalSpec kSnapshotArgument{
    "SNAPSHOT", true, false, "[SLOT@]SNAP: an id, a prefix of one, latest, latest~2 or a tag"};

struct ChosenSnapshot {
  SlotKey slot;
  SlotView view;
  HistoryItem item;
  [[nodiscard]] bool is_head() const;
};

// The slot's record and history; `not_found` if there is no such slot.
Result<SlotView> read_known_slot(App& app, const SlotKey& slot);
// What "[SLOT@]SNAP" names.
Result<ChosenSnapshot> choose_snapshot(App& app, const std::string& text);

// "ascope.snapshot/1": one item of a history.
Json snapshot_json(const SlotKey& slot, const HistoryItem& item, bool is_head);
// Columns of `snapshot ls`.
std::vector<std::string> snapshot_row(const HistoryItem& item, bool is_head);
std::string_view to_string(SnapshotHealth health);

// A path as the user writes it: relative to the workspace root, or absolute inside the sandbox.
struct SnapshotPath {
  SnapshotPart part = SnapshotPart::workspace;
  std::string path;  // as entries have it
};
Result<SnapshotPath> parse_snapshot_path(App& app, const std::string& text);
// The other way: "src/a.c", "/etc/hosts".
std::string shown_path(SnapshotPart part, const std::string& path);

Json problems_json(const std::vector<SnapshotProblem>& problems);
// Reads all of a saved snapshot: `corrupt` or `not_found` unless the store has it as it was saved.
Result<void> verify_snapshot(App& app, const HistoryItem& item);
// One part of a saved snapshot, or what of it lies at or below `paths` and comes along
// (Repository::open_paths). It must outlive nothing but the services.
Result<std::unique_ptr<TreeSource>> open_part(App& app, const HistoryItem& item, SnapshotPart part,
                                              const std::vector<std::string>& paths = {});

// The histories of every slot in the state store.
Result<std::vector<std::pair<SlotKey, SlotView>>> read_all_slots(App& app);

// Runs `change` on the slot's history under its lease, then commits it with head and tree as they are.
Result<void> change_history(App& app, const Args& args, const SlotKey& slot, Receipt& receipt,
                            const std::function<Result<void>(SlotSession& session)>& change);

}  // namespace ascope
