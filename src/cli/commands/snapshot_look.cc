// SPDX-License-Identifier: Apache-2.0
// snapshot ls, show, check, stats: what is saved, and whether it is whole.
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

// The histories of every slot in the state store.
Result<std::vector<std::pair<SlotKey, SlotView>>> read_all_slots(App& app) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(StateStore * state, services->state());
  ASCOPE_TRY_ASSIGN(const std::vector<std::string> names, state->slots(app.ctx()));
  std::vector<std::pair<SlotKey, SlotView>> out;
  for (const std::string& name : names) {
    const SlotKey slot = SlotKey::from_store_name(name);
    ASCOPE_TRY_ASSIGN(SlotView view, read_slot(*services, app.ctx(), slot));
    out.emplace_back(slot, std::move(view));
  }
  return out;
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
  std::vector<std::vector<std::string>> table{{"SNAPSHOT", "TIME", "KIND", "SIZE", "FILES", "TAGS"}};
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
      item.snapshot = one.key.substr(0, one.key.find(".tar"));
      item.kind = "uncommitted";
      item.object = one.key;
      item.size_bytes = one.size_bytes;
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
      "files\nobject    {} "
      "({}), {}\nsha256    {}\n",
      item.snapshot, row.back().empty() ? "" : " (" + row.back() + ")", chosen.slot.written(), item.kind,
      item.time, item.parent.empty() ? "none" : item.parent, format_size(item.content_bytes), item.files,
      item.object, format_size(item.size_bytes), to_string(health), item.sha256);
  if (!item.roots_object.empty()) {
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

// ---- check ----

constexpr std::array kCheckOptions{
    OptionSpec{"all", '\0', OptionKind::flag, {}, "check the snapshots of every slot"},
    OptionSpec{"read-data", '\0', OptionKind::flag, {}, "read every byte and compare its SHA-256"}};
constexpr std::array kMaybeSnapshot{
    PositionalSpec{"SNAPSHOT", false, false, "[SLOT@]SNAP; without one, the whole history of the slot"}};

Result<std::vector<std::pair<SlotKey, HistoryItem>>> to_check(App& app, const Args& args) {
  std::vector<std::pair<SlotKey, HistoryItem>> out;
  if (args.flag("all")) {
    if (!args.positionals.empty()) {
      return make_error(ErrorKind::usage, "--all and a snapshot are given", "leave one of them out");
    }
    using Slots = std::vector<std::pair<SlotKey, SlotView>>;
    ASCOPE_TRY_ASSIGN(const Slots slots, read_all_slots(app));
    for (const auto& [slot, view] : slots) {
      for (const HistoryItem& item : view.aux.history) {
        out.emplace_back(slot, item);
      }
    }
    return out;
  }
  if (!args.positionals.empty()) {
    ASCOPE_TRY_ASSIGN(ChosenSnapshot chosen, choose_snapshot(app, args.positionals[0]));
    out.emplace_back(std::move(chosen.slot), std::move(chosen.item));
    return out;
  }
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const SlotView view, read_known_slot(app, slot));
  for (const HistoryItem& item : view.aux.history) {
    out.emplace_back(slot, item);
  }
  return out;
}

Result<int> check(App& app, const Args& args) {
  using Items = std::vector<std::pair<SlotKey, HistoryItem>>;
  ASCOPE_TRY_ASSIGN(const Items items, to_check(app, args));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  std::vector<Json> rows;
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> table{{"SNAPSHOT", "SLOT", "HEALTH"}};
  std::string bad;
  for (const auto& [slot, item] : items) {
    ASCOPE_TRY_ASSIGN(Repository * repository, services->repository());
    ASCOPE_TRY_ASSIGN(const SnapshotHealth health,
                      repository->check(app.ctx(), item, args.flag("read-data")));
    rows.push_back(Json{{"snapshot", item.snapshot},
                        {"slot", slot.written()},
                        {"object", item.object},
                        {"health", std::string(to_string(health))}});
    table.push_back({item.snapshot, slot.written(), std::string(to_string(health))});
    if (health != SnapshotHealth::usable) {
      names.push_back(item.snapshot);
      bad += (bad.empty() ? "" : ", ") + item.snapshot + " (" + std::string(to_string(health)) + ")";
    }
  }
  app.out().list("ascope.snapshot-check/1", "snapshots", rows, names, rows.empty() ? "" : text_table(table));
  if (bad.empty()) {
    return 0;
  }
  ASCOPE_TRY(app.out().flush());
  return make_error(ErrorKind::corrupt, "not as they were saved: " + bad,
                    "'ascope-sandbox snapshot ls' shows which others there are to restore");
}

// ---- stats ----

Result<int> stats(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const SlotView view, read_known_slot(app, slot));
  std::uint64_t stored = 0;
  std::uint64_t content = 0;
  std::uint64_t tagged = 0;
  for (const HistoryItem& item : view.aux.history) {
    stored += item.size_bytes + item.roots_size_bytes;
    content += item.content_bytes;
    tagged += item.tags.empty() ? 0 : 1;
  }
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  std::uint64_t store_objects = 0;
  std::uint64_t store_bytes = 0;
  if (services->has_snapshots()) {
    ASCOPE_TRY_ASSIGN(Repository * repository, services->repository());
    ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> objects, repository->list(app.ctx()));
    store_objects = objects.size();
    for (const BlobInfo& one : objects) {
      store_bytes += one.size_bytes;
    }
  }
  const Json out{{"schema", "ascope.snapshot-stats/1"},
                 {"slot", slot.written()},
                 {"snapshots", view.aux.history.size()},
                 {"tagged", tagged},
                 {"content_bytes", content},
                 {"stored_bytes", stored},
                 {"store_objects", store_objects},
                 {"store_bytes", store_bytes}};
  app.out().result(
      out,
      fmt::format("slot   {} snapshots ({} tagged), {} stored for {} of content\nstore  {} objects, {}\n",
                  view.aux.history.size(), tagged, format_size(stored), format_size(content), store_objects,
                  format_size(store_bytes)));
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

extern const Command kSnapshotCheckCommand;
const Command kSnapshotCheckCommand{
    "snapshot check",
    "Snapshots",
    "check that snapshots are in the store as they were saved",
    "Compares presence, size and version of each object with the history; with --read-data also every byte "
    "with its "
    "SHA-256. One that is missing, damaged or overwritten is named and the code is 8.",
    kCheckOptions,
    kMaybeSnapshot,
    false,
    "ascope-sandbox snapshot check --all --read-data",
    "4 8 10 11 13 14 15",
    check};

extern const Command kSnapshotStatsCommand;
const Command kSnapshotStatsCommand{
    "snapshot stats",
    "Snapshots",
    "sum up what a slot's snapshots hold and take",
    "Counts the slot's snapshots, their content and the bytes they take, and all "
    "objects of the snapshot store.",
    {},
    kSlotOnly,
    false,
    "ascope-sandbox snapshot stats -o json",
    "4 8 10 11 13 14 15",
    stats};

}  // namespace ascope
