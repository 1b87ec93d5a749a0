// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "guest/init.h"

namespace ascope::guest {

namespace {

constexpr int kPatienceMs = 60000;  // a starter that died must not leave us behind

bool readable(int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  int count = 0;
  do {
    count = ::poll(&poll_fd, 1, kPatienceMs);
  } while (count < 0 && errno == EINTR);
  return count > 0;
}

// The one descriptor that comes with the first byte; -1 if anything else came.
int receive_descriptor(int connection) {
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (!readable(connection) || ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1) {
    return -1;
  }
  const cmsghdr* item = CMSG_FIRSTHDR(&message);
  if (item == nullptr || item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS ||
      item->cmsg_len != CMSG_LEN(sizeof(int))) {
    return -1;
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(item), sizeof fd);
  return fd;
}

}  // namespace

bool receive_socket(const char* folder, InitOptions& options) {
  const std::string path = std::string(folder) + "/s";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return false;
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int door = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::umask(0);  // who starts us need not be root; the folder lies where only they come
  const bool open = door >= 0 &&
                    ::bind(door, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                    ::listen(door, 1) == 0;
  if (!open || !readable(door)) {
    return false;
  }
  const int connection = ::accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
  options.listen_fd = connection < 0 ? -1 : receive_descriptor(connection);
  options.ready_fd = connection;
  ::close(door);
  return options.listen_fd >= 0 && ::unlink(path.c_str()) == 0;
}

}  // namespace ascope::guest
