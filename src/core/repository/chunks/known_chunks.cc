// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/known_chunks.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kMostOwn = 128U << 10U;  // some 90 bytes each
constexpr std::size_t kHintsARun = 128U << 10U;

// Collects hints until they make a run.
class RunMaker {
 public:
  explicit RunMaker(Hints& hints) : hints_(hints) {}
  Result<void> add(const PackName& pack, const ChunkId& id) {
    const auto [found, fresh] = number_.try_emplace(pack, static_cast<std::uint32_t>(packs_.size()));
    if (fresh) {
      packs_.push_back(pack);
    }
    records_.push_back({id, found->second});
    return records_.size() >= kHintsARun ? flush() : ok();
  }
  Result<void> flush() {
    if (records_.empty()) {
      return ok();
    }
    Result<void> done = hints_.add(packs_, std::move(records_));
    records_ = {};
    packs_.clear();
    number_.clear();
    return done;
  }

 private:
  Hints& hints_;
  std::vector<PackName> packs_;
  std::map<PackName, std::uint32_t> number_;
  std::vector<Hint> records_;
};

}  // namespace

KnownChunks::KnownChunks(KnownContext context, SessionPacks& packs, const std::set<PackName>& avoid)
    : context_(std::move(context)),
      packs_(packs),
      avoid_(avoid),
      hints_(context_.cache_dir),
      journal_(context_.journal_dir),
      directory_(*context_.store, *context_.key) {}

bool KnownChunks::hints_cover_parent() const {
  if (context_.parent == nullptr) {
    return true;
  }
  for (const PackUse& use : context_.parent->root.packs) {
    if (!hints_.knows(use.name)) {
      return false;
    }
  }
  return true;
}

Result<void> KnownChunks::load_journal(const OpContext& ctx) {
  std::set<PackName> settled;
  if (context_.parent != nullptr) {
    for (const PackUse& use : context_.parent->root.packs) {
      settled.insert(use.name);
    }
  }
  RunMaker maker(hints_);
  const auto take = [&](const NamedIndex& one) -> Result<void> {
    for (const ChunkId& id : ids_of_index(one.index)) {
      ASCOPE_TRY(maker.add(one.pack, id));
    }
    return ok();
  };
  ASCOPE_TRY(journal_.each(ctx, settled, take));
  return maker.flush();
}

Result<void> KnownChunks::load_offered(const OpContext& ctx) {
  RunMaker maker(hints_);
  for (const PackName& name : context_.offered) {
    ASCOPE_TRY_ASSIGN(const PackInfo* pack, directory_.pack(ctx, name));
    if (pack != nullptr) {
      for (const PackIndex::Chunk& chunk : pack->index.chunks()) {
        ASCOPE_TRY(maker.add(name, chunk.id));
      }
    }
  }
  return maker.flush();
}

Result<void> KnownChunks::load_parent(const OpContext& ctx, const std::vector<PageRef>& pages) {
  RunMaker maker(hints_);
  EntryReader entries(*context_.reader, *context_.parent, pages);
  TreeEntry entry;
  std::vector<ChunkRef> refs;
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool more, entries.next(ctx, entry));
    if (!more) {
      return maker.flush();
    }
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool has_refs, entries.next_refs(ctx, refs));
      if (!has_refs) {
        break;
      }
      for (const ChunkRef& ref : refs) {
        ASCOPE_TRY(maker.add(context_.parent->root.packs[ref.pack].name, ref.id));
      }
    }
  }
}

// Only when the first unknown chunk comes: a save that changes nothing asks nobody.
Result<void> KnownChunks::load(const OpContext& ctx) {
  loaded_ = true;
  if (context_.dedup == Dedup::store) {
    ASCOPE_TRY(hints_.load(ctx, *context_.store, *context_.key));
  }
  ASCOPE_TRY(load_journal(ctx));
  ASCOPE_TRY(load_offered(ctx));
  if (hints_cover_parent()) {
    return ok();
  }
  const ManifestRoot& root = context_.parent->root;
  Result<void> done = load_parent(ctx, root.workspace);
  if (done && root.roots) {
    done = load_parent(ctx, *root.roots);
  }
  const bool damaged =
      !done && (done.error().kind == ErrorKind::corrupt || done.error().kind == ErrorKind::not_found);
  return damaged ? ok() : done;  // less is found again, no more
}

Result<std::optional<ChunkRef>> KnownChunks::find(const OpContext& ctx, const ChunkId& id,
                                                  std::uint32_t raw) {
  if (const auto found = own_.find(id); found != own_.end()) {
    ChunkRef ref{id, kUnplaced, {}, found->second.at, raw};
    ref.frame.offset = found->second.label;
    resolve(ref);
    return std::optional(ref);
  }
  if (!loaded_) {
    ASCOPE_TRY(load(ctx));
  }
  ASCOPE_TRY_ASSIGN(const std::vector<PackName> proposed, hints_.find(id));
  for (const PackName& name : proposed) {
    if (avoid_.contains(name)) {
      continue;
    }
    Result<const PackInfo*> pack = directory_.pack(ctx, name);
    if (!pack && pack.error().kind != ErrorKind::corrupt && pack.error().kind != ErrorKind::unsupported) {
      return std::move(pack).error();
    }
    if (!pack) {
      continue;
    }
    if (*pack == nullptr) {
      ASCOPE_TRY(journal_.remove(name));
      continue;
    }
    std::optional<ChunkRef> ref = (*pack)->index.find(id);
    if (ref && ref->raw == raw) {
      ref->pack = packs_.add(name, SessionPacks::Origin::met, (*pack)->size_bytes);
      return ref;
    }
  }
  return std::optional<ChunkRef>();
}

std::uint32_t KnownChunks::new_label() {
  frames_.emplace_back();
  return static_cast<std::uint32_t>(frames_.size() - 1);
}

void KnownChunks::add(const ChunkId& id, std::uint32_t label, std::uint32_t at, std::uint32_t raw) {
  own_.insert_or_assign(id, Place{label, at, raw});
}

void KnownChunks::place(std::uint32_t label, std::uint32_t pack, const FrameRef& frame) {
  frames_[label] = {pack, frame};
}

bool KnownChunks::resolve(ChunkRef& ref) const {
  if (ref.pack != kUnplaced) {
    return true;
  }
  const std::uint32_t label = ref.frame.offset;
  if (frames_[label].pack == kUnplaced) {
    return false;
  }
  ref.pack = frames_[label].pack;
  ref.frame = frames_[label].frame;
  return true;
}

Result<void> KnownChunks::shrink() {
  if (own_.size() < kMostOwn) {
    return ok();
  }
  RunMaker maker(hints_);
  for (auto it = own_.begin(); it != own_.end();) {
    const std::uint32_t label = it->second.label;
    const std::uint32_t pack = frames_[label].pack;
    if (pack == kUnplaced || !put_.contains(pack)) {
      ++it;
      continue;
    }
    ASCOPE_TRY(maker.add(packs_.names()[pack], it->first));
    it = own_.erase(it);
  }
  return maker.flush();
}

}  // namespace ascope::chunks
