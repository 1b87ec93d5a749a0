// SPDX-License-Identifier: Apache-2.0
// Functions of libraries that are loaded when first needed, since linked in they would cost every start.
#pragma once

#include <dlfcn.h>
#include <string>

namespace ascope {

// False if `library` has no function `name`; load_problem() tells why.
template <typename Function>
bool find_function(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  return out != nullptr;
}

// What the last dlopen or dlsym found wrong; `library` if it says nothing.
inline std::string load_problem(const char* library) {
  const char* why = ::dlerror();
  return why == nullptr ? library : why;
}

}  // namespace ascope
