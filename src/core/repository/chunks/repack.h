// SPDX-License-Identifier: Apache-2.0
// Packs of which snapshots need only a part give way to smaller ones (protocols 3.7). The old packs are
// condemned, then all manifests are looked at, then what they need is copied, then forwarders are put that
// lead from the old packs to the new one, and once it is certain that no gc takes that one, the old ones are
// removed. So a manifest that is saved either was seen, and all that it needs of an old pack has been copied,
// or learns that the pack is condemned. No lock; any number may run beside saves, gcs and readers.
#pragma once

#include <string>
#include <vector>

#include "core/repository/chunks/chunk_reader.h"

namespace ascope::chunks {

struct RepackOptions {
  double waste = 0.30;         // part of a pack's frames that nobody needs, above which it is repacked
  std::vector<PackName> also;  // whatever their waste: CollectOutcome::to_repack
  std::uint64_t pack_bytes = 16U << 20U;  // as PipelineOptions
  int level = 1;                          // zstd's
  bool dry_run = false;                   // nothing is written
};

struct RepackedPack {
  PackName pack;
  std::uint64_t size_bytes = 0;
  std::uint64_t needed_bytes = 0;  // stored
  bool repacked = false;           // in a dry run: would be
  std::string reason;              // a clause for people
};

struct RepackOutcome {
  std::vector<RepackedPack> packs;  // of which too much is not needed, or that were asked for
  std::uint64_t removed_bytes = 0;  // old packs; in a dry run: that would be removed
  std::uint64_t written_bytes = 0;  // new packs and forwarders; in a dry run: what the old ones need
};

// Killed at any point it leaves forwarders, a pack that nothing names or a condemned list, which a later gc
// or repack clears; every snapshot reads on. A pack that is damaged, or that a pin holds, stays and is named.
// `corrupt` or `not_found`, before anything is written, if a manifest or a page cannot be read: what it needs
// is not known. Memory: as LivePacks and UsedChunks, and one new pack.
Result<RepackOutcome> repack(const OpContext& ctx, const Access& access, const RepackOptions& options);

}  // namespace ascope::chunks
