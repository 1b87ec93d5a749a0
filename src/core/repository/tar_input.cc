// SPDX-License-Identifier: Apache-2.0
#include "core/repository/tar_input.h"

#include <algorithm>

namespace ascope {

namespace {

constexpr std::size_t kBufferBytes = 256U << 10U;

Error corrupt(std::string message) {
  return make_error(ErrorKind::corrupt, std::move(message));
}

// Offset and length pairs of 12 digits each; an empty one ends them. false: one is impossible.
bool take_pairs(ByteView block, std::size_t at, int count, std::vector<Extent>& map) {
  for (int i = 0; i < count; ++i, at += 24) {
    if (block[at] == '\0') {
      return true;
    }
    const auto offset = tar_number(block.substr(at, 12));
    const auto length = tar_number(block.substr(at + 12, 12));
    if (!offset || !length || *offset < 0 || *length < 0 || map.size() == kMaxExtents) {
      return false;
    }
    map.push_back({static_cast<std::uint64_t>(*offset), static_cast<std::uint64_t>(*length)});
  }
  return true;
}

}  // namespace

Result<ByteView> TarInput::ahead(std::size_t count) {
  while (buffer_.size() - used_ < count) {
    buffer_.erase(0, used_);
    used_ = 0;
    const std::size_t have = buffer_.size();
    buffer_.resize(have + kBufferBytes);
    Result<std::size_t> got = bytes_->read(std::span(buffer_).subspan(have));
    buffer_.resize(have + (got ? *got : 0));
    if (!got) {
      return std::move(got).error();
    }
    if (*got == 0) {
      break;
    }
  }
  return ByteView(buffer_).substr(used_);
}

Result<void> TarInput::take(std::uint64_t count, std::string& out) {
  out.clear();
  while (out.size() < count) {
    ASCOPE_TRY_ASSIGN(const ByteView have, ahead(1));
    if (have.empty()) {
      return corrupt("the archive is cut");
    }
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(have.size(), count - out.size()));
    out += have.substr(0, now);
    consume(now);
  }
  return ok();
}

Result<void> TarInput::skip(std::uint64_t count) {
  while (count > 0) {
    ASCOPE_TRY_ASSIGN(const ByteView have, ahead(1));
    if (have.empty()) {
      return corrupt("the archive is cut");
    }
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(have.size(), count));
    consume(now);
    count -= now;
  }
  return ok();
}

Result<std::uint64_t> read_gnu_map(const TarHeader& header, TarInput& input, std::vector<Extent>& map) {
  const auto real_size = tar_number(header.block.substr(483, 12));
  bool good = real_size && *real_size >= 0 && take_pairs(header.block, 386, 4, map);
  bool extended = header.block[482] != '\0';
  std::string block;
  while (good && extended) {
    ASCOPE_TRY(input.take(kTarBlock, block));
    good = take_pairs(block, 0, 21, map);
    extended = block[504] != '\0';
  }
  if (!good) {
    return corrupt("its map is impossible");
  }
  return static_cast<std::uint64_t>(*real_size);
}

Result<void> read_text_map(TarInput& input, std::uint64_t& stored_left, std::vector<Extent>& map) {
  std::uint64_t used = 0;
  const auto number = [&]() -> Result<std::uint64_t> {
    std::string digits;
    while (digits.size() <= 20 && used < stored_left) {
      ASCOPE_TRY_ASSIGN(const ByteView have, input.ahead(1));
      if (have.empty()) {
        return corrupt("the archive is cut");
      }
      const char c = have[0];
      input.consume(1);
      ++used;
      if (c == '\n') {
        const auto value = decimal(digits);
        return value ? Result<std::uint64_t>(*value) : corrupt("its map is impossible");
      }
      digits += c;
    }
    return corrupt("its map is impossible");
  };
  ASCOPE_TRY_ASSIGN(const std::uint64_t count, number());
  if (count > kMaxExtents) {
    return corrupt("its map has too many pieces");
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    ASCOPE_TRY_ASSIGN(const std::uint64_t offset, number());
    ASCOPE_TRY_ASSIGN(const std::uint64_t length, number());
    map.push_back({offset, length});
  }
  const std::size_t pad = tar_padding(used);
  if (pad > stored_left - used) {
    return corrupt("its map is impossible");
  }
  ASCOPE_TRY(input.skip(pad));
  stored_left -= used + pad;
  return ok();
}

Result<std::vector<Extent>> check_sparse_map(const std::vector<Extent>& map, std::uint64_t size_bytes,
                                             std::uint64_t stored) {
  std::vector<Extent> out;
  std::uint64_t end = 0;
  std::uint64_t total = 0;
  for (const Extent& one : map) {
    if (one.offset < end || one.offset > size_bytes || one.length > size_bytes - one.offset) {
      return corrupt("its map is impossible");
    }
    end = one.offset + one.length;
    total += one.length;
    if (one.length > 0) {
      out.push_back(one);
    }
  }
  if (total != stored) {
    return corrupt("its map does not fit its data");
  }
  return out;
}

}  // namespace ascope
