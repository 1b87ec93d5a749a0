// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/part_writer.h"

#include <algorithm>

#include "core/repository/chunks/path_order.h"

namespace ascope::chunks {

PartWriter::PartWriter(const RepositoryKey& key, KnownChunks& known, SessionPacks& packs,
                       FramePipeline& pipeline)
    : key_(key), known_(known), packs_(packs), pipeline_(pipeline), page_(packs.names()) {}

Result<void> PartWriter::add(const OpContext& ctx, const TreeEntry& entry,
                             const std::vector<ChunkRef>& refs) {
  if (any_ && !path_before(last_path_, entry.path)) {
    return make_error(ErrorKind::corrupt, entry.path == last_path_
                                              ? "'" + entry.path + "' comes twice"
                                              : "'" + entry.path + "' comes out of order");
  }
  ASCOPE_TRY(check_tree_path(entry.path, entry.type == EntryType::directory));
  any_ = true;
  last_path_ = entry.path;
  files_ += entry.type == EntryType::directory ? 0 : 1;
  content_bytes_ += entry.type == EntryType::file ? entry.size_bytes : 0;
  if (page_.empty()) {
    page_first_ = entry.path;
  }
  page_.entry(entry, refs.size());
  const std::span<const Extent> runs(entry.extents);
  for (std::size_t at = 0; at < runs.size(); at += kRunsARecord) {
    ASCOPE_TRY(end_page_if_full(ctx));
    page_.runs(runs.subspan(at, std::min(kRunsARecord, runs.size() - at)));
  }
  const std::span<const ChunkRef> chunks(refs);
  for (std::size_t at = 0; at < chunks.size(); at += kChunksARecord) {
    ASCOPE_TRY(end_page_if_full(ctx));
    page_.chunks(chunks.subspan(at, std::min(kChunksARecord, chunks.size() - at)));
  }
  for (const ChunkRef& ref : refs) {
    packs_.use(ref);
  }
  return page_.is_full() || ends_page(entry.path) ? end_page(ctx) : ok();
}

Result<void> PartWriter::end_page_if_full(const OpContext& ctx) {
  if (!page_.is_full()) {
    return ok();
  }
  ASCOPE_TRY(end_page(ctx));
  page_first_ = last_path_;
  return ok();
}

Result<void> PartWriter::end_page(const OpContext& ctx) {
  std::string bytes = page_.finish();
  const auto raw = static_cast<std::uint32_t>(bytes.size());
  const ChunkId id = key_.chunk_id(bytes);
  if (const auto found = before_.find(id); found != before_.end()) {
    pages_.push_back({page_first_, found->second});
    return ok();
  }
  ASCOPE_TRY_ASSIGN(const std::optional<ChunkRef> known, known_.find(ctx, id, raw));
  if (known) {
    pages_.push_back({page_first_, *known});
    return ok();
  }
  ChunkRef fresh{id, kUnplaced, {}, 0, raw};
  fresh.frame.offset = known_.new_label();
  known_.add(id, fresh.frame.offset, 0, raw);
  pages_.push_back({page_first_, fresh});
  return pipeline_.submit(fresh.frame.offset, bytes, {{id, raw}}, true);
}

Result<void> PartWriter::finish(const OpContext& ctx) {
  return page_.empty() ? ok() : end_page(ctx);
}

std::vector<PageRef> PartWriter::take_pages() {
  for (PageRef& page : pages_) {
    known_.resolve(page.chunk);
    packs_.use(page.chunk);
  }
  return std::move(pages_);
}

}  // namespace ascope::chunks
