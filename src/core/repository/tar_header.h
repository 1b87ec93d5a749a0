// SPDX-License-Identifier: Apache-2.0
// One header block of a tar, taken apart strictly; and the records of a pax header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/tree/tree.h"

namespace ascope {

inline constexpr std::size_t kTarBlock = 512;
// The comment of the global pax header that our own archives begin with: their owners are ids inside a
// sandbox. A comment, since every tar passes over it.
inline constexpr std::string_view kTarMark = "ascope-sandbox";

struct TarHeader {
  std::string name;  // prefix and name joined
  std::string link;
  char type = '0';
  std::uint32_t mode = 0;
  std::uint64_t uid = 0;
  std::uint64_t gid = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t mtime = 0;  // seconds
  std::uint64_t device_major = 0;
  std::uint64_t device_minor = 0;
  bool is_gnu = false;
  ByteView block;  // the header itself, for GNU's sparse fields
};

// `corrupt` unless the checksum is right and every number is one (octal, or GNU's base 256).
Result<TarHeader> parse_tar_header(ByteView block);
// A number field: octal digits between blanks, or base 256. nullopt if it is neither or does not fit 63 bits.
std::optional<std::int64_t> tar_number(ByteView field);

// What pax records say of the member that follows.
struct PaxFields {
  std::optional<std::string> path, link;
  std::optional<std::uint64_t> size_bytes, uid, gid, device_major, device_minor, real_size;
  std::optional<std::int64_t> mtime_ns;
  std::vector<std::pair<std::string, std::string>> xattrs;
  std::optional<std::string> sparse_name;
  std::string sparse_major, sparse_minor;
  std::vector<Extent> sparse_map;  // of formats 0.0 and 0.1
  bool is_sparse = false;
  std::string comment;
};

// Adds the records to `fields`; a key given again replaces. `corrupt` if one is malformed.
Result<void> parse_pax_records(ByteView records, PaxFields& fields);
// Decimal digits only. nullopt for anything else, or more than fits 63 bits.
std::optional<std::uint64_t> decimal(std::string_view text);

// Reads an uncompressed tar, as read_tar does.
std::unique_ptr<TreeSource> read_plain_tar(std::unique_ptr<ByteSource> bytes);

}  // namespace ascope
