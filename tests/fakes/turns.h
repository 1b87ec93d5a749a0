// SPDX-License-Identifier: Apache-2.0
// Several actors, each with its own threads, over one store: one call of it at a time, in an order that the
// test chooses. So the real code can be run through the interleavings that a model would explore.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/store.h"

namespace ascope::test {

// Who comes next: given the actors that want to make a call and the number of calls so far.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual std::size_t pick(const std::vector<std::size_t>& ready) = 0;
};

class Turns {
 public:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  struct Actor {
    std::function<void(BlobStore&)> act;
    std::size_t dies_at = kNever;  // number of its call from which on nothing of it reaches the store
  };

  // Returns when all are done. `trace`: the calls in their order.
  static void run(BlobStore& store, std::vector<Actor> actors, Schedule& schedule,
                  std::vector<std::string>* trace = nullptr) {
    Turns turns(store, actors.size(), schedule, trace);
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<Seat>> seats;
    for (std::size_t i = 0; i < actors.size(); ++i) {
      seats.push_back(std::make_unique<Seat>(turns, i, actors[i].dies_at));
    }
    for (std::size_t i = 0; i < actors.size(); ++i) {
      threads.emplace_back([&turns, &seats, &actors, i] {
        actors[i].act(*seats[i]);
        const std::lock_guard lock(turns.mutex_);
        turns.done_[i] = true;
        turns.pass_on();
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

 private:
  class Seat final : public BlobStore {
   public:
    Seat(Turns& turns, std::size_t number, std::size_t dies_at)
        : turns_(turns), number_(number), left_(dies_at) {}
    Result<std::optional<BlobInfo>> put(const OpContext& ctx, std::string_view key,
                                        ByteSource& data) override {
      return take<std::optional<BlobInfo>>("put", key, [&] { return turns_.store_.put(ctx, key, data); });
    }
    Result<std::unique_ptr<ByteSource>> get(const OpContext& ctx, std::string_view key, std::uint64_t offset,
                                            std::uint64_t length) override {
      return take<std::unique_ptr<ByteSource>>("get", key,
                                               [&] { return turns_.store_.get(ctx, key, offset, length); });
    }
    Result<std::optional<BlobInfo>> stat(const OpContext& ctx, std::string_view key) override {
      return take<std::optional<BlobInfo>>("stat", key, [&] { return turns_.store_.stat(ctx, key); });
    }
    Result<std::vector<BlobInfo>> list(const OpContext& ctx, std::string_view prefix) override {
      return take<std::vector<BlobInfo>>("list", prefix, [&] { return turns_.store_.list(ctx, prefix); });
    }
    Result<void> remove(const OpContext& ctx, std::string_view key) override {
      return take<void>("remove", key, [&] { return turns_.store_.remove(ctx, key); });
    }

   private:
    template <typename T, typename Call>
    Result<T> take(const char* name, std::string_view key, Call call) {
      std::unique_lock lock(turns_.mutex_);
      if (left_ == 0) {
        return make_error(ErrorKind::store_unavailable, "we are dead");
      }
      --left_;
      turns_.wait_for_turn(lock, number_);
      if (turns_.trace_ != nullptr) {
        turns_.trace_->push_back(std::to_string(number_) + " " + name + " " + std::string(key));
      }
      Result<T> out = call();
      turns_.turn_ = kNever;
      turns_.pass_on();
      return out;
    }
    Turns& turns_;
    std::size_t number_;
    std::size_t left_;
  };

  Turns(BlobStore& store, std::size_t count, Schedule& schedule, std::vector<std::string>* trace)
      : store_(store),
        schedule_(schedule),
        trace_(trace),
        waiting_(count, 0),
        done_(count, false),
        woken_(count) {}

  void wait_for_turn(std::unique_lock<std::mutex>& lock, std::size_t number) {
    ++waiting_[number];
    pass_on();
    woken_[number].wait(lock, [&] { return turn_ == number && !taken_; });
    taken_ = true;
    --waiting_[number];
  }
  // Once every actor wants to make a call or is done, one of them may. Whoever comes last decides.
  void pass_on() {
    if (turn_ != kNever) {
      return;
    }
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < done_.size(); ++i) {
      if (!done_[i] && waiting_[i] == 0) {
        return;
      }
      if (!done_[i]) {
        ready.push_back(i);
      }
    }
    if (!ready.empty()) {
      turn_ = schedule_.pick(ready);
      taken_ = false;
      woken_[turn_].notify_one();
    }
  }

  BlobStore& store_;
  Schedule& schedule_;
  std::vector<std::string>* trace_;
  std::mutex mutex_;
  std::size_t turn_ = kNever;         // whose call it is
  bool taken_ = false;                // it is being made
  std::vector<std::size_t> waiting_;  // threads of each actor
  std::vector<bool> done_;
  std::vector<std::condition_variable> woken_;
};

// Each call by a throw of dice, the same for the same seed. Actors keep their turn for a while.
class RandomSchedule final : public Schedule {
 public:
  explicit RandomSchedule(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  std::size_t pick(const std::vector<std::size_t>& ready) override {
    const bool stays = roll() % 4 != 0;
    for (const std::size_t one : ready) {
      if (stays && one == last_) {
        return one;
      }
    }
    last_ = ready[roll() % ready.size()];
    return last_;
  }
  std::uint64_t roll() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return (state_ * 0x2545F4914F6CDD1DU) >> 33U;
  }

 private:
  std::uint64_t state_;
  std::size_t last_ = Turns::kNever;
};

// Actors go on until they are done, but for some changes: before call `at` it is `to`'s turn.
struct Change {
  std::size_t at = 0;
  std::size_t to = 0;
};
class ChangeSchedule final : public Schedule {
 public:
  explicit ChangeSchedule(std::vector<Change> changes) : changes_(std::move(changes)) {}
  std::size_t pick(const std::vector<std::size_t>& ready) override {
    const bool has_last = std::find(ready.begin(), ready.end(), last_) != ready.end();
    std::size_t choice = has_last ? last_ : ready.front();
    if (next_ < changes_.size() && changes_[next_].at == calls_) {
      const std::size_t wanted = changes_[next_++].to;
      if (std::find(ready.begin(), ready.end(), wanted) != ready.end()) {
        choice = wanted;
      }
    }
    ++calls_;
    last_ = choice;
    picks_.push_back(choice);
    ready_.push_back(ready);
    return choice;
  }
  [[nodiscard]] std::size_t calls() const { return calls_; }
  // True if a change to `to` before call `at` would have made a difference.
  [[nodiscard]] bool differs(std::size_t at, std::size_t to) const {
    return picks_[at] != to && std::find(ready_[at].begin(), ready_[at].end(), to) != ready_[at].end();
  }

 private:
  std::vector<Change> changes_;
  std::size_t next_ = 0;
  std::size_t calls_ = 0;
  std::size_t last_ = 0;
  std::vector<std::size_t> picks_;
  std::vector<std::vector<std::size_t>> ready_;
};

// Every order of the actors' calls with at most `most` such changes. `each` runs one of them and tells
// whether to go on.
inline bool each_schedule(std::size_t actors, std::size_t most,
                          const std::function<bool(ChangeSchedule&)>& each,
                          std::vector<Change> changes = {}) {
  ChangeSchedule schedule(changes);
  if (!each(schedule)) {
    return false;
  }
  if (changes.size() == most) {
    return true;
  }
  const std::size_t calls = schedule.calls();
  for (std::size_t at = changes.empty() ? 0 : changes.back().at + 1; at < calls; ++at) {
    for (std::size_t to = 0; to < actors; ++to) {
      if (!schedule.differs(at, to)) {
        continue;
      }
      changes.push_back({at, to});
      if (!each_schedule(actors, most, each, changes)) {
        return false;
      }
      changes.pop_back();
    }
  }
  return true;
}

}  // namespace ascope::test
