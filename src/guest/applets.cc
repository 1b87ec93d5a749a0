// SPDX-License-Identifier: Apache-2.0
#include "guest/applets.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/fd.h"
#include "core/tree/stream.h"

namespace ascope::guest {

namespace {

// Opens `path`, making missing folders, which `made` names; symbolic links on the way are the sandbox's own
// business here.
Result<UniqueFd> open_root(const std::string& path, std::vector<std::string>& made) {
  for (std::size_t at = path.find('/', 1); path.size() > 1; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0755) == 0) {
      made.push_back(part);
    } else if (errno != EEXIST && errno != EROFS && errno != EACCES) {
      return errno_error("making folder '" + part + "'", errno);
    }
    if (at == std::string::npos) {
      break;
    }
  }
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) {
    return errno_error("opening folder '" + path + "'", errno);
  }
  return fd;
}

Result<ApplyReport> unpack(const std::vector<std::string>& argv) {
  std::string root;
  ApplyOptions options;
  bool asks = false;
  if (!decode_unpack(argv, root, options, asks)) {
    return make_error(ErrorKind::internal, "the guest was given unreadable options");
  }
  std::vector<std::string> made;
  ASCOPE_TRY_ASSIGN(UniqueFd fd, open_root(root, made));
  FdSource input{UniqueFd(0)};
  if (options.mode == ApplyMode::exact) {
    // What is mounted there is no part of the tree, and cannot be removed.
    ASCOPE_TRY_ASSIGN(const std::vector<std::string> mounts, mounts_below(root));
    options.skip_paths.insert(options.skip_paths.end(), mounts.begin(), mounts.end());
  }
  if (asks) {
    options.before_change = [&input]() -> Result<void> {
      ASCOPE_TRY(write_all(1, std::string_view(&kStaged, 1)));
      char answer = 0;
      ASCOPE_TRY_ASSIGN(const std::size_t count, input.read({&answer, 1}));
      return count == 1 && answer == kGoOn
                 ? ok()
                 : Result<void>(make_error(ErrorKind::cancelled, "the change was called off"));
    };
  }
  std::vector<TreeNote> notes;
  PieceSource pieces(input);
  const auto source = read_tree_stream(asks ? static_cast<ByteSource&>(pieces) : input, &notes);
  auto report = apply_tree(OpContext{}, std::move(fd), *source, options);
  if (!report) {
    for (auto folder = made.rbegin(); folder != made.rend() && ::rmdir(folder->c_str()) == 0; ++folder) {
    }
    return report;
  }
  report->notes.insert(report->notes.end(), notes.begin(), notes.end());
  return report;
}

}  // namespace

int run_applet(const std::vector<std::string>& argv) {
  if (argv.empty()) {
    return 2;
  }
  if (argv.front() == "unpack") {
    return write_all(1, encode_reply(unpack(argv))) ? 0 : 1;
  }
  if (argv.front() == "pack") {
    return run_pack(0, 1) ? 0 : 1;
  }
  return write_all(1, encode_place(run_place(argv))) ? 0 : 1;
}

}  // namespace ascope::guest
