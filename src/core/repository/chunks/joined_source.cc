// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/joined_source.h"

#include <algorithm>
#include <unordered_set>

#include "core/repository/chunks/path_order.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kReadBatch = 8192;     // files of one request for content
constexpr std::size_t kMostWaiting = 16384;  // entries behind the first of them
constexpr std::size_t kMostReferences = 65536;

class PlainJoin final : public JoinedSource {
 public:
  PlainJoin(TreeSource& source, ParentEntries* parent) : source_(source), parent_(parent) {}

  Result<bool> next(const OpContext& ctx, JoinedEntry& out) override {
    out = JoinedEntry{};
    ASCOPE_TRY_ASSIGN(const bool more, source_.next(out.entry));
    if (more && parent_ != nullptr && out.entry.type == EntryType::file) {
      ASCOPE_TRY_ASSIGN(const TreeEntry* before, parent_->find_file(ctx, out.entry.path));
      if (before != nullptr) {
        ASCOPE_TRY_ASSIGN(out.before, parent_->refs(ctx));
      }
    }
    return more;
  }
  Result<std::optional<DataBlock>> read() override { return source_.read(); }

 private:
  TreeSource& source_;
  ParentEntries* parent_;
};

class ScanJoin final : public JoinedSource {
 public:
  ScanJoin(TreeScan& scan, ParentEntries& parent, std::vector<TreeNote>& notes)
      : scan_(scan), parent_(parent), notes_(notes) {}

  Result<bool> next(const OpContext& ctx, JoinedEntry& out) override;
  Result<std::optional<DataBlock>> read() override {
    return content_ ? content_->read() : Result<std::optional<DataBlock>>(std::optional<DataBlock>());
  }

 private:
  Result<void> fill(const OpContext& ctx);
  Result<void> join(const OpContext& ctx, JoinedEntry& one, bool unchanged);
  // Reads what is left of the content asked for, so that all that is to be noted of it is.
  Result<void> end_content();
  // The entry as it was read; false: it is not there any more.
  Result<bool> take_content(JoinedEntry& out);

  TreeScan& scan_;
  ParentEntries& parent_;
  std::vector<TreeNote>& notes_;
  std::deque<JoinedEntry> waiting_;
  std::unique_ptr<TreeSource> content_;
  std::unordered_set<std::string> asked_;
  std::unordered_set<std::string> lost_;  // that no hard link can lead to
  TreeEntry read_ahead_;
  bool has_read_ahead_ = false;
  bool scanned_ = false;
};

bool needs_content(const JoinedEntry& one) {
  return one.entry.type == EntryType::file && !one.unchanged;
}

Result<void> ScanJoin::join(const OpContext& ctx, JoinedEntry& one, bool unchanged) {
  if (one.entry.type != EntryType::file) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(const TreeEntry* before, parent_.find_file(ctx, one.entry.path));
  if (before == nullptr) {
    return ok();
  }
  TreeEntry as_before = *before;
  ASCOPE_TRY_ASSIGN(one.before, parent_.refs(ctx));
  const bool whole = !one.before.empty() || data_bytes(as_before) == 0;
  if (unchanged && whole && as_before.size_bytes == one.entry.size_bytes) {
    one.unchanged = true;
    one.entry.xattrs = std::move(as_before.xattrs);  // which a scan need not look for
    one.entry.sparse = as_before.sparse;
    one.entry.extents = std::move(as_before.extents);
  }
  return ok();
}

Result<void> ScanJoin::end_content() {
  while (content_) {
    ASCOPE_TRY_ASSIGN(const bool more, content_->next(read_ahead_));
    if (!more) {
      content_.reset();
    }
  }
  has_read_ahead_ = false;
  asked_.clear();
  return ok();
}

Result<void> ScanJoin::fill(const OpContext& ctx) {
  ASCOPE_TRY(end_content());
  std::vector<std::string> paths;
  std::size_t references = 0;
  while (!scanned_ && paths.size() < kReadBatch && waiting_.size() < kMostWaiting &&
         references < kMostReferences) {
    JoinedEntry one;
    bool unchanged = false;
    ASCOPE_TRY_ASSIGN(const bool more, scan_.next(one.entry, unchanged));
    scanned_ = !more;
    if (!more) {
      break;
    }
    ASCOPE_TRY(join(ctx, one, unchanged));
    if (needs_content(one)) {
      paths.push_back(one.entry.path);
    }
    references += one.before.size() + one.entry.extents.size();
    waiting_.push_back(std::move(one));
    if (paths.empty() && waiting_.size() > 64) {
      break;  // nothing to wait for
    }
  }
  if (!paths.empty()) {
    asked_.insert(paths.begin(), paths.end());
    ASCOPE_TRY_ASSIGN(content_, scan_.read(paths));
  }
  return ok();
}

Result<bool> ScanJoin::take_content(JoinedEntry& out) {
  const std::string path = out.entry.path;
  while (content_) {
    if (!has_read_ahead_) {
      ASCOPE_TRY_ASSIGN(has_read_ahead_, content_->next(read_ahead_));
      if (!has_read_ahead_) {
        content_.reset();
        break;
      }
    }
    if (path_before(path, read_ahead_.path)) {
      break;
    }
    has_read_ahead_ = false;
    if (read_ahead_.path != path) {
      continue;  // a folder on the way, or something nobody asked for
    }
    // A link to what is not in this snapshot could not be restored.
    if (read_ahead_.type == EntryType::hardlink && !asked_.contains(read_ahead_.link_target)) {
      break;
    }
    out.entry = std::move(read_ahead_);
    if (out.entry.type == EntryType::directory) {
      lost_.insert(path);
    }
    return true;
  }
  notes_.push_back({path, "vanished or was replaced while it was read"});
  lost_.insert(path);
  return false;
}

Result<bool> ScanJoin::next(const OpContext& ctx, JoinedEntry& out) {
  while (true) {
    if (waiting_.empty()) {
      if (scanned_) {
        ASCOPE_TRY(end_content());
        return false;
      }
      ASCOPE_TRY(fill(ctx));
      continue;
    }
    out = std::move(waiting_.front());
    waiting_.pop_front();
    if (out.entry.type == EntryType::hardlink && lost_.contains(out.entry.link_target)) {
      notes_.push_back({out.entry.path, "hard link to '" + out.entry.link_target + "', which vanished"});
      continue;
    }
    if (!needs_content(out)) {
      return true;
    }
    ASCOPE_TRY_ASSIGN(const bool there, take_content(out));
    if (there) {
      return true;
    }
  }
}

}  // namespace

ParentEntries::ParentEntries(ChunkReader& chunks, const Manifest* parent, const std::vector<PageRef>* pages,
                             const std::set<PackName>& avoid)
    : parent_(parent), avoid_(avoid) {
  if (parent != nullptr && pages != nullptr) {
    entries_ = std::make_unique<EntryReader>(chunks, *parent, *pages);
  }
}

// A parent that cannot be read is no reason not to save: what it has is then stored again.
Result<bool> ParentEntries::pass(Result<bool> outcome) {
  if (outcome || !is_damage(outcome.error())) {
    return outcome;
  }
  problem_ = std::move(outcome).error().message;
  entries_.reset();
  has_entry_ = false;
  return false;
}

Result<const TreeEntry*> ParentEntries::find_file(const OpContext& ctx, const std::string& path) {
  while (entries_ && (!has_entry_ || path_before(entry_.path, path))) {
    ASCOPE_TRY_ASSIGN(has_entry_, pass(entries_->next(ctx, entry_)));
    if (!has_entry_) {
      entries_.reset();
    }
  }
  const bool found = has_entry_ && entry_.path == path && entry_.type == EntryType::file;
  return found ? &entry_ : nullptr;
}

Result<std::vector<ChunkRef>> ParentEntries::refs(const OpContext& ctx) {
  std::vector<ChunkRef> out;
  std::vector<ChunkRef> some;
  bool relied_on = true;
  while (entries_) {
    ASCOPE_TRY_ASSIGN(const bool more, pass(entries_->next_refs(ctx, some)));
    if (!more) {
      break;
    }
    out.insert(out.end(), some.begin(), some.end());
  }
  if (!avoid_.empty()) {
    relied_on = std::none_of(out.begin(), out.end(), [&](const ChunkRef& ref) {
      return avoid_.contains(parent_->root.packs[ref.pack].name);
    });
  }
  return entries_ && relied_on ? std::move(out) : std::vector<ChunkRef>();
}

std::unique_ptr<JoinedSource> join_source(TreeSource& source, ParentEntries* parent) {
  return std::make_unique<PlainJoin>(source, parent);
}

std::unique_ptr<JoinedSource> join_scan(TreeScan& scan, ParentEntries& parent, std::vector<TreeNote>& notes) {
  return std::make_unique<ScanJoin>(scan, parent, notes);
}

}  // namespace ascope::chunks
