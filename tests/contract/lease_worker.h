// SPDX-License-Identifier: Apache-2.0
// A child process that takes and gives leases on command. The parent must not have a store open while it
// makes one: SQLite connections do not survive a fork.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

#include "contract/lease_contract.h"
#include "core/base/fd.h"

namespace ascope::testing {

class LeaseWorker {
 public:
  struct Setup {
    std::string name;
    Millis ttl{60'000};
    Millis wait{60'000};
    bool process = true;  // false: the holder has no process (`lock acquire`)
  };
  LeaseWorker(const LeaseFixture& fixture, const Setup& setup);
  ~LeaseWorker();  // kills and reaps
  LeaseWorker(const LeaseWorker&) = delete;
  LeaseWorker& operator=(const LeaseWorker&) = delete;

  // Commands: a acquire ("wait" first if it must, then "got FENCE"), k start a keeper ("ok"), c its check, n
  // renew, r release, R release through the keeper, x raise. Answers: "true", "false", "ok", or an error's
  // kind.
  void send(char command) const;
  // The next answer; "" when `wait` passed.
  [[nodiscard]] std::string answer(Millis wait = Millis(20'000));
  std::string ask(char command) {
    send(command);
    return answer();
  }
  // CLOCK_MONOTONIC in ns at the child's last answer, or just before it released.
  [[nodiscard]] long long stamp() const { return stamp_; }
  void signal(int number) const;
  void kill();  // SIGKILL and reap
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  UniqueFd to_, from_;
  std::string buffer_;
  long long stamp_ = 0;
};

}  // namespace ascope::testing
