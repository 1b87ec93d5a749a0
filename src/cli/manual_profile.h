// SPDX-License-Identifier: Apache-2.0
// ascope-profile(5), from the table of profile keys.
#pragma once

#include <string>

namespace ascope {

std::string profile_page();

}  // namespace ascope
