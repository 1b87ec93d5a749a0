// SPDX-License-Identifier: Apache-2.0
// One client's connection as the first process sees it: bytes coming in, descriptors that came with them,
// small replies going out. Memory is taken only for messages that do not fit the small buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "guest/wire.h"

namespace ascope::guest {

class Session {
 public:
  void open(int fd);
  void close();
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int fd() const { return fd_; }

  // Reads what is there. False if the connection has ended or broke the protocol.
  bool receive();
  // The first whole frame, valid until drop(). False if there is none yet; `broken` if there never will be.
  bool peek(FrameHeader& header, std::string_view& payload, bool& broken) const;
  void drop(const FrameHeader& header);
  // Replies without blocking; false if the client does not take it.
  bool reply(SmallFrame& frame) const;

  // Gathers the parts of a long `exec`. False if it grows too long or there is no memory.
  bool gather(std::string_view part);
  [[nodiscard]] std::string_view gathered() const { return {gathered_, gathered_used_}; }

  // Takes the descriptors received so far (at most three).
  int take_descriptors(int (&out)[3]);

  // Kept here for the loop in init.cc.
  bool greeted = false;
  bool waiting = false;  // its exec waits for the thaw
  std::uint64_t fence = 0;

 private:
  bool grow(std::size_t needed);

  int fd_ = -1;
  char small_[1024];
  char* data_ = nullptr;  // small_ or from malloc
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  char* gathered_ = nullptr;
  std::size_t gathered_used_ = 0;
  int descriptors_[3] = {-1, -1, -1};
  int descriptor_count_ = 0;
};

}  // namespace ascope::guest
