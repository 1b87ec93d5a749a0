// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/fd.h"
#include "core/tree/stream.h"
#include "core/tree/walker.h"
#include "guest/applets.h"
#include "guest/users.h"

namespace ascope::guest {

namespace {

constexpr std::size_t kMaxRequestBytes = 512U << 20U;
constexpr std::size_t kMaxMountsBytes = 16U << 20U;

// Opens a folder by its absolute path without following any link; mounts are entered.
UniqueFd open_folder(const std::string& path) {
  UniqueFd at(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::string_view rest = path;
  while (at.is_open()) {
    while (!rest.empty() && rest.front() == '/') {
      rest.remove_prefix(1);
    }
    if (rest.empty()) {
      break;
    }
    const std::string part(rest.substr(0, rest.find('/')));
    rest.remove_prefix(part.size());
    at = UniqueFd(::openat(at.get(), part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }
  if (!at.is_open()) {
    return at;
  }
  return UniqueFd(::openat(at.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool is_absent(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

// "\\040" and the like, as /proc writes bytes of a path that would end it.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

PlaceReply settle(const std::string& root, const std::string& wanted) {
  PlaceReply reply;
  const GuestConfig as_root{.uid = 0, .gid = 0, .one_user = false, .user = "root", .home = "/root"};
  User user;
  if (!find_user(as_root, wanted, user)) {
    reply.problem = "no such user";
    return reply;
  }
  reply.uid = user.uid;
  reply.gid = user.gid;
  reply.user = user.name;
  reply.home = user.home.empty() ? "/" : user.home;
  for (std::size_t at = root.find('/', 1); root.size() > 1; at = root.find('/', at + 1)) {
    ::mkdir(root.substr(0, at).c_str(), 0755);
    if (at == std::string::npos) {
      break;
    }
  }
  const UniqueFd fd = open_folder(root);
  struct stat info{};
  if (!fd.is_open() || ::fstat(fd.get(), &info) != 0 ||
      ((info.st_uid != user.uid || info.st_gid != user.gid) && ::fchown(fd.get(), user.uid, user.gid) != 0)) {
    reply.problem = errno_error("making the folder", errno).message;
    return reply;
  }
  reply.exists = true;
  return reply;
}

PlaceReply probe(const std::string& root) {
  PlaceReply reply;
  const UniqueFd fd = open_folder(root);
  if (!fd.is_open()) {
    reply.problem = is_absent(errno) ? std::string() : errno_error("opening the folder", errno).message;
    return reply;
  }
  WalkOptions options;
  options.include_root = false;
  auto walker = walk_tree(UniqueFd(::dup(fd.get())), std::move(options));
  TreeEntry entry;
  auto more = walker ? (*walker)->next(entry) : Result<bool>(std::move(walker).error());
  reply.problem = more ? std::string() : more.error().message;
  reply.exists = true;
  reply.empty = more && !*more;
  return reply;
}

}  // namespace

Result<std::vector<std::string>> mounts_below(const std::string& folder) {
  std::vector<std::string> out;
  FdSource source(UniqueFd(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)));
  ASCOPE_TRY_ASSIGN(const std::string text, read_all(source, kMaxMountsBytes));
  const std::string prefix = folder == "/" ? "/" : folder + "/";
  std::string_view rest = text;
  while (!rest.empty()) {
    // 36 35 98:0 /root /place …
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    for (int field = 0; field < 4; ++field) {
      line.remove_prefix(std::min(line.find(' ') + 1, line.size()));
    }
    const std::string place = unescaped(line.substr(0, line.find(' ')));
    if (place.size() > prefix.size() && place.starts_with(prefix)) {
      out.push_back(place.substr(prefix.size()));
    }
  }
  return out;
}

Result<void> run_pack(int in, int out) {
  FdSource source{UniqueFd(in)};
  ASCOPE_TRY_ASSIGN(const std::string bytes, read_all(source, kMaxRequestBytes));
  PackRequest request;
  if (!decode_pack(bytes, request)) {
    return make_error(ErrorKind::internal, "the guest was given an unreadable request");
  }
  FdSink sink(out);
  UniqueFd base = open_folder(request.base);
  if (!base.is_open()) {
    if (!is_absent(errno)) {
      return errno_error("opening '" + request.base + "'", errno);
    }
    EmptyTree none;
    return write_tree_stream(none, sink);
  }
  WalkOptions options;
  options.start = std::move(request.roots);
  options.start_may_vanish = true;
  options.exclude = std::move(request.exclude);
  options.metadata_only = request.metadata_only;
  options.file_xattrs = request.file_xattrs;
  ASCOPE_TRY_ASSIGN(options.skip_paths, mounts_below(request.base));
  options.skip_paths.insert(options.skip_paths.end(), request.skip.begin(), request.skip.end());
  ASCOPE_TRY_ASSIGN(const auto walker, walk_tree(std::move(base), std::move(options)));
  return write_tree_stream(*walker, sink, &walker->notes());
}

PlaceReply run_place(const std::vector<std::string>& argv) {
  PlaceReply reply;
  if (argv.front() == "settle" && argv.size() == 3) {
    return settle(argv[1], argv[2]);
  }
  if (argv.front() == "probe" && argv.size() == 2) {
    return probe(argv[1]);
  }
  if (argv.front() == "flush" && argv.size() == 2) {
    const UniqueFd fd = open_folder(argv[1]);
    if (!fd.is_open() || ::syncfs(fd.get()) != 0) {
      reply.problem = errno_error("writing the folder to the disk", errno).message;
    }
    reply.exists = fd.is_open();
    return reply;
  }
  reply.problem = "no such part of the guest";
  return reply;
}

}  // namespace ascope::guest
