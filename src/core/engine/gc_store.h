// SPDX-License-Identifier: Apache-2.0
// gc of what belongs to no slot alone: objects of saves that were killed, packs, notes on trees.
#pragma once

#include <vector>

#include "core/engine/gc.h"

namespace ascope {

// Objects of saves that were killed on this host before their commit.
Result<void> collect_pending(EngineServices& services, const OpContext& ctx, const GcOptions& options,
                             std::vector<GcItem>& items);
// What no manifest of the store needs any more, whoever wrote it.
Result<void> collect_packs(EngineServices& services, const OpContext& ctx, const GcOptions& options,
                           std::vector<GcItem>& items);
// Notes on the trees of sandboxes that are gone, in this machine's cache: they cost space and nothing else,
// so nobody is told.
Result<void> collect_scans(EngineServices& services, const OpContext& ctx, const GcOptions& options);

}  // namespace ascope
