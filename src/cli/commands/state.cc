// SPDX-License-Identifier: Apache-2.0
// state export, import, rm: the saved state document itself.
#include <array>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/exit_code.h"
#include "cli/start_args.h"
#include "core/engine/state_ops.h"
#include "core/record.h"

namespace ascope {

namespace {

// ---- export ----

Error not_exported(const SlotKey& slot, const SlotRecord& record) {
  const std::string raw =
      fmt::format("'ascope-sandbox state export --raw {}' prints it as it is", slot.written());
  switch (record.kind) {
    case RecordClass::newer:
      return make_error(
          ErrorKind::unsupported,
          fmt::format("the state of {} is of a newer version: {}", slot.written(), record.problem), raw);
    case RecordClass::corrupt:
      return make_error(ErrorKind::corrupt,
                        fmt::format("the state of {} is damaged: {}", slot.written(), record.problem), raw);
    default:
      return make_error(ErrorKind::not_found, fmt::format("{} has no state", slot.written()),
                        "'ascope-sandbox ls' lists the slots there are");
  }
}

Result<int> run_export(App& app, const Args& args) {
  const bool raw = args.flag("raw");
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(StateStore * state, services->state());
  ASCOPE_TRY_ASSIGN(const auto bytes, state->read(app.ctx(), slot.store_name(), kRecordKey));
  const SlotRecord record = parse_record(bytes);
  const bool readable = record.kind == RecordClass::ours || record.kind == RecordClass::foreign;
  if (record.kind == RecordClass::absent || (!raw && !readable)) {
    return not_exported(slot, record);
  }
  if (app.out().format == OutputFormat::text) {
    app.out().write(raw ? record.bytes : record.document_text + "\n");
    return kExitDone;
  }
  Json object{{"schema", "ascope.state/1"}, {"slot", bytes_json(slot.written())}};
  object["class"] = std::string(to_string(record.kind));
  object["problem"] = record.problem.empty() ? Json() : bytes_json(record.problem);
  object["document"] = record.document;
  object["rev"] = record.meta ? Json(record.meta->rev) : Json();
  object["fence"] = record.meta ? Json(fmt::to_string(record.meta->fence)) : Json();
  object["record"] = raw ? bytes_json(record.bytes) : Json();
  app.out().result(object, "");
  return kExitDone;
}

// ---- import ----

Result<int> run_import(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args, 1));
  ImportOptions options;
  ASCOPE_TRY_ASSIGN(options.text, read_state_file(app, args.positionals.front()));
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  options.replace = args.flag("replace");
  options.allow_loss = args.flag("allow-loss");
  options.dry_run = args.flag("dry-run");
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("state import", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  auto done = import_state(*services, app.ctx(), slot, options, receipt);
  if (!done && done.error().kind == ErrorKind::config) {
    done = std::move(done).error().within(args.positionals.front());
  }
  return app.finish(slot, receipt, done,
                    fmt::format("{} the state of {}{}\n", options.dry_run ? "Would import" : "Imported",
                                printable(slot.written()),
                                receipt.snapshot.empty() ? "" : ", snapshot " + receipt.snapshot));
}

// ---- rm ----

Result<int> run_rm(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ForgetOptions options;
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  options.allow_loss = args.flag("allow-loss");
  options.dry_run = args.flag("dry-run");
  if (!options.dry_run) {
    ASCOPE_TRY_ASSIGN(const bool sure,
                      app.out().confirm(fmt::format("Remove the state of {}?", slot.written())));
    if (!sure) {
      return make_error(ErrorKind::refused, "nothing was removed");
    }
  }
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("state rm", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  const auto done = forget_state(*services, app.ctx(), slot, options, receipt);
  return app.finish(slot, receipt, done,
                    fmt::format("{} the state of {}; snapshots and sandbox stay\n",
                                options.dry_run ? "Would remove" : "Removed", printable(slot.written())));
}

constexpr std::array kSlotOnly{kSlotPositional};
constexpr std::array kImportPositionals{
    PositionalSpec{"FILE", true, false, "document or record to import, - for stdin"}, kSlotPositional};
constexpr std::array kExportOptions{OptionSpec{
    "raw", '\0', OptionKind::flag, {}, "print the whole record, byte for byte, whatever it holds"}};
constexpr std::array kImportOptions{
    OptionSpec{"replace", '\0', OptionKind::flag, {}, "put it in the place of a state that is there"},
    kAllowLossOption, kDryRunOption};
constexpr std::array kRmOptions{kAllowLossOption, kDryRunOption};

}  // namespace

extern const Command kStateExportCommand;
const Command kStateExportCommand{"state export",
                                  "Looking",
                                  "print the saved state document of a slot",
                                  "Prints AgentScope's document as it was saved. With --raw the record "
                                  "around it is printed byte for byte, also one "
                                  "that is damaged, removed or of a newer version.",
                                  kExportOptions,
                                  kSlotOnly,
                                  false,
                                  "ascope-sandbox state export user/assistant/alice > alice.json",
                                  "4 8 10 11 13 14 15",
                                  run_export};

extern const Command kStateImportCommand;
const Command kStateImportCommand{"state import",
                                  "Setup",
                                  "put a state document into a slot",
                                  "Checks the document key by key, as AgentScope's own readers do, and saves "
                                  "it as the state of the slot. A snapshot "
                                  "that it names becomes the head if the snapshot store has it. A state that "
                                  "is there stays (6) without --replace.",
                                  kImportOptions,
                                  kImportPositionals,
                                  false,
                                  "ascope-sandbox state import alice.json user/assistant/alice",
                                  "5 6 7 8 10 11 13 14 15",
                                  run_import};

extern const Command kStateRmCommand;
const Command kStateRmCommand{"state rm",
                              "Setup",
                              "give up the saved state of a slot",
                              "Writes a tombstone in the place of the state, damaged or not. Snapshots and a "
                              "sandbox stay; gc collects what nobody "
                              "adopts. The next start is cold.",
                              kRmOptions,
                              kSlotOnly,
                              false,
                              "ascope-sandbox state rm --yes user/assistant/alice",
                              "4 5 6 7 8 10 11 13 14 15",
                              run_rm,
                              true};

}  // namespace ascope
