// SPDX-License-Identifier: Apache-2.0
// snapshot check: whether what is saved is whole.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

#include <fmt/format.h>

#include "cli/snapshot_common.h"
#include "core/base/units.h"

namespace ascope {

namespace {

constexpr std::array kCheckOptions{
    OptionSpec{"all", '\0', OptionKind::flag, {}, "check the snapshots of every slot"},
    OptionSpec{"read-data", '\0', OptionKind::flag, {}, "read every byte and compare its SHA-256"},
    OptionSpec{"read-data-subset", '\0', OptionKind::value, "PERCENT",
               "read that part of the packs, other ones each time, such as 5%"}};
constexpr std::array kMaybeSnapshot{
    PositionalSpec{"SNAPSHOT", false, false, "[SLOT@]SNAP; without one, the whole history of the slot"}};

using Items = std::vector<std::pair<SlotKey, HistoryItem>>;

Result<Items> to_check(App& app, const Args& args) {
  Items out;
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

// Of a tar, another program's writing is told from damage.
Result<SnapshotHealth> tell_health(App& app, Repository& repository, const HistoryItem& item,
                                   const std::vector<SnapshotProblem>& problems, bool read_data) {
  return problems.empty() || item.format != "tar" ? Result<SnapshotHealth>(health_of(problems))
                                                  : repository.check(app.ctx(), item, read_data);
}

// Reads a random part, at least one, of the packs that the snapshots need.
Result<std::vector<SnapshotProblem>> read_some_packs(App& app, const Items& items, double percent) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(SnapshotRepository * repository, services->repository());
  std::set<chunks::PackName> named;
  for (const auto& [slot, item] : items) {
    if (item.format == "chunks") {
      Result<chunks::ManifestRoot> root = repository->chunks().read_root(app.ctx(), item.object);
      if (!root) {
        continue;  // the check of the snapshot has told
      }
      for (const chunks::PackUse& use : root->packs) {
        named.insert(use.name);
      }
    }
  }
  std::vector<chunks::PackName> packs(named.begin(), named.end());
  std::shuffle(packs.begin(), packs.end(), std::mt19937_64(std::random_device()()));
  const auto count = static_cast<std::size_t>(std::ceil(static_cast<double>(packs.size()) * percent / 100));
  packs.resize(std::min(count, packs.size()));
  std::vector<SnapshotProblem> problems;
  for (const chunks::PackName& pack : packs) {
    ASCOPE_TRY(app.ctx().check("reading packs"));
    ASCOPE_TRY_ASSIGN(auto problem, repository->chunks().check_pack(app.ctx(), pack, true));
    if (problem) {
      problems.push_back(std::move(*problem));
    }
  }
  return problems;
}

// What all chunks of the store hang on, and with `percent` a part of the packs.
Result<std::vector<SnapshotProblem>> store_problems(App& app, const Items& items,
                                                    std::optional<double> percent) {
  const bool any =
      std::any_of(items.begin(), items.end(), [](const auto& one) { return one.second.format == "chunks"; });
  if (!any) {
    return std::vector<SnapshotProblem>();
  }
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(SnapshotRepository * repository, services->repository());
  ASCOPE_TRY_ASSIGN(std::vector<SnapshotProblem> out, repository->chunks().repo_problems(app.ctx()));
  if (percent && out.empty()) {
    ASCOPE_TRY_ASSIGN(out, read_some_packs(app, items, *percent));
  }
  return out;
}

Result<int> check(App& app, const Args& args) {
  std::optional<double> percent;
  if (const auto subset = args.value("read-data-subset")) {
    ASCOPE_TRY_ASSIGN(percent, parse_percent(*subset));
  }
  ASCOPE_TRY_ASSIGN(const Items items, to_check(app, args));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  std::vector<Json> rows;
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> table{{"SNAPSHOT", "SLOT", "HEALTH", "PROBLEM"}};
  std::string bad;
  const bool read_data = args.flag("read-data");
  for (const auto& [slot, item] : items) {
    ASCOPE_TRY_ASSIGN(Repository * repository, services->repository());
    ASCOPE_TRY_ASSIGN(const std::vector<SnapshotProblem> problems,
                      repository->problems(app.ctx(), item, read_data));
    ASCOPE_TRY_ASSIGN(const SnapshotHealth health, tell_health(app, *repository, item, problems, read_data));
    rows.push_back(Json{{"snapshot", item.snapshot},
                        {"slot", slot.written()},
                        {"object", item.object},
                        {"health", std::string(to_string(health))},
                        {"problems", problems_json(problems)}});
    table.push_back({item.snapshot, slot.written(), std::string(to_string(health)),
                     problems.empty() ? "" : problems.front().object + " " + problems.front().what});
    if (health != SnapshotHealth::usable) {
      names.push_back(item.snapshot);
      bad += (bad.empty() ? "" : ", ") + item.snapshot + " (" + std::string(to_string(health)) +
             (problems.empty() ? "" : ": " + problems.front().object) + ")";
    }
  }
  ASCOPE_TRY_ASSIGN(const std::vector<SnapshotProblem> of_store, store_problems(app, items, percent));
  for (const SnapshotProblem& one : of_store) {
    const std::string health(to_string(health_of({one})));
    rows.push_back(Json{{"snapshot", nullptr},
                        {"slot", nullptr},
                        {"object", one.object},
                        {"health", health},
                        {"problems", problems_json({one})}});
    table.push_back({"-", "-", health, one.object + " " + one.what});
    bad += (bad.empty() ? "" : ", ") + one.object;
  }
  app.out().list("ascope.snapshot-check/1", "snapshots", rows, names, rows.empty() ? "" : text_table(table));
  if (bad.empty()) {
    return 0;
  }
  ASCOPE_TRY(app.out().flush());
  return make_error(ErrorKind::corrupt, "not as they were saved: " + bad,
                    "'ascope-sandbox snapshot repair' keeps what can be read; 'ascope-sandbox snapshot ls' "
                    "shows the others");
}

}  // namespace

extern const Command kSnapshotCheckCommand;
const Command kSnapshotCheckCommand{
    "snapshot check",
    "Snapshots",
    "check that snapshots are in the store as they were saved",
    "Compares presence, size and version of each object with the history, of format chunks the manifest, its "
    "pages and the index of each pack that it names; with --read-data every byte with its SHA-256 too. What "
    "is missing, damaged or overwritten is named and the code is 8.",
    kCheckOptions,
    kMaybeSnapshot,
    false,
    "ascope-sandbox snapshot check --all --read-data",
    "4 8 10 11 13 14 15",
    check};

}  // namespace ascope
