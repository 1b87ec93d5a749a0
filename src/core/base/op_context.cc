// SPDX-License-Identifier: Apache-2.0
#include "core/base/op_context.h"

#include <algorithm>
#include <time.h>  // NOLINT(modernize-deprecated-headers): clock_gettime

namespace ascope {

namespace {

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Millis boottime() const override {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return Millis(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
  }
  [[nodiscard]] std::chrono::system_clock::time_point wall() const override {
    return std::chrono::system_clock::now();
  }
};

}  // namespace

std::atomic<int> interrupt_signal{0};

const Clock& system_clock() {
  static const SystemClock kClock;
  return kClock;
}

OpContext OpContext::with_timeout(Millis timeout) const {
  OpContext out = *this;
  const Millis until = clock->boottime() + timeout;
  out.deadline = deadline ? std::min(*deadline, until) : until;
  return out;
}

std::optional<Millis> OpContext::remaining() const {
  if (!deadline) {
    return std::nullopt;
  }
  return std::max(Millis(0), *deadline - clock->boottime());
}

Result<void> OpContext::check(std::string_view what) const {
  if (const int signal = interrupt_signal.load(); signal != 0 && !uninterruptible) {
    Error error = make_error(ErrorKind::cancelled, std::string(what) + " was interrupted");
    error.signal = signal;
    return error;
  }
  if (deadline && clock->boottime() >= *deadline) {
    return make_error(ErrorKind::timeout, "the deadline passed while " + std::string(what));
  }
  return ok();
}

Result<void> OpContext::sleep(Millis duration, std::string_view what) const {
  ASCOPE_TRY(check(what));
  if (const auto left = remaining()) {
    duration = std::min(duration, *left);
  }
  timespec wait{duration.count() / 1000, (duration.count() % 1000) * 1'000'000};
  ::nanosleep(&wait, nullptr);  // EINTR: the signal's flag is looked at next
  return check(what);
}

}  // namespace ascope
