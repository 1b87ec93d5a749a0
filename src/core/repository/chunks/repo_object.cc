// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/repo_object.h"

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/random.h"
#include "core/repository/chunks/fields.h"

namespace ascope::chunks {

namespace {

constexpr std::string_view kMagic = "ASRP";
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kMaxBytes = 64U << 10U;
constexpr std::size_t kIdDigits = 32;
constexpr std::size_t kIdRandomBytes = 16;

Error bad(std::string_view why) {
  return make_error(ErrorKind::corrupt, std::string(why));
}

Result<std::uint32_t> chunk_size(const Json& chunker, std::string_view name) {
  ASCOPE_TRY_ASSIGN(const std::int64_t value, get_int(chunker, name));
  return value < 0 || value > UINT32_MAX ? Result<std::uint32_t>(bad("has a damaged chunker"))
                                         : static_cast<std::uint32_t>(value);
}

Result<OpenedRepo> unlock(const std::string& object, const Secret& master) {
  ASCOPE_TRY_ASSIGN(RepoObject repo, decode_repo(object));
  if (!repo.encrypted) {
    return master.empty()
               ? Result<OpenedRepo>(OpenedRepo{RepositoryKey(), repo.id, repo.sizes})
               : make_error(ErrorKind::denied, "the snapshot store is not encrypted, but a key is given",
                            "leave the key out, or use another store or prefix");
  }
  if (master.empty()) {
    return make_error(ErrorKind::denied, "the snapshot store is encrypted, and no key is given",
                      "give the key that it was made with");
  }
  RepositoryKey key(master, repo.id);
  if (key.check() != repo.check) {
    return make_error(ErrorKind::denied, "the key is not the snapshot store's",
                      "give the key that it was made with");
  }
  return OpenedRepo{std::move(key), repo.id, repo.sizes};
}

Result<std::string> create_repo(const OpContext& ctx, StoreAccess& store, const Secret& master,
                                const ChunkSizes& sizes) {
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> snapshots, store.list(ctx, "snapshots/"));
  if (!snapshots.empty()) {
    return make_error(ErrorKind::corrupt,
                      "object '" + std::string(kRepoObject) + "' is missing, though the store has snapshots",
                      "put it back from a copy of the store");
  }
  RepoObject repo;
  repo.id = random_hex(kIdRandomBytes);
  repo.sizes = sizes;
  repo.encrypted = !master.empty();
  repo.check = repo.encrypted ? RepositoryKey(master, repo.id).check() : "";
  std::string bytes = encode_repo(repo);
  ViewSource source(bytes);
  ASCOPE_TRY_ASSIGN(const std::optional<BlobInfo> put, store.put(ctx, std::string(kRepoObject), source));
  return put ? Result<std::string>(std::move(bytes)) : store.read(ctx, std::string(kRepoObject), kMaxBytes);
}

}  // namespace

std::string encode_repo(const RepoObject& repo) {
  std::string out(kMagic);
  put_fixed(out, kVersion, 1);
  put_fixed(out, repo.encrypted ? 1 : 0, 1);
  put_fixed(out, 0, 2);
  Json json;
  json["id"] = repo.id;
  json["chunker"] = Json{{"min", repo.sizes.min}, {"avg", repo.sizes.avg}, {"max", repo.sizes.max}};
  json["check"] = repo.check;
  out += dump_json(json);
  out += sha256(out);
  return out;
}

Result<RepoObject> decode_repo(const std::string& object) {
  if (object.size() < kHeaderBytes + kDigestBytes) {
    return bad("is cut");
  }
  const ByteView before = ByteView(object).substr(0, object.size() - kDigestBytes);
  FieldReader fields(before);
  if (fields.bytes_of(4) != kMagic) {
    return bad("is not what its name says");
  }
  if (sha256(before) != ByteView(object).substr(before.size())) {
    return bad("is damaged: its SHA-256 differs");
  }
  const std::uint8_t version = fields.u8();
  const std::uint8_t flags = fields.u8();
  const std::uint64_t zero = fields.fixed(2);
  if (version > kVersion) {
    return make_error(ErrorKind::unsupported, "was written by a newer version", "upgrade ascope-sandbox");
  }
  if (version != kVersion || flags > 1 || zero != 0) {
    return bad("has a damaged header");
  }
  ASCOPE_TRY_ASSIGN(const Json json, parse_json(before.substr(kHeaderBytes)));
  RepoObject out;
  out.encrypted = flags == 1;
  ASCOPE_TRY_ASSIGN(out.id, get_string(json, "id"));
  ASCOPE_TRY_ASSIGN(out.check, get_string(json, "check"));
  const auto chunker = json.find("chunker");
  if (chunker == json.end() || !chunker->is_object()) {
    return bad("has a damaged chunker");
  }
  ASCOPE_TRY_ASSIGN(out.sizes.min, chunk_size(*chunker, "min"));
  ASCOPE_TRY_ASSIGN(out.sizes.avg, chunk_size(*chunker, "avg"));
  ASCOPE_TRY_ASSIGN(out.sizes.max, chunk_size(*chunker, "max"));
  if (!are_sane(out.sizes) || out.id.size() != kIdDigits ||
      out.id.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return bad("has a field out of its range");
  }
  return out;
}

Result<OpenedRepo> open_repo(const OpContext& ctx, StoreAccess& store, const Secret& master, bool create,
                             const ChunkSizes& sizes) {
  const std::string name(kRepoObject);
  Result<std::string> bytes = store.read(ctx, name, kMaxBytes);
  if (!bytes && bytes.error().kind == ErrorKind::not_found && create) {
    bytes = create_repo(ctx, store, master, sizes);
  }
  if (!bytes) {
    return std::move(bytes).error();
  }
  Result<OpenedRepo> out = unlock(*bytes, master);
  if (!out && out.error().kind != ErrorKind::denied) {
    return in_object(name, std::move(out).error());
  }
  return out;
}

}  // namespace ascope::chunks
