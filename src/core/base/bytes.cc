// SPDX-License-Identifier: Apache-2.0
#include "core/base/bytes.h"

#include <algorithm>
#include <array>

namespace ascope {

namespace {

constexpr std::string_view kStandard = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kUrlSafe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string encode64(ByteView bytes, std::string_view alphabet, bool pad) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  std::uint32_t buffer = 0;
  unsigned bits = 0;
  for (const char c : bytes) {
    buffer = (buffer << 8U) | static_cast<unsigned char>(c);
    bits += 8;
    while (bits >= 6) {
      bits -= 6;
      out.push_back(alphabet[(buffer >> bits) & 63U]);
    }
  }
  if (bits > 0) {
    out.push_back(alphabet[(buffer << (6 - bits)) & 63U]);
  }
  while (pad && out.size() % 4 != 0) {
    out.push_back('=');
  }
  return out;
}

Result<std::string> decode64(std::string_view text, std::string_view alphabet, bool padded) {
  if (padded && text.size() % 4 != 0) {
    return make_error(ErrorKind::corrupt, "base64 text has a length that is no multiple of four");
  }
  while (padded && !text.empty() && text.back() == '=') {
    text.remove_suffix(1);
  }
  if (text.size() % 4 == 1) {
    return make_error(ErrorKind::corrupt, "base64 text is cut");
  }
  std::string out;
  std::uint32_t buffer = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const auto value = alphabet.find(c);
    if (value == std::string_view::npos) {
      return make_error(ErrorKind::corrupt, "base64 text holds a character that is not of its alphabet");
    }
    buffer = (buffer << 6U) | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out.push_back(static_cast<char>((buffer >> bits) & 255U));
    }
  }
  return out;
}

// Length of the well-formed UTF-8 sequence at the front of `s`, or 0 (Unicode 15, table 3-7).
std::size_t utf8_sequence(std::string_view s) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) {
    return 1;
  }
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || s.size() < length) {
    return 0;
  }
  const unsigned second = at(1);
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (second < low || second > high) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xBF) {
      return 0;
    }
  }
  return length;
}

}  // namespace

Result<std::size_t> ViewSource::read(std::span<char> buffer) {
  const std::size_t count = std::min(buffer.size(), rest_.size());
  rest_.copy(buffer.data(), count);
  rest_.remove_prefix(count);
  return count;
}

Result<void> StringSink::write(ByteView data) {
  if (data.size() > limit_ - std::min(limit_, bytes_.size())) {
    return make_error(ErrorKind::corrupt, "more bytes than the limit of " + std::to_string(limit_));
  }
  bytes_ += data;
  return ok();
}

Result<std::string> read_all(ByteSource& source, std::size_t limit) {
  StringSink sink(limit);
  ASCOPE_TRY(copy(source, sink));
  return sink.take();
}

Result<std::uint64_t> copy(ByteSource& source, ByteSink& sink) {
  std::array<char, 64U << 10U> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by read
  std::uint64_t total = 0;
  while (true) {
    ASCOPE_TRY_ASSIGN(const std::size_t count, source.read(buffer));
    if (count == 0) {
      return total;
    }
    ASCOPE_TRY(sink.write(ByteView(buffer.data(), count)));
    total += count;
  }
}

std::string to_hex(ByteView bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(kDigits[byte >> 4U]);
    out.push_back(kDigits[byte & 15U]);
  }
  return out;
}

Result<std::string> from_hex(std::string_view hex) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (hex.size() % 2 != 0) {
    return make_error(ErrorKind::corrupt, "hex text has an odd length");
  }
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto high = kDigits.find(hex[i]);
    const auto low = kDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) {
      return make_error(ErrorKind::corrupt, "hex text holds another character than 0-9 and a-f");
    }
    out.push_back(static_cast<char>(high * 16 + low));
  }
  return out;
}

std::string to_base64(ByteView bytes) {
  return encode64(bytes, kStandard, true);
}
Result<std::string> from_base64(std::string_view text) {
  return decode64(text, kStandard, true);
}
std::string to_base64url(ByteView bytes) {
  return encode64(bytes, kUrlSafe, false);
}
Result<std::string> from_base64url(std::string_view text) {
  return decode64(text, kUrlSafe, false);
}

bool is_utf8(ByteView bytes) {
  while (!bytes.empty()) {
    const std::size_t length = utf8_sequence(bytes);
    if (length == 0) {
      return false;
    }
    bytes.remove_prefix(length);
  }
  return true;
}

}  // namespace ascope
