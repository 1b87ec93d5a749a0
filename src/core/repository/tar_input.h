// SPDX-License-Identifier: Apache-2.0
// A tar's bytes with a look ahead, and the sparse maps that lie among them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/repository/tar_header.h"

namespace ascope {

// How far it is from `size` to the next block.
constexpr std::size_t tar_padding(std::uint64_t size) {
  return static_cast<std::size_t>((kTarBlock - size % kTarBlock) % kTarBlock);
}

class TarInput {
 public:
  explicit TarInput(std::unique_ptr<ByteSource> bytes) : bytes_(std::move(bytes)) {}

  // What comes next: at least `count` bytes, or fewer at the end. Valid until the next call.
  Result<ByteView> ahead(std::size_t count);
  // REQUIRES: ahead() has given as many.
  void consume(std::size_t count) { used_ += count; }
  // Exactly `count` bytes into `out`, or past them; `corrupt` if the archive ends before.
  Result<void> take(std::uint64_t count, std::string& out);
  Result<void> skip(std::uint64_t count);

 private:
  std::unique_ptr<ByteSource> bytes_;
  std::string buffer_;
  std::size_t used_ = 0;
};

// The old GNU map: four pieces in the header, more in blocks behind it. Returns the file's real size.
Result<std::uint64_t> read_gnu_map(const TarHeader& header, TarInput& input, std::vector<Extent>& map);
// Format 1.0: text at the beginning of the member's data, padded to a block; `stored_left` becomes what is
// left of it.
Result<void> read_text_map(TarInput& input, std::uint64_t& stored_left, std::vector<Extent>& map);
// The pieces with data in them. `corrupt` unless they are in order, within the size, and `stored` bytes in
// all.
Result<std::vector<Extent>> check_sparse_map(const std::vector<Extent>& map, std::uint64_t size_bytes,
                                             std::uint64_t stored);

}  // namespace ascope
