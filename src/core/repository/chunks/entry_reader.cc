// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/entry_reader.h"

#include <algorithm>
#include <map>

#include "core/repository/chunks/path_order.h"
#include "core/tree/folder_cache.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kPagesARequest = 8;

}  // namespace

std::uint64_t data_bytes(const TreeEntry& entry) {
  std::uint64_t sum = entry.sparse ? 0 : entry.size_bytes;
  for (const Extent& run : entry.extents) {
    sum += run.length;
  }
  return sum;
}

struct EntryReader::State {
  State(ChunkReader& reader, const Manifest& of, const std::vector<PageRef>& list)
      : chunks(reader), manifest(of), pages(list) {
    for (std::size_t i = 0; i < of.root.packs.size(); ++i) {
      pack_of.emplace(of.root.packs[i].name, static_cast<std::uint32_t>(i));
    }
  }

  [[nodiscard]] Error bad(std::string_view why) const { return damaged(manifest.object, why); }
  Result<void> fetch(const OpContext& ctx);
  Result<void> open_page(const OpContext& ctx);
  // The next record into `record`; false: no page is left.
  Result<bool> advance(const OpContext& ctx);
  Result<void> take_entry(const OpContext& ctx, TreeEntry& entry);
  Result<void> take_runs(const OpContext& ctx, TreeEntry& entry, std::uint64_t runs);
  Result<void> check_place(const TreeEntry& entry);
  Result<void> check_refs(std::vector<ChunkRef>& refs);

  ChunkReader& chunks;
  FrameDecompressor decompressor;
  const Manifest& manifest;
  const std::vector<PageRef>& pages;
  std::map<PackName, std::uint32_t> pack_of;

  std::size_t next_page = 0;              // to be read
  std::deque<std::string> fetched;        // pages read and not opened yet; the last is next_page - 1
  std::optional<PageReader> page;         // being read
  std::vector<std::uint32_t> page_packs;  // its packs in the root's list
  PageRecord record;                      // read, and not taken
  bool has_record = false;
  bool page_begins = false;  // no entry of the present page has come yet
  std::string page_first;
  bool sought = false;  // the part may begin in the middle of a file
  std::string seek_path;

  std::string last_path;
  bool any = false;  // an entry has come
  bool last_is_folder = true;
  std::uint64_t chunk_total = 0;
  std::uint64_t chunks_left = 0;  // of the present file
  std::uint64_t bytes_left = 0;
};

EntryReader::EntryReader(ChunkReader& chunks, const Manifest& manifest, const std::vector<PageRef>& pages)
    : state_(std::make_unique<State>(chunks, manifest, pages)) {}
EntryReader::~EntryReader() = default;

Result<void> EntryReader::State::fetch(const OpContext& ctx) {
  std::vector<ChunkRef> refs;
  std::uint64_t raw = 0;
  const std::uint32_t pack = pages[next_page].chunk.pack;
  while (next_page < pages.size() && refs.size() < kPagesARequest) {
    const ChunkRef& ref = pages[next_page].chunk;
    raw += ref.frame.raw;
    const bool joins = refs.empty() || (ref.pack == pack && raw <= kGroupRawBytes &&
                                        can_join(refs.front().frame, refs.back().frame, ref.frame));
    if (!joins) {
      break;
    }
    if (ref.raw > kMaxPageBytes) {
      return bad("has a page of an impossible size");
    }
    refs.push_back(ref);
    ++next_page;
  }
  ASCOPE_TRY_ASSIGN(const LoadedChunks loaded,
                    chunks.load(ctx, manifest.root.packs[pack].name, refs, decompressor));
  for (const ByteView one : loaded.chunks) {
    fetched.emplace_back(one);
  }
  return ok();
}

Result<void> EntryReader::State::open_page(const OpContext& ctx) {
  if (fetched.empty()) {
    ASCOPE_TRY(fetch(ctx));
  }
  page_first = pages[next_page - fetched.size()].first;
  Result<PageReader> opened = PageReader::open(std::move(fetched.front()));
  fetched.pop_front();
  if (!opened) {
    return in_object(manifest.object, std::move(opened).error());
  }
  page = std::move(*opened);
  page_begins = true;
  page_packs.clear();
  for (const PackName& name : page->packs()) {
    const auto found = pack_of.find(name);
    if (found == pack_of.end()) {
      return bad("uses the pack '" + to_hex(name.view()) + "', which its list does not have");
    }
    page_packs.push_back(found->second);
  }
  return ok();
}

Result<bool> EntryReader::State::advance(const OpContext& ctx) {
  while (!has_record) {
    if (!page) {
      if (next_page == pages.size() && fetched.empty()) {
        return false;
      }
      ASCOPE_TRY(open_page(ctx));
    }
    Result<bool> more = page->next(record);
    if (!more) {
      return in_object(manifest.object, std::move(more).error());
    }
    if (!*more) {
      page.reset();
      continue;
    }
    has_record = true;
    const std::string& path = record.kind == PageRecord::Kind::entry ? record.entry.path : last_path;
    if (page_begins && !sought && path != page_first) {
      return bad("has a page that does not begin where it should");
    }
    page_begins = false;
  }
  return true;
}

Result<void> EntryReader::State::check_place(const TreeEntry& entry) {
  if (any && !path_before(last_path, entry.path)) {
    return bad("has '" + entry.path + "' out of order");
  }
  if (any && !last_is_folder && is_within(entry.path, last_path)) {
    return bad("has '" + entry.path + "' below something that is no folder");
  }
  if (entry.type == EntryType::hardlink && !path_before(entry.link_target, entry.path)) {
    return bad("has the hard link '" + entry.path + "' before its target");
  }
  return ok();
}

Result<void> EntryReader::State::take_runs(const OpContext& ctx, TreeEntry& entry, std::uint64_t runs) {
  std::uint64_t end = 0;
  while (entry.extents.size() < runs) {
    ASCOPE_TRY_ASSIGN(const bool more, advance(ctx));
    if (!more || record.kind != PageRecord::Kind::runs ||
        record.extents.size() > runs - entry.extents.size()) {
      return bad("has not the sparse map that it says of '" + entry.path + "'");
    }
    for (const Extent& run : record.extents) {
      const bool apart = entry.extents.empty() || run.offset > end;
      if (!apart || run.offset > entry.size_bytes || run.length > entry.size_bytes - run.offset) {
        return bad("has an impossible sparse map for '" + entry.path + "'");
      }
      end = run.offset + run.length;
      entry.extents.push_back(run);
    }
    has_record = false;
  }
  return ok();
}

Result<void> EntryReader::State::take_entry(const OpContext& ctx, TreeEntry& entry) {
  const std::uint64_t runs = record.runs;
  const std::uint64_t chunk_count = record.chunks;
  entry = std::move(record.entry);
  has_record = false;
  ASCOPE_TRY(check_place(entry));
  any = true;
  last_path = entry.path;
  last_is_folder = entry.type == EntryType::directory;
  ASCOPE_TRY(take_runs(ctx, entry, runs));
  chunk_total = chunk_count;
  chunks_left = chunk_count;
  bytes_left = entry.type == EntryType::file ? data_bytes(entry) : 0;
  if ((chunks_left == 0) != (bytes_left == 0)) {
    return bad("has not as much data for '" + entry.path + "' as it says");
  }
  return ok();
}

Result<void> EntryReader::State::check_refs(std::vector<ChunkRef>& refs) {
  if (refs.size() > chunks_left) {
    return bad("has more chunks for '" + last_path + "' than it says");
  }
  for (ChunkRef& ref : refs) {
    ref.pack = page_packs[ref.pack];
    const std::uint64_t end = std::uint64_t{ref.frame.offset} + ref.frame.stored + kPackTrailerBytes;
    if (ref.frame.offset < kPackHeaderBytes || end > manifest.root.packs[ref.pack].size_bytes) {
      return bad("places a chunk of '" + last_path + "' outside of its pack");
    }
    if (ref.raw > bytes_left) {
      return bad("has more data for '" + last_path + "' than its size");
    }
    bytes_left -= ref.raw;
    --chunks_left;
  }
  return chunks_left > 0 || bytes_left == 0
             ? ok()
             : Result<void>(bad("has not as much data for '" + last_path + "' as it says"));
}

void EntryReader::seek(std::string path) {
  State& state = *state_;
  const auto begin = state.pages.begin();
  const auto at = std::lower_bound(
      begin, state.pages.end(), path,
      [](const PageRef& page, const std::string& want) { return path_before(page.first, want); });
  // The page before may hold the path too, or the beginning of a file that goes on.
  const auto wanted = static_cast<std::size_t>(at - begin) - (at == begin ? 0 : 1);
  if (wanted > state.next_page - state.fetched.size()) {
    state.fetched.clear();
    state.next_page = wanted;
    state.page.reset();
    state.has_record = false;
    state.chunks_left = 0;
    state.any = false;
    state.sought = wanted > 0;
  }
  state.seek_path = std::move(path);
}

Result<bool> EntryReader::next(const OpContext& ctx, TreeEntry& entry) {
  State& state = *state_;
  while (true) {
    ASCOPE_TRY(skip_refs(ctx));
    ASCOPE_TRY_ASSIGN(const bool more, state.advance(ctx));
    if (!more) {
      return false;
    }
    if (state.record.kind != PageRecord::Kind::entry) {
      if (!state.sought) {
        return state.bad("has data that belongs to no entry");
      }
      state.has_record = false;
      continue;
    }
    state.sought = false;
    ASCOPE_TRY(state.take_entry(ctx, entry));
    if (!path_before(entry.path, state.seek_path)) {
      return true;
    }
  }
}

Result<void> EntryReader::skip_refs(const OpContext& ctx) {
  std::vector<ChunkRef> skipped;
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool more, next_refs(ctx, skipped));
    if (!more) {
      return ok();
    }
  }
}

std::uint64_t EntryReader::chunk_count() const {
  return state_->chunk_total;
}

Result<bool> EntryReader::next_refs(const OpContext& ctx, std::vector<ChunkRef>& refs) {
  State& state = *state_;
  refs.clear();
  if (state.chunks_left == 0) {
    return false;
  }
  ASCOPE_TRY_ASSIGN(const bool more, state.advance(ctx));
  if (!more || state.record.kind != PageRecord::Kind::chunks) {
    return state.bad("has not as many chunks for '" + state.last_path + "' as it says");
  }
  refs = std::move(state.record.references);
  state.has_record = false;
  ASCOPE_TRY(state.check_refs(refs));
  return true;
}

}  // namespace ascope::chunks
