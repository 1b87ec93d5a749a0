// SPDX-License-Identifier: Apache-2.0
// ascope-guest: the first process of a sandbox.
//   ascope-guest init LISTEN_FD READY_FD SANDBOX   (started by a backend; see init.h)
//   ascope-guest handover FOLDER SANDBOX           (by a container engine: the socket is brought to it)
#include <cstdlib>
#include <cstring>

#include "guest/init.h"

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "init") == 0) {
    ascope::guest::InitOptions options;
    options.listen_fd = std::atoi(argv[2]);
    options.ready_fd = std::atoi(argv[3]);
    options.sandbox = argv[4];
    ascope::guest::run_init(options);
  }
  if (argc == 4 && std::strcmp(argv[1], "handover") == 0) {
    ascope::guest::InitOptions options;
    options.sandbox = argv[3];
    if (!ascope::guest::receive_socket(argv[2], options)) {
      return 3;
    }
    ascope::guest::run_init(options);
  }
  return 2;
}
