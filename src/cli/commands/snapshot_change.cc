// SPDX-License-Identifier: Apache-2.0
// snapshot import, tag, rm: changes of a slot's history.
#include <algorithm>
#include <array>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/snapshot_common.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/base/units.h"
#include "core/engine/import.h"
#include "core/repository/tar.h"
#include "core/tree/check.h"

namespace ascope {

namespace {

// ---- import ----

constexpr std::array kImportOptions{
    OptionSpec{"tag", '\0', OptionKind::value, "NAME", "tag the new snapshot"},
    OptionSpec{"dry-run", '\0', OptionKind::flag, {}, "check the archive and change nothing"}};
constexpr std::array kImportArguments{
    PositionalSpec{"FILE", true, false, "tar, tar.gz or tar.zst of a workspace root; - is stdin"},
    PositionalSpec{"SLOT", false, false, "slot, instead of the profile's and --agent, --user…"}};

// The archive as an open file that can be read twice; stdin is copied to one without a name.
Result<UniqueFd> open_archive(App& app, const std::string& file) {
  if (file != "-") {
    auto fd = open_file(file, O_RDONLY);
    if (!fd) {
      return std::move(fd).error().with_hint("check the path; - stands for stdin");
    }
    struct stat info{};
    if (::fstat(fd->get(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return make_error(ErrorKind::usage, fmt::format("'{}' is a folder, not an archive", file),
                        fmt::format("pack it: tar -C '{}' -c . | ascope-sandbox snapshot import -", file));
    }
    return fd;
  }
  ASCOPE_TRY(make_dirs(app.state_dir()));
  UniqueFd copy_of(::open(app.state_dir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!copy_of.is_open()) {
    const std::string temp = app.state_dir() + "/.import." + random_hex(8);
    ASCOPE_TRY_ASSIGN(copy_of, open_file(temp, O_RDWR | O_CREAT | O_EXCL, 0600));
    ::unlink(temp.c_str());
  }
  FdSource input{UniqueFd(::dup(STDIN_FILENO))};
  FdSink sink(copy_of.get());
  ASCOPE_TRY(copy(input, sink));
  return copy_of;
}

Result<std::unique_ptr<ByteSource>> from_start(const UniqueFd& fd) {
  if (::lseek(fd.get(), 0, SEEK_SET) != 0) {
    return make_error(ErrorKind::usage, "the archive cannot be read twice",
                      "pipe it in: … | ascope-sandbox snapshot import -");
  }
  return std::unique_ptr<ByteSource>(
      std::make_unique<FdSource>(UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3))));
}

Result<int> import_it(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args, 1));
  const std::string& file = args.positionals[0];
  ASCOPE_TRY_ASSIGN(const UniqueFd archive, open_archive(app, file));
  // Read to its end once before anything is done with it.
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<ByteSource> first, from_start(archive));
  const auto look = [&]() -> Result<TreeTotals> {
    ASCOPE_TRY_ASSIGN(const std::unique_ptr<TreeSource> looked_at, read_tar(*first));
    return check_tree(app.ctx(), *looked_at);
  };
  const Result<TreeTotals> totals = look();
  if (!totals) {
    return Error(totals.error())
        .within(fmt::format("archive '{}'", file))
        .with_hint("a tar, plain or packed by gzip or zstd, is needed; 'tar -t' shows what is in one");
  }
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("snapshot import", slot));
  const std::string what = fmt::format("{} in {} entries of '{}'", format_size(totals->content_bytes),
                                       totals->entries, printable(file));
  if (args.flag("dry-run")) {
    receipt.predicted = true;
    app.out().result(receipt_json(receipt), fmt::format("Would import {} into {}\n", what, slot.written()));
    return 0;
  }
  const auto run = [&]() -> Result<void> {
    ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
    ImportOptions options;
    ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
    options.tag = args.value("tag").value_or("");
    ASCOPE_TRY_ASSIGN(const std::unique_ptr<ByteSource> bytes, from_start(archive));
    ASCOPE_TRY_ASSIGN(const std::unique_ptr<TreeSource> tree, read_tar(*bytes));
    return import_snapshot(*services, app.ctx(), slot, *tree, options, receipt);
  };
  const Result<void> done = run();
  return app.finish(slot, receipt, done,
                    fmt::format("Imported {} as {}; the next start of {} restores it.\n", what,
                                receipt.snapshot, slot.written()));
}

// ---- tag ----

constexpr std::array kTagOptions{OptionSpec{"delete", 'd', OptionKind::flag, {}, "take the tag away"}};
constexpr std::array kTagArguments{kSnapshotArgument,
                                   PositionalSpec{"NAME", true, false, "letters, digits, '.', '_', '-'"}};

Result<int> tag(App& app, const Args& args) {
  const std::string& name = args.positionals[1];
  ASCOPE_TRY(check_tag(name));
  ASCOPE_TRY_ASSIGN(const ChosenSnapshot chosen, choose_snapshot(app, args.positionals[0]));
  const std::string id = chosen.item.snapshot;
  const bool remove = args.flag("delete");
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("snapshot tag", chosen.slot));
  const Result<void> done =
      change_history(app, args, chosen.slot, receipt, [&](SlotSession& session) -> Result<void> {
        return remove ? remove_tag(session.aux(), id, name) : set_tag(session.aux(), id, name);
      });
  return app.finish(chosen.slot, receipt, done,
                    remove ? fmt::format("{} is no longer called {}\n", id, name)
                           : fmt::format("{} is called {} from now on\n", id, name));
}

// ---- rm ----

constexpr std::array kRmOptions{
    OptionSpec{"dry-run", '\0', OptionKind::flag, {}, "show what would be removed"}};
constexpr std::array kRmArguments{
    PositionalSpec{"SNAPSHOT", true, true, "[SLOT@]SNAP: an id, a prefix of one, latest~2 or a tag"}};

Result<std::vector<ChosenSnapshot>> to_remove(App& app, const Args& args) {
  std::vector<ChosenSnapshot> out;
  for (const std::string& text : args.positionals) {
    ASCOPE_TRY_ASSIGN(ChosenSnapshot chosen, choose_snapshot(app, text));
    if (!out.empty() && chosen.slot != out[0].slot) {
      return make_error(ErrorKind::usage, "the snapshots are of several slots",
                        "remove those of one slot at a time");
    }
    if (chosen.is_head()) {
      return make_error(
          ErrorKind::refused,
          fmt::format("snapshot '{}' is the head of {}", chosen.item.snapshot, chosen.slot.written()),
          "restore another first, or remove the whole slot with 'rm --purge'");
    }
    const bool known = std::any_of(out.begin(), out.end(), [&](const ChosenSnapshot& one) {
      return one.item.snapshot == chosen.item.snapshot;
    });
    if (!known) {
      out.push_back(std::move(chosen));
    }
  }
  return out;
}

Result<int> rm(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const std::vector<ChosenSnapshot> chosen, to_remove(app, args));
  const SlotKey& slot = chosen[0].slot;
  std::string names;
  std::vector<std::string> ids;
  for (const ChosenSnapshot& one : chosen) {
    names += (names.empty() ? "" : ", ") + one.item.snapshot + (one.item.tags.empty() ? "" : " (tagged)");
    ids.push_back(one.item.snapshot);
  }
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("snapshot rm", slot));
  if (args.flag("dry-run")) {
    receipt.predicted = true;
    app.out().result(receipt_json(receipt), fmt::format("Would remove {}\n", names));
    return 0;
  }
  ASCOPE_TRY_ASSIGN(const bool sure,
                    app.out().confirm(fmt::format("Remove {} from {} for ever?", names, slot.written())));
  if (!sure) {
    return make_error(ErrorKind::refused, "nothing was removed");
  }
  const auto run = [&]() -> Result<void> {
    ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
    std::vector<HistoryItem> gone;
    ASCOPE_TRY(change_history(app, args, slot, receipt, [&](SlotSession& session) -> Result<void> {
      ASCOPE_TRY_ASSIGN(gone, take_from_history(session, ids));
      return ok();
    }));
    // Only now that no record names them.
    return remove_objects(*services, app.ctx(), slot, gone);
  };
  return app.finish(slot, receipt, run(), fmt::format("Removed {}\n", names));
}

}  // namespace

extern const Command kSnapshotImportCommand;
const Command kSnapshotImportCommand{"snapshot import",
                                     "Snapshots",
                                     "save a tar file as the slot's newest snapshot",
                                     "Reads the whole archive first and refuses one that is cut or hostile: "
                                     "names that leave the root, links to what is not "
                                     "in it, anything twice. Then it is saved and becomes the slot's head, "
                                     "which the next start restores. The files of an archive that "
                                     "another program packed belong to the sandbox's user; one of 'snapshot "
                                     "export' keeps its owners. A sandbox with "
                                     "unsaved work refuses it (7): save that first.",
                                     kImportOptions,
                                     kImportArguments,
                                     false,
                                     "ascope-sandbox snapshot import work.tar.zst user/assistant/alice",
                                     "5 6 7 8 10 11 13 14 15",
                                     import_it};

extern const Command kSnapshotTagCommand;
const Command kSnapshotTagCommand{
    "snapshot tag",
    "Snapshots",
    "give a snapshot a name",
    "A tag names one snapshot of its slot and protects it from gc. A tag that stands for "
    "another is not moved (6): delete it first.",
    kTagOptions,
    kTagArguments,
    false,
    "ascope-sandbox snapshot tag latest before-upgrade",
    "4 5 6 8 10 11 13 14 15",
    tag};

extern const Command kSnapshotRmCommand;
const Command kSnapshotRmCommand{
    "snapshot rm",
    "Snapshots",
    "remove snapshots for ever",
    "Takes them out of the slot's history, then removes their objects where no other slot names "
    "them. The head cannot be removed. Asks on a terminal, needs --yes elsewhere.",
    kRmOptions,
    kRmArguments,
    false,
    "ascope-sandbox snapshot rm latest~3 --yes",
    "4 5 6 7 8 10 11 13 14 15",
    rm,
    true};

}  // namespace ascope
