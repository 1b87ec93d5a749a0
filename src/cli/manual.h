// SPDX-License-Identifier: Apache-2.0
// Manual pages in man(7), written from the declarations of commands, exit codes and profile keys. man/ holds
// the result; a test compares the two. man/ascope-snapshot.5 alone is written by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ascope {

// File name ("ascope-sandbox-start.1") and content of each page.
std::vector<std::pair<std::string, std::string>> manual_pages();

}  // namespace ascope
