// SPDX-License-Identifier: Apache-2.0
// gc of what no manifest needs: packs and their forwarders by condemned lists (protocols 3.5), then pins that
// ended, condemned lists whose gc died, and hints of packs that are gone. Needs no lock; any number may run
// beside any number of saves, repacks and readers. Manifests are not touched: whoever wants one gone removes
// it before (protocols 3.6).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/repository/chunks/chunk_reader.h"

namespace ascope::chunks {

struct CollectOptions {
  // By the store's clock. What is younger is left: a save may be about to name it, and would have to start
  // over.
  std::chrono::seconds grace = std::chrono::hours(24);
  bool dry_run = false;  // nothing is written; ages count by this machine's clock
};

struct CollectedObject {
  std::string object;
  std::uint64_t size_bytes = 0;
  bool removed = false;  // in a dry run: would be
  std::string reason;    // a clause for people
};

struct CollectOutcome {
  std::vector<CollectedObject> objects;  // all that is not simply needed
  std::uint64_t removed_bytes = 0;
  // Packs that a gc which died has condemned and that are needed. Until they are repacked saves pass them
  // over.
  std::vector<PackName> to_repack;
};

// Killed at any point it leaves a condemned list at most, which a later one clears; a repeat is harmless.
// After a failure the list is lifted if that is safe. `corrupt`, before anything is removed, if a manifest or
// a pin cannot be read. Memory: as LivePacks, and some 150 bytes for each pack of the store.
Result<CollectOutcome> collect(const OpContext& ctx, const Access& access, const CollectOptions& options);

}  // namespace ascope::chunks
