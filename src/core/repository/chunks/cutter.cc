// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/cutter.h"

#include <algorithm>
#include <numeric>

namespace ascope::chunks {

Cutter::Cutter(const RepositoryKey& key, const ChunkSizes& sizes, std::size_t frame_bytes, KnownChunks& known,
               FramePipeline& pipeline)
    : key_(key),
      frame_bytes_(frame_bytes),
      known_(known),
      pipeline_(pipeline),
      chunker_(make_gear(key.encrypts() ? ByteView(key.gear_seed()) : kOpenGearSeed), sizes),
      label_(known.new_label()) {}

void Cutter::begin(std::vector<ChunkRef> before) {
  chunker_.reset();
  begin_ = frame_.size();
  refs_.clear();
  before_ = std::move(before);
  next_before_ = 0;
  before_by_id_.clear();
}

Result<void> Cutter::add(const OpContext& ctx, ByteView data) {
  while (!data.empty()) {
    const Chunker::Step step = chunker_.feed(data);
    frame_ += data.substr(0, step.taken);
    data.remove_prefix(step.taken);
    if (step.cut) {
      ASCOPE_TRY(end_chunk(ctx));
    }
  }
  return ok();
}

Result<std::vector<ChunkRef>> Cutter::end(const OpContext& ctx) {
  if (frame_.size() > begin_) {
    ASCOPE_TRY(end_chunk(ctx));
  }
  return std::move(refs_);
}

// Mostly the file is what it was for a while, so the next one is tried first.
const ChunkRef* Cutter::find_before(const ChunkId& id) {
  if (next_before_ < before_.size() && before_[next_before_].id == id) {
    return &before_[next_before_++];
  }
  if (before_.empty()) {
    return nullptr;
  }
  if (before_by_id_.empty()) {
    before_by_id_.resize(before_.size());
    std::iota(before_by_id_.begin(), before_by_id_.end(), 0U);
    std::sort(before_by_id_.begin(), before_by_id_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return before_[a].id < before_[b].id; });
  }
  const auto found =
      std::lower_bound(before_by_id_.begin(), before_by_id_.end(), id,
                       [&](std::uint32_t at, const ChunkId& want) { return before_[at].id < want; });
  if (found == before_by_id_.end() || before_[*found].id != id) {
    ++next_before_;
    return nullptr;
  }
  next_before_ = *found + 1;
  return &before_[*found];
}

Result<void> Cutter::end_chunk(const OpContext& ctx) {
  const ByteView content = ByteView(frame_).substr(begin_);
  const auto raw = static_cast<std::uint32_t>(content.size());
  const ChunkId id = key_.chunk_id(content);
  if (const ChunkRef* ref = find_before(id)) {
    refs_.push_back(*ref);
  } else {
    ASCOPE_TRY_ASSIGN(const std::optional<ChunkRef> known, known_.find(ctx, id, raw));
    if (!known) {
      ChunkRef fresh{id, kUnplaced, {}, static_cast<std::uint32_t>(begin_), raw};
      fresh.frame.offset = label_;
      refs_.push_back(fresh);
      known_.add(id, label_, fresh.at, raw);
      parts_.push_back({id, raw});
      ++totals_.new_chunks;
      totals_.new_bytes += raw;
      begin_ = frame_.size();
      return frame_.size() >= frame_bytes_ ? flush() : ok();
    }
    refs_.push_back(*known);
  }
  ++totals_.known_chunks;
  totals_.known_bytes += raw;
  frame_.resize(begin_);
  return ok();
}

Result<void> Cutter::flush() {
  if (parts_.empty()) {
    return ok();
  }
  ASCOPE_TRY(pipeline_.submit(label_, frame_, std::exchange(parts_, {}), false));
  label_ = known_.new_label();
  begin_ = 0;
  return ok();
}

}  // namespace ascope::chunks
