// SPDX-License-Identifier: Apache-2.0
// The command line of bwrap for a sandbox.
#pragma once

#include <string>
#include <vector>

#include "backends/bubblewrap/layout.h"

namespace ascope::bwrap {

struct ArgumentFds {
  int guest = -1;    // the guest's program file
  int seccomp = -1;  // the compiled filter
  int info = -1;     // bwrap writes the child's pid to it
  int listen = -1;   // passed on to the guest
  int ready = -1;    // passed on to the guest
};

// Where bwrap finds the tree and the mounts: their own paths, or where they were bound for it.
struct Sources {
  std::string tree;
  std::string rootfs;               // empty: paths of `layout.system` stand as they are
  std::vector<std::string> mounts;  // one for each of layout.mounts
};

std::vector<std::string> bwrap_arguments(const std::string& bwrap, const Meta& meta,
                                         const SandboxSettings& settings, const Layout& layout,
                                         const Sources& sources, const ArgumentFds& fds);

}  // namespace ascope::bwrap
