// SPDX-License-Identifier: Apache-2.0
// none — no snapshots, no leases. It has no service to open: who asks finds null and goes without.
#include "core/store.h"

namespace ascope {

extern const StoreKind kNoneStore;
const StoreKind kNoneStore{.scheme = "none",
                           .summary = "no snapshots, or no mutual exclusion between machines"};

}  // namespace ascope
