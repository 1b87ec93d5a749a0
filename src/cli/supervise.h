// SPDX-License-Identifier: Apache-2.0
// Runs a program of this host under our eyes: its streams and terminal are ours, signals reach it, and when
// it must end, all that it started ends too.
#pragma once

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/fd.h"

namespace ascope {

// One at a time in a process: it takes over the signals INT, TERM, HUP, QUIT and CHLD until it is gone.
class SupervisedProgram {
 public:
  // Starts `argv` with `env` added to our environment. `not_found` if there is no such program, `denied` if
  // it cannot be executed. It dies with us, also when we are killed. REQUIRES: no other thread runs yet.
  static Result<SupervisedProgram> start(const std::vector<std::string>& argv,
                                         const std::map<std::string, std::string>& env);
  SupervisedProgram(SupervisedProgram&& other) noexcept;
  SupervisedProgram& operator=(SupervisedProgram&&) = delete;
  ~SupervisedProgram();  // ends what is left of it, then gives the signals back

  // Waits for its end and gives its wait status. Signals that others send us go on to it; those that a
  // terminal sends have reached it already. The second INT or TERM kills it with all its descendants; so does
  // end_soon(), after a grace for TERM.
  Result<int> wait();
  // From any thread: wait() ends the program and its descendants.
  void end_soon() const;

 private:
  SupervisedProgram() = default;
  void on_signal(int number, bool from_terminal, int& asked);
  bool reap(int& status) const;

  pid_t child_ = -1;
  UniqueFd signals_;
  UniqueFd end_;
  sigset_t old_mask_{};
};

// 0–255 as a shell shows a wait status: the code, or 128+n.
int shell_code(int wait_status);

}  // namespace ascope
