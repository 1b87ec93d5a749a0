// SPDX-License-Identifier: Apache-2.0
// What every LeaseStore must do. A store's test makes a LeaseFixture and calls check_lease_contract() in a
// TEST_CASE, and check_lease_processes() too if its leases reach across processes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/store.h"

namespace ascope::testing {

struct LeaseFixture {
  std::string name;
  // A new connection to the same leases. Called in child processes too.
  std::function<std::unique_ptr<LeaseStore>()> open;
  std::string host = "host-a";  // the host id that the store was opened with
  bool kept_order = true;       // order() is "kept"
  // The store learns at once that a holder's process is gone (same host, or its connection broke).
  bool sees_death = false;
  // Forgets every lease and fence (a deleted file, a flushed server). Empty: cannot be done.
  std::function<void()> wipe;
};

// Steps of one process; the store may be an in-memory fake.
void check_lease_contract(const LeaseFixture& fixture);
// Waiting, killed and stopped processes. The calling process has no threads.
void check_lease_processes(const LeaseFixture& fixture);
// `workers` processes take `turns` turns each: no overlap, rising fences, every turn done. Prints the median
// hand-over. Then the same number of processes queue up one after the other and are served in that order.
void check_lease_queue(const LeaseFixture& fixture, int workers, int turns);

// Processes take turns while every now and then one is killed, wherever it is: `kills` times. Nobody
// overlaps, and the turns go on after each kill. Needs sees_death.
void check_lease_kills(const LeaseFixture& fixture, int workers, int kills);

// This very process as a holder, on `host`.
LeaseHolder this_process(const std::string& host);
LeaseRequest lease_request(const LeaseFixture& fixture, const std::string& name);

}  // namespace ascope::testing
