// SPDX-License-Identifier: Apache-2.0
#include "core/tree/beneath.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <linux/openat2.h>
#include <memory>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ascope {

namespace {

constexpr std::size_t kMaxOnePath = 4000;  // PATH_MAX is 4096 with the NUL
constexpr std::size_t kOpenLevels = 64;    // descriptors that one descent holds
constexpr std::uint64_t kResolve =
    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;

std::atomic<bool> openat2_works{true};

Opened result_of(long fd) {
  return fd >= 0 ? Opened{UniqueFd(static_cast<int>(fd)), 0} : Opened{UniqueFd(), errno};
}

std::uint64_t mount_id(int fd) {
  struct statx info{};
  return ::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &info) == 0 ? info.stx_mnt_id : 0;
}

Opened open_part_by_part(int dir, std::string_view path, int flags) {
  const std::uint64_t mount = mount_id(dir);
  UniqueFd held;
  int at = dir;
  while (true) {
    const std::size_t slash = path.find('/');
    const bool last = slash == std::string_view::npos;
    const std::string part(path.substr(0, slash));
    Opened next =
        result_of(::openat(at, part.c_str(), (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC));
    if (next.error == ENOTDIR && !last) {
      struct stat info{};
      const bool is_link =
          ::fstatat(at, part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
      next.error = is_link ? ELOOP : ENOTDIR;
    }
    if (next.error == 0 && mount_id(next.fd.get()) != mount) {
      return {UniqueFd(), EXDEV};
    }
    if (next.error != 0 || last) {
      return next;
    }
    held = std::move(next.fd);
    at = held.get();
    path.remove_prefix(slash + 1);
  }
}

Opened open_once(int dir, std::string_view path, int flags) {
  if (openat2_works.load(std::memory_order_relaxed)) {
    const std::string name(path);
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_NOFOLLOW | O_CLOEXEC);
    how.resolve = kResolve;
    while (true) {
      Opened opened = result_of(::syscall(SYS_openat2, dir, name.c_str(), &how, sizeof how));
      if (opened.error == EAGAIN || opened.error == EINTR) {
        continue;  // a rename elsewhere raced with the look-up
      }
      if (opened.error != ENOSYS) {
        return opened;
      }
      openat2_works = false;
      break;
    }
  }
  return open_part_by_part(dir, path, flags);
}

struct KernelEntry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];
};

}  // namespace

Opened open_beneath(int dir, std::string_view path, int flags) {
  if (path.empty()) {
    return open_once(dir, ".", flags);
  }
  UniqueFd held;
  int at = dir;
  while (path.size() > kMaxOnePath) {
    const std::size_t slash = path.rfind('/', kMaxOnePath);
    if (slash == std::string_view::npos) {
      return {UniqueFd(), ENAMETOOLONG};
    }
    Opened next = open_once(at, path.substr(0, slash), O_PATH | O_DIRECTORY);
    if (next.error != 0) {
      return next;
    }
    held = std::move(next.fd);
    at = held.get();
    path.remove_prefix(slash + 1);
  }
  return open_once(at, path, flags);
}

std::string proc_path(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

Result<void> NameList::add(std::string_view name) {
  if (bytes_.size() + name.size() >= std::numeric_limits<std::uint32_t>::max()) {
    return make_error(ErrorKind::io, "a folder holds more than 4 GiB of names");
  }
  starts_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  bytes_.append(name);
  bytes_.push_back('\0');
  return ok();
}

void NameList::assign(const std::vector<std::string>& names) {
  bytes_.clear();
  starts_.clear();
  for (const std::string& name : names) {
    static_cast<void>(add(name));
  }
}

Result<void> NameList::read(int dir) {
  bytes_.clear();
  starts_.clear();
  if (::lseek(dir, 0, SEEK_SET) < 0) {
    return errno_error("reading a folder", errno);
  }
  constexpr std::size_t kBuffer = 64U << 10U;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBuffer);
  while (true) {
    const long count = ::syscall(SYS_getdents64, dir, buffer.get(), kBuffer);
    if (count < 0) {
      return errno_error("reading a folder", errno);
    }
    if (count == 0) {
      break;
    }
    for (long at = 0; at < count;) {
      std::uint16_t length = 0;
      std::memcpy(&length, buffer.get() + at + offsetof(KernelEntry, length), sizeof length);
      const std::string_view name(buffer.get() + at + offsetof(KernelEntry, name));
      if (name != "." && name != "..") {
        ASCOPE_TRY(add(name));
      }
      at += length;
    }
  }
  std::sort(starts_.begin(), starts_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return std::strcmp(bytes_.c_str() + a, bytes_.c_str() + b) < 0;  // compares as unsigned char
  });
  return ok();
}

Descent::~Descent() {
  while (!levels_.empty()) {
    leave();
  }
}

Result<void> Descent::enter(UniqueFd fd, NameList names) {
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return errno_error("looking at a folder", errno);
  }
  Level next;
  next.fd = std::move(fd);
  next.names = std::move(names);
  next.path_bytes = path_.size();
  next.device = info.st_dev;
  next.inode = info.st_ino;
  levels_.push_back(std::move(next));
  if (levels_.size() > kOpenLevels) {
    levels_[levels_.size() - 1 - kOpenLevels].fd.reset();
  }
  return ok();
}

void Descent::child(const char* name) {
  path_.resize(levels_.back().path_bytes);
  if (!path_.empty()) {
    path_.push_back('/');
  }
  path_ += name;
}

bool Descent::leave() {
  Level left = std::move(levels_.back());
  levels_.pop_back();
  path_.resize(left.path_bytes);
  bool found = true;
  if (!levels_.empty() && !levels_.back().fd.is_open()) {
    found = reopen(left.fd.get());
  }
  if (left.restore_mode >= 0) {
    // The mode goes back only now: the way up through ".." needs the folder's search permission.
    ::chmod(proc_path(left.fd.get()).c_str(), static_cast<mode_t>(left.restore_mode));
  }
  return found;
}

bool Descent::reopen(int child) {
  bool found = true;
  while (!levels_.empty()) {
    Level& up = levels_.back();
    const auto is_same = [&up](const UniqueFd& fd) {
      struct stat info{};
      return fd.is_open() && ::fstat(fd.get(), &info) == 0 && info.st_dev == up.device &&
             info.st_ino == up.inode;
    };
    UniqueFd parent(found ? ::openat(child, "..", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1);
    if (!is_same(parent)) {
      parent = open_beneath(top_, std::string_view(path_).substr(0, up.path_bytes), O_PATH | O_DIRECTORY).fd;
    }
    if (is_same(parent)) {
      up.fd = std::move(parent);
      return found;
    }
    levels_.pop_back();
    found = false;
  }
  return found;
}

}  // namespace ascope
