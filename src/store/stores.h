// SPDX-License-Identifier: Apache-2.0
// The list of stores. The only header of this folder; only cli/app.cc includes it.
#pragma once

#include <span>

#include "core/store.h"

namespace ascope {

std::span<const StoreKind* const> store_kinds();
// nullptr if no kind has that scheme.
const StoreKind* find_store_kind(std::string_view scheme);

}  // namespace ascope
