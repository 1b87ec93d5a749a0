// SPDX-License-Identifier: Apache-2.0
#include "core/lease/lease_keeper.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "core/base/fd.h"
#include "core/base/log.h"

namespace ascope {

namespace {

// Between tries of a renewal that failed for now.
constexpr Millis kShortestRetry{50};
constexpr Millis kLongestRetry{2000};

Error lost_error(std::string why) {
  return make_error(ErrorKind::conflict, "lease lost: " + std::move(why),
                    "nothing was overwritten; 'ascope-sandbox lock ls' shows who holds the slot now");
}

// Signals are the main thread's: a renewal must not be cut short by the user's Ctrl-C.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &old_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t old_{};
};

}  // namespace

struct LeaseKeeper::Impl {
  Impl(LeaseStore& store_in, LeaseGrant grant_in, const Clock& clock_in, Millis max_hold_in,
       std::function<void()> on_lost_in)
      : store(store_in),
        grant(std::move(grant_in)),
        clock(clock_in),
        max_hold(max_hold_in),
        on_lost(std::move(on_lost_in)),
        taken(grant.asked > Millis(0) ? grant.asked : clock_in.boottime()),
        renewed(taken),
        stop_event(::eventfd(0, EFD_CLOEXEC)),
        // The boot-time clock: after a suspend the renewal is due at once, not ttl/3 of waking time later.
        timer(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC)) {}

  void start() {
    if (!stop_event.is_open() || !timer.is_open()) {
      lose("no timer could be made to renew it");
      return;
    }
    const AllSignalsBlocked blocked;
    try {
      thread = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      lose(std::string("no thread could be started to renew it: ") + error.what());
    }
  }

  void stop() {
    if (thread.joinable()) {
      const std::uint64_t one = 1;
      static_cast<void>(::write(stop_event.get(), &one, sizeof one));  // an eventfd of ours never fills up
      thread.join();
    }
  }

  void run() {
    Millis next = taken + grant.ttl / 3;
    while (true) {
      const Millis due = max_hold > Millis(0) ? std::min(next, taken + max_hold) : next;
      if (wait_stopped(due - clock.boottime())) {
        return;
      }
      const Millis now = clock.boottime();
      if (max_hold > Millis(0) && now >= taken + max_hold) {
        lose("it was held for longer than lock.max_hold, " + format_duration(max_hold));
        return;
      }
      if (now >= next && !renew(now, next)) {
        return;
      }
    }
  }

  // False when the lease is lost. The store is the judge: a renewal that it grants after the deadline (a
  // laptop that slept) means that nobody else had the lease in between.
  bool renew(Millis now, Millis& next) {
    OpContext ctx{.clock = &clock};
    ctx.uninterruptible = true;
    auto result = store.renew(ctx.with_timeout(std::max(grant.ttl / 3, Millis(1000))), grant);
    if (result && *result) {
      next = now + grant.ttl / 3;
      if (note_renewed(now)) {
        return true;
      }
      lose("it ran out before it was renewed");
      return false;
    }
    if (result) {
      lose("another has taken it, or it was broken");
      return false;
    }
    log("lease", LogLevel::warn, "renewing the lease failed: {}", result.error().message);
    now = clock.boottime();
    if (now - last_renewed() >= grant.ttl) {
      lose("it could not be renewed (" + result.error().message + ")");
      return false;
    }
    next = now + std::clamp(grant.ttl / 20, kShortestRetry, kLongestRetry);
    return true;
  }

  // False if check() has said already that the lease is lost.
  bool note_renewed(Millis now) {
    const std::lock_guard lock(mutex);
    if (!lost) {
      renewed = now;
    }
    return !lost;
  }

  // True if stop() was called.
  bool wait_stopped(Millis duration) {
    duration = std::max(duration, Millis(1));
    itimerspec spec{};
    spec.it_value.tv_sec = duration.count() / 1000;
    spec.it_value.tv_nsec = (duration.count() % 1000) * 1'000'000;
    ::timerfd_settime(timer.get(), 0, &spec, nullptr);
    std::array<pollfd, 2> items{{{stop_event.get(), POLLIN, 0}, {timer.get(), POLLIN, 0}}};
    while (::poll(items.data(), items.size(), -1) < 0) {
    }
    return items[0].revents != 0;
  }

  [[nodiscard]] Millis last_renewed() {
    const std::lock_guard lock(mutex);
    return renewed;
  }

  void lose(std::string reason) {
    {
      const std::lock_guard lock(mutex);
      if (!lost) {
        lost = true;
        why = std::move(reason);
      }
    }
    if (on_lost) {
      on_lost();
    }
  }

  Result<void> check() {
    const std::lock_guard lock(mutex);
    const Millis now = clock.boottime();
    if (!lost && max_hold > Millis(0) && now - taken >= max_hold) {
      return lost_error("it was held for longer than lock.max_hold, " + format_duration(max_hold));
    }
    if (!lost && now - renewed >= grant.ttl) {
      lost = true;  // a command that was told so has given up: no late renewal takes that back
      why = "it ran out before it was renewed";
    }
    if (lost) {
      return lost_error(why);
    }
    if (now - renewed >= grant.ttl * 2 / 3) {
      return lost_error("it was not renewed for " + format_duration(now - renewed));
    }
    return ok();
  }

  LeaseStore& store;
  const LeaseGrant grant;
  const Clock& clock;
  const Millis max_hold;
  const std::function<void()> on_lost;
  const Millis taken;
  std::mutex mutex;  // guards the three below
  Millis renewed;    // start of the last renewal that succeeded
  bool lost = false;
  std::string why;
  UniqueFd stop_event;
  UniqueFd timer;
  std::thread thread;
};

LeaseKeeper::LeaseKeeper(LeaseStore& store, LeaseGrant grant, const Clock& clock, Millis max_hold,
                         std::function<void()> on_lost)
    : impl_(std::make_unique<Impl>(store, std::move(grant), clock, max_hold, std::move(on_lost))) {
  impl_->start();
}

LeaseKeeper::~LeaseKeeper() {
  impl_->stop();
}

const LeaseGrant& LeaseKeeper::grant() const {
  return impl_->grant;
}

Result<void> LeaseKeeper::check() const {
  return impl_->check();
}

bool LeaseKeeper::is_over_max_hold() const {
  return impl_->max_hold > Millis(0) && impl_->clock.boottime() - impl_->taken >= impl_->max_hold;
}

Result<void> LeaseKeeper::release(const OpContext& ctx) {
  impl_->stop();
  auto released = impl_->store.release(ctx, impl_->grant);
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->lost) {
      return lost_error(impl_->why);
    }
  }
  if (!released) {
    return std::move(released).error().within("releasing the lease");
  }
  if (!*released) {
    return lost_error("another has taken it, or it was broken");
  }
  return ok();
}

}  // namespace ascope
