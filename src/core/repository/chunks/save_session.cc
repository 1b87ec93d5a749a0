// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/save_session.h"

#include <algorithm>
#include <deque>

#include "core/repository/chunks/cutter.h"
#include "core/repository/chunks/entry_check.h"
#include "core/repository/chunks/entry_spool.h"
#include "core/repository/chunks/joined_source.h"
#include "core/repository/chunks/part_writer.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kMostPending = 8192;  // entries that wait for a place of their chunks
constexpr std::size_t kMostPendingRefs = 64U << 10U;
constexpr std::size_t kMostNotes = 100;

// Prefers the parent's references where they are for the same chunks, so that pages keep their bytes.
class PreferringSink final : public EntrySink {
 public:
  PreferringSink(EntrySink& inner, ParentEntries& parent) : inner_(inner), parent_(parent) {}
  Result<void> add(const OpContext& ctx, const TreeEntry& entry, const std::vector<ChunkRef>& refs) override {
    if (!refs.empty()) {
      ASCOPE_TRY_ASSIGN(const TreeEntry* before, parent_.find_file(ctx, entry.path));
      if (before != nullptr) {
        ASCOPE_TRY_ASSIGN(const std::vector<ChunkRef> same, parent_.refs(ctx));
        if (std::equal(same.begin(), same.end(), refs.begin(), refs.end(),
                       [](const ChunkRef& a, const ChunkRef& b) { return a.id == b.id; })) {
          return inner_.add(ctx, entry, same);
        }
      }
    }
    return inner_.add(ctx, entry, refs);
  }

 private:
  EntrySink& inner_;
  ParentEntries& parent_;
};

class SaveSession {
 public:
  SaveSession(const OpContext& ctx, const SaveContext& context, const SaveRequest& request);
  Result<SaveResult> run();

 private:
  // false: the request has no such part.
  Result<bool> save_part(SnapshotPart part, PartWriter& writer);
  Result<void> take_all(JoinedSource& source, EntrySink& sink);
  Result<void> take(JoinedSource& source, JoinedEntry& one);
  Result<void> read_content(JoinedSource& source, JoinedEntry& one, std::vector<ChunkRef>& refs);
  // Passes on what has its places; with `wait` at least one frame gets its own before.
  Result<void> drain(EntrySink& sink, bool wait);
  void note_placed(const std::vector<PlacedFrame>& frames);
  Result<void> note_put();
  [[nodiscard]] const std::vector<PageRef>* parent_pages(SnapshotPart part) const;
  [[nodiscard]] bool is_unchanged(const ManifestRoot& root) const;
  void note(std::string path, std::string what);

  struct Pending {
    TreeEntry entry;
    std::vector<ChunkRef> refs;
    std::size_t resolved = 0;
  };

  const OpContext& ctx_;
  const SaveContext& context_;
  const SaveRequest& request_;
  SessionPacks packs_;
  KnownChunks known_;
  SaveResult result_;
  FramePipeline pipeline_;
  Cutter cutter_;
  std::deque<Pending> pending_;
  std::size_t pending_refs_ = 0;
};

KnownContext known_context(const SaveContext& context) {
  return {context.store, context.key,       context.reader,      context.parent,
          context.dedup, context.cache_dir, context.journal_dir, context.offered};
}

SaveSession::SaveSession(const OpContext& ctx, const SaveContext& context, const SaveRequest& request)
    : ctx_(ctx),
      context_(context),
      request_(request),
      known_(known_context(context), packs_, context.avoid),
      pipeline_(ctx, *context.store, *context.key, context.pipeline,
                [this](const FinishedPack& pack) { return known_.journal().add(pack.name, pack.index); }),
      cutter_(*context.key, context.sizes, context.pipeline.frame_bytes, known_, pipeline_) {
  if (context.parent != nullptr) {
    packs_.add_parent(context.parent->root.packs);
  }
}

void SaveSession::note(std::string path, std::string what) {
  if (result_.root.notes.size() < kMostNotes) {
    result_.root.notes.push_back(note_json({std::move(path), std::move(what)}));
  }
}

const std::vector<PageRef>* SaveSession::parent_pages(SnapshotPart part) const {
  if (context_.parent == nullptr) {
    return nullptr;
  }
  const ManifestRoot& root = context_.parent->root;
  return part == SnapshotPart::workspace ? &root.workspace : root.roots ? &*root.roots : nullptr;
}

void SaveSession::note_placed(const std::vector<PlacedFrame>& frames) {
  for (const PlacedFrame& one : frames) {
    known_.place(one.label, packs_.add(one.pack, SessionPacks::Origin::own, 0), one.frame);
  }
}

Result<void> SaveSession::note_put() {
  const auto put = pipeline_.packs_put();
  for (const FramePipeline::PutPack& pack : put) {
    known_.pack_is_put(packs_.add(pack.name, SessionPacks::Origin::own, pack.size_bytes));
    result_.own.push_back(pack.name);
    result_.stored_bytes += pack.size_bytes;
  }
  return put.empty() ? ok() : known_.shrink();
}

Result<void> SaveSession::drain(EntrySink& sink, bool wait) {
  ASCOPE_TRY_ASSIGN(const std::vector<PlacedFrame> frames, pipeline_.placed(wait));
  note_placed(frames);
  ASCOPE_TRY(note_put());
  while (!pending_.empty()) {
    Pending& first = pending_.front();
    while (first.resolved < first.refs.size() && known_.resolve(first.refs[first.resolved])) {
      ++first.resolved;
    }
    if (first.resolved < first.refs.size()) {
      return ok();
    }
    ASCOPE_TRY(sink.add(ctx_, first.entry, first.refs));
    pending_refs_ -= first.refs.size();
    pending_.pop_front();
  }
  return ok();
}

Result<void> SaveSession::read_content(JoinedSource& source, JoinedEntry& one, std::vector<ChunkRef>& refs) {
  TreeEntry& entry = one.entry;
  cutter_.begin(std::move(one.before));
  std::vector<Extent> runs;
  std::uint64_t end = 0;
  while (true) {
    ASCOPE_TRY_ASSIGN(const std::optional<DataBlock> block, source.read());
    if (!block) {
      break;
    }
    const std::uint64_t size = block->bytes.size();
    if (size == 0) {
      continue;
    }
    if (block->offset < end || block->offset > entry.size_bytes || size > entry.size_bytes - block->offset) {
      return make_error(ErrorKind::corrupt, "data of '" + entry.path + "' lies outside of its size");
    }
    if (!runs.empty() && block->offset == end) {
      runs.back().length += size;
    } else {
      runs.push_back({block->offset, size});
    }
    if (runs.size() > kMaxExtents) {
      return make_error(ErrorKind::unsupported,
                        "'" + entry.path + "' has too many pieces of data between holes");
    }
    end = block->offset + size;
    ASCOPE_TRY(cutter_.add(ctx_, block->bytes));
  }
  ASCOPE_TRY_ASSIGN(refs, cutter_.end(ctx_));
  const bool whole = entry.size_bytes == 0 || (runs.size() == 1 && runs[0].length == entry.size_bytes);
  entry.sparse = entry.sparse || !whole;
  entry.extents = entry.sparse ? std::move(runs) : std::vector<Extent>();
  return ok();
}

Result<void> SaveSession::take(JoinedSource& source, JoinedEntry& one) {
  if (one.entry.type == EntryType::socket) {
    note(one.entry.path, "socket skipped");
    return ok();
  }
  ASCOPE_TRY(check_entry(one.entry));
  Pending next;
  if (one.entry.type == EntryType::file) {
    if (one.unchanged) {
      next.refs = std::move(one.before);
    } else {
      ASCOPE_TRY(read_content(source, one, next.refs));
    }
  }
  next.entry = std::move(one.entry);
  pending_refs_ += next.refs.size();
  pending_.push_back(std::move(next));
  return ok();
}

Result<void> SaveSession::take_all(JoinedSource& source, EntrySink& sink) {
  JoinedEntry one;
  while (true) {
    ASCOPE_TRY(ctx_.check("saving a tree"));
    ASCOPE_TRY_ASSIGN(const bool more, source.next(ctx_, one));
    if (!more) {
      break;
    }
    ASCOPE_TRY(take(source, one));
    ASCOPE_TRY(drain(sink, false));
    while (pending_.size() > kMostPending || pending_refs_ > kMostPendingRefs) {
      ASCOPE_TRY(cutter_.flush());
      ASCOPE_TRY(drain(sink, true));
    }
  }
  ASCOPE_TRY(cutter_.flush());
  while (!pending_.empty()) {
    ASCOPE_TRY(drain(sink, true));
  }
  return ok();
}

Result<bool> SaveSession::save_part(SnapshotPart part, PartWriter& writer) {
  const bool workspace = part == SnapshotPart::workspace;
  std::unique_ptr<TreeScan> scan;
  TreeSource* plain = workspace ? request_.workspace : request_.roots;
  if (request_.scan) {
    ASCOPE_TRY_ASSIGN(scan, request_.scan(part));
  }
  std::unique_ptr<TreeSource> whole;
  if (scan) {
    ASCOPE_TRY_ASSIGN(whole, scan->whole());
    plain = whole.get();
  }
  if (!scan && plain == nullptr) {
    return false;
  }
  const std::vector<PageRef>* pages = parent_pages(part);
  if (pages != nullptr) {
    for (const PageRef& page : *pages) {
      if (!context_.avoid.contains(context_.parent->root.packs[page.chunk.pack].name)) {
        writer.offer(page);
      }
    }
  }
  ParentEntries parent(*context_.reader, context_.parent, pages, context_.avoid);
  std::vector<TreeNote> notes;
  const bool ordered = scan || request_.ordered;
  const std::unique_ptr<JoinedSource> source =
      plain == nullptr ? join_scan(*scan, parent, notes) : join_source(*plain, ordered ? &parent : nullptr);
  if (ordered) {
    ASCOPE_TRY(take_all(*source, writer));
  } else {
    EntrySpool spool(context_.cache_dir, packs_.names());
    ASCOPE_TRY(take_all(*source, spool));
    PreferringSink sink(writer, parent);
    ASCOPE_TRY(spool.replay(ctx_, packs_.numbers(), sink));
  }
  ASCOPE_TRY(writer.finish(ctx_));
  for (TreeNote& one : notes) {
    note(std::move(one.path), std::move(one.what));
  }
  if (!parent.problem().empty()) {
    note("", "the snapshot before could not be compared with: " + parent.problem());
  }
  return true;
}

bool SaveSession::is_unchanged(const ManifestRoot& root) const {
  const auto same = [](const std::vector<PageRef>& a, const std::vector<PageRef>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const PageRef& one, const PageRef& other) {
      return one.first == other.first && one.chunk.id == other.chunk.id;
    });
  };
  if (context_.parent == nullptr || !context_.avoid.empty()) {
    return false;
  }
  const ManifestRoot& before = context_.parent->root;
  return same(root.workspace, before.workspace) && root.roots.has_value() == before.roots.has_value() &&
         (!root.roots || same(*root.roots, *before.roots));
}

Result<SaveResult> SaveSession::run() {
  PartWriter workspace(*context_.key, known_, packs_, pipeline_);
  PartWriter roots(*context_.key, known_, packs_, pipeline_);
  ASCOPE_TRY_ASSIGN(const bool has_workspace, save_part(SnapshotPart::workspace, workspace));
  if (!has_workspace) {
    return make_error(ErrorKind::internal, "a save without a workspace");
  }
  ASCOPE_TRY_ASSIGN(const bool has_roots, save_part(SnapshotPart::roots, roots));
  ASCOPE_TRY_ASSIGN(const std::vector<PlacedFrame> frames, pipeline_.finish());
  note_placed(frames);
  ASCOPE_TRY(note_put());
  ManifestRoot& root = result_.root;
  root.workspace = workspace.take_pages();
  if (has_roots) {
    root.roots = roots.take_pages();
  }
  root.files = workspace.files() + roots.files();
  root.content_bytes = workspace.content_bytes() + roots.content_bytes();
  SessionPacks::Uses uses = packs_.uses();
  for (PageRef& page : root.workspace) {
    page.chunk.pack = uses.number_of[page.chunk.pack];
  }
  if (root.roots) {
    for (PageRef& page : *root.roots) {
      page.chunk.pack = uses.number_of[page.chunk.pack];
    }
  }
  root.packs = std::move(uses.packs);
  result_.unsure = std::move(uses.unsure);
  result_.changed = !is_unchanged(root);
  result_.new_bytes = cutter_.totals().new_bytes;
  result_.reused_bytes = cutter_.totals().known_bytes;
  return std::move(result_);
}

}  // namespace

Result<SaveResult> save_content(const OpContext& ctx, const SaveContext& context,
                                const SaveRequest& request) {
  return SaveSession(ctx, context, request).run();
}

}  // namespace ascope::chunks
