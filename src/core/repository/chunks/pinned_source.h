// SPDX-License-Identifier: Apache-2.0
// A snapshot that is read for longer than a moment is pinned, so that a gc that removes it meanwhile leaves
// its packs until the reading is over (protocols 3.6).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/repository/chunks/key.h"
#include "core/repository/chunks/root.h"
#include "core/repository/chunks/store_access.h"
#include "core/tree/tree.h"

namespace ascope::chunks {

// What is over sooner writes nothing to the store.
inline constexpr std::chrono::seconds kReadUnpinned{2};

// `manifest`: its object. `store` and `key` outlive the source. A manifest that is gone when the pin is put
// is `not_found`; a store that takes no pin is read without one, which the log says.
std::unique_ptr<TreeSource> pin_source(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                                       std::string manifest, std::vector<PackUse> packs,
                                       std::unique_ptr<TreeSource> source);

}  // namespace ascope::chunks
