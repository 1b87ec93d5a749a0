// SPDX-License-Identifier: Apache-2.0
// The layers of a profile (built in, files, environment, --set, flags): each read by the key table, then laid
// over one another key by key.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/profile/profile.h"
#include "core/profile/source.h"

namespace ascope {

struct LayerValue {
  Json value;
  Origin origin;
};

// (key, member): the member is empty but for map keys, whose members are values of their own.
using LayerKey = std::pair<std::string, std::string>;

struct Layer {
  std::map<LayerKey, LayerValue> values;

  // nullptr if it is not set.
  [[nodiscard]] const LayerValue* find(std::string_view key) const;
  // The members of a map key, by name.
  [[nodiscard]] std::vector<std::pair<std::string, const LayerValue*>> members(std::string_view key) const;
};

// Wrong things are collected, so that `profile validate` can name them all; what is right is read on.
using Problems = std::vector<Error>;

// Defaults of the key table.
Layer builtin_layer();
Layer read_file_layer(std::string_view text, const ProfileSource& source, OriginKind kind,
                      Problems& problems);
// ASCOPE_*; an empty one counts as not set. Variables that look like a key's but are none become warnings.
Layer read_environment_layer(const ProfileInputs& inputs, Problems& problems,
                             std::vector<std::string>& warnings);
// --set KEY=VALUE (`named` false) or named flags. A later one of the same key wins.
Layer read_pairs_layer(const std::vector<std::pair<std::string, std::string>>& pairs, bool named,
                       const ProfileInputs& inputs, Problems& problems);
// Puts `upper` over `lower`. Another backend.type drops the whole backend block below but its defaults.
void lay_over(Layer& lower, Layer upper);

}  // namespace ascope
