// SPDX-License-Identifier: Apache-2.0
// What every call that may block is given: a deadline, the interrupt flag and the clocks.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>

#include "core/base/error.h"
#include "core/base/units.h"

namespace ascope {

// The clocks an operation may use. Deadlines and margins are counted on the boot-time clock (CLOCK_BOOTTIME
// goes on while a laptop sleeps); wall-clock time is for showing only.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Millis boottime() const = 0;
  [[nodiscard]] virtual std::chrono::system_clock::time_point wall() const = 0;
};
const Clock& system_clock();

// The number of the signal that asked us to stop, 0 = none. Set by the signal handler of `cli`, the only
// writer.
extern std::atomic<int> interrupt_signal;

struct OpContext {
  const Clock* clock = &system_clock();
  std::optional<Millis> deadline;  // on the boot-time clock
  bool uninterruptible = false;  // goes on after a signal: renewing a lease, saving and releasing at the end

  [[nodiscard]] OpContext with_timeout(Millis timeout) const;
  // Time left, zero if the deadline passed, nullopt without a deadline.
  [[nodiscard]] std::optional<Millis> remaining() const;
  // `cancelled` if a signal came, `timeout` if the deadline passed.
  [[nodiscard]] Result<void> check(std::string_view what) const;
  // Sleeps up to `duration`; earlier on signal or deadline, with check()'s error.
  [[nodiscard]] Result<void> sleep(Millis duration, std::string_view what) const;
};

}  // namespace ascope
