// SPDX-License-Identifier: Apache-2.0
// SHA-256, from OpenSSL.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/bytes.h"

namespace ascope {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(ByteView data);
  // The 32 raw bytes. The object is spent afterwards.
  [[nodiscard]] std::string finish();
  [[nodiscard]] std::string finish_hex() { return to_hex(finish()); }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of all of `data`: the 32 raw bytes, or lower-case hex.
std::string sha256(ByteView data);
std::string sha256_hex(ByteView data);

// Passes bytes on and hashes and counts what went through.
class HashingSource final : public ByteSource {
 public:
  explicit HashingSource(ByteSource& inner) : inner_(inner) {}
  Result<std::size_t> read(std::span<char> buffer) override;
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] std::string finish_hex() { return hash_.finish_hex(); }

 private:
  ByteSource& inner_;
  Sha256 hash_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace ascope
