// SPDX-License-Identifier: Apache-2.0
#include "core/base/random.h"

#include <cstdlib>
#include <sys/random.h>

#include "core/base/bytes.h"

namespace ascope {

namespace {

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = ::getrandom(bytes.data() + done, count - done, 0);
    if (got <= 0) {
      continue;  // EINTR only: getrandom without flags blocks until it can answer (getrandom(2))
    }
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace

std::string random_hex(std::size_t count) {
  return to_hex(random_bytes(count));
}

std::string random_uuid() {
  std::string bytes = random_bytes(16);
  bytes[6] = static_cast<char>((static_cast<unsigned char>(bytes[6]) & 0x0FU) | 0x40U);
  bytes[8] = static_cast<char>((static_cast<unsigned char>(bytes[8]) & 0x3FU) | 0x80U);
  const std::string hex = to_hex(bytes);
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

}  // namespace ascope
