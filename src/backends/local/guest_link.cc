// SPDX-License-Identifier: Apache-2.0
#include "backends/local/guest_link.h"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/process.h"
#include "guest/client.h"

namespace ascope::local {

namespace {

constexpr std::uint32_t kStopGraceMs = 1000;
constexpr Millis kAnswerLimit{4000};  // for a guest to answer `terminate`, its grace included

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// A descriptor of exactly this process; closed if it is gone or the pid is another's now.
Result<UniqueFd> open_process(pid_t pid, std::uint64_t start_time) {
  UniqueFd fd = open_pidfd(pid);
  if (!fd.is_open()) {
    return fd;
  }
  ASCOPE_TRY_ASSIGN(const std::uint64_t now, process_start_time(pid));
  return now == start_time ? std::move(fd) : UniqueFd();
}

Result<bool> wait_pidfd(const OpContext& ctx, int fd, Millis limit) {
  const OpContext bounded = ctx.with_timeout(limit);
  pollfd poll_fd{fd, POLLIN, 0};
  while (true) {
    const auto left = bounded.remaining().value_or(limit);
    if (::poll(&poll_fd, 1, static_cast<int>(left.count())) > 0) {
      return true;
    }
    if (left.count() == 0) {
      return false;
    }
  }
}

}  // namespace

Result<UniqueFd> bind_socket(const Folder& folder) {
  if (::unlinkat(folder.fd(), kSocket, 0) != 0 && errno != ENOENT) {
    return errno_error("removing an old socket", errno);
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto end = fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "/proc/self/fd/{}/{}",
                                    folder.fd(), kSocket);
  static_cast<void>(end);
  if (!fd.is_open() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return errno_error("binding the sandbox's socket", errno);
  }
  return fd;
}

Result<UniqueFd> connect_guest(const Folder& folder) {
  // The socket first: a folder of a stopped sandbox answers at once.
  ASCOPE_TRY_ASSIGN(UniqueFd connection, guest::connect_socket(folder.fd(), kSocket));
  ASCOPE_TRY_ASSIGN(const auto run, folder.read_run());
  ASCOPE_TRY_ASSIGN(const pid_t peer, guest::peer_pid(connection.get()));
  if (run && run->pid == peer) {
    ASCOPE_TRY_ASSIGN(const std::uint64_t start_time, process_start_time(peer));
    if (start_time == run->start_time) {
      return connection;
    }
  }
  return make_error(ErrorKind::not_found,
                    "the sandbox is not running: what answers is not the guest it was started with");
}

Result<void> end_unrecorded(const OpContext& ctx, const Folder& folder) {
  const auto connection = guest::connect_socket(folder.fd(), kSocket);
  if (!connection) {
    return connection.error().kind == ErrorKind::not_found ? ok() : Result<void>(connection.error());
  }
  // It listens, so it lives, and its pid is its own. The socket lies in a folder that only we can reach.
  ASCOPE_TRY_ASSIGN(const pid_t pid, guest::peer_pid(connection->get()));
  if (pid <= 1) {
    return make_error(ErrorKind::backend_unavailable, "a guest of another pid namespace holds the sandbox",
                      "use the sandbox from where it was started, or stop it there");
  }
  ASCOPE_TRY_ASSIGN(const std::uint64_t start_time, process_start_time(pid));
  return kill_process(ctx, pid, start_time);
}

Result<void> kill_process(const OpContext& ctx, pid_t pid, std::uint64_t start_time) {
  ASCOPE_TRY_ASSIGN(const UniqueFd process, open_process(pid, start_time));
  if (!process.is_open()) {
    return ok();
  }
  if (::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) != 0 && errno != ESRCH) {
    return errno_error("ending the sandbox", errno);
  }
  ASCOPE_TRY_ASSIGN(const bool ended, wait_pidfd(ctx, process.get(), Millis(10000)));
  return ended ? ok() : Result<void>(make_error(ErrorKind::timeout, "the sandbox did not end though killed"));
}

Result<bool> wait_for_end(const OpContext& ctx, pid_t pid, std::uint64_t start_time, Millis limit) {
  ASCOPE_TRY_ASSIGN(const UniqueFd process, open_process(pid, start_time));
  if (!process.is_open()) {
    return true;
  }
  return wait_pidfd(ctx, process.get(), limit);
}

void await_end(pid_t pid, Millis limit) {
  const UniqueFd process = open_pidfd(pid);
  if (process.is_open()) {
    static_cast<void>(wait_pidfd(OpContext{}, process.get(), limit));
  }
}

Result<bool> ask_to_end(const OpContext& ctx, int connection, std::uint64_t fence, const Run& run) {
  std::string payload;
  guest::Encoder<std::string>(payload).u32(kStopGraceMs);
  const auto answer = guest::call(ctx.with_timeout(kAnswerLimit), connection, fence,
                                  guest::FrameType::terminate, payload, guest::FrameType::done);
  if (!answer &&
      (answer.error().kind == ErrorKind::conflict || answer.error().kind == ErrorKind::cancelled)) {
    return answer.error();
  }
  // One that does not answer is killed: the lock and meta.json have let us.
  return wait_for_end(ctx, run.pid, run.start_time, Millis(answer ? 2000 : 0));
}

Result<std::vector<std::string>> running_jobs(const OpContext& ctx, int connection) {
  ASCOPE_TRY_ASSIGN(const std::string reply, guest::call(ctx, connection, 0, guest::FrameType::status, {},
                                                         guest::FrameType::status_reply));
  guest::Decoder from(reply);
  std::vector<std::string> jobs;
  const std::uint32_t count = from.u32();
  for (std::uint32_t i = 0; i < count && from.ok(); ++i) {
    jobs.emplace_back(from.str());
  }
  return jobs;
}

Result<void> check_fence(const Meta& meta, std::uint64_t fence) {
  if (fence < meta.fence_seen) {
    return make_error(ErrorKind::conflict,
                      fmt::format("sandbox '{}' has been given to another holder (fence {} after {})",
                                  meta.id, meta.fence_seen, fence));
  }
  return ok();
}

}  // namespace ascope::local
