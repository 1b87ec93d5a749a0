// SPDX-License-Identifier: Apache-2.0
// Keeps a lease alive while a command works: renews at a third of its TTL on a thread of its own, and says
// when it is lost.
#pragma once

#include <functional>
#include <memory>

#include "core/store.h"

namespace ascope {

class LeaseKeeper {
 public:
  // `store` is the object that gave the grant; it outlives the keeper and is used by its thread alone from
  // now on. `on_lost` runs once, on that thread (it may not call the keeper). `max_hold` (0 = none) counts as
  // lost when it has passed, with check()'s message saying so.
  LeaseKeeper(LeaseStore& store, LeaseGrant grant, const Clock& clock, Millis max_hold,
              std::function<void()> on_lost);
  ~LeaseKeeper();  // stops the thread; does not release
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  [[nodiscard]] const LeaseGrant& grant() const;
  // `conflict` "lease lost" if a renewal said so, or ttl·2/3 have passed on the boot-time clock since the
  // start of the last successful renewal. Called before every change.
  [[nodiscard]] Result<void> check() const;
  // True once max_hold has passed: the command's time is over, though nobody took the lease.
  [[nodiscard]] bool is_over_max_hold() const;
  // Stops renewing and gives the lease back. `conflict` if it was lost before.
  Result<void> release(const OpContext& ctx);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ascope
