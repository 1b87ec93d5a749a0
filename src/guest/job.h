// SPDX-License-Identifier: Apache-2.0
// One command: a process of its own between the first process and the command, which keeps the command's
// orphans, talks to the client, and ends them all at the timeout or when the client is gone.
#pragma once

#include <string_view>

#include "guest/wire.h"

namespace ascope::guest {

struct JobRequest {
  int connection = -1;
  int pipes[3] = {-1, -1, -1};  // stdin, stdout, stderr; -1: /dev/null
  std::string_view payload;     // of the `exec` frame
};

// Runs the job to its end in the calling process, which must have been forked for it, and exits.
[[noreturn]] void run_job(const JobRequest& request, const GuestConfig& config);

}  // namespace ascope::guest
