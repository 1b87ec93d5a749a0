// SPDX-License-Identifier: Apache-2.0
// Content into chunks, and those that are new into frames.
#pragma once

#include <string>
#include <vector>

#include "core/repository/chunks/chunker.h"
#include "core/repository/chunks/frame_pipeline.h"
#include "core/repository/chunks/known_chunks.h"

namespace ascope::chunks {

class Cutter {
 public:
  struct Totals {
    std::uint64_t new_chunks = 0;
    std::uint64_t new_bytes = 0;  // raw
    std::uint64_t known_chunks = 0;
    std::uint64_t known_bytes = 0;
  };

  Cutter(const RepositoryKey& key, const ChunkSizes& sizes, std::size_t frame_bytes, KnownChunks& known,
         FramePipeline& pipeline);

  // A file begins. `before`: references of the parent's entry of the same path (may be empty), preferred to
  // others.
  void begin(std::vector<ChunkRef> before);
  Result<void> add(const OpContext& ctx, ByteView data);
  // The file's references; some may be without a place yet.
  Result<std::vector<ChunkRef>> end(const OpContext& ctx);
  // Hands the open frame over, though it is not full.
  Result<void> flush();
  [[nodiscard]] const Totals& totals() const { return totals_; }

 private:
  Result<void> end_chunk(const OpContext& ctx);
  const ChunkRef* find_before(const ChunkId& id);

  const RepositoryKey& key_;
  const std::size_t frame_bytes_;
  KnownChunks& known_;
  FramePipeline& pipeline_;
  Chunker chunker_;
  std::string frame_;  // the open frame; the present chunk is its end
  std::size_t begin_ = 0;
  std::vector<ChunkPart> parts_;
  std::uint32_t label_;  // of the open frame
  std::vector<ChunkRef> before_;
  std::size_t next_before_ = 0;
  std::vector<std::uint32_t> before_by_id_;
  std::vector<ChunkRef> refs_;
  Totals totals_;
};

}  // namespace ascope::chunks
