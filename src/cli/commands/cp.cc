// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/start_args.h"
#include "core/base/file.h"
#include "core/engine/copy.h"

namespace ascope {

namespace {

constexpr std::array kPositionals{
    PositionalSpec{"SOURCE", true, true,
                   "what to copy: [SLOT]:PATH, /HOST/PATH, ./HOST/PATH, or - (a tar on stdin)"},
    PositionalSpec{"TARGET", true, false, "where to: the other side, or - (a tar on stdout)"}};

enum class Side { host, sandbox, tar };

struct Place {
  Side side = Side::host;
  std::string slot;  // "" = this command's
  std::string path;
};

Result<Place> parse_place(App& app, const std::string& word) {
  if (word == "-") {
    return Place{Side::tar, "", ""};
  }
  const bool is_host = word == "." || word == ".." || word.starts_with("/") || word.starts_with("./") ||
                       word.starts_with("../");
  if (is_host) {
    std::string path = absolute_path(word, app.cwd());
    if (word.ends_with('/') && path != "/") {
      path += '/';
    }
    return Place{Side::host, "", std::move(path)};
  }
  const auto colon = word.find(':');
  if (colon == std::string::npos) {
    return make_error(ErrorKind::usage,
                      fmt::format("'{}' is neither a place in a sandbox nor a host path", word),
                      fmt::format("write :{} for the sandbox, ./{} for the host", word, word));
  }
  if (colon + 1 == word.size()) {
    return make_error(ErrorKind::usage, fmt::format("'{}' names no path", word),
                      fmt::format("{}. is the workspace root", word));
  }
  return Place{Side::sandbox, word.substr(0, colon), word.substr(colon + 1)};
}

// The slot that every place of a side names, each in its written form or not at all.
Result<SlotKey> slot_of(App& app, const Args& args, const std::vector<Place>& places) {
  for (const auto& place : places) {
    if (place.slot != places.front().slot) {
      return make_error(ErrorKind::usage, "all sources must be of one slot", "copy them one slot at a time");
    }
  }
  Args own = args;
  own.positionals.clear();
  if (!places.front().slot.empty()) {
    own.positionals.push_back(places.front().slot);
  }
  return app.slot(own);
}

Result<int> report_copy(App& app, const SlotKey& slot, const CopyReport& report, bool quiet_stdout) {
  Json notes = Json::array();
  for (const auto& note : report.notes) {
    app.out().warn(fmt::format("{}: {}", printable(note.path), note.what));
    notes.push_back(Json{{"path", bytes_json(note.path)}, {"what", note.what}});
  }
  if (!quiet_stdout) {
    app.out().result(Json{{"schema", "ascope.cp/1"},
                          {"slot", slot.written()},
                          {"files", report.files},
                          {"bytes", report.content_bytes},
                          {"notes", std::move(notes)}},
                     "");
  }
  app.out().status(fmt::format("Copied {} files, {}.", report.files, format_size(report.content_bytes)));
  return report.notes.empty() ? 0 : 3;
}

Result<int> run(App& app, const Args& args) {
  std::vector<Place> sources;
  for (std::size_t i = 0; i + 1 < args.positionals.size(); ++i) {
    ASCOPE_TRY_ASSIGN(Place place, parse_place(app, args.positionals[i]));
    if (!sources.empty() && (place.side != sources.front().side || place.side == Side::tar)) {
      return make_error(ErrorKind::usage, "sources must all be of one side",
                        "copy from the host and from the sandbox in two commands");
    }
    sources.push_back(std::move(place));
  }
  if (sources.empty()) {
    return make_error(ErrorKind::usage, "TARGET is missing", "ascope-sandbox cp SOURCE… TARGET");
  }
  ASCOPE_TRY_ASSIGN(const Place target, parse_place(app, args.positionals.back()));
  const bool outward = sources.front().side == Side::sandbox;
  if (outward == (target.side == Side::sandbox)) {
    return make_error(ErrorKind::usage, "exactly one side must be in a sandbox",
                      "write [SLOT]:PATH for a place in a sandbox");
  }
  ASCOPE_TRY_ASSIGN(const SlotKey slot, slot_of(app, args, outward ? sources : std::vector<Place>{target}));
  ASCOPE_TRY_ASSIGN(const LockOptions lock, app.lock_options(args));
  std::vector<std::string> paths;
  paths.reserve(sources.size());
  for (const auto& source : sources) {
    paths.push_back(source.path);
  }
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  const OpContext& ctx = app.ctx();
  if (outward && target.side == Side::tar) {
    if (::isatty(STDOUT_FILENO) != 0) {
      return make_error(ErrorKind::usage, "a tar is not for a terminal", "redirect stdout, or name a folder");
    }
    FdSink sink(STDOUT_FILENO);
    ASCOPE_TRY_ASSIGN(const CopyReport report, copy_out_tar(*services, ctx, slot, lock, paths, sink));
    return report_copy(app, slot, report, true);
  }
  if (outward) {
    ASCOPE_TRY_ASSIGN(const CopyReport report, copy_out(*services, ctx, slot, lock, paths, target.path));
    return report_copy(app, slot, report, false);
  }
  if (sources.front().side == Side::tar) {
    UniqueFd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!in.is_open()) {
      return errno_error("reading stdin", errno);
    }
    FdSource source(std::move(in));
    ASCOPE_TRY_ASSIGN(const CopyReport report, copy_in_tar(*services, ctx, slot, lock, source, target.path));
    return report_copy(app, slot, report, false);
  }
  ASCOPE_TRY_ASSIGN(const CopyReport report, copy_in(*services, ctx, slot, lock, paths, target.path));
  return report_copy(app, slot, report, false);
}

}  // namespace

extern const Command kCpCommand;
const Command kCpCommand{
    "cp",
    "Core",
    "copy files and folders between the host and a sandbox",
    "One side is in a sandbox, written [SLOT]:PATH (PATH absolute or relative to the workspace root; a ':' "
    "in a slot is "
    "written %3A); the other is a host path that begins with / or ./, or -: a tar on stdin or stdout. "
    "Folders are "
    "copied whole, links as links. Takes no lease.\n\n"
    "Copying into a sandbox needs it running; copying out works on a stopped one too, where its disk can be "
    "read.",
    {},
    kPositionals,
    false,
    "ascope-sandbox cp :out/report.csv .\nascope-sandbox cp ./data user/default/alice:/workspace\n"
    "ascope-sandbox cp :src - | tar -t",
    "3 4 6 8 9 10 11 14 15",
    run};

}  // namespace ascope
