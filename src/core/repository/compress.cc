// SPDX-License-Identifier: Apache-2.0
#include "core/repository/compress.h"

#include <cerrno>
#include <optional>

#include "core/repository/archive_lib.h"

namespace ascope {

namespace {

constexpr std::size_t kBufferBytes = 256U << 10U;

class Compressor final : public FinishedSink {
 public:
  Compressor(const ArchiveLib& lib, ByteSink& sink) : lib_(lib), sink_(sink), archive_(lib.write_new()) {}
  ~Compressor() override { lib_.write_free(archive_); }

  Result<void> open(TarCompression compression) {
    const bool gzip = compression == TarCompression::gzip;
    int outcome = gzip ? lib_.write_add_filter_gzip(archive_) : lib_.write_add_filter_zstd(archive_);
    if (outcome == ARCHIVE_OK && gzip) {
      outcome = lib_.write_set_filter_option(archive_, "gzip", "timestamp", nullptr);  // else the time of day
    }
    if (outcome != ARCHIVE_OK) {
      return failed("compressing");
    }
    lib_.write_set_format_raw(archive_);
    lib_.write_set_bytes_in_last_block(archive_, 1);
    if (lib_.write_open(archive_, this, nullptr, &Compressor::pass_on, nullptr) != ARCHIVE_OK) {
      return failed("compressing");
    }
    archive_entry* entry = lib_.entry_new();
    lib_.entry_set_filetype(entry, AE_IFREG);
    outcome = lib_.write_header(archive_, entry);
    lib_.entry_free(entry);
    return outcome == ARCHIVE_OK ? ok() : Result<void>(failed("compressing"));
  }
  Result<void> write(ByteView data) override {
    while (!data.empty()) {
      const la_ssize_t count = lib_.write_data(archive_, data.data(), data.size());
      if (count <= 0) {
        return failed("compressing");
      }
      data.remove_prefix(static_cast<std::size_t>(count));
    }
    return ok();
  }
  Result<void> finish() override {
    return lib_.write_close(archive_) == ARCHIVE_OK ? ok() : Result<void>(failed("compressing"));
  }

 private:
  static la_ssize_t pass_on(archive* /*unused*/, void* self, const void* data, std::size_t size) {
    auto* own = static_cast<Compressor*>(self);
    Result<void> done = own->sink_.write(ByteView(static_cast<const char*>(data), size));
    if (!done) {
      own->error_ = std::move(done).error();
      return -1;
    }
    return static_cast<la_ssize_t>(size);
  }
  Error failed(std::string_view what) {
    if (error_) {
      return *error_;
    }
    const char* why = lib_.error_string(archive_);
    return make_error(ErrorKind::io, std::string(what) + ": " + (why == nullptr ? "unknown reason" : why));
  }

  const ArchiveLib& lib_;
  ByteSink& sink_;
  archive* archive_;
  std::optional<Error> error_;
};

class Decompressor final : public ByteSource {
 public:
  Decompressor(const ArchiveLib& lib, ByteSource& bytes)
      : lib_(lib), bytes_(bytes), archive_(lib.read_new()), buffer_(kBufferBytes, '\0') {}
  ~Decompressor() override { lib_.read_free(archive_); }

  Result<void> open() {
    lib_.read_support_filter_gzip(archive_);
    lib_.read_support_filter_zstd(archive_);
    lib_.read_support_format_raw(archive_);
    lib_.read_support_format_empty(archive_);
    archive_entry* entry = nullptr;
    if (lib_.read_open(archive_, this, nullptr, &Decompressor::fetch, nullptr) != ARCHIVE_OK) {
      return failed();
    }
    const int outcome = lib_.read_next_header(archive_, &entry);
    at_end_ = outcome == ARCHIVE_EOF;
    return outcome == ARCHIVE_OK || at_end_ ? ok() : Result<void>(failed());
  }
  Result<std::size_t> read(std::span<char> buffer) override {
    if (at_end_) {
      return std::size_t{0};
    }
    const la_ssize_t count = lib_.read_data(archive_, buffer.data(), buffer.size());
    if (count < 0) {
      return failed();
    }
    at_end_ = count == 0;
    return static_cast<std::size_t>(count);
  }

 private:
  static la_ssize_t fetch(archive* handle, void* self, const void** data) {
    auto* own = static_cast<Decompressor*>(self);
    Result<std::size_t> got = own->bytes_.read(own->buffer_);
    if (!got) {
      own->error_ = std::move(got).error();
      own->lib_.set_error(handle, EIO, "%s", "the source failed");
      return -1;
    }
    *data = own->buffer_.data();
    return static_cast<la_ssize_t>(*got);
  }
  Error failed() {
    if (error_) {
      return *error_;
    }
    const char* why = lib_.error_string(archive_);
    return make_error(ErrorKind::corrupt, std::string("the compressed archive is damaged: ") +
                                              (why == nullptr ? "unknown reason" : why));
  }

  const ArchiveLib& lib_;
  ByteSource& bytes_;
  archive* archive_;
  std::string buffer_;
  std::optional<Error> error_;
  bool at_end_ = false;
};

}  // namespace

Result<std::unique_ptr<FinishedSink>> compressing_sink(ByteSink& sink, TarCompression compression) {
  ASCOPE_TRY_ASSIGN(const ArchiveLib* lib, archive_lib());
  auto out = std::make_unique<Compressor>(*lib, sink);
  ASCOPE_TRY(out->open(compression));
  return std::unique_ptr<FinishedSink>(std::move(out));
}

Result<std::unique_ptr<ByteSource>> decompressing_source(ByteSource& bytes) {
  ASCOPE_TRY_ASSIGN(const ArchiveLib* lib, archive_lib());
  auto out = std::make_unique<Decompressor>(*lib, bytes);
  ASCOPE_TRY(out->open());
  return std::unique_ptr<ByteSource>(std::move(out));
}

}  // namespace ascope
