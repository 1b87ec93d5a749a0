// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.h"

// The low-level calls on purpose: linked statically they bring one object file, while EVP brings the provider
// machinery, which costs every start about two milliseconds (measured).
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace ascope {

struct Sha256::State {
  SHA256_CTX context{};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  SHA256_Init(&state_->context);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(ByteView data) {
  SHA256_Update(&state_->context, data.data(), data.size());
}

std::string Sha256::finish() {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &state_->context);
  return digest;
}

std::string sha256(ByteView data) {
  Sha256 hash;
  hash.update(data);
  return hash.finish();
}

std::string sha256_hex(ByteView data) {
  return to_hex(sha256(data));
}

Result<std::size_t> HashingSource::read(std::span<char> buffer) {
  ASCOPE_TRY_ASSIGN(const std::size_t count, inner_.read(buffer));
  hash_.update(ByteView(buffer.data(), count));
  size_bytes_ += count;
  return count;
}

}  // namespace ascope
