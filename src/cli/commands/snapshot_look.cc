// SPDX-License-Identifier: Apache-2.0
// snapshot ls, show: what is saved.
#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "cli/exit_code.h"
#include "cli/snapshot_common.h"
#include "core/base/units.h"

namespace ascope {

namespace {

constexpr PositionalSpec kSlot{"SLOT", false, false, "slot, instead of the profile's and --agent, --user…"};
constexpr std::array kSlotOnly{kSlot};

bool is_head(const SlotView& view, const HistoryItem& item) {
  return view.record.meta && view.record.meta->head && view.record.meta->head->snapshot == item.snapshot;
}

// ---- ls ----

constexpr std::array kLsOptions{
    OptionSpec{"all", '\0', OptionKind::flag, {}, "also objects in the store that no slot's history names"}};

// Objects that no history names, as items that know their object only.
Result<std::vector<BlobInfo>> unnamed_objects(App& app) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  if (!services->has_snapshots()) {
    return std::vector<BlobInfo>();
  }
  ASCOPE_TRY_ASSIGN(Repository * repository, services->repository());
  // Objects first: one that is committed meanwhile is then named, not reported.
  ASCOPE_TRY_ASSIGN(std::vector<BlobInfo> objects, repository->list(app.ctx()));
  using Slots = std::vector<std::pair<SlotKey, SlotView>>;
  ASCOPE_TRY_ASSIGN(const Slots slots, read_all_slots(app));
  std::set<std::string> named;
  for (const auto& [slot, view] : slots) {
    for (const HistoryItem& item : view.aux.history) {
      named.insert(item.object);
      named.insert(item.roots_object);
    }
    if (view.record.meta && view.record.meta->head) {
      named.insert(view.record.meta->head->object);
    }
  }
  std::erase_if(objects, [&](const BlobInfo& one) { return named.contains(one.key); });
  return objects;
}

Result<int> ls(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const SlotView view, read_known_slot(app, slot));
  std::vector<Json> rows;
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> table{
      {"SNAPSHOT", "TIME", "KIND", "CONTENT", "ADDED", "FILES", "TAGS"}};
  for (const HistoryItem& item : view.aux.history) {
    Json row = snapshot_json(slot, item, is_head(view, item));
    row["committed"] = true;
    rows.push_back(std::move(row));
    names.push_back(item.snapshot);
    table.push_back(snapshot_row(item, is_head(view, item)));
  }
  if (args.flag("all")) {
    ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> objects, unnamed_objects(app));
    for (const BlobInfo& one : objects) {
      HistoryItem item;
      item.snapshot = snapshot_of_object(one.key);
      item.kind = "uncommitted";
      item.object = one.key;
      item.size_bytes = one.size_bytes;
      item.added_bytes = one.size_bytes;
      item.time = format_time(one.modified);
      Json row = snapshot_json(slot, item, false);
      row["slot"] = nullptr;
      row["committed"] = false;
      rows.push_back(std::move(row));
      names.push_back(item.snapshot);
      table.push_back(snapshot_row(item, false));
    }
  }
  app.out().list("ascope.snapshots/1", "snapshots", rows, names, rows.empty() ? "" : text_table(table));
  return 0;
}

// ---- show ----

constexpr std::array kOneSnapshot{kSnapshotArgument};

Result<int> show(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const ChosenSnapshot chosen, choose_snapshot(app, args.positionals[0]));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(Repository * repository, services->repository());
  ASCOPE_TRY_ASSIGN(const SnapshotHealth health, repository->check(app.ctx(), chosen.item, false));
  const HistoryItem& item = chosen.item;
  Json out = snapshot_json(chosen.slot, item, chosen.is_head());
  out["health"] = to_string(health);
  std::vector<std::string> row = snapshot_row(item, chosen.is_head());
  std::string text = fmt::format(
      "snapshot  {}{}\nslot      {}\nkind      {}\ntime      {}\nparent    {}\ncontent   {} in {} "
      "files\nadded     {}\nobject    {} "
      "({}), {}\nsha256    {}\n",
      item.snapshot, row.back().empty() ? "" : " (" + row.back() + ")", chosen.slot.written(), item.kind,
      item.time, item.parent.empty() ? "none" : item.parent, format_size(item.content_bytes), item.files,
      format_size(item.added_bytes), item.object, format_size(item.size_bytes), to_string(health),
      item.sha256);
  if (!item.roots_object.empty() && item.roots_object != item.object) {
    text += fmt::format("also      {} ({})\n", item.roots_object, format_size(item.roots_size_bytes));
  }
  for (const auto& note : item.notes) {
    text += "note      " + printable(dump_json(note)) + "\n";
  }
  app.out().result(out, text);
  if (app.out().format == OutputFormat::name) {
    app.out().write(item.snapshot + "\n");
  }
  return 0;
}

}  // namespace

extern const Command kSnapshotLsCommand;
const Command kSnapshotLsCommand{
    "snapshot ls",
    "Snapshots",
    "list the saved snapshots of a slot",
    "Lists the slot's history, newest first, stranded work included. With --all also the objects in the "
    "snapshot store "
    "that no slot's history names: saves that were never committed, and what other programs left.",
    kLsOptions,
    kSlotOnly,
    false,
    "ascope-sandbox snapshot ls user/assistant/alice -o json",
    "4 8 10 11 13 14 15",
    ls};

extern const Command kSnapshotShowCommand;
const Command kSnapshotShowCommand{
    "snapshot show",
    "Snapshots",
    "show one snapshot",
    "Shows when and how it was saved, its parent, its objects with size and SHA-256, "
    "and whether the store has them as they were saved (sizes only; 'snapshot check "
    "--read-data' reads them).",
    {},
    kOneSnapshot,
    false,
    "ascope-sandbox snapshot show latest",
    "4 8 10 11 13 14 15",
    show};

}  // namespace ascope
