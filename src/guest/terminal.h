// SPDX-License-Identifier: Apache-2.0
// A pseudo-terminal of the sandbox's own, and the pump between it and the client's pipes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace ascope::guest {

class Terminal {
 public:
  // Opens a pair owned by `uid`; false with errno set.
  bool open(uid_t uid, gid_t gid);
  [[nodiscard]] int slave() const { return slave_; }
  void close_slave();
  void resize(std::uint16_t rows, std::uint16_t columns) const;

  // One turn of the pump: `in` (-1: none) → terminal → `out`. `wanted` events for poll stand in the first
  // three places of a pollfd array; see poll_set().
  struct Polls {
    int in_fd = -1;
    int master_fd = -1;
    int out_fd = -1;
    short master_events = 0;
  };
  [[nodiscard]] Polls polls() const;
  void pump();
  // Moves what the terminal still holds, once its last writer may be gone; gives up when `out` takes no more
  // for a second.
  void drain();

  void set_pipes(int in, int out);

 private:
  void read_input();
  void write_input();
  void read_output();
  void write_output();

  int master_ = -1;
  int slave_ = -1;
  int in_ = -1;
  int out_ = -1;
  bool output_ended_ = false;
  char input_[4096];
  std::size_t input_used_ = 0;
  char output_[32768];
  std::size_t output_used_ = 0;
};

}  // namespace ascope::guest
