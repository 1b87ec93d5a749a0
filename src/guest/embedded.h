// SPDX-License-Identifier: Apache-2.0
// The guest helper's program file, as built beside us.
#pragma once

#include "core/base/bytes.h"

namespace ascope::guest {

ByteView guest_program();

}  // namespace ascope::guest
