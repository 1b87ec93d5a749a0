// SPDX-License-Identifier: Apache-2.0
// One new pack with what is needed of some old ones, and the forwarders to it.
#pragma once

#include <set>
#include <vector>

#include "core/repository/chunks/used_chunks.h"

namespace ascope::chunks {

class PackCopy {
 public:
  // Everything outlives the copy. `forwarders` are those that `used` was counted by; `leaving` are the packs
  // that are about to go.
  PackCopy(const Access& access, UsedChunks& used, const std::vector<Forwarder>& forwarders,
           const std::set<PackName>& leaving, int level)
      : access_(access),
        used_(used),
        forwarders_(forwarders),
        leaving_(leaving),
        compressor_(level),
        builder_(*access.key) {}

  // Copies the chunks of a pack that are needed, but for those that a pack has which it leads to already.
  // `corrupt` or `not_found` if the pack does not hold all that is needed of it: it must stay.
  Result<void> add(const OpContext& ctx, const PackName& pack);
  // Puts the pack, then the forwarders: from the packs added, and from those that led to them, so that chains
  // do not grow. The bytes that were written.
  Result<std::uint64_t> publish(const OpContext& ctx);
  // The packs that now stand for those that were added.
  [[nodiscard]] const std::set<PackName>& relied_on() const { return relied_on_; }

 private:
  struct Needed {
    std::vector<ChunkRef> to_copy;  // in the order in which they lie
    std::set<PackName> heirs;       // that have the others
  };
  Result<Needed> find_needed(const OpContext& ctx, const PackName& pack);
  Result<void> copy_frame(const OpContext& ctx, const PackName& pack, std::span<const ChunkRef> refs);
  Result<std::uint64_t> put_forwarder(const OpContext& ctx, const PackName& from,
                                      const std::vector<ChunkId>& ids);
  Result<std::uint64_t> put_forwarders(const OpContext& ctx, const PackName& pack,
                                       const std::vector<ChunkId>& ids);

  const Access& access_;
  UsedChunks& used_;
  const std::vector<Forwarder>& forwarders_;
  const std::set<PackName>& leaving_;
  FrameCompressor compressor_;
  FrameDecompressor decompressor_;
  PackBuilder builder_;
  std::vector<std::pair<PackName, std::vector<ChunkId>>> moved_;
  std::set<PackName> relied_on_;
};

}  // namespace ascope::chunks
