// SPDX-License-Identifier: Apache-2.0
#include "core/engine/gc.h"

#include <array>

#include <fmt/format.h>

#include "cli/start_args.h"
#include "core/base/units.h"

namespace ascope {

namespace {

constexpr std::array kOptions{kDryRunOption,
                              OptionSpec{"all", 'a', OptionKind::flag, {}, "list what is kept too"},
                              OptionSpec{"grace", '\0', OptionKind::value, "D",
                                         "keep packs that are younger, for saves at work (default 24h)"},
                              OptionSpec{"waste", '\0', OptionKind::value, "PERCENT",
                                         "repack packs of which more is not needed (default 30%)"}};
constexpr std::array kPositionals{PositionalSpec{
    "SLOT", false, false, "only this slot (default: every slot of the profile's state store)"}};

struct Totals {
  std::uint64_t removed = 0, kept = 0, skipped = 0, bytes = 0;
};

Totals count(const std::vector<GcItem>& items) {
  Totals totals;
  for (const auto& item : items) {
    totals.removed += item.action == GcAction::removed ? 1 : 0;
    totals.kept += item.action == GcAction::kept ? 1 : 0;
    totals.skipped += item.action == GcAction::skipped ? 1 : 0;
    totals.bytes += item.action == GcAction::removed ? item.size_bytes : 0;
  }
  return totals;
}

void print(App& app, const std::vector<GcItem>& items, bool dry_run, bool all) {
  std::vector<Json> rows;
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> table{{"ACTION", "KIND", "NAME", "SLOT", "REASON"}};
  for (const auto& item : items) {
    rows.push_back(Json{{"action", std::string(to_string(item.action))},
                        {"kind", item.kind},
                        {"name", item.name},
                        {"slot", bytes_json(item.slot)},
                        {"reason", bytes_json(item.reason)},
                        {"size_bytes", item.size_bytes},
                        {"dry_run", dry_run}});
    if (item.action == GcAction::removed) {
      names.push_back(item.name);
    }
    if (all || item.action != GcAction::kept) {
      table.push_back(
          {std::string(dry_run && item.action == GcAction::removed ? "would remove" : to_string(item.action)),
           item.kind, item.name, item.slot, item.reason});
    }
  }
  const Totals totals = count(items);
  std::string text = table.size() > 1 ? text_table(table) : "";
  text +=
      fmt::format("{} {}, {} kept, {} skipped; {} freed\n", totals.removed, dry_run ? "to remove" : "removed",
                  totals.kept, totals.skipped, format_size(totals.bytes));
  app.out().list("ascope.gc/1", "items", rows, names, text);
}

Result<int> run(App& app, const Args& args) {
  GcOptions options;
  options.dry_run = args.flag("dry-run");
  if (!args.positionals.empty()) {
    ASCOPE_TRY_ASSIGN(options.only, app.slot(args));
  }
  if (auto grace = args.value("grace")) {
    ASCOPE_TRY_ASSIGN(const Millis age, parse_duration(*grace));
    options.grace = std::chrono::duration_cast<std::chrono::seconds>(age);
  }
  if (const auto waste = args.value("waste")) {
    ASCOPE_TRY_ASSIGN(const double percent, parse_percent(*waste));
    options.waste = percent / 100;
  }
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  if (!options.dry_run) {
    ASCOPE_TRY_ASSIGN(const bool sure, app.out().confirm("Collect what no slot needs?"));
    if (!sure) {
      return make_error(ErrorKind::refused, "nothing was collected", "'gc --dry-run' shows what would go");
    }
  }
  std::vector<GcItem> items;
  auto collected = collect_garbage(*services, app.ctx(), options, items);
  print(app, items, options.dry_run, args.flag("all"));
  if (!collected) {
    return std::move(collected).error();
  }
  return count(items).skipped > 0 ? 3 : 0;
}

}  // namespace

extern const Command kGcCommand;
const Command kGcCommand{
    "gc",
    "Setup",
    "collect what no slot needs, with a reason for each thing kept",
    "Applies snapshots.keep, removes objects of saves that died, packs that no snapshot of the store needs "
    "(those of the last 24 hours stay unless --grace says less; a save that meets gc only starts over), "
    "copies what is needed out of packs of which the most is not, removes "
    "sandboxes of ours that no slot names (work in them is saved first) and leases of dead holders. Nothing "
    "else ever collects anything; without snapshots.keep every "
    "snapshot stays. A "
    "busy slot is skipped and named (3).",
    kOptions,
    kPositionals,
    false,
    "ascope-sandbox gc --dry-run\nascope-sandbox gc --yes --set snapshots.keep='{last: 10}'",
    "2 3 8 9 10 11 14 15",
    run,
    true};

}  // namespace ascope
