// SPDX-License-Identifier: Apache-2.0
// Progress on stderr: a line that redraws on a terminal, JSON lines for programs, nothing else in a pipe.
#pragma once

#include <memory>
#include <string>

#include "cli/output.h"

namespace ascope {

// `choice`: auto | json | none. `out` outlives the result.
std::unique_ptr<Progress> make_progress(const Output& out, const std::string& choice);

}  // namespace ascope
