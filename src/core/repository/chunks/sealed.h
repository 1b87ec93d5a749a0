// SPDX-License-Identifier: Apache-2.0
// Small objects that are read as a whole: manifest roots ("ASMF"), hints ("ASIX"), forwarders ("ASMV"),
// condemned lists ("ASCD"), pins ("ASPN"). Little endian:
//
//   magic[4] · u8 version (1) · u8 flags (1 = encrypted) · u16 0 · u32 raw bytes · salt[32] · body · SHA-256
//   of all before
//
// The body is one zstd frame that unpacks to the raw bytes. The salt is random; all zeros without encryption.
// Encrypted (key.h): the object's key has the magic as its label; the body is sealed under number 0, with the
// 44 bytes before it as additional data.
#pragma once

#include <string>
#include <string_view>

#include "core/repository/chunks/key.h"
#include "core/repository/chunks/store_access.h"

namespace ascope::chunks {

inline constexpr std::size_t kMaxSealedBytes = 64U << 20U;  // raw, and stored

inline constexpr std::string_view kRootMagic = "ASMF";
inline constexpr std::string_view kHintsMagic = "ASIX";
inline constexpr std::string_view kMovedMagic = "ASMV";
inline constexpr std::string_view kCondemnedMagic = "ASCD";
inline constexpr std::string_view kPinMagic = "ASPN";

Result<std::string> seal_object(const RepositoryKey& key, std::string_view magic, const std::string& raw);
// `corrupt` without a name.
Result<std::string> unseal_object(const RepositoryKey& key, std::string_view magic,
                                  const std::string& object);

// Reads an object and opens it; errors name it.
Result<std::string> read_sealed(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                                std::string_view magic, const std::string& name);

}  // namespace ascope::chunks
