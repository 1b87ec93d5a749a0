// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/key.h"

#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/repository/chunks/cipher_lib.h"
#include "core/repository/chunks/fields.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kBlockBytes = 64;

std::string nonce_of(std::uint64_t number) {
  std::string nonce(kCipherNonceBytes, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    nonce[kCipherNonceBytes - 1 - i] = static_cast<char>((number >> (8 * i)) & 255U);
  }
  return nonce;
}

}  // namespace

std::string pack_key(const PackName& name) {
  const std::string hex = to_hex(name.view());
  return "packs/" + hex.substr(0, 2) + "/" + hex;
}

PackName random_pack_name() {
  return PackName::of(from_hex(random_hex(kNameBytes)).value());
}

Result<PackName> pack_name_from_hex(std::string_view hex) {
  ASCOPE_TRY_ASSIGN(const std::string bytes, from_hex(hex));
  if (bytes.size() != kNameBytes) {
    return make_error(ErrorKind::corrupt, "'" + std::string(hex) + "' is no name of a pack");
  }
  return PackName::of(bytes);
}

std::string hmac_sha256(ByteView key, ByteView data) {
  std::string block = key.size() > kBlockBytes ? sha256(key) : std::string(key);
  block.resize(kBlockBytes, '\0');
  std::string outer = block;
  for (std::size_t i = 0; i < kBlockBytes; ++i) {
    block[i] = static_cast<char>(block[i] ^ 0x36);
    outer[i] = static_cast<char>(outer[i] ^ 0x5c);
  }
  Sha256 inner;
  inner.update(block);
  inner.update(data);
  return sha256(outer + inner.finish());
}

std::string hkdf_sha256(ByteView key, ByteView salt, ByteView info) {
  const std::string extracted =
      hmac_sha256(salt.empty() ? std::string(kIdBytes, '\0') : std::string(salt), key);
  return hmac_sha256(extracted, std::string(info) + '\x01');
}

std::size_t ObjectKey::overhead() const {
  return encrypts() ? kTagBytes : 0;
}

Result<std::string> ObjectKey::seal(std::uint64_t number, ByteView aad, std::string plain) const {
  return encrypts() ? gcm_seal(key_, nonce_of(number), repo_id_ + std::string(aad), plain) : std::move(plain);
}

Result<std::string> ObjectKey::open(std::uint64_t number, ByteView aad, std::string sealed) const {
  return encrypts() ? gcm_open(key_, nonce_of(number), repo_id_ + std::string(aad), sealed)
                    : std::move(sealed);
}

RepositoryKey::RepositoryKey(const Secret& master, std::string repo_id)
    : master_(master.reveal()),
      repo_id_(std::move(repo_id)),
      id_key_(hkdf_sha256(master_, {}, "id")),
      name_key_(hkdf_sha256(master_, {}, "name")) {}

ChunkId RepositoryKey::chunk_id(ByteView content) const {
  return ChunkId::of(encrypts() ? hmac_sha256(id_key_, content) : sha256(content));
}

std::string RepositoryKey::object_name(std::string_view label, ByteView bytes) const {
  const std::string named = std::string(label) + '\0' + std::string(bytes);
  return to_hex(encrypts() ? hmac_sha256(name_key_, named) : sha256(named));
}

std::string RepositoryKey::gear_seed() const {
  return hkdf_sha256(master_, {}, "gear");
}

std::string RepositoryKey::check() const {
  return encrypts() ? to_hex(hmac_sha256(hkdf_sha256(master_, {}, "check"), repo_id_)) : "";
}

ObjectKey RepositoryKey::object_key(ByteView salt, std::string_view label) const {
  return encrypts() ? ObjectKey(hkdf_sha256(master_, salt, label), repo_id_) : ObjectKey();
}

Result<Secret> parse_master_key(const Secret& text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string_view plain = text.reveal();
  const std::size_t begin = plain.find_first_not_of(kSpace);
  plain = begin == std::string_view::npos ? std::string_view() : plain.substr(begin);
  plain = plain.substr(0, plain.find_last_not_of(kSpace) + 1);
  Result<std::string> bytes = plain.size() == 2 * kKeyBytes ? from_hex(plain) : from_base64(plain);
  if (!bytes || bytes->size() != kKeyBytes) {
    return make_error(ErrorKind::config, "the key of the snapshot store is not 32 bytes as hex or base64",
                      "make one with: openssl rand -hex 32");
  }
  return Secret(std::move(*bytes));
}

}  // namespace ascope::chunks
