// SPDX-License-Identifier: Apache-2.0
// What a gc leaves for writers and readers (protocols 3.5, 3.7), all sealed objects (sealed.h):
//
//   condemned/<gc id>            "ASCD": names[16] of the packs that this gc is about to delete, with their
//                                forwarders
//   moved/<old pack>/<new pack>  "ASMV": ids[32] of the chunks of the old pack that lie in the new one, whose
//                                own index says where; pack names in hex
//   pins/<32 hex>                "ASPN": text name of a manifest's object · names[16] of the packs that it
//                                names: somebody reads it
#pragma once

#include <chrono>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/repository/chunks/key.h"
#include "core/repository/chunks/root.h"
#include "core/repository/chunks/store_access.h"
#include "core/repository/chunks/types.h"

namespace ascope::chunks {

inline constexpr std::string_view kCondemnedFolder = "condemned/";
inline constexpr std::string_view kMovedFolder = "moved/";
inline constexpr std::string_view kPinsFolder = "pins/";
inline constexpr std::chrono::hours kPinLife{24};  // by the store's clock; then it holds nothing any more

Result<std::string> encode_condemned(const RepositoryKey& key, const std::vector<PackName>& packs);
Result<std::vector<PackName>> decode_condemned(const RepositoryKey& key, const std::string& object);
// One list; nullopt: it was lifted since it was listed.
Result<std::optional<std::vector<PackName>>> read_condemned_list(const OpContext& ctx, StoreAccess& store,
                                                                 const RepositoryKey& key,
                                                                 const std::string& object);
// Every pack that is condemned now. A list that vanishes while we look was lifted.
Result<std::set<PackName>> read_condemned(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key);

std::string moved_key(const PackName& from, const PackName& to);
Result<std::string> encode_moved(const RepositoryKey& key, const std::vector<ChunkId>& chunks);
Result<std::vector<ChunkId>> decode_moved(const RepositoryKey& key, const std::string& object);
// The packs that took over from `pack`.
Result<std::vector<PackName>> read_moved(const OpContext& ctx, StoreAccess& store, const PackName& pack);
struct Forwarder {
  PackName from;
  PackName to;
  BlobInfo info;
};
// All of the store, by the pack that is forwarded. Objects with other names are passed over.
Result<std::vector<Forwarder>> list_forwarders(const OpContext& ctx, StoreAccess& store);
// Those of one pack; REQUIRES: `all` as listed.
std::span<const Forwarder> forwarders_of(const std::vector<Forwarder>& all, const PackName& pack);

struct Pin {
  std::string manifest;  // its object
  std::vector<PackName> packs;
};
Result<Pin> decode_pin(const RepositoryKey& key, const std::string& object);
// Holds a manifest's packs, and from retention the manifest, for somebody who reads it; at most for kPinLife.
// The pin's object, to be removed at the end. `not_found`: the manifest is gone already.
Result<std::string> put_pin(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                            const std::string& manifest, const std::vector<PackUse>& packs);
// nullopt: it was removed since it was listed.
Result<std::optional<Pin>> read_pin(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                                    const std::string& object);

}  // namespace ascope::chunks
