// SPDX-License-Identifier: Apache-2.0
#include "guest/job.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/launch.h"
#include "guest/processes.h"
#include "guest/terminal.h"
#include "guest/users.h"

namespace ascope::guest {

namespace {

constexpr std::uint64_t kHangUpGraceMs = 5000;

class Job {
 public:
  Job(const JobRequest& request, const GuestConfig& config) : request_(request), config_(config) {}
  void run();

 private:
  bool start();
  void fail(FailStage stage, int error);
  void turn();
  [[nodiscard]] int wait_ms() const;
  void on_connection();
  void on_frame(FrameType type, std::string_view payload);
  void on_children();
  void on_time();
  void begin_end(ExitWhy why, std::uint64_t grace_ms);
  void send(SmallFrame& frame) const;
  void report();

  const JobRequest& request_;
  const GuestConfig& config_;
  ExecHead head_;
  ExecBody body_;
  Terminal terminal_;
  int signal_fd_ = -1;
  bool connected_ = true;
  bool detached_ = false;
  pid_t main_ = -1;
  bool main_ended_ = false;
  int main_status_ = 0;
  std::uint64_t timeout_at_ = 0;  // 0: none
  std::uint64_t kill_at_ = 0;     // set once the end has begun
  ExitWhy why_ = ExitWhy::ended;
  std::uint64_t killed_ = 0;
  bool done_ = false;
  char inbox_[256];
  std::size_t inbox_used_ = 0;
};

void Job::send(SmallFrame& frame) const {
  if (!connected_) {
    return;
  }
  const std::string_view bytes = frame.finish();
  static_cast<void>(::send(request_.connection, bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

void Job::fail(FailStage stage, int error) {
  SmallFrame frame(FrameType::failed);
  Encoder<SmallFrame> to(frame);
  to.u8(static_cast<std::uint8_t>(stage));
  to.i32(error);
  send(frame);
}

bool Job::start() {
  std::string_view rest;
  if (!decode(request_.payload, head_, rest) || !decode(rest, body_)) {
    fail(FailStage::request, EINVAL);
    return false;
  }
  LaunchPlan plan;
  std::copy(std::begin(request_.pipes), std::end(request_.pipes), std::begin(plan.stdio));
  plan.applet = (head_.flags & kApplet) != 0;
  plan.applet_as_root = (head_.flags & kAsRoot) != 0;
  const bool tty = (head_.flags & kTty) != 0;
  if (tty) {
    User user;
    if (!find_user(config_, body_.user, user)) {
      fail(FailStage::user, ENOENT);
      return false;
    }
    if (!terminal_.open(user.uid, user.gid)) {
      fail(FailStage::terminal, errno);
      return false;
    }
    terminal_.resize(head_.rows, head_.columns);
    plan.terminal = terminal_.slave();
  }
  LaunchFailure failure;
  main_ = launch(body_, config_, plan, failure);
  if (main_ < 0) {
    fail(failure.stage, failure.error);
    return false;
  }
  if (tty) {
    terminal_.close_slave();
    terminal_.set_pipes(plan.stdio[0], plan.stdio[1]);
  } else {
    for (const int fd : plan.stdio) {
      if (fd >= 0) {
        ::close(fd);
      }
    }
  }
  if (head_.timeout_ms != 0) {
    timeout_at_ = now_ms() + head_.timeout_ms;
  }
  SmallFrame frame(FrameType::started);
  Encoder<SmallFrame>(frame).u32(static_cast<std::uint32_t>(main_));
  send(frame);
  return true;
}

void Job::run() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  signal_fd_ = ::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  if (!start()) {
    return;
  }
  while (!done_) {
    turn();
  }
  if (why_ == ExitWhy::timed_out && (head_.flags & kKillSandbox) != 0) {
    ::kill(-1, SIGKILL);
  }
  if (main_ended_ && why_ == ExitWhy::ended && (head_.flags & kTty) != 0) {
    terminal_.drain();
  }
  report();
}

int Job::wait_ms() const {
  std::uint64_t next = kill_at_;
  if (timeout_at_ != 0 && kill_at_ == 0) {
    next = timeout_at_;
  }
  if (next == 0) {
    return -1;
  }
  const std::uint64_t now = now_ms();
  return next <= now ? 0 : static_cast<int>(std::min<std::uint64_t>(next - now, 1U << 30U));
}

void Job::turn() {
  pollfd polls[5] = {{connected_ ? request_.connection : -1, POLLIN, 0},
                     {signal_fd_, POLLIN, 0},
                     {-1, POLLIN, 0},
                     {-1, 0, 0},
                     {-1, POLLOUT, 0}};
  if ((head_.flags & kTty) != 0) {
    const Terminal::Polls wanted = terminal_.polls();
    polls[2].fd = wanted.in_fd;
    polls[3].fd = wanted.master_fd;
    polls[3].events = wanted.master_events;
    polls[4].fd = wanted.out_fd;
  }
  ::poll(polls, 5, wait_ms());
  if ((polls[2].revents | polls[3].revents | polls[4].revents) != 0) {
    terminal_.pump();
  }
  if (polls[0].revents != 0) {
    on_connection();
  }
  if (polls[1].revents != 0) {
    on_children();
  }
  on_time();
}

void Job::on_connection() {
  const ssize_t count =
      ::recv(request_.connection, inbox_ + inbox_used_, sizeof inbox_ - inbox_used_, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count <= 0) {
    connected_ = false;
    if (!detached_) {
      begin_end(ExitWhy::hung_up, kHangUpGraceMs);
    }
    return;
  }
  inbox_used_ += static_cast<std::size_t>(count);
  while (inbox_used_ >= kHeaderBytes) {
    const auto header = parse_header({inbox_, inbox_used_});
    if (!header || header->length > sizeof inbox_ - kHeaderBytes) {
      connected_ = false;  // not our protocol: as if it had hung up
      begin_end(ExitWhy::hung_up, kHangUpGraceMs);
      return;
    }
    const std::size_t whole = kHeaderBytes + header->length;
    if (inbox_used_ < whole) {
      return;
    }
    on_frame(header->type, {inbox_ + kHeaderBytes, header->length});
    inbox_used_ -= whole;
    std::copy(inbox_ + whole, inbox_ + whole + inbox_used_, inbox_);
  }
}

void Job::on_frame(FrameType type, std::string_view payload) {
  Decoder from(payload);
  if (type == FrameType::signal) {
    const std::int32_t number = from.i32();
    if (from.at_end() && number >= 1 && number <= 64 && !main_ended_) {
      // To its process group, as a terminal does; a command that left its group gets it alone.
      if (::kill(-main_, number) != 0) {
        ::kill(main_, number);
      }
    }
  } else if (type == FrameType::window) {
    const std::uint16_t rows = from.u16();
    const std::uint16_t columns = from.u16();
    if (from.at_end() && (head_.flags & kTty) != 0) {
      terminal_.resize(rows, columns);
    }
  } else if (type == FrameType::detach) {
    detached_ = true;
  }
}

void Job::on_children() {
  signalfd_siginfo info{};
  while (::read(signal_fd_, &info, sizeof info) > 0) {
  }
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid == main_) {
      main_ended_ = true;
      main_status_ = status;
    }
    if (pid > 0 || (pid < 0 && errno == EINTR)) {
      continue;
    }
    // While ending, the job lasts until its last process is gone; else as long as its command.
    done_ = done_ || (pid < 0 && kill_at_ != 0) || (main_ended_ && kill_at_ == 0);
    return;
  }
}

void Job::begin_end(ExitWhy why, std::uint64_t grace_ms) {
  if (kill_at_ != 0) {
    return;
  }
  why_ = why;
  kill_at_ = now_ms() + grace_ms;
  if (why == ExitWhy::hung_up) {
    signal_descendants(::getpid(), SIGHUP);
  }
  signal_descendants(::getpid(), SIGTERM);
  signal_descendants(::getpid(), SIGCONT);
}

void Job::on_time() {
  const std::uint64_t now = now_ms();
  if (timeout_at_ != 0 && kill_at_ == 0 && !done_ && now >= timeout_at_) {
    begin_end(ExitWhy::timed_out, head_.grace_ms);
  }
  if (kill_at_ == 0 || done_ || now < kill_at_) {
    return;
  }
  int status = main_status_;
  killed_ += kill_descendants(main_, &status);
  if (!main_ended_) {
    main_status_ = status;
    main_ended_ = true;
  }
  done_ = true;
}

void Job::report() {
  SmallFrame frame(FrameType::exit);
  Encoder<SmallFrame> to(frame);
  to.i32(main_status_);
  to.u8(static_cast<std::uint8_t>(why_));
  to.u64(killed_);
  send(frame);
}

}  // namespace

void run_job(const JobRequest& request, const GuestConfig& config) {
  Job job(request, config);
  job.run();
  ::_exit(0);
}

}  // namespace ascope::guest
