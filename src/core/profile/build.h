// SPDX-License-Identifier: Apache-2.0
// From the values of all layers to the Profile that the program works with: what no single value can tell is
// checked here.
#pragma once

#include <map>
#include <span>
#include <string>

#include "core/profile/layers.h"

namespace ascope {

// Fills `profile` as far as the values are right; what is wrong goes to `problems`.
void build_profile(const Layer& layer, const std::map<std::string, std::string>& environment,
                   std::span<const BackendKind* const> backend_kinds, Profile& profile, Problems& problems);

// build_entries.cc: the entries, flattened and in the order of their paths, and the mounts among them.
void build_entries(const Layer& layer, Profile& profile, Problems& problems);
// build_stores.cc: distributed, snapshots, state, lock and the projection's source.
void build_stores(const Layer& layer, Profile& profile, Problems& problems);

// The text of a value that is set, or "".
std::string layer_text(const Layer& layer, std::string_view key);
Error layer_error(const LayerValue& value, ErrorKind kind, std::string_view message, std::string hint = {});

}  // namespace ascope
