// SPDX-License-Identifier: Apache-2.0
// Frames: some chunks back to back, compressed together with zstd, or stored as they are where that is no
// larger. Sealing comes after (pack.h).
#pragma once

#include <memory>
#include <string>

#include "core/repository/chunks/types.h"

namespace ascope::chunks {

// Keeps zstd's working memory between calls. One thread at a time.
class FrameCompressor {
 public:
  explicit FrameCompressor(int level);
  ~FrameCompressor();
  FrameCompressor(const FrameCompressor&) = delete;
  FrameCompressor& operator=(const FrameCompressor&) = delete;

  struct Packed {
    Codec codec = Codec::raw;
    std::string bytes;
  };
  Result<Packed> pack(std::string raw);
  // As zstd, whatever its size.
  Result<std::string> squeeze(ByteView raw);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class FrameDecompressor {
 public:
  FrameDecompressor();
  ~FrameDecompressor();
  FrameDecompressor(const FrameDecompressor&) = delete;
  FrameDecompressor& operator=(const FrameDecompressor&) = delete;

  // `corrupt` (without a name) unless `stored` unpacks to exactly `raw_bytes`; more than `limit` is not even
  // tried.
  Result<std::string> unpack(Codec codec, std::string stored, std::uint64_t raw_bytes,
                             std::uint64_t limit = kMaxRawBytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ascope::chunks
