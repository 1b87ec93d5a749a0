// SPDX-License-Identifier: Apache-2.0
// Leases in memory: one server, any number of connections, threads of one process. Time is the boot-time
// clock of the caller's context, so that a test moves it.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/store.h"

namespace ascope::testing {

class FakeLeaseServer {
 public:
  // The server outlives its connections.
  std::unique_ptr<LeaseStore> connect();
  // Forgets every lease and fence.
  void wipe();
  // While down, every call is `store_unavailable`.
  void set_down(bool down);

 private:
  class Connection;
  struct Entry {
    LeaseInfo info;
    Millis expires{0};
    std::deque<std::string> queue;  // tokens that wait
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Entry> entries_;
  bool down_ = false;
};

}  // namespace ascope::testing
