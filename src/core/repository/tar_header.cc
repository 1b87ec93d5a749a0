// SPDX-License-Identifier: Apache-2.0
#include "core/repository/tar_header.h"

#include <algorithm>
#include <limits>

namespace ascope {

namespace {

constexpr std::uint64_t kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Error corrupt(std::string message) {
  return make_error(ErrorKind::corrupt, std::move(message));
}

std::string text_field(ByteView field) {
  return std::string(field.substr(0, field.find('\0')));
}

// "123.456", "-4.5", also without a fraction, into nanoseconds (digits beyond nine are dropped).
std::optional<std::int64_t> pax_time(std::string_view text) {
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 1 : 0);
  const std::size_t point = text.find('.');
  const auto seconds = decimal(text.substr(0, point));
  std::string fraction(point == std::string_view::npos ? std::string_view() : text.substr(point + 1));
  fraction.resize(9, '0');
  const auto rest = decimal(fraction);
  constexpr std::uint64_t kMaxSeconds = kMost / 1'000'000'000 - 1;
  if (!seconds || !rest || *seconds > kMaxSeconds) {
    return std::nullopt;
  }
  const auto value = static_cast<std::int64_t>(*seconds * 1'000'000'000 + *rest);
  return negative ? -value : value;
}

// GNU.sparse.map of format 0.1: "offset,length,offset,length".
bool parse_map(std::string_view text, std::vector<Extent>& out) {
  out.clear();
  while (!text.empty()) {
    std::uint64_t pair[2];
    for (std::uint64_t& value : pair) {
      const std::size_t comma = text.find(',');
      const auto number = decimal(text.substr(0, comma));
      if (!number) {
        return false;
      }
      value = *number;
      text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    }
    if (out.size() == kMaxExtents) {
      return false;
    }
    out.push_back({pair[0], pair[1]});
  }
  return true;
}

bool take_sparse(std::string_view key, std::string_view value, PaxFields& fields) {
  fields.is_sparse = true;
  if (key == "GNU.sparse.major") {
    fields.sparse_major = value;
  } else if (key == "GNU.sparse.minor") {
    fields.sparse_minor = value;
  } else if (key == "GNU.sparse.name") {
    fields.sparse_name = std::string(value);
  } else if (key == "GNU.sparse.realsize" || key == "GNU.sparse.size") {
    fields.real_size = decimal(value);
    return fields.real_size.has_value();
  } else if (key == "GNU.sparse.map") {
    return parse_map(value, fields.sparse_map);
  } else if (key == "GNU.sparse.offset") {
    const auto offset = decimal(value);
    if (!offset || fields.sparse_map.size() == kMaxExtents) {
      return false;
    }
    fields.sparse_map.push_back({*offset, 0});
  } else if (key == "GNU.sparse.numbytes") {
    const auto length = decimal(value);
    if (!length || fields.sparse_map.empty()) {
      return false;
    }
    fields.sparse_map.back().length = *length;
  }
  return true;
}

bool take_record(std::string_view key, std::string_view value, PaxFields& fields) {
  constexpr std::string_view kXattr = "SCHILY.xattr.";
  const auto number = [&](std::optional<std::uint64_t>& out) {
    out = decimal(value);
    return out.has_value();
  };
  if (key == "path") {
    fields.path = std::string(value);
  } else if (key == "linkpath") {
    fields.link = std::string(value);
  } else if (key == "size") {
    return number(fields.size_bytes);
  } else if (key == "uid") {
    return number(fields.uid);
  } else if (key == "gid") {
    return number(fields.gid);
  } else if (key == "mtime") {
    fields.mtime_ns = pax_time(value);
    return fields.mtime_ns.has_value();
  } else if (key == "SCHILY.devmajor") {
    return number(fields.device_major);
  } else if (key == "SCHILY.devminor") {
    return number(fields.device_minor);
  } else if (key.starts_with(kXattr)) {
    const std::string name(key.substr(kXattr.size()));
    std::erase_if(fields.xattrs, [&](const auto& one) { return one.first == name; });
    fields.xattrs.emplace_back(name, std::string(value));
    return !name.empty() && name.size() <= 255 && value.size() <= (64U << 10U) &&
           fields.xattrs.size() <= 1000;
  } else if (key == "comment") {
    fields.comment = value;
  } else if (key.starts_with("GNU.sparse.")) {
    return take_sparse(key, value, fields);
  }
  return true;  // times of access, names of owners and what others add
}

}  // namespace

std::optional<std::uint64_t> decimal(std::string_view text) {
  if (text.empty() || text.size() > 19) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value > kMost ? std::nullopt : std::optional(value);
}

std::optional<std::int64_t> tar_number(ByteView field) {
  const auto first = static_cast<unsigned char>(field[0]);
  if ((first & 0x80U) != 0) {  // base 256, two's complement
    const bool negative = first == 0xff;
    if (!negative && first != 0x80) {
      return std::nullopt;
    }
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (const char c : field.substr(1)) {
      if (((value >> 55U) != 0 && !negative) || ((~value >> 55U) != 0 && negative)) {
        return std::nullopt;
      }
      value = (value << 8U) | static_cast<unsigned char>(c);
    }
    return static_cast<std::int64_t>(value);
  }
  std::size_t at = 0;
  while (at < field.size() && field[at] == ' ') {
    ++at;
  }
  std::uint64_t value = 0;
  for (; at < field.size() && field[at] >= '0' && field[at] <= '7'; ++at) {
    value = (value << 3U) | static_cast<std::uint64_t>(field[at] - '0');
  }
  for (; at < field.size(); ++at) {
    if (field[at] != ' ' && field[at] != '\0') {
      return std::nullopt;
    }
  }
  return value > kMost ? std::nullopt : std::optional(static_cast<std::int64_t>(value));
}

Result<TarHeader> parse_tar_header(ByteView block) {
  unsigned sum = 0;
  int signed_sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : block[i];
    sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  const auto stored = tar_number(block.substr(148, 8));
  if (!stored || (*stored != static_cast<std::int64_t>(sum) && *stored != signed_sum)) {
    return corrupt("a header with a wrong checksum");
  }
  TarHeader out;
  out.block = block;
  const ByteView magic = block.substr(257, 8);
  const bool is_posix = magic.starts_with(ByteView("ustar\0", 6));
  out.is_gnu = magic == ByteView("ustar  \0", 8);
  out.name = text_field(block.substr(0, 100));
  const std::string prefix = is_posix ? text_field(block.substr(345, 155)) : "";
  if (!prefix.empty()) {
    out.name = prefix + "/" + out.name;
  }
  out.link = text_field(block.substr(157, 100));
  out.type = block[156] == '\0' ? '0' : block[156];
  const auto mode = tar_number(block.substr(100, 8));
  const auto uid = tar_number(block.substr(108, 8));
  const auto gid = tar_number(block.substr(116, 8));
  const auto size = tar_number(block.substr(124, 12));
  const auto mtime = tar_number(block.substr(136, 12));
  const bool has_device = out.type == '3' || out.type == '4';
  const auto device_major = has_device ? tar_number(block.substr(329, 8)) : 0;
  const auto device_minor = has_device ? tar_number(block.substr(337, 8)) : 0;
  if (!mode || !uid || !gid || !size || !mtime || !device_major || !device_minor || *size < 0 || *uid < 0 ||
      *gid < 0 || *device_major < 0 || *device_minor < 0) {
    return corrupt("the header of '" + out.name + "' has a number that is none");
  }
  out.mode = static_cast<std::uint32_t>(*mode & 07777);
  out.uid = static_cast<std::uint64_t>(*uid);
  out.gid = static_cast<std::uint64_t>(*gid);
  out.size_bytes = static_cast<std::uint64_t>(*size);
  out.mtime = *mtime;
  out.device_major = static_cast<std::uint64_t>(*device_major);
  out.device_minor = static_cast<std::uint64_t>(*device_minor);
  return out;
}

Result<void> parse_pax_records(ByteView records, PaxFields& fields) {
  while (!records.empty()) {
    const std::size_t blank = records.find(' ');
    const auto length = decimal(records.substr(0, std::min(blank, records.size())));
    if (!length || *length > records.size() || *length < blank + 3 || records[*length - 1] != '\n') {
      return corrupt("a malformed pax header");
    }
    const ByteView record = records.substr(blank + 1, *length - blank - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return corrupt("a pax header with a record that has no key");
    }
    if (!take_record(record.substr(0, equals), record.substr(equals + 1), fields)) {
      return corrupt("a pax header with an impossible '" + std::string(record.substr(0, equals)) + "'");
    }
    records.remove_prefix(*length);
  }
  return ok();
}

}  // namespace ascope
