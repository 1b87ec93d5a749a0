// SPDX-License-Identifier: Apache-2.0
// Frames as a client sends and receives them; shared by client.cc and client_exec.cc only.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/units.h"
#include "guest/wire.h"

namespace ascope::guest {

// A guest answers within milliseconds; on a machine that swaps, seconds.
constexpr Millis kAnswerLimit{10000};
constexpr std::uint32_t kMaxReplyBytes = 4096;  // SmallFrame: the guest never sends more at once

struct Frame {
  FrameType type = FrameType::hello;
  std::string payload;
};

class FrameReader {
 public:
  // Takes the next whole frame off what was read; false if more must be read first.
  Result<bool> next(Frame& frame);
  // Reads what is there without blocking; false at the end of the connection.
  Result<bool> fill(int connection);

 private:
  std::string buffer_;
};

std::string hello_frame(std::uint64_t fence);
// Sends all of `bytes`, the descriptors with the first of them. ended_early() if nobody reads any more.
Result<void> send_with_descriptors(int connection, std::string_view bytes, std::span<const int> descriptors);
Result<void> check_welcome(const Frame& frame);
Error refused_error(std::string_view payload);
Error ended_early();
Error not_a_guest();
Error no_answer();

}  // namespace ascope::guest
