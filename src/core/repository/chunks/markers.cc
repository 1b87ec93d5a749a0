// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/markers.h"

#include <algorithm>

#include "core/base/random.h"
#include "core/repository/chunks/fields.h"
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

// A sealed object decoded; nullopt: it is not there.
template <typename Decode>
auto read_marker(const OpContext& ctx, StoreAccess& store, const std::string& object, Decode decode)
    -> Result<std::optional<typename decltype(decode(std::string()))::value_type>> {
  using Value = typename decltype(decode(std::string()))::value_type;
  Result<std::string> bytes = store.read(ctx, object, kMaxSealedBytes);
  if (!bytes) {
    return bytes.error().kind == ErrorKind::not_found ? Result<std::optional<Value>>(std::nullopt)
                                                      : std::move(bytes).error();
  }
  Result<Value> value = decode(*bytes);
  if (!value) {
    return in_object(object, std::move(value).error());
  }
  return std::optional<Value>(std::move(*value));
}

}  // namespace

Result<std::string> encode_condemned(const RepositoryKey& key, const std::vector<PackName>& packs) {
  return seal_object(key, kCondemnedMagic, joined(packs));
}

Result<std::vector<PackName>> decode_condemned(const RepositoryKey& key, const std::string& object) {
  ASCOPE_TRY_ASSIGN(const std::string raw, unseal_object(key, kCondemnedMagic, object));
  return split<PackName>(raw);
}

Result<std::optional<std::vector<PackName>>> read_condemned_list(const OpContext& ctx, StoreAccess& store,
                                                                 const RepositoryKey& key,
                                                                 const std::string& object) {
  return read_marker(ctx, store, object,
                     [&](const std::string& bytes) { return decode_condemned(key, bytes); });
}

Result<std::set<PackName>> read_condemned(const OpContext& ctx, StoreAccess& store,
                                          const RepositoryKey& key) {
  std::set<PackName> out;
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> lists, store.list(ctx, std::string(kCondemnedFolder)));
  for (const BlobInfo& list : lists) {
    ASCOPE_TRY_ASSIGN(const auto packs, read_condemned_list(ctx, store, key, list.key));
    if (packs) {
      out.insert(packs->begin(), packs->end());
    }
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

Result<std::vector<Forwarder>> list_forwarders(const OpContext& ctx, StoreAccess& store) {
  ASCOPE_TRY_ASSIGN(std::vector<BlobInfo> found, store.list(ctx, std::string(kMovedFolder)));
  std::vector<Forwarder> out;
  for (BlobInfo& one : found) {
    const std::string_view names = std::string_view(one.key).substr(kMovedFolder.size());
    const std::size_t slash = names.find('/');
    const Result<PackName> from = pack_name_from_hex(names.substr(0, slash));
    if (slash == std::string_view::npos || !from) {
      continue;
    }
    if (const Result<PackName> to = pack_name_from_hex(names.substr(slash + 1))) {
      out.push_back({*from, *to, std::move(one)});
    }
  }
  return out;
}

std::span<const Forwarder> forwarders_of(const std::vector<Forwarder>& all, const PackName& pack) {
  const auto begin =
      std::partition_point(all.begin(), all.end(), [&](const Forwarder& one) { return one.from < pack; });
  const auto end =
      std::partition_point(begin, all.end(), [&](const Forwarder& one) { return one.from == pack; });
  return {begin, end};
}

Result<Pin> decode_pin(const RepositoryKey& key, const std::string& object) {
  ASCOPE_TRY_ASSIGN(const std::string raw, unseal_object(key, kPinMagic, object));
  FieldReader fields(raw);
  Pin out;
  out.manifest = fields.text(raw.size());
  const std::string names(fields.bytes_of(fields.left()));
  if (!fields.good()) {
    return make_error(ErrorKind::corrupt, "is cut");
  }
  ASCOPE_TRY_ASSIGN(out.packs, split<PackName>(names));
  return out;
}

Result<std::string> put_pin(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                            const std::string& manifest, const std::vector<PackUse>& packs) {
  std::string raw;
  put_text(raw, manifest);
  for (const PackUse& use : packs) {
    raw += use.name.view();
  }
  ASCOPE_TRY_ASSIGN(const std::string bytes, seal_object(key, kPinMagic, raw));
  std::string object = std::string(kPinsFolder) + random_hex(kNameBytes);
  ASCOPE_TRY_ASSIGN(const std::optional<BlobInfo> put, store.put_bytes(ctx, object, bytes));
  // Only now: a gc that did not see the manifest any more has yet to look for pins.
  Result<BlobInfo> there =
      put ? store.stat_existing(ctx, manifest)
          : Result<BlobInfo>(make_error(ErrorKind::conflict, "object '" + object + "' exists already"));
  if (!there) {
    static_cast<void>(store.remove(ctx, object).has_value());  // else it ends by itself
    return std::move(there).error();
  }
  return object;
}

Result<std::optional<Pin>> read_pin(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                                    const std::string& object) {
  return read_marker(ctx, store, object, [&](const std::string& bytes) { return decode_pin(key, bytes); });
}

}  // namespace ascope::chunks
