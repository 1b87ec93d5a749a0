// SPDX-License-Identifier: Apache-2.0
#include "core/tree/nodes.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <memory>
#include <unistd.h>

#include "core/tree/beneath.h"

namespace ascope {

namespace {

constexpr std::uint32_t kUnset = std::numeric_limits<std::uint32_t>::max();

Error failed(std::string_view what, const std::string& path, int error) {
  return errno_error(std::string(what) + " '" + path + "'", error);
}

void mtime_only(std::int64_t mtime_ns, timespec (&times)[2]) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::int64_t seconds = mtime_ns / kSecond;
  std::int64_t rest = mtime_ns % kSecond;
  if (rest < 0) {
    --seconds;
    rest += kSecond;
  }
  times[0] = {0, UTIME_OMIT};
  times[1] = {static_cast<time_t>(seconds), static_cast<long>(rest)};
}

// The outcome of a chown: want of rights is counted, anything else is an error.
Result<void> owner_outcome(int outcome, const TreeEntry& entry, MetadataFailures& failures) {
  if (outcome == 0) {
    return ok();
  }
  if (errno == EPERM || errno == EINVAL) {  // EINVAL: an id that the user namespace does not map
    ++failures.owners;
    return ok();
  }
  return failed("setting the owner of", entry.path, errno);
}

void put_xattrs(const std::string& place, const XattrList& present, const TreeEntry& entry,
                MetadataFailures& failures) {
  failures.xattrs.clear();
  if (Result<void> done = write_xattrs(place, present, entry.xattrs); !done) {
    failures.xattrs = done.error().message;
  }
}

bool owner_differs(const struct stat& present, const TreeEntry& entry) {
  return (entry.uid != kUnset && present.st_uid != entry.uid) ||
         (entry.gid != kUnset && present.st_gid != entry.gid);
}

bool has_mode(const TreeEntry& entry) {
  return entry.type != EntryType::symlink;
}

}  // namespace

std::int64_t mtime_of(const struct stat& info) {
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

Result<void> NewFile::create(int dir, const std::string& name, const TreeEntry& entry) {
  fd_ = UniqueFd(::openat(dir, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd_.is_open()) {
    return failed("making", entry.path, errno);
  }
  end_ = 0;
  size_ = entry.size_bytes;
  path_ = entry.path;
  return ok();
}

Result<void> NewFile::write(const DataBlock& block) {
  if (block.offset < end_ || block.offset > size_ || block.bytes.size() > size_ - block.offset) {
    return make_error(ErrorKind::corrupt, "data of '" + path_ + "' lies outside of its size");
  }
  ByteView rest = block.bytes;
  std::uint64_t at = block.offset;
  while (!rest.empty()) {
    const ssize_t count = ::pwrite(fd_.get(), rest.data(), rest.size(), static_cast<off_t>(at));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return failed("writing", path_, errno);
    }
    rest.remove_prefix(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
  end_ = at;
  return ok();
}

Result<void> NewFile::copy_from(int from, std::uint64_t end) {
  constexpr std::size_t kBuffer = 256U << 10U;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBuffer);
  std::uint64_t at = 0;
  while (at < end) {
    const off_t data = ::lseek(from, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
      break;
    }
    at = data < 0 ? at : static_cast<std::uint64_t>(data);
    if (at >= end) {
      break;
    }
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(end - at, kBuffer));
    const ssize_t count = ::pread(from, buffer.get(), want, static_cast<off_t>(at));
    if (count <= 0) {
      return failed("reading", path_, count == 0 ? EIO : errno);
    }
    ASCOPE_TRY(write({at, {buffer.get(), static_cast<std::size_t>(count)}}));
    at = end_;
  }
  return ok();
}

Result<void> NewFile::finish(const TreeEntry& entry, MetadataFailures& failures) {
  if (end_ != size_ && ::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) {
    return failed("setting the size of", path_, errno);
  }
  if (entry.uid != kUnset || entry.gid != kUnset) {
    ASCOPE_TRY(owner_outcome(::fchown(fd_.get(), entry.uid, entry.gid), entry, failures));
  }
  put_xattrs(entry.xattrs.empty() ? std::string() : proc_path(fd_.get()), {}, entry, failures);
  if (::fchmod(fd_.get(), entry.mode) != 0) {
    return failed("setting the mode of", path_, errno);
  }
  timespec times[2];
  mtime_only(entry.mtime_ns, times);
  if (::futimens(fd_.get(), times) != 0) {
    return failed("setting the time of", path_, errno);
  }
  return fd_.close();
}

Result<bool> make_special(int dir, const std::string& name, const TreeEntry& entry,
                          MetadataFailures& failures) {
  int outcome = 0;
  if (entry.type == EntryType::symlink) {
    outcome = ::symlinkat(entry.link_target.c_str(), dir, name.c_str());
  } else {
    const mode_t kind = entry.type == EntryType::fifo          ? S_IFIFO
                        : entry.type == EntryType::char_device ? S_IFCHR
                                                               : S_IFBLK;
    outcome = ::mknodat(dir, name.c_str(), kind | 0600U, static_cast<dev_t>(entry.device));
  }
  if (outcome != 0) {
    if (errno == EPERM && (entry.type == EntryType::char_device || entry.type == EntryType::block_device)) {
      return false;
    }
    return failed("making", entry.path, errno);
  }
  ASCOPE_TRY(set_special_metadata(dir, name, entry, failures));
  return true;
}

bool metadata_differs(const struct stat& present, const XattrList& xattrs, const TreeEntry& entry) {
  return owner_differs(present, entry) || (has_mode(entry) && (present.st_mode & 07777U) != entry.mode) ||
         mtime_of(present) != entry.mtime_ns || (has_mode(entry) && xattrs != entry.xattrs);
}

Result<void> set_metadata(int fd, const TreeEntry& entry, MetadataFailures& failures) {
  const std::string place = proc_path(fd);
  struct stat present{};
  if (::fstat(fd, &present) != 0) {
    return failed("looking at", entry.path, errno);
  }
  mode_t mode = present.st_mode & 07777U;
  if (owner_differs(present, entry)) {
    ASCOPE_TRY(owner_outcome(::fchownat(fd, "", entry.uid, entry.gid, AT_EMPTY_PATH), entry, failures));
    mode = 010000;  // perhaps changed by the chown
  }
  ASCOPE_TRY_ASSIGN(const XattrList xattrs, read_xattrs(place, nullptr));
  if (xattrs != entry.xattrs) {
    if ((present.st_mode & 0200U) == 0 && ::chmod(place.c_str(), (present.st_mode & 07777U) | 0200U) == 0) {
      mode = 010000;
    }
    put_xattrs(place, xattrs, entry, failures);
  }
  if (mode != entry.mode && ::chmod(place.c_str(), entry.mode) != 0) {
    return failed("setting the mode of", entry.path, errno);
  }
  timespec times[2];
  mtime_only(entry.mtime_ns, times);
  if (mtime_of(present) != entry.mtime_ns && ::utimensat(AT_FDCWD, place.c_str(), times, 0) != 0) {
    return failed("setting the time of", entry.path, errno);
  }
  return ok();
}

Result<void> set_special_metadata(int dir, const std::string& name, const TreeEntry& entry,
                                  MetadataFailures& failures) {
  if (entry.uid != kUnset || entry.gid != kUnset) {
    const int outcome = ::fchownat(dir, name.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW);
    ASCOPE_TRY(owner_outcome(outcome, entry, failures));
  }
  if (has_mode(entry)) {
    Opened opened = open_beneath(dir, name, O_PATH);
    if (opened.error != 0 || ::chmod(proc_path(opened.fd.get()).c_str(), entry.mode) != 0) {
      return failed("setting the mode of", entry.path, opened.error != 0 ? opened.error : errno);
    }
  }
  timespec times[2];
  mtime_only(entry.mtime_ns, times);
  if (::utimensat(dir, name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    return failed("setting the time of", entry.path, errno);
  }
  return ok();
}

}  // namespace ascope
