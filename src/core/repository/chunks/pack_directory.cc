// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/pack_directory.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kMaxBytes = 8U << 20U;
constexpr std::size_t kChunkBytes = sizeof(PackIndex::Chunk) + 4;
constexpr std::size_t kPackBytes = 256;

}  // namespace

Result<const PackInfo*> PackDirectory::pack(const OpContext& ctx, const PackName& name) {
  const auto answer = [](const Kept& kept) { return kept.info ? &*kept.info : nullptr; };
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    kept_.splice(kept_.begin(), kept_, found->second);
    return answer(kept_.front());
  }
  Result<PackInfo> read = read_pack(ctx, store_, key_, name);
  if (!read && read.error().kind != ErrorKind::not_found) {
    return std::move(read).error();
  }
  Kept kept{name, std::nullopt, kPackBytes};
  if (read) {
    kept.bytes += read->index.chunks().size() * kChunkBytes + read->index.frames().size() * sizeof(FrameRef);
    kept.info = std::move(*read);
  }
  bytes_ += kept.bytes;
  kept_.push_front(std::move(kept));
  by_name_.emplace(name, kept_.begin());
  while (bytes_ > kMaxBytes && kept_.size() > 1) {
    bytes_ -= kept_.back().bytes;
    by_name_.erase(kept_.back().name);
    kept_.pop_back();
  }
  return answer(kept_.front());
}

}  // namespace ascope::chunks
