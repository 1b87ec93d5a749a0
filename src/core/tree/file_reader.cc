// SPDX-License-Identifier: Apache-2.0
#include "core/tree/file_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "core/tree/beneath.h"

namespace ascope {

namespace {

constexpr std::size_t kBufferBytes = 256U << 10U;

// `info` is brought up to date where opening itself changes the inode's ctime.
int open_content(int fd, struct stat& info) {
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const std::string place = proc_path(fd);
  int opened = ::open(place.c_str(), kFlags | O_NOATIME);
  if (opened < 0 && errno == EPERM) {
    opened = ::open(place.c_str(), kFlags);
  }
  // Its owner may lack the right to read it; then the mode is lifted for the moment of opening.
  if (opened < 0 && errno == EACCES && info.st_uid == ::geteuid() &&
      ::chmod(place.c_str(), (info.st_mode & 07777U) | 0400U) == 0) {
    opened = ::open(place.c_str(), kFlags);
    const int error = errno;
    ::chmod(place.c_str(), info.st_mode & 07777U);
    struct stat now{};
    if (opened >= 0 && ::fstat(opened, &now) == 0) {
      info.st_ctim = now.st_ctim;
    }
    errno = error;
  }
  return opened;
}

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

Result<void> find_extents(int fd, TreeEntry& entry) {
  const auto size = static_cast<off_t>(entry.size_bytes);
  off_t at = 0;
  std::vector<Extent> extents;
  while (at < size) {
    const off_t data = ::lseek(fd, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
      break;  // a hole up to the end
    }
    const off_t hole = data < 0 ? -1 : ::lseek(fd, data, SEEK_HOLE);
    if (data < 0 || hole < 0) {
      return ok();  // this file system knows no holes
    }
    if (data >= size) {
      break;
    }
    if (extents.size() == kMaxExtents) {
      return make_error(ErrorKind::io,
                        "more than " + std::to_string(kMaxExtents) + " pieces of data between holes");
    }
    const off_t end = std::min(hole, size);
    extents.push_back({static_cast<std::uint64_t>(data), static_cast<std::uint64_t>(end - data)});
    at = end;
  }
  entry.sparse = extents.size() != 1 || extents[0].offset != 0 || extents[0].length != entry.size_bytes;
  if (entry.sparse) {
    entry.extents = std::move(extents);
  }
  return ok();
}

Result<void> FileReader::open(int fd, const struct stat& info, TreeEntry& entry) {
  before_ = info;
  fd_ = UniqueFd(open_content(fd, before_));
  if (!fd_.is_open()) {
    return errno_error("content cannot be read", errno);
  }
  // What lies on fewer blocks than its size needs may have holes.
  if (static_cast<std::uint64_t>(info.st_blocks) * 512 < entry.size_bytes) {
    if (Result<void> found = find_extents(fd_.get(), entry); !found) {
      fd_.reset();
      return found;
    }
  }
  extents_ = entry.sparse ? entry.extents : std::vector<Extent>{{0, entry.size_bytes}};
  extent_ = 0;
  offset_ = 0;
  short_ = false;
  return ok();
}

Result<std::optional<DataBlock>> FileReader::read() {
  if (!fd_.is_open()) {
    return std::optional<DataBlock>();
  }
  if (!buffer_) {
    buffer_ = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  }
  while (extent_ < extents_.size()) {
    const Extent& extent = extents_[extent_];
    offset_ = std::max(offset_, extent.offset);
    const std::uint64_t left = extent.offset + extent.length - offset_;
    if (left == 0) {
      ++extent_;
      continue;
    }
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left, kBufferBytes));
    const ssize_t count = ::pread(fd_.get(), buffer_.get(), want, static_cast<off_t>(offset_));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno_error("reading a file", errno);
    }
    if (count == 0) {  // it shrank: the rest reads as zeros
      short_ = true;
      break;
    }
    const DataBlock block{offset_, {buffer_.get(), static_cast<std::size_t>(count)}};
    offset_ += static_cast<std::uint64_t>(count);
    return std::optional<DataBlock>(block);
  }
  return std::optional<DataBlock>();
}

bool FileReader::close() {
  if (!fd_.is_open()) {
    return false;
  }
  struct stat now{};
  const bool same = ::fstat(fd_.get(), &now) == 0 && now.st_size == before_.st_size &&
                    same_time(now.st_mtim, before_.st_mtim) &&
                    (same_time(now.st_ctim, before_.st_ctim) || now.st_nlink != before_.st_nlink);
  fd_.reset();
  return short_ || !same;
}

}  // namespace ascope
