// SPDX-License-Identifier: Apache-2.0
// One part of a manifest being written: entries in path order become pages, which are chunks like any other.
#pragma once

#include <string>
#include <vector>

#include "core/repository/chunks/frame_pipeline.h"
#include "core/repository/chunks/known_chunks.h"
#include "core/repository/chunks/page.h"
#include "core/repository/chunks/root.h"

namespace ascope::chunks {

// Takes entries in order whose chunks all have their places.
class EntrySink {
 public:
  virtual ~EntrySink() = default;
  virtual Result<void> add(const OpContext& ctx, const TreeEntry& entry,
                           const std::vector<ChunkRef>& refs) = 0;
};

class PartWriter final : public EntrySink {
 public:
  PartWriter(const RepositoryKey& key, KnownChunks& known, SessionPacks& packs, FramePipeline& pipeline);
  // A page that may come again as it is; of the parent's, in a pack that is relied on.
  void offer(const PageRef& page) { before_.emplace(page.chunk.id, page.chunk); }

  // `corrupt` if the path is not behind the one before.
  Result<void> add(const OpContext& ctx, const TreeEntry& entry, const std::vector<ChunkRef>& refs) override;
  // Ends the last page.
  Result<void> finish(const OpContext& ctx);
  // Once every frame has its place. Counts the pages' use of packs.
  std::vector<PageRef> take_pages();
  [[nodiscard]] std::uint64_t files() const { return files_; }
  [[nodiscard]] std::uint64_t content_bytes() const { return content_bytes_; }

 private:
  Result<void> end_page(const OpContext& ctx);
  Result<void> end_page_if_full(const OpContext& ctx);

  const RepositoryKey& key_;
  KnownChunks& known_;
  SessionPacks& packs_;
  FramePipeline& pipeline_;
  std::unordered_map<ChunkId, ChunkRef, ChunkId::Hash> before_;
  PageWriter page_;
  std::string page_first_;
  std::string last_path_;
  bool any_ = false;
  std::vector<PageRef> pages_;
  std::uint64_t files_ = 0;
  std::uint64_t content_bytes_ = 0;
};

}  // namespace ascope::chunks
