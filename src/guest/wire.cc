// SPDX-License-Identifier: Apache-2.0
#include "guest/wire.h"

#include <cstring>

namespace ascope::guest {

namespace {

constexpr std::uint32_t kMaxItems = 1U << 20U;

template <typename Pairs>
void encode_pairs(Encoder<std::string>& to, const Pairs& pairs) {
  to.u32(static_cast<std::uint32_t>(pairs.size()));
  for (const auto& [name, value] : pairs) {
    to.str(name);
    to.str(value);
  }
}

template <typename Text>
bool decode_pairs(Decoder& from, std::vector<std::pair<Text, Text>>& pairs) {
  const std::uint32_t count = from.u32();
  if (count > kMaxItems) {
    return false;
  }
  for (std::uint32_t i = 0; i < count && from.ok(); ++i) {
    const auto name = from.str();
    pairs.emplace_back(Text(name), Text(from.str()));
  }
  return from.ok();
}

}  // namespace

std::uint64_t Decoder::integer(std::size_t bytes) {
  if (!ok_ || rest_.size() < bytes) {
    ok_ = false;
    return 0;
  }
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i > 0; --i) {
    value = (value << 8U) | static_cast<unsigned char>(rest_[i - 1]);
  }
  rest_.remove_prefix(bytes);
  return value;
}

std::string_view Decoder::str() {
  const std::uint32_t count = u32();
  if (!ok_ || rest_.size() < count) {
    ok_ = false;
    return {};
  }
  const std::string_view text = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return text;
}

SmallFrame::SmallFrame(FrameType type) {
  std::memset(bytes_, 0, kHeaderBytes);
  bytes_[4] = static_cast<char>(type);
}

void SmallFrame::append(const char* data, std::size_t count) {
  if (full_ || count > room()) {
    full_ = true;
    return;
  }
  if (count > 0) {
    std::memcpy(bytes_ + used_, data, count);
    used_ += count;
  }
}

std::string_view SmallFrame::finish() {
  const std::size_t payload = used_ - kHeaderBytes;
  for (unsigned i = 0; i < 4; ++i) {
    bytes_[i] = static_cast<char>((payload >> (8U * i)) & 0xffU);
  }
  return {bytes_, used_};
}

std::string frame_header(FrameType type, std::size_t payload_bytes) {
  std::string out;
  Encoder<std::string> to(out);
  to.u32(static_cast<std::uint32_t>(payload_bytes));
  to.u8(static_cast<std::uint8_t>(type));
  out.append(3, '\0');
  return out;
}

std::optional<FrameHeader> parse_header(std::string_view bytes) {
  Decoder from(bytes);
  FrameHeader header;
  header.length = from.u32();
  const std::uint8_t type = from.u8();
  header.type = static_cast<FrameType>(type);
  const bool padded = from.u8() == 0 && from.u8() == 0 && from.u8() == 0;
  if (!from.ok() || !padded || header.length > kMaxFrame ||
      type < static_cast<std::uint8_t>(FrameType::hello) ||
      type > static_cast<std::uint8_t>(FrameType::clear)) {
    return std::nullopt;
  }
  return header;
}

void encode(std::string& out, const GuestConfig& config) {
  Encoder<std::string> to(out);
  to.u64(config.idle_ms);
  to.u32(config.uid);
  to.u32(config.gid);
  to.u8(config.one_user ? 1 : 0);
  to.str(config.user);
  to.str(config.home);
  to.str(config.cwd);
  to.u64(config.max_processes);
  to.u64(config.max_data_bytes);
  encode_pairs(to, config.environment);
  if (config.no_capabilities) {
    to.u8(1);
  }
}

bool decode(std::string_view payload, GuestConfig& config) {
  Decoder from(payload);
  config.idle_ms = from.u64();
  config.uid = from.u32();
  config.gid = from.u32();
  config.one_user = from.u8() != 0;
  config.user = from.str();
  config.home = from.str();
  config.cwd = from.str();
  config.max_processes = from.u64();
  config.max_data_bytes = from.u64();
  if (!decode_pairs(from, config.environment)) {
    return false;
  }
  config.no_capabilities = !from.at_end() && from.u8() == 1;
  return from.at_end();
}

void encode(std::string& out, const ExecHead& head, const ExecBody& body) {
  Encoder<std::string> to(out);
  to.u32(head.flags);
  to.u64(head.timeout_ms);
  to.u64(head.grace_ms);
  to.u16(head.rows);
  to.u16(head.columns);
  to.str(head.job);
  to.str(body.user);
  to.str(body.cwd);
  to.u32(static_cast<std::uint32_t>(body.argv.size()));
  for (const auto& word : body.argv) {
    to.str(word);
  }
  encode_pairs(to, body.environment);
}

bool decode(std::string_view payload, ExecHead& head, std::string_view& rest) {
  Decoder from(payload);
  head.flags = from.u32();
  head.timeout_ms = from.u64();
  head.grace_ms = from.u64();
  head.rows = from.u16();
  head.columns = from.u16();
  head.job = from.str();
  rest = from.rest();
  return from.ok();
}

bool decode(std::string_view rest, ExecBody& body) {
  Decoder from(rest);
  body.user = from.str();
  body.cwd = from.str();
  const std::uint32_t count = from.u32();
  if (count == 0 || count > kMaxItems) {
    return false;
  }
  for (std::uint32_t i = 0; i < count && from.ok(); ++i) {
    body.argv.push_back(from.str());
  }
  return decode_pairs(from, body.environment) && from.at_end();
}

}  // namespace ascope::guest
