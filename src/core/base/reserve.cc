// SPDX-License-Identifier: Apache-2.0
#include "core/base/reserve.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/fd.h"
#include "core/base/log.h"

namespace ascope {

namespace {

constexpr const char* kName = "/reserve";
constexpr std::uint64_t kPlentyBytes = 8 * kRoomToFree;

// Bytes that this user may still write there; none if nobody can tell.
std::uint64_t room_left(const std::string& folder) {
  struct statvfs info{};
  return ::statvfs(folder.c_str(), &info) == 0 ? std::uint64_t{info.f_bavail} * info.f_frsize : 0;
}

}  // namespace

void keep_reserve(const std::string& folder) {
  const std::string path = folder + kName;
  struct stat info{};
  const bool there = ::stat(path.c_str(), &info) == 0;
  if ((there && static_cast<std::uint64_t>(info.st_size) >= kRoomToFree) ||
      room_left(folder) < kPlentyBytes) {
    return;
  }
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open() || ::fallocate(fd.get(), 0, 0, static_cast<off_t>(kRoomToFree)) != 0) {
    log("state", LogLevel::info, "no room could be kept back: {}",
        errno_error("'" + path + "'", errno).message);
  }
}

void use_reserve(const std::string& folder, std::uint64_t bytes) {
  if (room_left(folder) >= bytes) {
    return;
  }
  const std::string path = folder + kName;
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0 && info.st_size > 0) {
    const auto held = static_cast<std::uint64_t>(info.st_size);
    static_cast<void>(::truncate(path.c_str(), static_cast<off_t>(held - std::min(held, bytes))));
  }
}

}  // namespace ascope
