// SPDX-License-Identifier: Apache-2.0
// Starts a job's command: everything that must be ready before the process is split off is built here, so
// that the child makes system calls only.
#pragma once

#include <sys/types.h>

#include "guest/wire.h"

namespace ascope::guest {

struct LaunchPlan {
  int stdio[3] = {-1, -1, -1};  // -1: /dev/null
  int terminal = -1;            // the pty's slave; then stdio is ignored
  bool applet = false;          // run a part of this program instead
  bool applet_as_root = false;
};

struct LaunchFailure {
  FailStage stage = FailStage::request;
  int error = 0;
};

// The child's pid, or -1 with `failure` set.
pid_t launch(const ExecBody& body, const GuestConfig& config, const LaunchPlan& plan, LaunchFailure& failure);

}  // namespace ascope::guest
