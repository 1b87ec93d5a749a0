// SPDX-License-Identifier: Apache-2.0
// Where a layer of the profile comes from: how its places are named, what its relative host paths are
// relative to, and what a file that came with somebody's repository may not say.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/profile/yaml.h"

namespace ascope {

// A key of a walked-up file that needs the user's trust.
struct TrustIssue {
  Place place;
  std::string key;
  std::string what;  // "names an endpoint"
};

struct ProfileSource {
  std::string name;      // "ascope.yaml", "ASCOPE_AGENT", "--set agent"
  std::string base_dir;  // absolute: relative host paths are taken from here
  std::string home;      // for "~/…"
  bool is_file = false;
  // Set for a file found by walking up from the working directory: collects what needs trust.
  std::vector<TrustIssue>* issues = nullptr;

  [[nodiscard]] Place place(const YamlNode& node) const { return Place{name, node.line, node.column}; }
  [[nodiscard]] Error error(const YamlNode& node, std::string_view message, std::string hint = {}) const;
  // The same kind of error with `place` put before a message that has none yet.
  [[nodiscard]] Error placed(const YamlNode& node, Error error) const;
  // "unknown key 'netwrok' in 'backend'" with the nearest of `known`, or all of them, as hint.
  [[nodiscard]] Error unknown_word(const YamlNode& node, std::string_view what, std::string_view word,
                                   std::span<const std::string_view> known) const;
  void needs_trust(const YamlNode& node, std::string_view key, std::string_view what) const;
};

// Absolute and normalised. Outside of the source's own folder, also by way of links, it needs trust.
Result<std::string> resolve_host_path(std::string_view text, std::string_view key, const YamlNode& node,
                                      const ProfileSource& source);

}  // namespace ascope
