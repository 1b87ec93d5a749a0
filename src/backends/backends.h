// SPDX-License-Identifier: Apache-2.0
// The list of backends. The only header of this folder; only cli/app.cc includes it.
#pragma once

#include <span>

#include "core/backend.h"

namespace ascope {

std::span<const BackendKind* const> backend_kinds();
// nullptr if there is no such backend.
const BackendKind* find_backend_kind(std::string_view name);

}  // namespace ascope
