// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/cipher_lib.h"

#include <dlfcn.h>
#include <memory>

#include <openssl/evp.h>

#include "core/base/loaded_library.h"

namespace ascope::chunks {

namespace {

constexpr const char* kLibrary = "libcrypto.so.3";

struct CipherLib {
  decltype(&::EVP_CIPHER_CTX_new) ctx_new;
  decltype(&::EVP_CIPHER_CTX_free) ctx_free;
  decltype(&::EVP_CIPHER_CTX_ctrl) ctx_ctrl;
  decltype(&::EVP_aes_256_gcm) aes_256_gcm;
  decltype(&::EVP_CipherInit_ex) init;
  decltype(&::EVP_CipherUpdate) update;
  decltype(&::EVP_CipherFinal_ex) finish;
};

Result<CipherLib> load() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  CipherLib out{};
  const bool found = library != nullptr && find_function(library, "EVP_CIPHER_CTX_new", out.ctx_new) &&
                     find_function(library, "EVP_CIPHER_CTX_free", out.ctx_free) &&
                     find_function(library, "EVP_CIPHER_CTX_ctrl", out.ctx_ctrl) &&
                     find_function(library, "EVP_aes_256_gcm", out.aes_256_gcm) &&
                     find_function(library, "EVP_CipherInit_ex", out.init) &&
                     find_function(library, "EVP_CipherUpdate", out.update) &&
                     find_function(library, "EVP_CipherFinal_ex", out.finish);
  if (!found) {
    return make_error(ErrorKind::unsupported,
                      "encryption needs libcrypto, which cannot be loaded: " + load_problem(kLibrary),
                      "install the package libssl3");
  }
  return out;
}

Result<const CipherLib*> cipher_lib() {
  static const Result<CipherLib> kLoaded = load();
  if (!kLoaded) {
    return kLoaded.error();
  }
  return &kLoaded.value();
}

const unsigned char* bytes_of(ByteView data) {
  return reinterpret_cast<const unsigned char*>(data.data());
}

// One message either way; `tag` is what a sealed one ends with.
bool run(const CipherLib& lib, bool seal, ByteView key, ByteView nonce, ByteView aad, ByteView in,
         std::string& out, char* tag) {
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(lib.ctx_free)> ctx(lib.ctx_new(), lib.ctx_free);
  int count = 0;
  unsigned char rest[kTagBytes];
  auto* target = reinterpret_cast<unsigned char*>(out.data());
  return ctx != nullptr &&
         lib.init(ctx.get(), lib.aes_256_gcm(), nullptr, bytes_of(key), bytes_of(nonce), seal ? 1 : 0) == 1 &&
         (aad.empty() ||
          lib.update(ctx.get(), nullptr, &count, bytes_of(aad), static_cast<int>(aad.size())) == 1) &&
         (in.empty() ||
          lib.update(ctx.get(), target, &count, bytes_of(in), static_cast<int>(in.size())) == 1) &&
         (seal || lib.ctx_ctrl(ctx.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag) == 1) &&
         lib.finish(ctx.get(), rest, &count) == 1 &&
         (!seal || lib.ctx_ctrl(ctx.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag) == 1);
}

}  // namespace

Result<std::string> gcm_seal(ByteView key, ByteView nonce, ByteView aad, ByteView plain) {
  ASCOPE_TRY_ASSIGN(const CipherLib* lib, cipher_lib());
  std::string out(plain.size() + kTagBytes, '\0');
  if (!run(*lib, true, key, nonce, aad, plain, out, out.data() + plain.size())) {
    return make_error(ErrorKind::internal, "libcrypto refused to encrypt");
  }
  return out;
}

Result<std::string> gcm_open(ByteView key, ByteView nonce, ByteView aad, ByteView sealed) {
  ASCOPE_TRY_ASSIGN(const CipherLib* lib, cipher_lib());
  if (sealed.size() < kTagBytes) {
    return make_error(ErrorKind::corrupt, "encrypted data is cut");
  }
  const std::size_t count = sealed.size() - kTagBytes;
  std::string out(count, '\0');
  std::string tag(sealed.substr(count));
  if (!run(*lib, false, key, nonce, aad, sealed.substr(0, count), out, tag.data())) {
    return make_error(ErrorKind::corrupt, "encrypted data is not what was written");
  }
  return out;
}

}  // namespace ascope::chunks
