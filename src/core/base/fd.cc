// SPDX-License-Identifier: Apache-2.0
#include "core/base/fd.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace ascope {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void UniqueFd::reset() {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

Result<void> UniqueFd::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) {
    return errno_error("closing a file", errno);
  }
  return ok();
}

Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) {
    return errno_error("making a pipe", errno);
  }
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<void> write_all(int fd, ByteView data) {
  while (!data.empty()) {
    const ssize_t count = ::write(fd, data.data(), data.size());
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno_error("writing", errno);
    }
    data.remove_prefix(static_cast<std::size_t>(count));
  }
  return ok();
}

Result<std::size_t> read_some(int fd, std::span<char> buffer) {
  while (true) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count >= 0) {
      return static_cast<std::size_t>(count);
    }
    if (errno != EINTR) {
      return errno_error("reading", errno);
    }
  }
}

}  // namespace ascope
