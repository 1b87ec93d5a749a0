// SPDX-License-Identifier: Apache-2.0
// Starts bwrap as a process of nobody's: in a session of its own, without any of our descriptors, and for
// root inside a user namespace whose ids are a range of the sandbox's own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/local/folder.h"

namespace ascope::bwrap {

// Something bound, with root's rights and in a mount namespace of its own, where the sandbox's ids can reach
// it: the folders above the real place may be closed to them (/root is 0700).
struct Staged {
  std::string source;  // host path
  std::string target;  // below kStage, "/tmp/…"
  bool is_folder = true;
};
constexpr const char* kStage = "/tmp";  // bwrap needs it to be there anyway

struct SpawnRequest {
  std::vector<std::string> argv;  // argv[0] is the program's path
  std::vector<int> keep;          // descriptors the program gets, at their numbers
  int stderr_fd = -1;
  std::optional<std::uint32_t> id_base;  // root: enter a user namespace with this range
  std::vector<Staged> staged;            // with id_base only
  // Called with the new process's pid before the program begins.
  std::function<Result<void>(pid_t)> before_program;
};

// The program's pid; it is no child of ours and nobody needs to wait for it.
Result<pid_t> spawn_detached(const SpawnRequest& request);

}  // namespace ascope::bwrap
