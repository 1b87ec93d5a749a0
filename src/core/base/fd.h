// SPDX-License-Identifier: Apache-2.0
// An owned file descriptor, and the few calls on descriptors that everybody needs.
#pragma once

#include <span>
#include <string>
#include <sys/types.h>
#include <utility>

#include "core/base/bytes.h"

namespace ascope {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  // Closes and forgets; an error of close() is lost. Use close() where it matters (after writing).
  void reset();
  // close(2) with its error, `io`. The descriptor is gone in any case.
  Result<void> close();

 private:
  int fd_ = -1;
};

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};
// A pipe whose two ends are close-on-exec.
Result<Pipe> make_pipe();

// Writes all of `data`, through EINTR and short writes. EPIPE is an `io` error like any other (SIGPIPE is
// ignored).
Result<void> write_all(int fd, ByteView data);
// Reads once, through EINTR; 0 = end of file.
Result<std::size_t> read_some(int fd, std::span<char> buffer);

// A source over a descriptor; owns it.
class FdSource final : public ByteSource {
 public:
  explicit FdSource(UniqueFd fd) : fd_(std::move(fd)) {}
  Result<std::size_t> read(std::span<char> buffer) override { return read_some(fd_.get(), buffer); }

 private:
  UniqueFd fd_;
};

// A sink over a descriptor that somebody else owns and that outlives it.
class FdSink final : public ByteSink {
 public:
  explicit FdSink(int fd) : fd_(fd) {}
  Result<void> write(ByteView data) override { return write_all(fd_, data); }

 private:
  int fd_;
};

}  // namespace ascope
