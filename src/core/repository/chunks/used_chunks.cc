// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/used_chunks.h"

namespace ascope::chunks {

Result<void> UsedChunks::mark_heirs(const OpContext& ctx, const std::vector<Forwarder>& forwarders,
                                    const PackName& pack, const ChunkRef& ref, std::set<PackName>& seen) {
  for (const Forwarder& one : forwarders_of(forwarders, pack)) {
    if (!seen.insert(one.to).second) {
      continue;
    }
    Result<const PackInfo*> heir = directory_.pack(ctx, one.to);
    if (!heir && heir.error().kind != ErrorKind::corrupt) {
      return std::move(heir).error();
    }
    if (heir && *heir != nullptr) {  // one that cannot be read is not repacked either
      if (const std::optional<ChunkRef> there = (*heir)->index.find(ref.id)) {
        mark(one.to, *there);
      }
    }
    ASCOPE_TRY(mark_heirs(ctx, forwarders, one.to, ref, seen));
  }
  return ok();
}

Result<void> UsedChunks::add(const OpContext& ctx, const std::string& object, const ManifestRoot& root,
                             const std::vector<Forwarder>& forwarders) {
  return walk_.walk(ctx, object, root, [&](const PackName& pack, const ChunkRef& ref, bool) -> Result<void> {
    mark(pack, ref);
    if (forwarders_of(forwarders, pack).empty()) {
      return ok();
    }
    std::set<PackName> seen = {pack};
    return mark_heirs(ctx, forwarders, pack, ref, seen);
  });
}

}  // namespace ascope::chunks
