// SPDX-License-Identifier: Apache-2.0
// ls, show, history, why: looking never waits and never changes.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/receipt_text.h"
#include "cli/start_args.h"
#include "core/base/units.h"
#include "core/engine/finish.h"
#include "core/engine/gather.h"
#include "core/engine/session.h"

namespace ascope {

namespace {

constexpr std::array kPositionals{kSlotPositional};

// ---- ls ----

constexpr std::array kLsOptions{OptionSpec{"all", 'a', OptionKind::flag, {}, "list removed slots too"}};

Json head_json(const SlotRecord& record) {
  return record.meta && record.meta->head ? Json(record.meta->head->snapshot) : Json(nullptr);
}

std::string sandbox_of(const SlotRecord& record) {
  return record.meta && record.meta->live && record.meta->live->sandbox ? *record.meta->live->sandbox : "";
}

Result<int> ls(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(StateStore * state, services->state());
  ASCOPE_TRY_ASSIGN(const auto names, state->slots(app.ctx()));
  std::vector<Json> rows;
  std::vector<std::string> written;
  std::vector<std::vector<std::string>> table{{"SLOT", "STATE", "SNAPSHOT", "SANDBOX", "UNSAVED"}};
  for (const auto& name : names) {
    const SlotKey key = SlotKey::from_store_name(name);
    ASCOPE_TRY_ASSIGN(const auto bytes, state->read(app.ctx(), name, kRecordKey));
    const SlotRecord record = parse_record(bytes);
    if (record.kind == RecordClass::absent || (record.kind == RecordClass::tombstone && !args.flag("all"))) {
      continue;
    }
    const bool unsaved = record.meta && record.meta->live && !record.meta->live->clean;
    const std::string head = record.meta && record.meta->head ? record.meta->head->snapshot : "";
    rows.push_back(Json{{"slot", bytes_json(key.written())},
                        {"scope", key.is_raw() ? Json(nullptr) : Json(std::string(to_string(key.scope())))},
                        {"state", std::string(to_string(record.kind))},
                        {"snapshot", head_json(record)},
                        {"sandbox", sandbox_of(record).empty() ? Json(nullptr) : Json(sandbox_of(record))},
                        {"unsaved", unsaved},
                        {"problem", record.problem.empty() ? Json(nullptr) : Json(record.problem)}});
    written.push_back(key.written());
    table.push_back({key.written(), std::string(to_string(record.kind)),
                     head.empty() ? "-" : head.substr(0, 8),
                     sandbox_of(record).empty() ? "-" : sandbox_of(record), unsaved ? "yes" : "no"});
  }
  app.out().list("ascope.ls/1", "slots", rows, written, rows.empty() ? "" : text_table(table));
  return 0;
}

// ---- show ----

Result<Json> snapshot_json(EngineServices& services, const OpContext& ctx, const SlotView& view) {
  auto item = head_item(services, ctx, view);
  if (!item) {
    return Json{{"error", item.error().message}};
  }
  if (!*item) {
    return Json(nullptr);
  }
  Json out{{"id", (*item)->snapshot},   {"format", (*item)->format},
           {"object", (*item)->object}, {"size_bytes", (*item)->size_bytes},
           {"time", (*item)->time},     {"kind", (*item)->kind},
           {"tags", (*item)->tags},     {"store", services.profile().snapshot_store}};
  const auto health = [&]() -> Result<SnapshotHealth> {
    ASCOPE_TRY_ASSIGN(Repository * repository, services.repository());
    return repository->check(ctx, **item, false);
  }();
  if (!health) {
    out["in_store"] = nullptr;
    out["store_error"] = health.error().message;
    return out;
  }
  out["in_store"] = *health == SnapshotHealth::usable;
  return out;
}

Json sandbox_json(EngineServices& services, const OpContext& ctx, const SlotKey& slot, const SlotView& view) {
  auto attached = attach_slot(services, ctx, slot, view);
  if (!attached) {
    if (attached.error().kind == ErrorKind::not_found) {
      return nullptr;
    }
    return Json{{"error", attached.error().message}};
  }
  const ResourceInfo& info = attached->info;
  Json details = Json::object();
  for (const auto& [key, value] : info.details) {
    details[key] = bytes_json(value);
  }
  Json jobs = Json::array();
  for (const auto& job : info.jobs) {
    jobs.push_back(bytes_json(job));
  }
  Json settings = Json::object();
  for (const auto& [key, value] : info.settings) {
    settings[key] = bytes_json(value);
  }
  return Json{{"id", info.id},
              {"phase", std::string(to_string(info.phase))},
              {"tree", info.tree},
              {"created", info.created},
              {"owned", info.owned && !attached->external},
              {"jobs", jobs},
              {"settings", settings},
              {"details", details}};
}

Result<Json> holder_json(EngineServices& services, const OpContext& ctx, const SlotKey& slot) {
  if (!services.has_leases()) {
    return Json(nullptr);
  }
  ASCOPE_TRY_ASSIGN(LeaseStore * leases, services.leases());
  ASCOPE_TRY_ASSIGN(const auto all, leases->list(ctx));
  for (const auto& info : all) {
    if (info.name == slot.store_name() && info.remaining) {
      return Json{{"host", info.holder.host_name},
                  {"boot", info.holder.boot},
                  {"pid_namespace", info.holder.pid_namespace},
                  {"pid", info.holder.pid},
                  {"start_time", info.holder.start_time},
                  {"user", info.holder.user},
                  {"command", bytes_json(info.holder.command)},
                  {"since", info.since},
                  {"remaining_ms", info.remaining->count()},
                  {"fence", info.fence},
                  {"proven_dead", info.proven_dead}};
    }
  }
  return Json(nullptr);
}

std::string value_text(const Json& value) {
  if (value.is_string()) {
    return printable(value.get<std::string>());
  }
  return value.is_null() ? "-" : printable(dump_json(value));
}

// Nested objects as indented "key: value" lines.
void render(std::string& out, const Json& object, std::size_t depth) {
  for (const auto& [key, value] : object.items()) {
    out += std::string(depth * 2, ' ') + key + ":";
    if (value.is_object() && !value.empty()) {
      out += "\n";
      render(out, value, depth + 1);
    } else {
      out += " " + value_text(value) + "\n";
    }
  }
}

// A slot's receipts, newest first. A damaged one hides none of the others: it is nullopt.
Result<std::vector<std::optional<Receipt>>> read_receipts(App& app, const SlotKey& slot, std::size_t limit) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(ReceiptStore * receipts, services->receipts());
  ASCOPE_TRY_ASSIGN(const auto texts, receipts->newest(app.ctx(), slot.store_name(), limit));
  std::vector<std::optional<Receipt>> out;
  for (const auto& text : texts) {
    const auto json = parse_json(text);
    auto receipt = json ? parse_receipt(*json) : Result<Receipt>(json.error());
    out.push_back(receipt ? std::optional<Receipt>(std::move(*receipt)) : std::nullopt);
  }
  return out;
}

Error damaged_receipts(const SlotKey& slot, std::ptrdiff_t count) {
  return make_error(ErrorKind::corrupt,
                    fmt::format("{} receipt{} of {} {} damaged", count, count == 1 ? "" : "s", slot.written(),
                                count == 1 ? "is" : "are"),
                    "state and snapshots do not depend on them; the list forgets them after 200 newer ones");
}

Result<int> show(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(const SlotView view, read_slot(*services, app.ctx(), slot));
  if (view.record.kind == RecordClass::absent) {
    return make_error(ErrorKind::not_found, fmt::format("there is no slot {}", slot.written()),
                      "'ascope-sandbox ls' lists the slots there are");
  }
  const auto& meta = view.record.meta;
  Json object{{"schema", "ascope.show/1"},
              {"slot", bytes_json(slot.written())},
              {"store_name", bytes_json(slot.store_name())},
              {"state", std::string(to_string(view.record.kind))},
              {"problem", view.record.problem.empty() ? Json(nullptr) : Json(view.record.problem)},
              {"revision", meta ? Json(meta->rev) : Json(nullptr)},
              {"fence", meta ? Json(meta->fence) : Json(nullptr)},
              {"history_lost", view.aux_lost},
              {"document", view.record.document}};
  if (meta && meta->live) {
    object["live"] = Json{{"backend", meta->live->backend},
                          {"bound", meta->live->bound ? Json(*meta->live->bound) : Json(nullptr)},
                          {"tree", meta->live->tree},
                          {"since", meta->live->since},
                          {"clean", meta->live->clean}};
  } else {
    object["live"] = nullptr;
  }
  if (services->has_snapshots()) {
    ASCOPE_TRY_ASSIGN(object["snapshot"], snapshot_json(*services, app.ctx(), view));
  } else {
    object["snapshot"] = nullptr;
  }
  object["snapshots"] = view.aux.history.size();
  object["sandbox"] = sandbox_json(*services, app.ctx(), slot, view);
  ASCOPE_TRY_ASSIGN(object["holder"], holder_json(*services, app.ctx(), slot));
  ASCOPE_TRY_ASSIGN(const auto receipts, read_receipts(app, slot, 1));
  const std::optional<Receipt> last = receipts.empty() ? std::nullopt : receipts.front();
  if (!receipts.empty() && !last) {
    app.out().warn(damaged_receipts(slot, 1).message);
  }
  object["last_receipt"] = last ? receipt_json(*last) : Json(nullptr);
  Json shown = object;
  shown.erase("schema");
  shown.erase("document");
  shown["last_receipt"] =
      last ? Json(fmt::format("{} {} {}", last->time, last->command, last->outcome)) : Json(nullptr);
  std::string text;
  render(text, shown, 0);
  app.out().result(object, text);
  return 0;
}

// ---- history ----

constexpr std::array kHistoryOptions{
    OptionSpec{"limit", 'n', OptionKind::value, "N", "show at most N receipts (default 20)"}};

Result<int> history(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const std::uint64_t limit, parse_count(args.value("limit").value_or("20")));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(const auto receipts, read_receipts(app, slot, limit));
  if (receipts.empty()) {
    ASCOPE_TRY_ASSIGN(const SlotView view, read_slot(*services, app.ctx(), slot));
    if (view.record.kind == RecordClass::absent) {
      return make_error(ErrorKind::not_found, fmt::format("there is no slot {}", slot.written()),
                        "'ascope-sandbox ls' lists the slots there are");
    }
  }
  std::vector<Json> rows;
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> table{
      {"TIME", "COMMAND", "OUTCOME", "BRANCH", "SNAPSHOT", "EXIT", "RECEIPT"}};
  for (const auto& receipt : receipts) {
    if (receipt) {
      table.push_back({receipt->time, receipt->command, receipt->outcome,
                       receipt->branch.empty() ? "-" : receipt->branch,
                       receipt->snapshot.empty() ? "-" : receipt->snapshot.substr(0, 8),
                       std::to_string(receipt->exit_code), receipt->id});
      names.push_back(receipt->id);
      rows.push_back(receipt_json(*receipt));
    }
  }
  app.out().list("ascope.history/1", "receipts", rows, names, rows.empty() ? "" : text_table(table));
  const auto damaged = std::count(receipts.begin(), receipts.end(), std::nullopt);
  return damaged == 0 ? Result<int>(0) : damaged_receipts(slot, damaged);
}

// ---- why ----

Result<int> why(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const auto receipts, read_receipts(app, slot, 200));
  const auto found = std::find_if(receipts.begin(), receipts.end(),
                                  [](const auto& one) { return one && !one->rule.empty(); });
  const std::optional<Receipt> last = found == receipts.end() ? std::nullopt : *found;
  if (const auto damaged = std::count(receipts.begin(), found, std::nullopt); damaged > 0) {
    if (!last) {
      return damaged_receipts(slot, damaged);
    }
    app.out().warn(damaged_receipts(slot, damaged).message + "; a later start may be among them");
  }
  if (!last) {
    return make_error(ErrorKind::not_found,
                      fmt::format("{} was never started, as far as its receipts go", slot.written()),
                      fmt::format("'ascope-sandbox explain {}' says what a start would do", slot.written()));
  }
  app.out().result(receipt_json(*last), receipt_text(*last));
  return 0;
}

}  // namespace

extern const Command kLsCommand;
const Command kLsCommand{
    "ls",
    "Looking",
    "list the slots",
    "Lists every slot of the state store, those of Java agents too, with its head and whether a sandbox "
    "may hold unsaved work.",
    kLsOptions,
    {},
    false,
    "ascope-sandbox ls\nascope-sandbox ls -o name -0 | xargs -0 -n1 ascope-sandbox show",
    "8 10 11 14 15",
    ls};

extern const Command kShowCommand;
const Command kShowCommand{
    "show",
    "Looking",
    "show one slot: state, snapshot, sandbox, holder, last receipt",
    "Shows the slot's record, whether the store has its snapshot, the sandbox as its provider sees it "
    "now, who holds the lease, and the last receipt.",
    {},
    kPositionals,
    false,
    "ascope-sandbox show user/assistant/alice -o json",
    "4 8 9 10 11 14 15",
    show};

extern const Command kHistoryCommand;
const Command kHistoryCommand{
    "history",
    "Looking",
    "list a slot's receipts, newest first",
    "Lists what state-changing commands did to the slot. The last 200 receipts are kept.",
    kHistoryOptions,
    kPositionals,
    false,
    "ascope-sandbox history -n 5",
    "4 8 10 11 14 15",
    history};

extern const Command kWhyCommand;
const Command kWhyCommand{"why",
                          "Looking",
                          "explain the slot's last start: branch, evidence, rejected branches",
                          "Shows the receipt of the last start or run of the slot in full.",
                          {},
                          kPositionals,
                          false,
                          "ascope-sandbox why",
                          "4 8 10 11 14 15",
                          why};

}  // namespace ascope
