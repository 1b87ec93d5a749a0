// SPDX-License-Identifier: Apache-2.0
// The first process of a sandbox: accepts clients, forks a job for each command, reaps what is left behind,
// freezes and thaws, and ends the sandbox on request or when nobody has used it for long.
#pragma once

#include <string>

namespace ascope::guest {

struct InitOptions {
  int listen_fd =
      -1;  // a bound stream socket that does not listen yet: the listener's pid is what clients check
  int ready_fd = -1;  // gets one byte once clients may connect
  std::string sandbox;
};

// For a sandbox that gets no descriptors when it is started: binds FOLDER/s, waits there for the client that
// brings the socket to listen on, and removes FOLDER/s. That connection is the `ready_fd`. False if nobody
// came in time.
bool receive_socket(const char* folder, InitOptions& options);

// Does not return.
[[noreturn]] void run_init(const InitOptions& options);

}  // namespace ascope::guest
