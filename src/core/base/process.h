// SPDX-License-Identifier: Apache-2.0
// Host programs that we run (git, bwrap's probes): argv as a vector, output captured, nothing inherited but
// what is named.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/op_context.h"

namespace ascope {

struct ProgramCall {
  std::vector<std::string> argv;               // argv[0] is looked up in PATH unless it holds a slash
  std::map<std::string, std::string> set_env;  // added to, or replacing, our environment
  std::vector<std::string> unset_env;
  std::string cwd;                            // empty: ours
  std::size_t max_output_bytes = 16U << 20U;  // of each stream; more is `corrupt`
};

struct ProgramOutcome {
  int wait_status = 0;
  std::string out;
  std::string err;
  [[nodiscard]] bool succeeded() const { return wait_status == 0; }
};

// Runs a program to its end with /dev/null as stdin. A non-zero status is an outcome, not an error. `io` with
// the hint to install it if the program is missing; on deadline or interrupt it is killed with its process
// group.
Result<ProgramOutcome> run_program(const OpContext& ctx, const ProgramCall& call);
// The absolute path PATH gives for `name`; `io` "program 'NAME' is not installed".
Result<std::string> find_program(const std::string& name);

// Proof of life of a process: the pair (pid, start time) as /proc/PID/stat field 22 gives it. 0 if there is
// no such process.
Result<std::uint64_t> process_start_time(pid_t pid);
// False only if that very process is gone: no such pid, a zombie, or another process that has the number now.
// Where /proc hides a process of another user, a pid in use counts as alive.
Result<bool> process_alive(pid_t pid, std::uint64_t start_time);
// /proc/sys/kernel/random/boot_id.
Result<std::string> boot_id();
// /etc/machine-id; without one, an id made up for `state_dir` and kept there; where nothing can be kept, and
// so no sandbox either, that of the boot.
Result<std::string> host_id(const std::string& state_dir);
// The inode of our pid namespace.
Result<std::uint64_t> pid_namespace();

}  // namespace ascope
