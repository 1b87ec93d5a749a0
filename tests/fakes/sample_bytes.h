// SPDX-License-Identifier: Apache-2.0
// Bytes to store, the same for the same seed.
#pragma once

#include <cstdint>
#include <string>

namespace ascope::test {

// Bytes that no compressor makes smaller, the same for the same seed.
inline std::string noise(std::size_t count, std::uint64_t seed) {
  std::string out(count, '\0');
  std::uint64_t x = seed * 0x9E3779B97F4A7C15U + 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 8 == 0) {
      x ^= x << 13U;
      x ^= x >> 7U;
      x ^= x << 17U;
    }
    out[i] = static_cast<char>((x * 0x2545F4914F6CDD1DU) >> (8 * (i % 8)));
  }
  return out;
}

// Text as people write it: compresses, but is not the same twice.
inline std::string prose(std::size_t count, std::uint64_t seed) {
  static constexpr const char* kWords[] = {"value", "return", "snapshot", "of",    "the",   "agent",
                                           "if",    "\n",     "=",        "store", "index", "chunk",
                                           "0",     "1",      "file",     "to"};
  const std::string random = noise(count / 2 + 16, seed);
  std::string out;
  for (std::size_t i = 0; out.size() < count; ++i) {
    const auto pick = static_cast<unsigned char>(random[i % random.size()]);
    out += kWords[pick % 16];
    out += pick >= 240 ? std::to_string(i * pick) : " ";
  }
  out.resize(count);
  return out;
}

}  // namespace ascope::test
