// SPDX-License-Identifier: Apache-2.0
// What a store's content is named and, with a master key, hidden with (protocols 3.3).
//
// Without a key: chunk id = SHA-256(content), names of slots and realms are SHA-256 of them, nothing is
// encrypted.
// With a master key of 32 bytes, all derived by HKDF-SHA256 (RFC 5869; salt as said, else none):
//   chunk id        HMAC-SHA256(HKDF(info "id"), content)
//   names           HMAC-SHA256(HKDF(info "name"), label ‖ 0 ‖ bytes)
//   gear seed       HKDF(info "gear")
//   key check       HMAC-SHA256(HKDF(info "check"), repo id): tells a wrong key before anything is read
//   an object's key HKDF(salt = 32 random bytes in its header, info = its label)
// Sealed = AES-256-GCM, nonce = u32 0 ‖ u64 number (big endian), the tag of 16 bytes behind; additional data
// = repo id ‖ what the object's format says. A salt belongs to one object, a number to one message in it, so
// no nonce is ever used twice with one key.
#pragma once

#include <string>

#include "core/base/secret.h"
#include "core/repository/chunks/types.h"

namespace ascope::chunks {

inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kSaltBytes = 32;

std::string hmac_sha256(ByteView key, ByteView data);
// One block of output (32 bytes).
std::string hkdf_sha256(ByteView key, ByteView salt, ByteView info);

// The key of one object; without encryption it passes bytes through. Safe to use from several threads.
class ObjectKey {
 public:
  ObjectKey() = default;
  ObjectKey(std::string key, std::string repo_id) : key_(std::move(key)), repo_id_(std::move(repo_id)) {}
  [[nodiscard]] bool encrypts() const { return !key_.empty(); }
  // How much longer sealed bytes are.
  [[nodiscard]] std::size_t overhead() const;
  Result<std::string> seal(std::uint64_t number, ByteView aad, std::string plain) const;
  // `corrupt` without the object's name.
  Result<std::string> open(std::uint64_t number, ByteView aad, std::string sealed) const;

 private:
  std::string key_;
  std::string repo_id_;
};

// Immutable, so safe to use from several threads.
class RepositoryKey {
 public:
  // No encryption.
  RepositoryKey() = default;
  // REQUIRES: `master` has 32 bytes.
  RepositoryKey(const Secret& master, std::string repo_id);

  [[nodiscard]] bool encrypts() const { return !master_.empty(); }
  [[nodiscard]] ChunkId chunk_id(ByteView content) const;
  // 64 hex digits.
  [[nodiscard]] std::string object_name(std::string_view label, ByteView bytes) const;
  [[nodiscard]] std::string gear_seed() const;
  [[nodiscard]] std::string check() const;  // 64 hex digits; "" without a key
  [[nodiscard]] ObjectKey object_key(ByteView salt, std::string_view label) const;

 private:
  std::string master_;
  std::string repo_id_;
  std::string id_key_;
  std::string name_key_;
};

// A master key from a file's or variable's text: 64 hex digits, or base64 of 32 bytes; white space at the
// ends is dropped. `config` otherwise, without showing it.
Result<Secret> parse_master_key(const Secret& text);

}  // namespace ascope::chunks
