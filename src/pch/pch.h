// SPDX-License-Identifier: Apache-2.0
// Precompiled where meson's b_pch is on: what most files include and what takes longest to read. Every file
// still includes what it uses; scripts/test --full builds once without this.
#ifndef ASCOPE_PCH_PCH_H
#define ASCOPE_PCH_PCH_H

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#endif  // ASCOPE_PCH_PCH_H
