// SPDX-License-Identifier: Apache-2.0
#include "guest/terminal.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace ascope::guest {

bool Terminal::open(uid_t uid, gid_t gid) {
  master_ = ::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  int unlocked = 0;
  if (master_ < 0 || ::ioctl(master_, TIOCSPTLCK, &unlocked) != 0) {
    return false;
  }
  slave_ = ::ioctl(master_, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave_ < 0) {
    return false;
  }
  // Without the right to give it away it is the only user's already.
  return ::fchown(slave_, uid, gid) == 0 || errno == EPERM;
}

void Terminal::close_slave() {
  ::close(slave_);
  slave_ = -1;
}

void Terminal::resize(std::uint16_t rows, std::uint16_t columns) const {
  if (rows != 0 && columns != 0) {
    const winsize size{rows, columns, 0, 0};
    ::ioctl(master_, TIOCSWINSZ, &size);
  }
}

void Terminal::set_pipes(int in, int out) {
  in_ = in;
  out_ = out;
  for (const int fd : {in_, out_}) {
    if (fd >= 0) {
      ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
  }
}

Terminal::Polls Terminal::polls() const {
  Polls out;
  out.in_fd = input_used_ == 0 ? in_ : -1;
  out.out_fd = output_used_ > 0 ? out_ : -1;
  if (input_used_ > 0) {
    out.master_events |= POLLOUT;
  }
  if (output_used_ < sizeof output_ && !output_ended_) {
    out.master_events |= POLLIN;
  }
  out.master_fd = out.master_events != 0 ? master_ : -1;
  return out;
}

void Terminal::pump() {
  read_input();
  write_input();
  read_output();
  write_output();
}

void Terminal::read_input() {
  if (in_ < 0 || input_used_ > 0) {
    return;
  }
  const ssize_t count = ::read(in_, input_, sizeof input_);
  if (count > 0) {
    input_used_ = static_cast<std::size_t>(count);
  } else if (count == 0) {
    // The end of input is typed, as a person would: ^D.
    input_[0] = '\004';
    input_used_ = 1;
    ::close(in_);
    in_ = -1;
  }
}

void Terminal::write_input() {
  if (input_used_ == 0) {
    return;
  }
  const ssize_t count = ::write(master_, input_, input_used_);
  if (count > 0) {
    input_used_ -= static_cast<std::size_t>(count);
    std::memmove(input_, input_ + count, input_used_);
  }
}

void Terminal::read_output() {
  while (output_used_ < sizeof output_ && !output_ended_) {
    const ssize_t count = ::read(master_, output_ + output_used_, sizeof output_ - output_used_);
    if (count > 0) {
      output_used_ += static_cast<std::size_t>(count);
    } else {
      output_ended_ = count == 0 || (errno != EAGAIN && errno != EINTR);  // EIO: no slave is open
      return;
    }
  }
}

void Terminal::write_output() {
  if (output_used_ == 0) {
    return;
  }
  const ssize_t count = out_ < 0 ? static_cast<ssize_t>(output_used_) : ::write(out_, output_, output_used_);
  if (count > 0) {
    output_used_ -= static_cast<std::size_t>(count);
    std::memmove(output_, output_ + count, output_used_);
  } else if (count < 0 && errno == EPIPE) {
    output_used_ = 0;
    out_ = -1;
  }
}

void Terminal::drain() {
  // A terminal holds at most a few pages; the bound stops a background writer from keeping us here.
  for (int turn = 0; turn < 64; ++turn) {
    read_output();
    if (output_used_ == 0) {
      return;
    }
    pollfd writable{out_, POLLOUT, 0};
    if (out_ >= 0 && ::poll(&writable, 1, 1000) <= 0) {
      return;
    }
    write_output();
  }
}

}  // namespace ascope::guest
