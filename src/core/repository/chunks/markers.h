// SPDX-License-Identifier: Apache-2.0
// What a gc leaves for writers and readers (protocols 3.5, 3.7), all sealed objects (sealed.h):
//
//   condemned/<gc id>            "ASCD": names[16] of the packs that this gc is about to delete
//   moved/<old pack>/<new pack>  "ASMV": ids[32] of the chunks of the old pack that lie in the new one, whose
//   own
//                                index says where; pack names in hex
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/repository/chunks/key.h"
#include "core/repository/chunks/store_access.h"
#include "core/repository/chunks/types.h"

namespace ascope::chunks {

inline constexpr std::string_view kCondemnedFolder = "condemned/";
inline constexpr std::string_view kMovedFolder = "moved/";

Result<std::string> encode_condemned(const RepositoryKey& key, const std::vector<PackName>& packs);
Result<std::vector<PackName>> decode_condemned(const RepositoryKey& key, const std::string& object);
// Every pack that is condemned now. A list that vanishes while we look was lifted.
Result<std::set<PackName>> read_condemned(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key);

std::string moved_key(const PackName& from, const PackName& to);
Result<std::string> encode_moved(const RepositoryKey& key, const std::vector<ChunkId>& chunks);
Result<std::vector<ChunkId>> decode_moved(const RepositoryKey& key, const std::string& object);
// The packs that took over from `pack`.
Result<std::vector<PackName>> read_moved(const OpContext& ctx, StoreAccess& store, const PackName& pack);

}  // namespace ascope::chunks
