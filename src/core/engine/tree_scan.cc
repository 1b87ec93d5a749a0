// SPDX-License-Identifier: Apache-2.0
#include "core/engine/tree_scan.h"

#include <algorithm>
#include <utility>

#include "core/engine/save.h"
#include "core/engine/scan_memory.h"
#include "core/repository/credentials.h"
#include "core/tree/entries_ahead.h"

namespace ascope {

namespace {

CredentialRule credential_rule(const Profile& profile) {
  const std::string& word = profile.credentials;
  return word == "refuse"    ? CredentialRule::refuse
         : word == "exclude" ? CredentialRule::exclude
         : word == "warn"    ? CredentialRule::warn
                             : CredentialRule::ignore;
}

// What a source of content has noted since it was last asked.
class NewNotes {
 public:
  void take(const std::vector<TreeNote>& all, std::vector<TreeNote>& out) {
    out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(std::min(taken_, all.size())), all.end());
    taken_ = all.size();
  }

 private:
  std::size_t taken_ = 0;
};

// Content on its way, with progress and a look for credentials. Keeps the reader that it passes on.
class ContentSource final : public TreeSource {
 public:
  // `memory` may be null.
  ContentSource(EngineServices& services, std::unique_ptr<TreeReader> reader, CredentialRule rule,
                ScanMemory* memory, std::uint64_t& bytes, std::vector<TreeNote>& notes)
      : services_(services),
        reader_(std::move(reader)),
        guard_(*reader_, rule),
        memory_(memory),
        bytes_(bytes),
        notes_(notes) {}
  ~ContentSource() override { add_notes(notes_); }
  ContentSource(const ContentSource&) = delete;
  ContentSource& operator=(const ContentSource&) = delete;

  // It is all of this part that is read: the entries are recorded, too.
  void record(SnapshotPart part) { part_ = part; }
  void add_notes(std::vector<TreeNote>& notes) const {
    notes.insert(notes.end(), reader_->notes().begin(), reader_->notes().end());
    notes.insert(notes.end(), guard_.notes().begin(), guard_.notes().end());
  }
  Result<bool> next(TreeEntry& entry) override {
    ASCOPE_TRY_ASSIGN(const bool more, guard_.next(entry));
    if (memory_ != nullptr) {
      if (more && part_) {
        memory_->record(*part_, entry, false);
      }
      std::vector<TreeNote> fresh;
      of_reader_.take(reader_->notes(), fresh);
      of_guard_.take(guard_.notes(), fresh);
      if (reader_->notes().size() > kMostTreeNotes) {
        memory_->distrust(std::nullopt);  // some notes are not listed
      }
      memory_->settle(fresh, more ? std::optional(entry.path) : std::nullopt);
    }
    return more;
  }
  Result<std::optional<DataBlock>> read() override {
    auto block = guard_.read();
    if (block && *block) {
      bytes_ += (*block)->bytes.size();
      services_.progress("Saving", bytes_, 0);
    }
    return block;
  }

 private:
  EngineServices& services_;
  std::unique_ptr<TreeReader> reader_;
  GuardedSource guard_;
  ScanMemory* memory_;
  std::optional<SnapshotPart> part_;
  NewNotes of_reader_;
  NewNotes of_guard_;
  std::uint64_t& bytes_;
  std::vector<TreeNote>& notes_;
};

class SandboxScan final : public TreeScan {
 public:
  SandboxScan(EngineServices& services, const OpContext& ctx, Toolbox& files, TreeSelection selection,
              SnapshotPart part, CredentialRule rule, ScanMemory& memory, std::vector<TreeNote>& notes)
      : services_(services),
        ctx_(ctx),
        files_(files),
        selection_(std::move(selection)),
        part_(part),
        rule_(rule),
        memory_(memory),
        notes_(notes) {}
  ~SandboxScan() override {
    ahead_.reset();
    if (scan_) {
      notes_.insert(notes_.end(), scan_->notes().begin(), scan_->notes().end());
    }
  }
  SandboxScan(const SandboxScan&) = delete;
  SandboxScan& operator=(const SandboxScan&) = delete;

  Result<bool> next(TreeEntry& entry, bool& unchanged) override {
    if (!scan_) {
      TreeSelection metadata = selection_;
      metadata.metadata_only = true;
      metadata.file_xattrs = false;
      ASCOPE_TRY_ASSIGN(scan_, files_.read_tree(ctx_, metadata));
      ahead_ = std::make_unique<EntriesAhead>(*scan_);
    }
    ASCOPE_TRY_ASSIGN(const bool more, ahead_->next(entry));
    if (more) {
      unchanged = entry.type == EntryType::file && memory_.same(part_, entry);
      memory_.record(part_, entry, unchanged);
    }
    return more;
  }

  Result<std::unique_ptr<TreeSource>> whole() override {
    // These two must see every file, for what was saved before may have been under another rule.
    const bool by_content = rule_ == CredentialRule::exclude || rule_ == CredentialRule::refuse;
    if (!by_content && memory_.knows_any()) {
      return std::unique_ptr<TreeSource>();
    }
    ASCOPE_TRY_ASSIGN(auto source, open(selection_));
    source->record(part_);
    return std::unique_ptr<TreeSource>(std::move(source));
  }

  Result<std::unique_ptr<TreeSource>> read(const std::vector<std::string>& paths) override {
    TreeSelection chosen;
    chosen.relative_to = selection_.relative_to;
    const std::string base = selection_.relative_to == "/" ? "" : selection_.relative_to;
    chosen.roots.reserve(paths.size());
    for (const std::string& path : paths) {
      chosen.roots.push_back(base + "/" + path);
    }
    ASCOPE_TRY_ASSIGN(auto source, open(chosen));
    return std::unique_ptr<TreeSource>(std::move(source));
  }

 private:
  Result<std::unique_ptr<ContentSource>> open(const TreeSelection& selection) {
    ASCOPE_TRY_ASSIGN(auto reader, files_.read_tree(ctx_, selection));
    return std::make_unique<ContentSource>(services_, std::move(reader), rule_, &memory_, bytes_, notes_);
  }

  EngineServices& services_;
  const OpContext& ctx_;
  Toolbox& files_;
  TreeSelection selection_;
  SnapshotPart part_;
  CredentialRule rule_;
  ScanMemory& memory_;
  std::vector<TreeNote>& notes_;
  std::unique_ptr<TreeReader> scan_;
  std::unique_ptr<EntriesAhead> ahead_;  // over scan_
  std::uint64_t bytes_ = 0;
};

}  // namespace

struct SandboxTrees::State {
  EngineServices& services;
  const OpContext& ctx;
  Toolbox& files;
  CredentialRule rule;
  ScanMemory memory;
  TreeSelection workspace{};
  TreeSelection others{};
  std::vector<TreeNote> notes{};
  std::uint64_t bytes = 0;
  std::unique_ptr<ContentSource> whole_workspace{};
  std::unique_ptr<ContentSource> whole_others{};

  Result<std::unique_ptr<TreeScan>> scan(SnapshotPart part) {
    if (part == SnapshotPart::workspace) {
      memory.begin();
      ASCOPE_TRY_ASSIGN(auto mapped, files.mapped_files(ctx));
      memory.distrust(std::move(mapped));
      notes.clear();
    }
    const TreeSelection& selection = part == SnapshotPart::workspace ? workspace : others;
    if (selection.roots.empty()) {
      return std::unique_ptr<TreeScan>();
    }
    return std::unique_ptr<TreeScan>(
        std::make_unique<SandboxScan>(services, ctx, files, selection, part, rule, memory, notes));
  }

  Result<std::unique_ptr<ContentSource>> whole(const TreeSelection& selection) {
    ASCOPE_TRY_ASSIGN(auto reader, files.read_tree(ctx, selection));
    return std::make_unique<ContentSource>(services, std::move(reader), rule, nullptr, bytes, notes);
  }
};

SandboxTrees::SandboxTrees(EngineServices& services, const OpContext& ctx, Toolbox& files,
                           const std::string& tree, const HistoryItem* parent)
    : state_(new State{services, ctx, files, credential_rule(services.profile()),
                       ScanMemory(services, tree,
                                  parent != nullptr && parent->format == "chunks" ? parent->snapshot : "")}) {
}
SandboxTrees::~SandboxTrees() = default;

Result<void> SandboxTrees::fill(SaveRequest& request) {
  State& state = *state_;
  const Profile& profile = state.services.profile();
  ASCOPE_TRY_ASSIGN(state.workspace, workspace_selection(state.ctx, state.files, profile));
  state.others = other_selection(profile);
  request.ordered = true;
  if (profile.snapshot_format == "chunks") {
    request.scan = [&state](SnapshotPart part) { return state.scan(part); };
    return ok();
  }
  ASCOPE_TRY_ASSIGN(state.whole_workspace, state.whole(state.workspace));
  request.workspace = state.whole_workspace.get();
  if (!state.others.roots.empty()) {
    ASCOPE_TRY_ASSIGN(state.whole_others, state.whole(state.others));
    request.roots = state.whole_others.get();
  }
  return ok();
}

std::vector<TreeNote> SandboxTrees::notes() const {
  std::vector<TreeNote> all = state_->notes;
  for (const auto* source : {state_->whole_workspace.get(), state_->whole_others.get()}) {
    if (source != nullptr) {
      source->add_notes(all);
    }
  }
  return all;
}

void SandboxTrees::keep(const std::string& snapshot) {
  state_->memory.keep(snapshot);
}

Result<void> remember_tree(EngineServices& services, const OpContext& ctx, Toolbox& files,
                           const std::string& tree, const std::string& snapshot,
                           const std::set<std::string>& noted) {
  ScanMemory memory(services, tree, "");
  memory.begin();
  ASCOPE_TRY_ASSIGN(TreeSelection workspace, workspace_selection(ctx, files, services.profile()));
  TreeSelection others = other_selection(services.profile());
  const std::pair<SnapshotPart, TreeSelection*> parts[] = {{SnapshotPart::workspace, &workspace},
                                                           {SnapshotPart::roots, &others}};
  for (const auto& [part, selection] : parts) {
    if (selection->roots.empty()) {
      continue;
    }
    selection->metadata_only = true;
    selection->file_xattrs = false;
    ASCOPE_TRY_ASSIGN(const auto reader, files.read_tree(ctx, *selection));
    TreeEntry entry;
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, reader->next(entry));
      if (!more) {
        break;
      }
      if (!noted.contains(entry.path)) {
        memory.record(part, entry, true);
      }
    }
  }
  memory.keep(snapshot);
  return ok();
}

}  // namespace ascope
