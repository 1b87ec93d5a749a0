// SPDX-License-Identifier: Apache-2.0
// The system calls a sandbox may not make, as a program for the kernel.
#pragma once

#include "core/base/fd.h"

namespace ascope::bwrap {

// A memory file with the compiled filter, read from its beginning. `refuse_setid`: no file may get setuid or
// setgid bits (it would carry them on the host).
Result<UniqueFd> make_seccomp_filter(bool refuse_setid);

}  // namespace ascope::bwrap
