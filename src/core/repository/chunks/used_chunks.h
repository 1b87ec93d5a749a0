// SPDX-License-Identifier: Apache-2.0
// Which chunks of which packs manifests need, by where they lie.
#pragma once

#include <compare>
#include <map>
#include <set>

#include "core/repository/chunks/compact_set.h"
#include "core/repository/chunks/markers.h"
#include "core/repository/chunks/pack_directory.h"
#include "core/repository/chunks/page_walk.h"

namespace ascope::chunks {

struct UsedPlace {
  std::uint32_t frame = 0;  // its offset in the pack
  std::uint32_t at = 0;     // of the chunk in the unpacked frame
  std::uint32_t stored = 0;
  auto operator<=>(const UsedPlace&) const = default;
};

// Memory: at most 24 bytes for each chunk that is needed (a TiB of 64 KiB each: 400 MiB), and as PageWalk.
class UsedChunks {
 public:
  explicit UsedChunks(const Access& access) : walk_(access), directory_(*access.store, *access.key) {}

  // Counts what a manifest needs: its pages and what they refer to. Where forwarders lead on from a pack, the
  // chunk is needed in every pack of the chain that has it, for the first may be gone at any moment.
  Result<void> add(const OpContext& ctx, const std::string& object, const ManifestRoot& root,
                   const std::vector<Forwarder>& forwarders);
  // Sorted; empty: none of the pack's chunks is needed.
  const std::vector<UsedPlace>& of(const PackName& pack) { return places_[pack].records(); }

 private:
  Result<void> mark_heirs(const OpContext& ctx, const std::vector<Forwarder>& forwarders,
                          const PackName& pack, const ChunkRef& ref, std::set<PackName>& seen);
  void mark(const PackName& pack, const ChunkRef& ref) {
    places_[pack].add({ref.frame.offset, ref.at, static_cast<std::uint32_t>(stored_share(ref))});
  }

  PageWalk walk_;
  PackDirectory directory_;
  std::map<PackName, CompactSet<UsedPlace>> places_;
};

}  // namespace ascope::chunks
