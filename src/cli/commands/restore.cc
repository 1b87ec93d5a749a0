// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/receipt_text.h"
#include "cli/start_args.h"
#include "core/base/file.h"
#include "core/engine/session.h"

namespace ascope {

namespace {

constexpr std::array kRestoreOptions{
    OptionSpec{"into", '\0', OptionKind::value, "SLOT", "restore into another slot (a fork)"},
    OptionSpec{"to", '\0', OptionKind::value, "DIR",
               "unpack into this empty host folder; no slot is changed"},
    OptionSpec{"kill", '\0', OptionKind::flag, {}, "end commands that run in the sandbox"}, kAllowLossOption,
    kDryRunOption};
constexpr std::array kRestorePositionals{
    PositionalSpec{"SNAPSHOT", true, false, "[SLOT@]SNAP: an id, a prefix of one, latest, latest~2, a tag"},
    PositionalSpec{"PATH", false, true, "restore only these, relative to the workspace root"}};
constexpr std::array kUndoOptions{
    OptionSpec{"kill", '\0', OptionKind::flag, {}, "end commands that run in the sandbox"}, kDryRunOption};
constexpr std::array kUndoPositionals{kSlotPositional};

// A snapshot as plain files below a host folder that is empty or missing.
Result<int> restore_to_folder(App& app, const SlotKey& slot, const std::string& name,
                              const std::string& folder) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(const SlotView view, read_slot(*services, app.ctx(), slot));
  ASCOPE_TRY(require_readable(slot, view.record));
  ASCOPE_TRY_ASSIGN(const HistoryItem item,
                    find_snapshot(view.aux, view.record.meta ? view.record.meta->head : std::nullopt, name));
  const std::string target = absolute_path(folder, app.cwd());
  ASCOPE_TRY_ASSIGN(const bool exists, path_exists(target));
  if (exists) {
    ASCOPE_TRY_ASSIGN(const auto names, list_dir(target));
    if (!names.empty()) {
      return make_error(ErrorKind::conflict, fmt::format("'{}' is not empty", target),
                        "name an empty or new folder");
    }
  }
  ASCOPE_TRY_ASSIGN(Repository * repository, services->repository());
  ASCOPE_TRY_ASSIGN(auto source, repository->open(app.ctx(), item, SnapshotPart::workspace));
  ASCOPE_TRY(make_dirs(target, 0755));
  ASCOPE_TRY_ASSIGN(UniqueFd root, open_file(target, O_RDONLY | O_DIRECTORY));
  ApplyOptions options;
  options.mode = ApplyMode::fresh;
  auto report = apply_tree(app.ctx(), UniqueFd(::fcntl(root.get(), F_DUPFD_CLOEXEC, 3)), *source, options);
  if (!report) {
    // A snapshot shows only at its end that it is whole: what was written until then is not to be taken for
    // one.
    static_cast<void>(remove_tree_contents(std::move(root), {}).has_value());
    if (!exists) {
      ::rmdir(target.c_str());
    }
    return write_failure(std::move(report).error()).within(fmt::format("unpacking into '{}'", target));
  }
  for (const auto& note : report->notes) {
    app.out().warn(fmt::format("{}: {}", note.path, note.what));
  }
  app.out().result(Json{{"schema", "ascope.restore-to/1"},
                        {"snapshot", item.snapshot},
                        {"folder", bytes_json(target)},
                        {"files_written", report->written},
                        {"bytes_written", report->bytes_written}},
                   fmt::format("Unpacked {} into {}\n", item.snapshot, printable(target)));
  return report->notes.empty() ? 0 : 3;
}

std::string changes_text(const std::vector<std::pair<char, std::string>>& changes) {
  std::string text;
  for (const auto& [kind, path] : changes) {
    text += fmt::format("{} {}\n", kind, printable(path));
  }
  return text.empty() ? "Nothing would change.\n" : text;
}

Json changes_json(const Receipt& receipt, const std::vector<std::pair<char, std::string>>& changes) {
  Json list = Json::array();
  for (const auto& [kind, path] : changes) {
    list.push_back(Json{{"change", std::string(1, kind)}, {"path", bytes_json(path)}});
  }
  return Json{{"schema", "ascope.changes/1"}, {"snapshot", receipt.restored}, {"changes", std::move(list)}};
}

Result<void> ask(App& app, const SlotKey& target, bool kill) {
  if (!kill) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(const bool sure,
                    app.out().confirm(fmt::format("End the commands that run in {}?", target.written())));
  return sure ? ok() : Result<void>(make_error(ErrorKind::refused, "nothing was restored"));
}

Result<int> restore(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const auto named, app.slot_and_snapshot(args.positionals.at(0)));
  const auto& [source, name] = named;
  if (auto folder = args.value("to")) {
    return restore_to_folder(app, source, name, *folder);
  }
  SlotKey target = source;
  if (auto into = args.value("into")) {
    ASCOPE_TRY_ASSIGN(target, SlotKey::parse(*into));
  }
  RestoreOptions options;
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  options.snapshot = name;
  options.paths.assign(args.positionals.begin() + 1, args.positionals.end());
  options.kill = args.flag("kill");
  options.allow_loss = args.flag("allow-loss");
  options.dry_run = args.flag("dry-run");
  std::vector<std::pair<char, std::string>> changes;
  options.changes = &changes;
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("restore", target));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  if (options.dry_run) {
    ASCOPE_TRY(restore_slot(*services, app.ctx(), source, target, options, receipt));
    app.out().result(changes_json(receipt, changes),
                     receipt.why.empty() ? changes_text(changes) : receipt_line(receipt));
    return 0;
  }
  ASCOPE_TRY(ask(app, target, options.kill));
  const auto result = restore_slot(*services, app.ctx(), source, target, options, receipt);
  std::string text = fmt::format("Restored {}\n", receipt.restored);
  if (!receipt.safety.empty()) {
    text += fmt::format("The work before is snapshot {}; 'ascope-sandbox undo' goes back to it.\n",
                        receipt.safety);
  }
  return app.finish(target, receipt, result, text);
}

Result<int> undo(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  RestoreOptions options;
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  options.kill = args.flag("kill");
  options.dry_run = args.flag("dry-run");
  std::vector<std::pair<char, std::string>> changes;
  options.changes = &changes;
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("undo", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  if (options.dry_run) {
    ASCOPE_TRY(undo_restore(*services, app.ctx(), slot, options, receipt));
    app.out().result(changes_json(receipt, changes),
                     receipt.why.empty() ? changes_text(changes) : receipt_line(receipt));
    return 0;
  }
  ASCOPE_TRY(ask(app, slot, options.kill));
  const auto result = undo_restore(*services, app.ctx(), slot, options, receipt);
  return app.finish(slot, receipt, result, fmt::format("Went back to {}\n", receipt.restored));
}

}  // namespace

extern const Command kRestoreCommand;
const Command kRestoreCommand{
    "restore",
    "Core",
    "put a snapshot back",
    "Puts a snapshot back into its slot, into another (--into) or into an empty host folder (--to). The "
    "present work is saved "
    "first as a safety snapshot; then only what differs is written, under a mark that makes an interrupted "
    "restore be undone "
    "by the next start. What runs inside is ended.",
    kRestoreOptions,
    kRestorePositionals,
    false,
    "ascope-sandbox restore latest~1 --dry-run\nascope-sandbox restore user/a/alice@v1 --into user/a/bob",
    "3 4 5 6 7 8 9 10 11 12 14 15",
    restore};

extern const Command kUndoCommand;
const Command kUndoCommand{
    "undo",
    "Core",
    "take the last restore back",
    "Restores what the last restore of the slot replaced. undo of an undo goes forward again.",
    kUndoOptions,
    kUndoPositionals,
    false,
    "ascope-sandbox undo",
    "4 5 6 7 8 9 10 11 12 14 15",
    undo};

}  // namespace ascope
