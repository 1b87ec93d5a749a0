// SPDX-License-Identifier: Apache-2.0
// Which profile files found by walking up the user trusts: by canonical path and SHA-256 of the content, in
// "<state_dir>/trust.json": {"schema": "ascope.trust/1", "files": {PATH: SHA-256}}.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace ascope {

// `path` need not be canonical; `text` is what was read from it. `config` if the list cannot be read.
Result<bool> is_trusted_profile(const std::string& state_dir, const std::string& path, std::string_view text);
struct TrustedProfile {
  std::string path;      // canonical
  std::string sha256;    // of its content now
  bool changed = false;  // false: it was trusted already, with this content
};
// Adds the file as it is now. `not_found`, `io` or `denied` if it cannot be read; `config` if it is no
// profile's size. A repeat is harmless.
Result<TrustedProfile> trust_profile(const std::string& state_dir, const std::string& path);
// Takes it off the list; false if it was not on it.
Result<bool> distrust_profile(const std::string& state_dir, const std::string& path);

}  // namespace ascope
