// SPDX-License-Identifier: Apache-2.0
// YAML as profiles use it: one document of maps, lists and written scalars, each with its place. Stricter
// than YAML: a repeated key, a tag and a second document are errors, aliases are counted at their full size.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace ascope {

// A place in a source: a file's name, or "ASCOPE_AGENT", "--set agent". Line and column count from 1; 0 =
// none.
struct Place {
  std::string source;
  std::size_t line = 0;
  std::size_t column = 0;
};
// "ascope.yaml:3:5", "ASCOPE_AGENT".
std::string to_string(const Place& place);

struct YamlNode {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;      // scalar: as written, never converted
  bool plain = false;    // scalar without quotes
  std::size_t line = 0;  // from 1; 0 for text that is of no file
  std::size_t column = 0;
  std::vector<const YamlNode*> items;
  std::vector<std::pair<const YamlNode*, const YamlNode*>> members;  // in written order; keys are scalars
};
// "a list", "a map", "nothing", "text": for messages.
std::string_view describe(const YamlNode& node);

class YamlDocument {
 public:
  // nullptr if the text holds no value at all (empty, or comments only).
  [[nodiscard]] const YamlNode* root() const { return root_; }

 private:
  friend class YamlBuilder;
  std::vector<std::unique_ptr<YamlNode>> nodes_;
  const YamlNode* root_ = nullptr;
};

inline constexpr std::size_t kMaxProfileBytes = 1U << 20U;
inline constexpr std::size_t kMaxYamlDepth = 32;
inline constexpr std::size_t kMaxYamlNodes = 50'000;  // with aliases written out

// `config`, its message beginning with "SOURCE:LINE:COLUMN: ".
Result<YamlDocument> parse_yaml(std::string_view text, std::string_view source);

}  // namespace ascope
