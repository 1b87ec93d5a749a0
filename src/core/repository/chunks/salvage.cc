// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/salvage.h"

#include <algorithm>

#include "core/repository/chunks/path_order.h"
#include "core/tree/folder_cache.h"

namespace ascope::chunks {

namespace {

constexpr std::uint32_t kMadeUpMode = 0755;

}  // namespace

Salvage::Salvage(const Access& access, const Manifest& manifest, const std::vector<PageRef>& pages)
    : access_(access), manifest_(manifest), pages_(pages) {
  for (std::size_t i = 0; i < manifest.root.packs.size(); ++i) {
    pack_of_.emplace(manifest.root.packs[i].name, static_cast<std::uint32_t>(i));
  }
}

void Salvage::lose(const std::string& path, std::string what) {
  lost_.push_back({path, false, "", std::move(what)});
  lost_paths_.insert(path);
}

// False: it cannot be read, which is noted.
Result<bool> Salvage::open_page(const OpContext& ctx, const PageRef& page) {
  const auto read = [&]() -> Result<PageReader> {
    if (page.chunk.raw > kMaxPageBytes) {
      return damaged(manifest_.object, "has a page of an impossible size");
    }
    ASCOPE_TRY_ASSIGN(const LoadedChunks loaded,
                      access_.reader->load(ctx, manifest_.root.packs[page.chunk.pack].name,
                                           std::span(&page.chunk, 1), decompressor_));
    ASCOPE_TRY_ASSIGN(PageReader reader, PageReader::open(std::string(loaded.chunks[0])));
    page_packs_.clear();
    for (const PackName& name : reader.packs()) {
      const auto found = pack_of_.find(name);
      if (found == pack_of_.end()) {
        return damaged(manifest_.object, "uses a pack that its list does not have");
      }
      page_packs_.push_back(found->second);
    }
    return reader;
  };
  Result<PageReader> reader = read();
  if (reader) {
    page_ = std::move(*reader);
    return true;
  }
  if (!is_damage(reader.error())) {
    return std::move(reader).error();
  }
  const bool is_last = next_page_ == pages_.size();
  lost_.push_back(
      {page.first, true, is_last ? "" : pages_[next_page_].first, std::move(reader.error().message)});
  gap_ = true;
  return false;
}

Result<std::optional<PageRecord>> Salvage::advance(const OpContext& ctx) {
  while (true) {
    ASCOPE_TRY(ctx.check("reading what is left of a snapshot"));
    if (!page_) {
      if (next_page_ == pages_.size()) {
        return std::optional<PageRecord>();
      }
      const PageRef& page = pages_[next_page_++];
      ASCOPE_TRY(open_page(ctx, page));
      continue;
    }
    PageRecord record;
    Result<bool> more = page_->next(record);
    if (more && *more) {
      return std::optional(std::move(record));
    }
    page_.reset();
    if (!more) {  // its bytes are what was saved, so this is a defect of whoever saved it
      const std::string until = next_page_ == pages_.size() ? "" : pages_[next_page_].first;
      lost_.push_back({last_path_, true, until, std::move(more.error().message)});
      gap_ = true;
    }
  }
}

bool Salvage::is_lost(const std::string& path) const {
  return lost_paths_.contains(path) || std::any_of(lost_.begin(), lost_.end(), [&](const LostEntry& one) {
           return one.is_range && !path_before(path, one.path) &&
                  (one.until.empty() || path_before(path, one.until));
         });
}

void Salvage::lead_to(const std::string& path) {
  while (!folders_.empty() && !is_within(path, folders_.back())) {
    folders_.pop_back();
  }
  std::vector<std::string> missing;
  for (std::string folder = path; !folder.empty();) {
    folder = parent_path(folder);
    if (!folders_.empty() && folders_.back() == folder) {
      break;
    }
    missing.push_back(folder);
  }
  for (auto one = missing.rbegin(); one != missing.rend(); ++one) {
    SalvagedEntry folder;
    folder.entry.path = *one;
    folder.entry.type = EntryType::directory;
    folder.entry.mode = kMadeUpMode;
    ready_.insert(ready_.begin(), std::move(folder));
    folders_.push_back(*one);
  }
}

// Runs and chunks of the file at hand; false: they do not fit.
bool Salvage::take_data(PageRecord& record, SalvagedEntry& out) {
  if (record.kind == PageRecord::Kind::runs) {
    out.entry.extents.insert(out.entry.extents.end(), record.extents.begin(), record.extents.end());
    return out.refs.empty();
  }
  for (ChunkRef& ref : record.references) {
    ref.pack = page_packs_[ref.pack];
    out.refs.push_back(ref);
  }
  return true;
}

// False: it is lost.
Result<bool> Salvage::take_entry(const OpContext& ctx, PageRecord record, SalvagedEntry& out) {
  const std::uint64_t runs = record.runs;
  const std::uint64_t chunks = record.chunks;
  out = SalvagedEntry{};
  out.entry = std::move(record.entry);
  gap_ = false;
  bool fits = !any_ || path_before(last_path_, out.entry.path);
  while (true) {
    ASCOPE_TRY_ASSIGN(ahead_, advance(ctx));
    if (!ahead_ || ahead_->kind == PageRecord::Kind::entry || gap_) {
      break;
    }
    fits = take_data(*ahead_, out) && fits;
  }
  std::uint64_t bytes = 0;
  for (const ChunkRef& ref : out.refs) {
    bytes += ref.raw;
  }
  const bool is_file = out.entry.type == EntryType::file;
  fits = fits && out.entry.extents.size() == runs && out.refs.size() == chunks &&
         bytes == (is_file ? data_bytes(out.entry) : 0);
  any_ = true;
  last_path_ = out.entry.path;
  if (!fits) {
    lose(out.entry.path, "a part of what describes it cannot be read");
  } else if (out.entry.type == EntryType::hardlink && is_lost(out.entry.link_target)) {
    lose(out.entry.path, "hard link to '" + out.entry.link_target + "', which is lost");
    fits = false;
  }
  return fits;
}

Result<bool> Salvage::next(const OpContext& ctx, SalvagedEntry& out) {
  if (!any_ && !ahead_) {
    ASCOPE_TRY_ASSIGN(ahead_, advance(ctx));
  }
  while (ready_.empty()) {
    if (!ahead_) {
      return false;
    }
    PageRecord record = *std::move(ahead_);
    if (record.kind != PageRecord::Kind::entry) {  // of the file that its page goes on with
      const std::string& file = pages_[next_page_ - 1].first;
      if (!lost_paths_.contains(file)) {
        lose(file, "a part of what describes it cannot be read");
      }
      ASCOPE_TRY_ASSIGN(ahead_, advance(ctx));
      continue;
    }
    SalvagedEntry one;
    ASCOPE_TRY_ASSIGN(const bool whole, take_entry(ctx, std::move(record), one));
    if (whole) {
      lead_to(one.entry.path);
      if (one.entry.type == EntryType::directory) {
        folders_.push_back(one.entry.path);
      }
      ready_.insert(ready_.begin(), std::move(one));
    }
  }
  out = std::move(ready_.back());
  ready_.pop_back();
  return true;
}

}  // namespace ascope::chunks
