// SPDX-License-Identifier: Apache-2.0
// What may name an object of a snapshot store.
#pragma once

#include <string_view>

namespace ascope {

// A relative path of safe parts ([A-Za-z0-9._-], none begins with '.'), "/" between, of at most 255 bytes
// each and 512 together: every store can hold it, and it leads nowhere else.
bool is_object_key(std::string_view key);

}  // namespace ascope
