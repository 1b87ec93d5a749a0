// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "core/repository/tar.h"

namespace ascope {

namespace {

constexpr std::size_t kCapacity = 1U << 20U;

// The producer's end and the reader's share one buffer; the thread lives as long as the source.
class PipeSource final : public ByteSource, private ByteSink {
 public:
  explicit PipeSource(std::function<Result<void>(ByteSink&)> producer)
      : producer_(std::move(producer)), thread_([this] { produce(); }) {}
  ~PipeSource() override {
    {
      const std::lock_guard lock(mutex_);
      abandoned_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  PipeSource(const PipeSource&) = delete;
  PipeSource& operator=(const PipeSource&) = delete;

  Result<std::size_t> read(std::span<char> buffer) override {
    if (used_ == reading_.size()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !filled_.empty() || finished_; });
      if (filled_.empty()) {
        return error_ ? Result<std::size_t>(*error_) : Result<std::size_t>(std::size_t{0});
      }
      reading_.clear();
      reading_.swap(filled_);
      used_ = 0;
      lock.unlock();
      changed_.notify_all();
    }
    const std::size_t count = std::min(buffer.size(), reading_.size() - used_);
    std::copy_n(reading_.data() + used_, count, buffer.data());
    used_ += count;
    return count;
  }

 private:
  void produce() {
    Result<void> done = producer_(*this);
    {
      const std::lock_guard lock(mutex_);
      finished_ = true;
      if (!done) {
        error_ = std::move(done).error();
      }
    }
    changed_.notify_all();
  }
  Result<void> write(ByteView data) override {
    while (!data.empty()) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return filled_.size() < kCapacity || abandoned_; });
        if (abandoned_) {
          return make_error(ErrorKind::cancelled, "nobody reads on");
        }
        const std::size_t count = std::min(data.size(), kCapacity - filled_.size());
        filled_ += data.substr(0, count);
        data.remove_prefix(count);
      }
      changed_.notify_all();
    }
    return ok();
  }

  std::function<Result<void>(ByteSink&)> producer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string filled_;  // with mutex_
  bool finished_ = false;
  bool abandoned_ = false;
  std::optional<Error> error_;
  std::string reading_;  // the reader's own
  std::size_t used_ = 0;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<ByteSource> pipe_source(std::function<Result<void>(ByteSink&)> producer) {
  return std::make_unique<PipeSource>(std::move(producer));
}

}  // namespace ascope
