// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/sealed.h"

#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/frame.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kHeaderBytes = 44;
constexpr std::size_t kDigestBytes = 32;
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kEncrypted = 1;
constexpr int kLevel = 3;

}  // namespace

Result<std::string> seal_object(const RepositoryKey& key, std::string_view magic, const std::string& raw) {
  if (raw.size() > kMaxSealedBytes) {
    return make_error(ErrorKind::unsupported, "an object of the snapshot store would have more than 64 MiB");
  }
  const std::string salt =
      key.encrypts() ? from_hex(random_hex(kSaltBytes)).value() : std::string(kSaltBytes, '\0');
  std::string out(magic);
  put_fixed(out, kVersion, 1);
  put_fixed(out, key.encrypts() ? kEncrypted : 0, 1);
  put_fixed(out, 0, 2);
  put_fixed(out, raw.size(), 4);
  out += salt;
  FrameCompressor compressor(kLevel);
  ASCOPE_TRY_ASSIGN(std::string body, compressor.squeeze(raw));
  ASCOPE_TRY_ASSIGN(body, key.object_key(salt, magic).seal(0, out, std::move(body)));
  out += body;
  out += sha256(out);
  return out;
}

Result<std::string> unseal_object(const RepositoryKey& key, std::string_view magic,
                                  const std::string& object) {
  const auto bad = [](std::string_view why) { return make_error(ErrorKind::corrupt, std::string(why)); };
  if (object.size() < kHeaderBytes + kDigestBytes) {
    return bad("is cut");
  }
  const ByteView all(object);
  const ByteView before = all.substr(0, all.size() - kDigestBytes);
  if (all.substr(0, 4) != magic) {
    return bad("is not what its name says");
  }
  if (sha256(before) != all.substr(before.size())) {
    return bad("is damaged: its SHA-256 differs");
  }
  FieldReader fields(before.substr(4));
  const std::uint8_t version = fields.u8();
  const std::uint8_t flags = fields.u8();
  const std::uint64_t zero = fields.fixed(2);
  const std::uint32_t raw_bytes = fields.u32();
  const ByteView salt = fields.bytes_of(kSaltBytes);
  if (version > kVersion) {
    return make_error(ErrorKind::unsupported, "was written by a newer version", "upgrade ascope-sandbox");
  }
  if (version != kVersion || flags != (key.encrypts() ? kEncrypted : 0) || zero != 0) {
    return bad("has a damaged header");
  }
  ASCOPE_TRY_ASSIGN(std::string body,
                    key.object_key(salt, magic)
                        .open(0, before.substr(0, kHeaderBytes), std::string(before.substr(kHeaderBytes))));
  FrameDecompressor decompressor;
  return decompressor.unpack(Codec::zstd, std::move(body), raw_bytes, kMaxSealedBytes);
}

Result<std::string> read_sealed(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                                std::string_view magic, const std::string& name) {
  ASCOPE_TRY_ASSIGN(const std::string bytes, store.read(ctx, name, kMaxSealedBytes));
  Result<std::string> raw = unseal_object(key, magic, bytes);
  return raw ? std::move(raw) : in_object(name, std::move(raw).error());
}

}  // namespace ascope::chunks
