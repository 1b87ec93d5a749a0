// SPDX-License-Identifier: Apache-2.0
// Limits of a sandbox by control groups, where this machine lets us make one: version 2 below the highest
// group that is ours, or version 1 by hand as root.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "core/backend.h"

namespace ascope::bwrap {

struct Cgroup {
  std::vector<std::string> folders;                 // one, or one a controller in version 1
  bool memory = false, pids = false, cpus = false;  // what is held by it
};

// Makes the groups for what `settings` limits; what cannot be had is left false, not an error.
Cgroup make_cgroup(const std::string& id, const SandboxSettings& settings);
// Puts a process in. `io` if a group refuses it.
Result<void> join_cgroup(const Cgroup& cgroup, pid_t pid);
// Removes empty groups; what is still busy or gone is left.
void remove_cgroup(const std::vector<std::string>& folders);

}  // namespace ascope::bwrap
