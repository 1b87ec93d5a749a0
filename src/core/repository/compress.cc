// SPDX-License-Identifier: Apache-2.0
#include "core/repository/compress.h"

#include <array>
#include <zlib.h>

#include <zstd.h>

namespace ascope {

namespace {

constexpr std::size_t kBufferBytes = 256U << 10U;
constexpr int kGzipWindow = 15 + 16;  // the widest, in gzip's own frame (zlib.h, deflateInit2)
constexpr int kGzipMemory = 8;        // zlib's default

Error damaged(std::string_view why) {
  return make_error(ErrorKind::corrupt, "the compressed archive is damaged: " + std::string(why));
}

Error cut() {
  return damaged("it is cut");
}

unsigned char* bytes_of(char* data) {
  return reinterpret_cast<unsigned char*>(data);
}

// ---- gzip ----

class GzipWriter final : public FinishedSink {
 public:
  explicit GzipWriter(ByteSink& sink) : sink_(sink), buffer_(kBufferBytes, '\0') {}
  ~GzipWriter() override { deflateEnd(&stream_); }

  Result<void> open() {
    // Without a header of ours the time in it is 0: equal content gives equal bytes.
    const int outcome = deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kGzipMemory,
                                     Z_DEFAULT_STRATEGY);
    return outcome == Z_OK ? ok() : Result<void>(make_error(ErrorKind::io, "compressing: out of memory"));
  }
  Result<void> write(ByteView data) override {
    while (!data.empty()) {
      const ByteView part = data.substr(0, kBufferBytes);
      stream_.next_in = bytes_of(const_cast<char*>(part.data()));  // zlib only reads it
      stream_.avail_in = static_cast<unsigned>(part.size());
      while (stream_.avail_in > 0) {
        ASCOPE_TRY(step(Z_NO_FLUSH));
      }
      data.remove_prefix(part.size());
    }
    return ok();
  }
  Result<void> finish() override {
    while (!ended_) {
      ASCOPE_TRY(step(Z_FINISH));
    }
    return ok();
  }

 private:
  Result<void> step(int flush) {
    stream_.next_out = bytes_of(buffer_.data());
    stream_.avail_out = static_cast<unsigned>(buffer_.size());
    ended_ = deflate(&stream_, flush) == Z_STREAM_END;
    return sink_.write(ByteView(buffer_).substr(0, buffer_.size() - stream_.avail_out));
  }

  ByteSink& sink_;
  z_stream stream_{};
  std::string buffer_;
  bool ended_ = false;
};

// One member or several behind one another; zeros may follow the last, as tar pads its blocks.
class GzipReader final : public ByteSource {
 public:
  explicit GzipReader(ByteSource& bytes) : bytes_(bytes), buffer_(kBufferBytes, '\0') {}
  ~GzipReader() override { inflateEnd(&stream_); }

  Result<void> open() {
    return inflateInit2(&stream_, kGzipWindow) == Z_OK
               ? ok()
               : Result<void>(make_error(ErrorKind::io, "decompressing: out of memory"));
  }
  Result<std::size_t> read(std::span<char> buffer) override {
    stream_.next_out = bytes_of(buffer.data());
    stream_.avail_out = static_cast<unsigned>(std::min(buffer.size(), kBufferBytes));
    const unsigned room = stream_.avail_out;
    while (!done_ && stream_.avail_out == room) {
      ASCOPE_TRY(step());
    }
    return static_cast<std::size_t>(room - stream_.avail_out);
  }

 private:
  Result<void> step() {
    if (stream_.avail_in == 0) {
      ASCOPE_TRY_ASSIGN(const std::size_t got, bytes_.read(buffer_));
      stream_.next_in = bytes_of(buffer_.data());
      stream_.avail_in = static_cast<unsigned>(got);
      if (got == 0) {
        done_ = true;
        return between_ ? ok() : Result<void>(cut());
      }
    }
    if (between_) {
      return next_member();
    }
    const int outcome = inflate(&stream_, Z_NO_FLUSH);
    if (outcome == Z_STREAM_END) {
      between_ = true;
      return ok();
    }
    // Z_BUF_ERROR: nothing could be done without more of either side; the loop brings more.
    if (outcome != Z_OK && outcome != Z_BUF_ERROR) {
      return damaged(stream_.msg != nullptr ? stream_.msg : "it is no gzip stream");
    }
    return ok();
  }
  Result<void> next_member() {
    if (*stream_.next_in != 0 && !padded_) {
      inflateReset(&stream_);  // its own magic is checked by the next step
      between_ = false;
      return ok();
    }
    for (; stream_.avail_in > 0; --stream_.avail_in, ++stream_.next_in) {
      if (*stream_.next_in != 0) {
        return damaged("something stands behind its end");
      }
    }
    padded_ = true;
    return ok();
  }

  ByteSource& bytes_;
  z_stream stream_{};
  std::string buffer_;
  bool between_ = false;  // behind a whole member
  bool padded_ = false;   // behind zeros that follow the last
  bool done_ = false;
};

// ---- zstd ----

class ZstdWriter final : public FinishedSink {
 public:
  explicit ZstdWriter(ByteSink& sink)
      : sink_(sink), stream_(ZSTD_createCCtx()), buffer_(kBufferBytes, '\0') {}
  ~ZstdWriter() override { ZSTD_freeCCtx(stream_); }

  Result<void> open() {
    if (stream_ == nullptr || ZSTD_isError(ZSTD_CCtx_setParameter(stream_, ZSTD_c_checksumFlag, 1)) != 0) {
      return make_error(ErrorKind::io, "compressing: out of memory");
    }
    return ok();
  }
  Result<void> write(ByteView data) override {
    ZSTD_inBuffer in{data.data(), data.size(), 0};
    while (in.pos < in.size) {
      ASCOPE_TRY(step(in, ZSTD_e_continue));
    }
    return ok();
  }
  Result<void> finish() override {
    ZSTD_inBuffer in{nullptr, 0, 0};
    do {
      ASCOPE_TRY(step(in, ZSTD_e_end));
    } while (left_ != 0);
    return ok();
  }

 private:
  Result<void> step(ZSTD_inBuffer& in, ZSTD_EndDirective directive) {
    ZSTD_outBuffer out{buffer_.data(), buffer_.size(), 0};
    left_ = ZSTD_compressStream2(stream_, &out, &in, directive);
    if (ZSTD_isError(left_) != 0) {
      return make_error(ErrorKind::io, std::string("compressing: ") + ZSTD_getErrorName(left_));
    }
    return sink_.write(ByteView(buffer_).substr(0, out.pos));
  }

  ByteSink& sink_;
  ZSTD_CCtx* stream_;
  std::string buffer_;
  std::size_t left_ = 0;
};

// One frame or several behind one another.
class ZstdReader final : public ByteSource {
 public:
  explicit ZstdReader(ByteSource& bytes)
      : bytes_(bytes), stream_(ZSTD_createDCtx()), buffer_(kBufferBytes, '\0') {}
  ~ZstdReader() override { ZSTD_freeDCtx(stream_); }

  Result<void> open() {
    return stream_ != nullptr ? ok()
                              : Result<void>(make_error(ErrorKind::io, "decompressing: out of memory"));
  }
  Result<std::size_t> read(std::span<char> buffer) override {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    while (out.pos == 0 && out.size > 0) {
      if (in_.pos == in_.size && (!full_ || left_ == 0)) {
        ASCOPE_TRY_ASSIGN(const std::size_t got, bytes_.read(buffer_));
        in_ = {buffer_.data(), got, 0};
        if (got == 0) {
          return left_ == 0 ? Result<std::size_t>(std::size_t{0}) : cut();
        }
      }
      left_ = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(left_) != 0) {
        return damaged(ZSTD_getErrorName(left_));
      }
      full_ = out.pos == out.size;  // then it may hold more without new input
    }
    return out.pos;
  }

 private:
  ByteSource& bytes_;
  ZSTD_DCtx* stream_;
  std::string buffer_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  std::size_t left_ = 0;  // 0: behind a whole frame, all of it given out
  bool full_ = false;
};

template <typename Wanted, typename Made, typename Other>
Result<std::unique_ptr<Wanted>> opened(Other& other) {
  auto out = std::make_unique<Made>(other);
  ASCOPE_TRY(out->open());
  return std::unique_ptr<Wanted>(std::move(out));
}

}  // namespace

Result<std::unique_ptr<FinishedSink>> compressing_sink(ByteSink& sink, TarCompression compression) {
  return compression == TarCompression::gzip ? opened<FinishedSink, GzipWriter>(sink)
                                             : opened<FinishedSink, ZstdWriter>(sink);
}

Result<std::unique_ptr<ByteSource>> decompressing_source(ByteSource& bytes, TarCompression compression) {
  return compression == TarCompression::gzip ? opened<ByteSource, GzipReader>(bytes)
                                             : opened<ByteSource, ZstdReader>(bytes);
}

}  // namespace ascope
