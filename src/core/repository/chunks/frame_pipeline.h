// SPDX-License-Identifier: Apache-2.0
// The way of frames into packs: compressed on workers, placed in order by one thread, packs put by another.
// What is in flight is bounded, so the caller is slowed down to the speed of the slowest.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/repository/chunks/pack.h"

namespace ascope::chunks {

struct PipelineOptions {
  unsigned workers = 1;
  int level = 1;  // zstd's
  std::uint64_t pack_bytes = 16U << 20U;
  // Raw bytes from which on a frame is handed over. Larger ones compress better and cost more where a single
  // file is read; bench/chunks_bench --frame.
  std::size_t frame_bytes = 512U << 10U;
};

// A frame that has its place.
struct PlacedFrame {
  std::uint32_t label = 0;
  PackName pack;
  FrameRef frame;
};

// Puts a pack. Where the outcome is unknown, or something is there already, the store is asked: success if it
// holds these very bytes.
Result<void> put_pack(const OpContext& ctx, StoreAccess& store, const FinishedPack& pack);

// For one thread to call.
class FramePipeline {
 public:
  // `on_put` is called on a thread of the pipeline for each pack that the store has.
  FramePipeline(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                const PipelineOptions& options, std::function<Result<void>(const FinishedPack&)> on_put);
  // What was not finished is given up; packs that were put stay.
  ~FramePipeline();
  FramePipeline(const FramePipeline&) = delete;
  FramePipeline& operator=(const FramePipeline&) = delete;

  // Hands a frame over under a label of the caller's. May wait. `raw` becomes an empty buffer. Frames are
  // placed in the order of these calls; but pages are kept aside and placed together, so that a manifest is
  // read in few requests.
  Result<void> submit(std::uint32_t label, std::string& raw, std::vector<ChunkPart> parts, bool page);
  // The frames placed since the last call; with `wait` at least one, unless no data frame is on its way.
  Result<std::vector<PlacedFrame>> placed(bool wait);
  // Places everything, puts the last pack, and gives what placed() has not.
  Result<std::vector<PlacedFrame>> finish();
  // Packs that the store has since the last call.
  struct PutPack {
    PackName name;
    std::uint64_t size_bytes = 0;
  };
  std::vector<PutPack> packs_put();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ascope::chunks
