// SPDX-License-Identifier: Apache-2.0
#include "cli/signals.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/op_context.h"

namespace ascope {

namespace {

std::atomic<int> event_fd{-1};
std::atomic<int> interrupts{0};

constexpr std::array kForwarded{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

void write_event(int fd, int number) {
  ExecEvent event;
  if (number == SIGWINCH) {
    winsize size{};
    if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0) {
      return;
    }
    event.rows = size.ws_row;
    event.columns = size.ws_col;
  } else {
    event.signal = number;
  }
  // The pipe is non-blocking: a command that takes none for 64 KiB of signals loses the rest.
  static_cast<void>(::write(fd, &event, sizeof event));
}

void die_by(int number) {
  ::signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(number);
}

void on_signal(int number) {
  const int saved = errno;
  if (const int fd = event_fd.load(); fd >= 0) {
    if (number == SIGINT && interrupts.fetch_add(1) > 0) {
      die_by(number);
    }
    write_event(fd, number);
  } else if (number == SIGINT || number == SIGTERM || number == SIGHUP) {
    int expected = 0;
    if (!interrupt_signal.compare_exchange_strong(expected, number)) {
      die_by(number);
    }
  }
  errno = saved;
}

void handle(int number) {
  struct sigaction before{};
  ::sigaction(number, nullptr, &before);
  if (before.sa_handler == SIG_IGN) {
    return;  // nohup keeps HUP ignored, a background job of a shell INT
  }
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: blocking calls end with EINTR
  ::sigaction(number, &action, nullptr);
}

}  // namespace

void install_signal_handlers() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    handle(number);
  }
  ::signal(SIGPIPE, SIG_IGN);
}

Result<SignalForwarder> SignalForwarder::make() {
  ASCOPE_TRY_ASSIGN(Pipe pipe, make_pipe());
  if (::fcntl(pipe.write_end.get(), F_SETFL, O_NONBLOCK) != 0) {
    return errno_error("fcntl", errno);
  }
  return SignalForwarder(std::move(pipe));
}

SignalForwarder::~SignalForwarder() {
  if (pipe_.write_end.is_open()) {
    set_active(false);
  }
}

void SignalForwarder::set_active(bool active) {
  if (active) {
    interrupts = 0;
    event_fd = pipe_.write_end.get();
    for (const int number : kForwarded) {
      handle(number);
    }
  } else {
    event_fd = -1;
    for (const int number : {SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH}) {
      ::signal(number, SIG_DFL);
    }
  }
}

void SignalForwarder::send(int signal_number) {
  write_event(pipe_.write_end.get(), signal_number);
}

}  // namespace ascope
