// SPDX-License-Identifier: Apache-2.0
// Random names and tokens from the kernel's generator.
#pragma once

#include <cstddef>
#include <string>

namespace ascope {

// `count` random bytes as 2·count lower-case hex digits.
std::string random_hex(std::size_t count);
// A random UUID, version 4, in its usual lower-case form.
std::string random_uuid();

}  // namespace ascope
