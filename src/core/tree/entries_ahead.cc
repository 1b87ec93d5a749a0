// SPDX-License-Identifier: Apache-2.0
#include "core/tree/entries_ahead.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace ascope {

namespace {

constexpr std::size_t kBatchEntries = 128;
constexpr std::size_t kBatchPathBytes = 128U << 10U;
constexpr std::size_t kMostBatches = 6;

}  // namespace

struct EntriesAhead::State {
  explicit State(TreeSource& tree) : source(tree) {}

  // The next entries; fewer than a batch, where the source ended or failed.
  struct Read {
    std::vector<TreeEntry> entries;
    bool last = false;
    std::optional<Error> error;
  };
  Read read_batch() {
    Read out;
    out.entries.reserve(kBatchEntries);
    for (std::size_t path_bytes = 0; out.entries.size() < kBatchEntries && path_bytes < kBatchPathBytes;) {
      TreeEntry entry;
      Result<bool> more = source.next(entry);
      out.last = !more || !*more;
      if (!more) {
        out.error = std::move(more).error();
      }
      if (out.last) {
        break;
      }
      path_bytes += entry.path.size() + entry.link_target.size();
      out.entries.push_back(std::move(entry));
    }
    return out;
  }

  void run() {
    for (bool last = false; !last;) {
      Read next = read_batch();
      last = next.last;
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return stop || batches.size() < kMostBatches; });
      if (stop) {
        return;
      }
      if (!next.entries.empty()) {
        batches.push_back(std::move(next.entries));
      }
      error = std::move(next.error);
      ended = last;
      changed.notify_all();
    }
  }

  TreeSource& source;
  std::mutex mutex;
  std::condition_variable changed;
  // With `mutex`:
  std::deque<std::vector<TreeEntry>> batches;
  std::optional<Error> error;
  bool ended = false;
  bool stop = false;
  // The caller's own:
  std::vector<TreeEntry> batch;
  std::size_t used = 0;
  std::thread thread;
};

EntriesAhead::EntriesAhead(TreeSource& source) : state_(std::make_unique<State>(source)) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

EntriesAhead::~EntriesAhead() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) {
    state_->thread.join();
  }
}

Result<bool> EntriesAhead::next(TreeEntry& entry) {
  State& state = *state_;
  while (state.used == state.batch.size()) {
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&] { return state.ended || !state.batches.empty(); });
    if (state.batches.empty()) {
      lock.unlock();
      if (state.thread.joinable()) {
        state.thread.join();
      }
      return state.error ? Result<bool>(*state.error) : Result<bool>(false);
    }
    state.batch = std::move(state.batches.front());
    state.batches.pop_front();
    state.used = 0;
    state.changed.notify_all();
  }
  entry = std::move(state.batch[state.used++]);
  return true;
}

}  // namespace ascope
