// SPDX-License-Identifier: Apache-2.0
// What the `lock` commands share: asking for a slot's lease by hand.
#pragma once

#include <memory>
#include <optional>

#include "cli/app.h"
#include "core/lease/holder.h"

namespace ascope {

inline constexpr PositionalSpec kLockSlot{"SLOT", false, false,
                                          "slot, instead of the profile's and --agent, --user…"};

// A connection of its own to the leases of the profile; `unsupported` where lock.store is none.
Result<std::unique_ptr<LeaseStore>> open_lock_store(App& app);
// A request with this process as its holder, a fresh token, --wait, and a fence above the slot's record.
// Says on stderr whom it waits for.
Result<LeaseRequest> lock_request(App& app, const Args& args, const SlotKey& slot, Millis ttl);

}  // namespace ascope
