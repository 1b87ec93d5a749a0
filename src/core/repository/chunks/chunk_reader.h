// SPDX-License-Identifier: Apache-2.0
// Chunks from their packs, verified: what does not have its id is `corrupt`, never handed out.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/repository/chunks/frame.h"
#include "core/repository/chunks/pack.h"

namespace ascope::chunks {

// Frames that one request reads: of one pack, in order, close together.
inline constexpr std::uint64_t kGroupStoredBytes = 2U << 20U;
inline constexpr std::uint64_t kGroupRawBytes = 4U << 20U;
inline constexpr std::uint64_t kGroupGapBytes = 64U << 10U;

// Some chunks and the frames that they lie in.
struct LoadedChunks {
  std::vector<std::string> frames;
  std::vector<ByteView> chunks;  // in the order in which they were asked for, into `frames`
};

// A chunk's place in a pack that took over from another.
struct MovedChunk {
  PackName pack;
  ChunkRef ref;
};

// Safe to use from several threads, each with a decompressor of its own.
class ChunkReader {
 public:
  ChunkReader(StoreAccess& store, const RepositoryKey& key) : store_(store), key_(key) {}

  // REQUIRES: all in `pack`, their frames in order and close together. Where the pack is gone, from those
  // that took over from it. `not_found`, or `corrupt`, with the pack's object named.
  Result<LoadedChunks> load(const OpContext& ctx, const PackName& pack, std::span<const ChunkRef> refs,
                            FrameDecompressor& decompressor);
  // Where a chunk of a pack that is gone lies now; nullopt: nowhere.
  Result<std::optional<MovedChunk>> find_moved(const OpContext& ctx, const PackName& pack, const ChunkId& id);

 private:
  Result<LoadedChunks> load_from(const OpContext& ctx, const PackName& pack, std::span<const ChunkRef> refs,
                                 FrameDecompressor& decompressor);
  Result<LoadedChunks> load_moved(const OpContext& ctx, const PackName& pack, std::span<const ChunkRef> refs,
                                  FrameDecompressor& decompressor, const Error& missing);
  Result<ObjectKey> key_of(const OpContext& ctx, const PackName& pack);
  Result<std::optional<MovedChunk>> find_moved(const OpContext& ctx, const PackName& pack, const ChunkId& id,
                                               unsigned depth);

  StoreAccess& store_;
  const RepositoryKey& key_;
  std::mutex mutex_;
  std::map<PackName, ObjectKey> keys_;
  std::map<PackName, std::vector<std::pair<PackName, PackIndex>>> moved_;  // of the last packs that were gone
};

// A store that is open: what those who look after all of it work with.
struct Access {
  StoreAccess* store = nullptr;
  const RepositoryKey* key = nullptr;
  ChunkReader* reader = nullptr;
};

// True if `next` may be read in one request with what lies from `begin` to `last`.
bool can_join(const FrameRef& begin, const FrameRef& last, const FrameRef& next);

}  // namespace ascope::chunks
