// SPDX-License-Identifier: Apache-2.0
// AES-256-GCM from libcrypto, found when first needed: linked in, the library's providers would cost every
// start some two milliseconds (measured), and only stores with a key need it.
#pragma once

#include <string>

#include "core/base/bytes.h"

namespace ascope::chunks {

inline constexpr std::size_t kTagBytes = 16;
inline constexpr std::size_t kCipherNonceBytes = 12;

// Appends the 16 bytes of the tag. REQUIRES: `key` of 32 bytes, `nonce` of 12, never used twice with one key.
// `unsupported` if the library is not there.
Result<std::string> gcm_seal(ByteView key, ByteView nonce, ByteView aad, ByteView plain);
// `corrupt` if anything of it differs from what was sealed.
Result<std::string> gcm_open(ByteView key, ByteView nonce, ByteView aad, ByteView sealed);

}  // namespace ascope::chunks
