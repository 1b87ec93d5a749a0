// SPDX-License-Identifier: Apache-2.0
// A value that must not be shown. It prints as ********; reveal() is the only way in.
#pragma once

#include <string>
#include <utility>

namespace ascope {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  [[nodiscard]] const std::string& reveal() const { return value_; }
  [[nodiscard]] bool empty() const { return value_.empty(); }

 private:
  std::string value_;
};

inline std::string to_string(const Secret& /*secret*/) {
  return "********";
}

}  // namespace ascope
