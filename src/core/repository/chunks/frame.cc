// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/frame.h"

#include <zstd.h>

namespace ascope::chunks {

struct FrameCompressor::State {
  ZSTD_CCtx* ctx = ZSTD_createCCtx();
  ~State() { ZSTD_freeCCtx(ctx); }
  std::string buffer;
};

FrameCompressor::FrameCompressor(int level) : state_(std::make_unique<State>()) {
  ZSTD_CCtx_setParameter(state_->ctx, ZSTD_c_compressionLevel, level);
}
FrameCompressor::~FrameCompressor() = default;

Result<std::string> FrameCompressor::squeeze(ByteView raw) {
  std::string& buffer = state_->buffer;
  buffer.resize(ZSTD_compressBound(raw.size()));
  const std::size_t count = ZSTD_compress2(state_->ctx, buffer.data(), buffer.size(), raw.data(), raw.size());
  if (ZSTD_isError(count) != 0U) {
    return make_error(ErrorKind::internal, std::string("zstd: ") + ZSTD_getErrorName(count));
  }
  return buffer.substr(0, count);
}

Result<FrameCompressor::Packed> FrameCompressor::pack(std::string raw) {
  ASCOPE_TRY_ASSIGN(std::string squeezed, squeeze(raw));
  return squeezed.size() < raw.size() ? Packed{Codec::zstd, std::move(squeezed)}
                                      : Packed{Codec::raw, std::move(raw)};
}

struct FrameDecompressor::State {
  ZSTD_DCtx* ctx = ZSTD_createDCtx();
  ~State() { ZSTD_freeDCtx(ctx); }
};

FrameDecompressor::FrameDecompressor() : state_(std::make_unique<State>()) {}
FrameDecompressor::~FrameDecompressor() = default;

Result<std::string> FrameDecompressor::unpack(Codec codec, std::string stored, std::uint64_t raw_bytes,
                                              std::uint64_t limit) {
  if (raw_bytes > limit) {
    return make_error(ErrorKind::corrupt, "claims to unpack to " + std::to_string(raw_bytes) + " bytes");
  }
  if (codec == Codec::raw) {
    return stored.size() == raw_bytes ? Result<std::string>(std::move(stored))
                                      : make_error(ErrorKind::corrupt, "has another size than it should");
  }
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != raw_bytes) {
    return make_error(ErrorKind::corrupt, "is damaged: its zstd frame has another size than it should");
  }
  std::string out(static_cast<std::size_t>(raw_bytes), '\0');
  const std::size_t count =
      ZSTD_decompressDCtx(state_->ctx, out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(count) != 0U || count != raw_bytes) {
    return make_error(ErrorKind::corrupt, "is damaged: its zstd frame cannot be unpacked");
  }
  return out;
}

}  // namespace ascope::chunks
