// SPDX-License-Identifier: Apache-2.0
// snapshot repair: what can be read of damaged snapshots is kept.
#include <array>

#include <fmt/format.h>

#include "cli/snapshot_common.h"
#include "core/engine/repair.h"

namespace ascope {

namespace {

constexpr std::array kOptions{
    OptionSpec{"dry-run", '\0', OptionKind::flag, {}, "tell what is lost and change nothing"},
    OptionSpec{"no-read-data", '\0', OptionKind::flag, {}, "believe content where the indexes have it"}};
constexpr std::array kArguments{
    PositionalSpec{"SLOT", false, false, "slot, instead of the profile's and --agent, --user…"}};

std::string shown_loss(const chunks::LostContent& lost) {
  std::string from = shown_path(lost.part, lost.entry.path);
  if (!lost.entry.is_range) {
    return from;
  }
  return lost.entry.until.empty()
             ? fmt::format("all from {}", from)
             : fmt::format("all from {} to {}", from, shown_path(lost.part, lost.entry.until));
}

Json repaired_json(const RepairedSnapshot& one) {
  Json lost = Json::array();
  for (const chunks::LostContent& content : one.lost) {
    lost.push_back(Json{{"path", bytes_json(shown_path(content.part, content.entry.path))},
                        {"until", content.entry.is_range ? bytes_json(content.entry.until) : Json()},
                        {"what", bytes_json(content.entry.what)}});
  }
  return Json{{"snapshot", one.before.snapshot},
              {"repaired_as", one.after ? Json(one.after->snapshot) : Json()},
              {"all_lost", one.is_all_lost},
              {"problems", problems_json(one.problems)},
              {"lost", std::move(lost)}};
}

Result<int> repair(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY(read_known_slot(app, slot));
  RepairSlotOptions options;
  options.dry_run = args.flag("dry-run");
  options.read_data = !args.flag("no-read-data");
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  if (!options.dry_run) {
    ASCOPE_TRY_ASSIGN(const bool sure, app.out().confirm(fmt::format(
                                           "Give up what is lost of {}'s snapshots?", slot.written())));
    if (!sure) {
      return make_error(ErrorKind::refused, "nothing was repaired", "--dry-run shows what is lost");
    }
  }
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("snapshot repair", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  SlotRepair repaired;
  const Result<void> done = repair_slot(*services, app.ctx(), slot, options, repaired, receipt);
  std::string text;
  for (const SnapshotProblem& one : repaired.store) {
    text +=
        fmt::format("{}  {}\n", one.object,
                    options.dry_run ? "is to be put back first; what else is lost shows then" : "put back");
  }
  Json list = Json::array();
  bool lost = false;
  for (const RepairedSnapshot& one : repaired.snapshots) {
    list.push_back(repaired_json(one));
    lost = lost || one.is_all_lost || !one.lost.empty();
    text += fmt::format("{}  {}\n", one.before.snapshot,
                        one.is_all_lost    ? "nothing of it can be read"
                        : options.dry_run  ? fmt::format("{} lost", one.lost.size())
                        : one.lost.empty() ? "whole again as " + one.after->snapshot
                                           : fmt::format("kept as {} without:", one.after->snapshot));
    for (const chunks::LostContent& content : one.lost) {
      text += "  " + printable(shown_loss(content)) + "\n";
    }
  }
  if (!options.dry_run) {
    app.record(slot, receipt, done ? nullptr : &done.error());
  }
  if (!done) {
    return done.error();
  }
  app.out().result(Json{{"schema", "ascope.snapshot-repair/1"},
                        {"slot", slot.written()},
                        {"dry_run", options.dry_run},
                        {"store", problems_json(repaired.store)},
                        {"snapshots", std::move(list)},
                        {"receipt", receipt_json(receipt)}},
                   text.empty() ? "Nothing is damaged.\n" : text);
  return lost ? 3 : 0;
}

}  // namespace

extern const Command kSnapshotRepairCommand;
const Command kSnapshotRepairCommand{"snapshot repair",
                                     "Snapshots",
                                     "keep what can be read of a slot's damaged snapshots",
                                     "Puts back the object that the whole store hangs on, if it is gone. "
                                     "Reads every snapshot of the slot. One that is damaged gives way to a "
                                     "new one, with its tags, that lacks what "
                                     "cannot be read, which is named; of a tar nothing is kept. If something "
                                     "is lost the code is 3. A workspace "
                                     "that is there saves more: 'stop' or 'rm' of its sandbox finds the "
                                     "damage and stores what is missing again. Asks on "
                                     "a terminal, needs --yes elsewhere.",
                                     kOptions,
                                     kArguments,
                                     false,
                                     "ascope-sandbox snapshot repair --dry-run",
                                     "3 4 5 6 7 10 11 13 14 15",
                                     repair};

}  // namespace ascope
