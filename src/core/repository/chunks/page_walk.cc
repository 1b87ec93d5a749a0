// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/page_walk.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kPagesARequest = 8;

Result<void> take_references(const std::string& object, std::string page, const PageWalk::Take& take) {
  Result<PageReader> reader = PageReader::open(std::move(page));
  if (!reader) {
    return in_object(object, std::move(reader).error());
  }
  PageRecord record;
  while (true) {
    Result<bool> more = reader->next(record);
    if (!more) {
      return in_object(object, std::move(more).error());
    }
    if (!*more) {
      return ok();
    }
    for (const ChunkRef& ref : record.references) {
      ASCOPE_TRY(take(reader->packs()[ref.pack], ref, false));
    }
  }
}

}  // namespace

Result<void> PageWalk::read(const OpContext& ctx, const std::string& object, const PackName& pack,
                            const std::vector<ChunkRef>& pages, const Take& take) {
  ASCOPE_TRY_ASSIGN(const LoadedChunks loaded, access_.reader->load(ctx, pack, pages, decompressor_));
  for (std::size_t i = 0; i < pages.size(); ++i) {
    ASCOPE_TRY(take_references(object, std::string(loaded.chunks[i]), take));
    walked_.insert(pages[i].id);
  }
  return ok();
}

Result<void> PageWalk::walk_part(const OpContext& ctx, const std::string& object, const ManifestRoot& root,
                                 const std::vector<PageRef>& pages, const Take& take) {
  std::vector<ChunkRef> group;
  std::uint64_t raw = 0;
  const auto flush = [&]() -> Result<void> {
    const std::vector<ChunkRef> refs = std::exchange(group, {});
    raw = 0;
    return refs.empty() ? ok() : read(ctx, object, root.packs[refs.front().pack].name, refs, take);
  };
  for (const PageRef& page : pages) {
    const ChunkRef& ref = page.chunk;
    ASCOPE_TRY(take(root.packs[ref.pack].name, ref, true));
    if (walked_.contains(ref.id)) {
      continue;
    }
    ASCOPE_TRY(ctx.check("reading manifests"));
    if (ref.raw > kMaxPageBytes) {
      return damaged(object, "has a page of an impossible size");
    }
    const bool joins = group.empty() || (group.size() < kPagesARequest && group.front().pack == ref.pack &&
                                         raw + ref.frame.raw <= kGroupRawBytes &&
                                         can_join(group.front().frame, group.back().frame, ref.frame));
    if (!joins) {
      ASCOPE_TRY(flush());
    }
    group.push_back(ref);
    raw += ref.frame.raw;
  }
  return flush();
}

Result<void> PageWalk::walk(const OpContext& ctx, const std::string& object, const ManifestRoot& root,
                            const Take& take) {
  ASCOPE_TRY(walk_part(ctx, object, root, root.workspace, take));
  return root.roots ? walk_part(ctx, object, root, *root.roots, take) : ok();
}

}  // namespace ascope::chunks
