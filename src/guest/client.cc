// SPDX-License-Identifier: Apache-2.0
#include "guest/client.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <fmt/format.h>

#include "guest/client_frames.h"

namespace ascope::guest {

Result<UniqueFd> connect_socket(int folder, const char* name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) {
    return errno_error("making a socket", errno);
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto end =
      fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "/proc/self/fd/{}/{}", folder, name);
  static_cast<void>(end);
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) {
      continue;
    }
    if (errno == ECONNREFUSED || errno == ENOENT) {
      return make_error(ErrorKind::not_found, "the sandbox is not running");
    }
    return errno_error("connecting to the guest", errno);
  }
  return fd;
}

Result<pid_t> peer_pid(int connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return errno_error("asking who answers", errno);
  }
  return peer.pid;
}

std::string hello_frame(std::uint64_t fence) {
  std::string payload;
  Encoder<std::string> to(payload);
  to.u32(kWireVersion);
  to.u64(fence);
  return frame_header(FrameType::hello, payload.size()) + payload;
}

Result<void> send_with_descriptors(int connection, std::string_view bytes, std::span<const int> descriptors) {
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
  while (!bytes.empty()) {
    iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* item = CMSG_FIRSTHDR(&message);
      item->cmsg_level = SOL_SOCKET;
      item->cmsg_type = SCM_RIGHTS;
      item->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(item), descriptors.data(), descriptors.size_bytes());
    }
    const ssize_t sent = ::sendmsg(connection, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {
      return ended_early();
    }
    if (sent < 0) {
      return errno_error("writing to the guest", errno);
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
    descriptors = {};
  }
  return ok();
}

Error ended_early() {
  return make_error(ErrorKind::not_found, "the sandbox is not running");
}

Error no_answer() {
  return make_error(ErrorKind::backend_unavailable, "the sandbox's guest helper does not answer",
                    "'ascope-sandbox rm --allow-loss' ends the sandbox without saving it");
}

Error not_a_guest() {
  return make_error(ErrorKind::backend_unavailable, "what answers in the sandbox is not its guest helper",
                    "stop the sandbox and start it again");
}

Result<bool> FrameReader::next(Frame& frame) {
  if (buffer_.size() >= kHeaderBytes) {
    const auto header = parse_header(buffer_);
    if (!header || header->length > kMaxReplyBytes) {
      return not_a_guest();
    }
    if (buffer_.size() >= kHeaderBytes + header->length) {
      frame.type = header->type;
      frame.payload = buffer_.substr(kHeaderBytes, header->length);
      buffer_.erase(0, kHeaderBytes + header->length);
      return true;
    }
  }
  return false;
}

Result<bool> FrameReader::fill(int connection) {
  char bytes[4096];
  // recv has no place for descriptors: the kernel drops any that the guest might send.
  const ssize_t count = ::recv(connection, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count > 0) {
    buffer_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return true;
  }
  if (count < 0 && errno != ECONNRESET) {
    return errno_error("reading from the guest", errno);
  }
  return false;
}

Error refused_error(std::string_view payload) {
  Decoder from(payload);
  return make_error(ErrorKind::conflict,
                    fmt::format("the sandbox has been given to another holder (fence {})", from.u64()));
}

Result<void> check_welcome(const Frame& frame) {
  Decoder from(frame.payload);
  if (frame.type != FrameType::welcome) {
    return not_a_guest();
  }
  const std::uint32_t version = from.u32();
  if (version != kWireVersion) {
    return make_error(ErrorKind::backend_unavailable,
                      fmt::format("the sandbox runs a guest helper of version {}, this program speaks {}",
                                  version, kWireVersion),
                      "stop the sandbox and start it again");
  }
  return ok();
}

namespace {

Result<Frame> next_frame(const OpContext& ctx, int connection, FrameReader& reader) {
  const OpContext limited = ctx.with_timeout(kAnswerLimit);
  Frame frame;
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool whole, reader.next(frame));
    if (whole) {
      return frame;
    }
    ASCOPE_TRY(ctx.check("waiting for the guest"));
    if (!limited.check("waiting for the guest")) {
      return no_answer();
    }
    pollfd poll_fd{connection, POLLIN, 0};
    const Millis wait = std::min(*limited.remaining(), Millis(500));
    ::poll(&poll_fd, 1, static_cast<int>(wait.count()) + 1);
    ASCOPE_TRY_ASSIGN(const bool open, reader.fill(connection));
    if (!open) {
      return ended_early();
    }
  }
}

Result<std::string> answer(const Frame& frame, FrameType expected) {
  if (frame.type == FrameType::refused) {
    return refused_error(frame.payload);
  }
  if (frame.type != expected) {
    return not_a_guest();
  }
  return frame.payload;
}

}  // namespace

Result<std::string> call(const OpContext& ctx, int connection, std::uint64_t fence, FrameType type,
                         std::string_view payload, FrameType expected) {
  std::string bytes = hello_frame(fence) + frame_header(type, payload.size());
  bytes.append(payload);
  ASCOPE_TRY(send_with_descriptors(connection, bytes, {}));
  FrameReader reader;
  ASCOPE_TRY_ASSIGN(const Frame welcome, next_frame(ctx, connection, reader));
  ASCOPE_TRY(check_welcome(welcome));
  ASCOPE_TRY_ASSIGN(const Frame reply, next_frame(ctx, connection, reader));
  return answer(reply, expected);
}

Result<std::string> call_again(const OpContext& ctx, int connection, FrameType type, std::string_view payload,
                               FrameType expected) {
  std::string bytes = frame_header(type, payload.size());
  bytes.append(payload);
  ASCOPE_TRY(send_with_descriptors(connection, bytes, {}));
  FrameReader reader;
  ASCOPE_TRY_ASSIGN(const Frame reply, next_frame(ctx, connection, reader));
  return answer(reply, expected);
}

}  // namespace ascope::guest
