// SPDX-License-Identifier: Apache-2.0
// Finds out by its first bytes how a tar is compressed.
#include <algorithm>

#include "core/repository/compress.h"
#include "core/repository/tar.h"
#include "core/repository/tar_header.h"

namespace ascope {

namespace {

// Gives the first bytes again, then the rest.
class PrependedSource final : public ByteSource {
 public:
  PrependedSource(std::string first, ByteSource& rest) : first_(std::move(first)), rest_(rest) {}
  Result<std::size_t> read(std::span<char> buffer) override {
    if (used_ == first_.size()) {
      return rest_.read(buffer);
    }
    const std::size_t count = std::min(buffer.size(), first_.size() - used_);
    std::copy_n(first_.data() + used_, count, buffer.data());
    used_ += count;
    return count;
  }

 private:
  std::string first_;
  std::size_t used_ = 0;
  ByteSource& rest_;
};

// A decompressor with the source that it reads from.
class OwnedDecompressor final : public ByteSource {
 public:
  OwnedDecompressor(std::unique_ptr<ByteSource> raw, std::unique_ptr<ByteSource> plain)
      : raw_(std::move(raw)), plain_(std::move(plain)) {}
  Result<std::size_t> read(std::span<char> buffer) override { return plain_->read(buffer); }

 private:
  std::unique_ptr<ByteSource> raw_;
  std::unique_ptr<ByteSource> plain_;
};

}  // namespace

Result<std::unique_ptr<TreeSource>> read_tar(ByteSource& bytes) {
  std::string first(4, '\0');
  std::size_t have = 0;
  while (have < first.size()) {
    ASCOPE_TRY_ASSIGN(const std::size_t got, bytes.read(std::span(first).subspan(have)));
    if (got == 0) {
      break;
    }
    have += got;
  }
  first.resize(have);
  const bool gzip = first.starts_with("\x1f\x8b");
  const bool zstd = first.starts_with("\x28\xb5\x2f\xfd");
  auto raw = std::make_unique<PrependedSource>(std::move(first), bytes);
  std::unique_ptr<ByteSource> plain;
  if (gzip || zstd) {
    ASCOPE_TRY_ASSIGN(plain, decompressing_source(*raw, gzip ? TarCompression::gzip : TarCompression::zstd));
    plain = std::make_unique<OwnedDecompressor>(std::move(raw), std::move(plain));
  } else {
    plain = std::move(raw);
  }
  return read_plain_tar(std::move(plain));
}

}  // namespace ascope
