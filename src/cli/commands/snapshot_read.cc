// SPDX-License-Identifier: Apache-2.0
// snapshot cat, find, diff, export: what is inside.
#include <algorithm>
#include <array>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/exit_code.h"
#include "cli/snapshot_common.h"
#include "cli/snapshot_live.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/base/units.h"
#include "core/repository/compare_trees.h"
#include "core/repository/tar.h"
#include "core/tree/walker.h"

namespace ascope {

namespace {

constexpr std::array kParts{SnapshotPart::workspace, SnapshotPart::roots};

// What "[SLOT@]SNAP" or "[SLOT@]live" names, part by part.
class Readable {
 public:
  static Result<Readable> choose(App& app, const std::string& text) {
    using Parts = std::pair<SlotKey, std::string>;
    ASCOPE_TRY_ASSIGN(const Parts parts, app.slot_and_snapshot(text));
    Readable out;
    if (parts.second == "live") {
      ASCOPE_TRY_ASSIGN(out.live_, open_live(app, parts.first));
      out.name_ = "live";
      return out;
    }
    ASCOPE_TRY_ASSIGN(ChosenSnapshot chosen, choose_snapshot(app, text));
    out.name_ = chosen.item.snapshot;
    out.chosen_.emplace(std::move(chosen));
    return out;
  }
  Result<std::unique_ptr<TreeSource>> open(App& app, SnapshotPart part, bool metadata_only = false) {
    return live_ ? live_->open(app, part, metadata_only) : open_part(app, chosen_->item, part);
  }
  // Reads all of a saved tar and compares; what lives has nothing to be compared with, and chunks are
  // compared one by one before they are given.
  Result<void> verify(App& app) {
    return chosen_ && chosen_->item.format == "tar" ? verify_snapshot(app, chosen_->item) : ok();
  }
  // One path, with what comes along.
  Result<std::unique_ptr<TreeSource>> open_path(App& app, const SnapshotPath& path) {
    return live_ ? live_->open(app, path.part, false) : open_part(app, chosen_->item, path.part, {path.path});
  }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::optional<ChosenSnapshot> chosen_;
  std::unique_ptr<LiveTree> live_;
  std::string name_;
};

// ---- cat ----

constexpr std::array kCatArguments{
    PositionalSpec{"SNAPSHOT", true, false, "[SLOT@]SNAP, or live: the workspace as it is now"},
    PositionalSpec{"PATH", true, false, "relative to the workspace root, or absolute inside the sandbox"}};

// Writes the content of the entry just read, holes as zeros.
Result<void> write_content(TreeSource& source, const TreeEntry& entry) {
  const std::string zeros(64U << 10U, '\0');
  std::uint64_t at = 0;
  const auto fill = [&](std::uint64_t end) -> Result<void> {
    while (at < end) {
      const std::uint64_t count = std::min<std::uint64_t>(zeros.size(), end - at);
      ASCOPE_TRY(write_all(STDOUT_FILENO, ByteView(zeros).substr(0, count)));
      at += count;
    }
    return ok();
  };
  while (true) {
    ASCOPE_TRY_ASSIGN(const std::optional<DataBlock> block, source.read());
    if (!block) {
      return fill(entry.size_bytes);
    }
    ASCOPE_TRY(fill(block->offset));
    ASCOPE_TRY(write_all(STDOUT_FILENO, block->bytes));
    at += block->bytes.size();
  }
}

// The entry at `path`, its content still to be read; then the rest of the object is read too, for its digest.
Result<std::optional<TreeEntry>> seek(App& app, TreeSource& source, const std::string& path) {
  TreeEntry entry;
  while (true) {
    ASCOPE_TRY(app.ctx().check("reading a snapshot"));
    ASCOPE_TRY_ASSIGN(const bool more, source.next(entry));
    if (!more) {
      return std::optional<TreeEntry>();
    }
    if (entry.path == path) {
      return std::optional(std::move(entry));
    }
  }
}

Result<int> cat(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(Readable readable, Readable::choose(app, args.positionals[0]));
  ASCOPE_TRY_ASSIGN(SnapshotPath wanted, parse_snapshot_path(app, args.positionals[1]));
  const std::string shown = shown_path(wanted.part, wanted.path);
  ASCOPE_TRY(readable.verify(app));  // stdout takes nothing back
  while (true) {
    ASCOPE_TRY_ASSIGN(const std::unique_ptr<TreeSource> source, readable.open_path(app, wanted));
    const std::string elsewhere =
        fmt::format("'ascope-sandbox snapshot find {} NAME' looks for it", args.positionals[0]);
    Result<std::optional<TreeEntry>> found = seek(app, *source, wanted.path);
    if (!found && found.error().kind == ErrorKind::not_found) {
      return std::move(found).error().with_hint(elsewhere);
    }
    ASCOPE_TRY_ASSIGN(const std::optional<TreeEntry> entry, std::move(found));
    if (!entry) {
      return make_error(ErrorKind::not_found,
                        fmt::format("snapshot '{}' has no '{}'", readable.name(), shown), elsewhere);
    }
    if (entry->type == EntryType::hardlink) {
      wanted.path = entry->link_target;  // comes earlier: read once more
      continue;
    }
    if (entry->type == EntryType::symlink) {
      return make_error(ErrorKind::usage, fmt::format("'{}' is a link to '{}'", shown, entry->link_target),
                        "give the path it leads to");
    }
    if (entry->type != EntryType::file) {
      return make_error(ErrorKind::usage, fmt::format("'{}' is not a file", shown));
    }
    ASCOPE_TRY(write_content(*source, *entry));
    ASCOPE_TRY(seek(app, *source, "/"));  // no entry is called so: reads the rest and verifies it all
    return 0;
  }
}

// ---- find ----

constexpr std::array kFindArguments{
    PositionalSpec{"SNAPSHOT", true, false, "[SLOT@]SNAP, or live: the workspace as it is now"},
    PositionalSpec{"GLOB", true, false,
                   "pattern; with a slash it stands for the path, else for the name at any depth"}};

std::string_view type_name(EntryType type) {
  switch (type) {
    case EntryType::file:
      return "file";
    case EntryType::directory:
      return "folder";
    case EntryType::symlink:
      return "symlink";
    case EntryType::hardlink:
      return "hardlink";
    case EntryType::fifo:
      return "fifo";
    case EntryType::socket:
      return "socket";
    case EntryType::char_device:
    case EntryType::block_device:
      break;
  }
  return "device";
}

Json entry_json(SnapshotPart part, const TreeEntry& entry) {
  Json out;
  out["path"] = bytes_json(shown_path(part, entry.path));
  out["type"] = type_name(entry.type);
  out["mode"] = fmt::format("{:04o}", entry.mode);
  out["uid"] = entry.uid;
  out["gid"] = entry.gid;
  out["size_bytes"] = entry.size_bytes;
  out["mtime"] = format_time(
      std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(entry.mtime_ns))));
  out["link"] = entry.link_target.empty() ? Json() : bytes_json(entry.link_target);
  return out;
}

Result<int> find(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(Readable readable, Readable::choose(app, args.positionals[0]));
  const std::vector<std::string> patterns = {args.positionals[1]};
  std::vector<Json> rows;
  std::vector<std::string> names;
  std::string text;
  for (const SnapshotPart part : kParts) {
    ASCOPE_TRY_ASSIGN(const std::unique_ptr<TreeSource> source, readable.open(app, part, true));
    TreeEntry entry;
    while (true) {
      ASCOPE_TRY(app.ctx().check("reading a snapshot"));
      ASCOPE_TRY_ASSIGN(const bool more, source->next(entry));
      if (!more) {
        break;
      }
      const std::string shown = shown_path(part, entry.path);
      const std::string_view matched =
          part == SnapshotPart::roots ? std::string_view(shown).substr(1) : shown;
      if (!entry.path.empty() && exclude_matches(patterns, matched, entry.type == EntryType::directory)) {
        rows.push_back(entry_json(part, entry));
        names.push_back(shown);
        text += printable(shown) + "\n";
      }
    }
  }
  app.out().list("ascope.snapshot-find/1", "entries", rows, names, text);
  return names.empty() ? kExitDiffers : 0;
}

// ---- diff ----

constexpr std::array kDiffArguments{
    PositionalSpec{"SNAPSHOT", true, false, "[SLOT@]SNAP to compare from"},
    PositionalSpec{"SNAPSHOT2", false, false, "[SLOT@]SNAP, or live: the workspace as it is now (default)"}};

Result<int> diff(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(Readable before, Readable::choose(app, args.positionals[0]));
  std::string second = args.positionals.size() > 1 ? args.positionals[1] : "live";
  const std::size_t at = args.positionals[0].rfind('@');
  if (second.find('@') == std::string::npos && at != std::string::npos) {
    second = args.positionals[0].substr(0, at + 1) + second;  // of the same slot
  }
  ASCOPE_TRY_ASSIGN(Readable after, Readable::choose(app, second));
  std::vector<Json> rows;
  std::vector<std::string> names;
  std::string text;
  for (const SnapshotPart part : kParts) {
    ASCOPE_TRY_ASSIGN(const std::unique_ptr<TreeSource> one, before.open(app, part));
    ASCOPE_TRY_ASSIGN(const std::unique_ptr<TreeSource> two, after.open(app, part));
    ASCOPE_TRY_ASSIGN(const std::vector<TreeChange> changes, compare_trees(app.ctx(), *one, *two));
    for (const auto& [what, path] : changes) {
      const std::string shown = shown_path(part, path);
      rows.push_back(Json{{"change", std::string(1, what)}, {"path", bytes_json(shown)}});
      names.push_back(shown);
      text += fmt::format("{} {}\n", what, printable(shown));
    }
  }
  app.out().list("ascope.snapshot-diff/1", "changes", rows, names, text);
  return rows.empty() ? 0 : kExitDiffers;
}

// ---- export ----

constexpr std::array kExportOptions{
    OptionSpec{"format", '\0', OptionKind::value, "tar|tar.gz|tar.zst",
               "format, where FILE's name does not say it"},
    OptionSpec{"part", '\0', OptionKind::value, "workspace|roots",
               "the workspace root (default), or what else is saved, relative to /"},
    OptionSpec{"force", '\0', OptionKind::flag, {}, "replace FILE if it exists"}};
constexpr std::array kExportArguments{kSnapshotArgument,
                                      PositionalSpec{"FILE", true, false, "file to write; - is stdout"}};

Result<TarCompression> export_format(const Args& args, const std::string& file) {
  const std::string given = args.value("format").value_or("");
  const auto is = [&](std::string_view format, std::string_view shorter) {
    return given.empty() ? file.ends_with("." + std::string(format)) || file.ends_with(shorter)
                         : given == format;
  };
  if (is("tar.gz", ".tgz")) {
    return TarCompression::gzip;
  }
  if (is("tar.zst", ".tzst")) {
    return TarCompression::zstd;
  }
  if (is("tar", ".tar") || file == "-") {
    return TarCompression::none;
  }
  return make_error(ErrorKind::usage, fmt::format("the name '{}' does not say which format is meant", file),
                    "add --format tar, tar.gz or tar.zst");
}

Result<TarStats> export_to_file(TreeSource& source, const std::string& file, TarCompression format,
                                bool force) {
  const std::string temp = file + ".tmp." + random_hex(8);
  ASCOPE_TRY_ASSIGN(UniqueFd fd, open_file(temp, O_WRONLY | O_CREAT | O_EXCL, 0666));
  const auto write = [&]() -> Result<TarStats> {
    FdSink sink(fd.get());
    ASCOPE_TRY_ASSIGN(TarStats stats, write_tar(source, sink, format));
    ASCOPE_TRY(fd.close());
    const int outcome = force ? ::rename(temp.c_str(), file.c_str()) : ::link(temp.c_str(), file.c_str());
    if (outcome != 0) {
      return errno == EEXIST ? make_error(ErrorKind::conflict, fmt::format("'{}' exists already", file),
                                          "--force replaces it")
                             : write_failure(errno_error(fmt::format("naming '{}'", file), errno));
    }
    return stats;
  };
  Result<TarStats> stats = write();
  if (!stats || !force) {
    ::unlink(temp.c_str());
  }
  return stats;
}

Result<int> export_it(App& app, const Args& args) {
  const std::string& file = args.positionals[1];
  ASCOPE_TRY_ASSIGN(const TarCompression format, export_format(args, file));
  ASCOPE_TRY_ASSIGN(const ChosenSnapshot chosen, choose_snapshot(app, args.positionals[0]));
  const bool roots = args.value("part").value_or("workspace") == "roots";
  if (roots && chosen.item.roots_object.empty()) {
    return make_error(ErrorKind::not_found,
                      fmt::format("snapshot '{}' holds the workspace root alone", chosen.item.snapshot));
  }
  if (file != "-" && !args.flag("force")) {
    ASCOPE_TRY_ASSIGN(const bool exists, path_exists(file));
    if (exists) {
      return make_error(ErrorKind::conflict, fmt::format("'{}' exists already", file), "--force replaces it");
    }
  }
  if (file == "-" && ::isatty(STDOUT_FILENO) == 1) {
    return make_error(ErrorKind::usage, "an archive is not for a terminal",
                      "redirect stdout, or name a file");
  }
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<TreeSource> source,
                    open_part(app, chosen.item, roots ? SnapshotPart::roots : SnapshotPart::workspace));
  if (file == "-") {
    ASCOPE_TRY(verify_snapshot(app, chosen.item));  // stdout takes nothing back
  }
  FdSink standard_output(STDOUT_FILENO);
  Result<TarStats> stats = file == "-" ? write_tar(*source, standard_output, format)
                                       : export_to_file(*source, file, format, args.flag("force"));
  if (!stats) {
    return std::move(stats).error().within(fmt::format("exporting '{}'", chosen.item.snapshot));
  }
  if (!roots && !chosen.item.roots_object.empty()) {
    app.out().status("The snapshot also holds files outside the workspace root; --part roots exports them.");
  }
  if (file != "-") {
    const Json out{{"schema", "ascope.snapshot-export/1"},
                   {"slot", chosen.slot.written()},
                   {"snapshot", chosen.item.snapshot},
                   {"file", bytes_json(file)},
                   {"files", stats->files},
                   {"content_bytes", stats->content_bytes}};
    app.out().result(out, fmt::format("Exported {} ({} in {} files) to {}\n", chosen.item.snapshot,
                                      format_size(stats->content_bytes), stats->files, printable(file)));
  }
  return 0;
}

}  // namespace

extern const Command kSnapshotCatCommand;
const Command kSnapshotCatCommand{
    "snapshot cat",
    "Snapshots",
    "write a file of a snapshot to stdout",
    "Writes the file's bytes and nothing else, whatever -o says. A snapshot of format tar is checked whole "
    "before: a damaged one is 8, and nothing of it is written. Of chunks each is checked before it is "
    "written: "
    "what comes is right, and the code is 8 where it ends early.",
    {},
    kCatArguments,
    false,
    "ascope-sandbox snapshot cat latest~1 src/main.c",
    "4 8 9 10 11 13 14 15",
    cat};

extern const Command kSnapshotFindCommand;
const Command kSnapshotFindCommand{"snapshot find",
                                   "Snapshots",
                                   "find paths in a snapshot",
                                   "Lists the paths that a pattern matches: '*.py' any such name, 'src/*.py' "
                                   "only in src, 'src/**' all below it. Paths "
                                   "outside the workspace root are shown, and matched, as they are inside "
                                   "the sandbox. Code 1 if there is none.",
                                   {},
                                   kFindArguments,
                                   false,
                                   "ascope-sandbox snapshot find latest '*.py'",
                                   "1 4 8 9 10 11 13 14 15",
                                   find};

extern const Command kSnapshotDiffCommand;
const Command kSnapshotDiffCommand{"snapshot diff",
                                   "Snapshots",
                                   "compare two snapshots, or one with the workspace",
                                   "One line a path: A added, D deleted, M content changed, T other type, P "
                                   "only mode, owner, attributes or (of files) "
                                   "time. Content is compared, not times. Code 1 if they differ.",
                                   {},
                                   kDiffArguments,
                                   false,
                                   "ascope-sandbox snapshot diff latest~1 latest",
                                   "1 4 8 9 10 11 13 14 15",
                                   diff};

extern const Command kSnapshotExportCommand;
const Command kSnapshotExportCommand{
    "snapshot export",
    "Snapshots",
    "write a snapshot to a tar file",
    "Writes the workspace root as a plain tar that any tar program reads, or compressed by the name of FILE. "
    "A file that "
    "exists is not replaced without --force; one that could not be finished is not left.",
    kExportOptions,
    kExportArguments,
    false,
    "ascope-sandbox snapshot export latest work.tar.zst",
    "4 6 8 10 11 13 14 15",
    export_it};

}  // namespace ascope
