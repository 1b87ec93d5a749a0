// SPDX-License-Identifier: Apache-2.0
// Bytes and streams of bytes. A std::string holds bytes here, not text; nothing is ever decoded in passing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace ascope {

using ByteView = std::string_view;

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to buffer.size() bytes; 0 = the end. May return less than asked at any time.
  virtual Result<std::size_t> read(std::span<char> buffer) = 0;
};

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  // Takes all of `data` or fails.
  virtual Result<void> write(ByteView data) = 0;
};

// A source over bytes that outlive it.
class ViewSource final : public ByteSource {
 public:
  explicit ViewSource(ByteView data) : rest_(data) {}
  Result<std::size_t> read(std::span<char> buffer) override;

 private:
  ByteView rest_;
};

// Collects what is written, up to `limit` bytes; one more is `corrupt` (a hostile length).
class StringSink final : public ByteSink {
 public:
  explicit StringSink(std::size_t limit = 64U << 20U) : limit_(limit) {}
  Result<void> write(ByteView data) override;
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::size_t limit_;
  std::string bytes_;
};

// Reads `source` to its end into memory; more than `limit` bytes is `corrupt`.
Result<std::string> read_all(ByteSource& source, std::size_t limit);
// Copies `source` to its end into `sink`; returns the number of bytes.
Result<std::uint64_t> copy(ByteSource& source, ByteSink& sink);

// Lower-case hex. `from_hex` is `corrupt` on any other character or an odd length.
std::string to_hex(ByteView bytes);
Result<std::string> from_hex(std::string_view hex);
// RFC 4648. The URL-safe form has no padding (as AgentScope's JSON store names folders).
std::string to_base64(ByteView bytes);
Result<std::string> from_base64(std::string_view text);
std::string to_base64url(ByteView bytes);
Result<std::string> from_base64url(std::string_view text);
// True if `bytes` is well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(ByteView bytes);

}  // namespace ascope
