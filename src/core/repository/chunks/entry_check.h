// SPDX-License-Identifier: Apache-2.0
// What an entry must be like so that its page can be read again.
#pragma once

#include "core/tree/tree.h"

namespace ascope::chunks {

// `corrupt` if the path, the size or the target is impossible, `unsupported` for attributes that are too
// many.
Result<void> check_entry(const TreeEntry& entry);

}  // namespace ascope::chunks
