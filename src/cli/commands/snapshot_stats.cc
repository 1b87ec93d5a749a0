// SPDX-License-Identifier: Apache-2.0
// snapshot stats: what snapshots mean, how much of it is different, and what it takes.
#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "cli/snapshot_common.h"
#include "core/base/units.h"
#include "core/repository/chunks/stats.h"

namespace ascope {

namespace {

constexpr std::array kOptions{
    OptionSpec{"all", '\0', OptionKind::flag, {}, "the whole store, slot by slot, whoever saved there"}};
constexpr std::array kArguments{
    PositionalSpec{"SLOT", false, false, "slot, instead of the profile's and --agent, --user…"}};

Json content_json(const chunks::ContentStats& content) {
  return Json{{"snapshots", content.snapshots},         {"files", content.files},
              {"logical_bytes", content.logical_bytes}, {"chunks", content.chunks},
              {"unique_bytes", content.unique_bytes},   {"page_bytes", content.page_bytes},
              {"stored_bytes", content.needed_bytes}};
}

std::vector<std::string> content_row(const std::string& name, const chunks::ContentStats& content) {
  return {name, std::to_string(content.snapshots), format_size(content.logical_bytes),
          format_size(content.unique_bytes), format_size(content.needed_bytes)};
}

const std::vector<std::string> kHeading{"SLOT", "SNAPSHOTS", "LOGICAL", "UNIQUE", "STORED"};

// nullopt: nothing was ever saved in chunks.
Result<std::optional<chunks::StoreStats>> count(App& app, const std::string& folder) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  if (!services->has_snapshots()) {
    return std::optional<chunks::StoreStats>();
  }
  ASCOPE_TRY_ASSIGN(SnapshotRepository * repository, services->repository());
  ASCOPE_TRY_ASSIGN(const std::optional<chunks::Access> access, find_access(app.ctx(), repository->chunks()));
  if (!access) {
    return std::optional<chunks::StoreStats>();
  }
  ASCOPE_TRY_ASSIGN(chunks::StoreStats stats, chunks::count_store(app.ctx(), *access, folder));
  return std::optional(std::move(stats));
}

Result<int> whole_store(App& app) {
  ASCOPE_TRY_ASSIGN(const auto found, count(app, std::string(chunks::kManifestsFolder)));
  chunks::StoreStats stats = found.value_or(chunks::StoreStats{});
  std::sort(stats.slots.begin(), stats.slots.end(), [](const auto& a, const auto& b) {
    return std::tie(a.slot, a.realm) < std::tie(b.slot, b.realm);
  });
  std::vector<std::vector<std::string>> table{kHeading};
  Json slots = Json::array();
  for (const chunks::SlotStats& one : stats.slots) {
    Json row = content_json(one.content);
    row["slot"] = one.slot;
    row["realm"] = one.realm;
    slots.push_back(std::move(row));
    table.push_back(content_row(one.slot, one.content));
  }
  table.push_back(content_row("all", stats.content));
  app.out().result(
      Json{{"schema", "ascope.store-stats/1"},
           {"content", content_json(stats.content)},
           {"slots", std::move(slots)},
           {"packs", stats.packs},
           {"pack_bytes", stats.pack_bytes},
           {"manifest_bytes", stats.manifest_bytes},
           {"other_bytes", stats.other_bytes}},
      text_table(table) + fmt::format("{} packs of {}, manifests {}, other {}\n", stats.packs,
                                      format_size(stats.pack_bytes), format_size(stats.manifest_bytes),
                                      format_size(stats.other_bytes)));
  return 0;
}

Result<int> stats(App& app, const Args& args) {
  if (args.flag("all")) {
    return args.positionals.empty()
               ? whole_store(app)
               : make_error(ErrorKind::usage, "--all and a slot are given", "leave one of them out");
  }
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const SlotView view, read_known_slot(app, slot));
  std::uint64_t added = 0;
  std::uint64_t content = 0;
  std::uint64_t tagged = 0;
  bool chunked = false;
  for (const HistoryItem& item : view.aux.history) {
    added += item.added_bytes;
    content += item.content_bytes;
    tagged += item.tags.empty() ? 0 : 1;
    chunked = chunked || item.format == "chunks";
  }
  Json out{{"schema", "ascope.snapshot-stats/1"},
           {"slot", slot.written()},
           {"snapshots", view.aux.history.size()},
           {"tagged", tagged},
           {"content_bytes", content},
           {"added_bytes", added},
           {"chunks", nullptr}};
  std::string text = fmt::format("{} snapshots ({} tagged) of {}; their saves added {}\n",
                                 view.aux.history.size(), tagged, format_size(content), format_size(added));
  if (chunked) {
    ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
    ASCOPE_TRY_ASSIGN(SnapshotRepository * repository, services->repository());
    ASCOPE_TRY_ASSIGN(const chunks::Access access, repository->chunks().access(app.ctx()));
    const std::string realm = view.record.meta ? view.record.meta->realm : "";
    ASCOPE_TRY_ASSIGN(const auto found,
                      count(app, chunks::manifest_folder(*access.key, realm, slot.written())));
    const chunks::ContentStats mine = found ? found->content : chunks::ContentStats{};
    out["chunks"] = content_json(mine);
    text += fmt::format("in chunks: {} of content, {} of it different, {} stored\n",
                        format_size(mine.logical_bytes), format_size(mine.unique_bytes),
                        format_size(mine.needed_bytes));
  }
  app.out().result(out, text);
  return 0;
}

}  // namespace

extern const Command kSnapshotStatsCommand;
const Command kSnapshotStatsCommand{
    "snapshot stats",
    "Snapshots",
    "sum up what snapshots hold and take",
    "Counts the slot's snapshots, the content they mean, how much of that is different, and what it takes in "
    "the "
    "store, where others may share it. With --all the whole store, slot by slot; what slots share counts "
    "once in "
    "the sum.",
    kOptions,
    kArguments,
    false,
    "ascope-sandbox snapshot stats -o json\nascope-sandbox snapshot stats --all",
    "4 8 10 11 13",
    stats};

}  // namespace ascope
