// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/markers.h"

#include "core/repository/chunks/sealed.h"

namespace ascope::chunks {

namespace {

template <typename Name>
std::string joined(const std::vector<Name>& names) {
  std::string out;
  for (const Name& one : names) {
    out += one.view();
  }
  return out;
}

template <typename Name>
Result<std::vector<Name>> split(const std::string& bytes) {
  constexpr std::size_t kBytes = sizeof(Name::bytes);
  if (bytes.size() % kBytes != 0) {
    return make_error(ErrorKind::corrupt, "is cut");
  }
  std::vector<Name> out;
  for (std::size_t at = 0; at < bytes.size(); at += kBytes) {
    out.push_back(Name::of(ByteView(bytes).substr(at, kBytes)));
  }
  return out;
}

}  // namespace

Result<std::string> encode_condemned(const RepositoryKey& key, const std::vector<PackName>& packs) {
  return seal_object(key, kCondemnedMagic, joined(packs));
}

Result<std::vector<PackName>> decode_condemned(const RepositoryKey& key, const std::string& object) {
  ASCOPE_TRY_ASSIGN(const std::string raw, unseal_object(key, kCondemnedMagic, object));
  return split<PackName>(raw);
}

Result<std::set<PackName>> read_condemned(const OpContext& ctx, StoreAccess& store,
                                          const RepositoryKey& key) {
  std::set<PackName> out;
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> lists, store.list(ctx, std::string(kCondemnedFolder)));
  for (const BlobInfo& list : lists) {
    Result<std::string> raw = read_sealed(ctx, store, key, kCondemnedMagic, list.key);
    if (!raw && raw.error().kind == ErrorKind::not_found) {
      continue;
    }
    if (!raw) {
      return std::move(raw).error();
    }
    Result<std::vector<PackName>> packs = split<PackName>(*raw);
    if (!packs) {
      return in_object(list.key, std::move(packs).error());
    }
    out.insert(packs->begin(), packs->end());
  }
  return out;
}

std::string moved_key(const PackName& from, const PackName& to) {
  return std::string(kMovedFolder) + to_hex(from.view()) + "/" + to_hex(to.view());
}

Result<std::string> encode_moved(const RepositoryKey& key, const std::vector<ChunkId>& chunks) {
  return seal_object(key, kMovedMagic, joined(chunks));
}

Result<std::vector<ChunkId>> decode_moved(const RepositoryKey& key, const std::string& object) {
  ASCOPE_TRY_ASSIGN(const std::string raw, unseal_object(key, kMovedMagic, object));
  return split<ChunkId>(raw);
}

Result<std::vector<PackName>> read_moved(const OpContext& ctx, StoreAccess& store, const PackName& pack) {
  const std::string folder = std::string(kMovedFolder) + to_hex(pack.view()) + "/";
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> found, store.list(ctx, folder));
  std::vector<PackName> out;
  for (const BlobInfo& one : found) {
    Result<PackName> name = pack_name_from_hex(one.key.substr(folder.size()));
    if (!name) {
      return in_object(one.key, std::move(name).error());
    }
    out.push_back(*name);
  }
  return out;
}

}  // namespace ascope::chunks
