// SPDX-License-Identifier: Apache-2.0
// The nearest right spelling, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ascope {

// The one of `candidates` with the smallest edit distance (a swap of neighbours counts one), if that is at
// most a third of the word's length and at most 3; else "".
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ascope
