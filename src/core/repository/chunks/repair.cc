// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/repair.h"

#include <algorithm>
#include <set>

#include "core/repository/chunks/condemnation.h"
#include "core/repository/chunks/hints.h"
#include "core/repository/chunks/live_packs.h"
#include "core/repository/chunks/manifest_list.h"
#include "core/repository/chunks/path_order.h"
#include "core/repository/chunks/sealed.h"

namespace ascope::chunks {

namespace {

// A part of a damaged manifest, without files whose content cannot be read.
class ReadableEntries {
 public:
  ReadableEntries(const Access& access, const Manifest& manifest, const std::vector<PageRef>& pages,
                  const std::set<std::uint32_t>& bad_packs)
      : access_(access), manifest_(manifest), salvage_(access, manifest, pages), bad_packs_(bad_packs) {}

  // `is_safe`: no chunk of it lies in a pack that is bad.
  Result<bool> next(const OpContext& ctx, SalvagedEntry& out, bool& is_safe) {
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, salvage_.next(ctx, out));
      if (!more) {
        return false;
      }
      is_safe = true;
      bool lost = false;
      for (const ChunkRef& ref : out.refs) {
        if (!bad_packs_.contains(ref.pack)) {
          continue;
        }
        is_safe = false;
        Result<LoadedChunks> loaded = load(ctx, ref);
        if (!loaded && !is_damage(loaded.error())) {
          return std::move(loaded).error();
        }
        if (!loaded) {
          salvage_.lose(out.entry.path, std::move(loaded.error().message));
          lost = true;
          break;
        }
      }
      if (!lost) {
        return true;
      }
    }
  }
  Result<LoadedChunks> load(const OpContext& ctx, const ChunkRef& ref) {
    return access_.reader->load(ctx, manifest_.root.packs[ref.pack].name, std::span(&ref, 1), decompressor_);
  }
  [[nodiscard]] const std::vector<LostEntry>& lost() const { return salvage_.lost(); }

 private:
  const Access& access_;
  const Manifest& manifest_;
  Salvage salvage_;
  const std::set<std::uint32_t>& bad_packs_;
  FrameDecompressor decompressor_;
};

// Some of the entries, with their content.
class ReadableFiles final : public TreeSource {
 public:
  ReadableFiles(const OpContext& ctx, ReadableEntries& entries, const std::vector<std::string>& paths)
      : ctx_(ctx), entries_(entries), paths_(paths) {}

  Result<bool> next(TreeEntry& entry) override {
    bool is_safe = false;
    while (next_path_ < paths_.size()) {
      ASCOPE_TRY_ASSIGN(const bool more, entries_.next(ctx_, one_, is_safe));
      if (!more) {
        break;
      }
      if (one_.entry.path == paths_[next_path_]) {
        ++next_path_;
        entry = one_.entry;
        next_ref_ = 0;
        runs_ = entry.sparse ? entry.extents : std::vector<Extent>{{0, entry.size_bytes}};
        run_ = 0;
        in_run_ = 0;
        rest_ = {};
        return true;
      }
    }
    return false;
  }
  Result<std::optional<DataBlock>> read() override {
    if (rest_.empty()) {
      if (next_ref_ == one_.refs.size()) {
        return std::optional<DataBlock>();
      }
      ASCOPE_TRY_ASSIGN(loaded_, entries_.load(ctx_, one_.refs[next_ref_++]));
      rest_ = loaded_.chunks.front();
    }
    const Extent& run = runs_[run_];
    const std::size_t size = std::min<std::uint64_t>(rest_.size(), run.length - in_run_);
    const DataBlock block{run.offset + in_run_, rest_.substr(0, size)};
    rest_.remove_prefix(size);
    in_run_ += size;
    if (in_run_ == run.length) {
      ++run_;
      in_run_ = 0;
    }
    return std::optional<DataBlock>(block);
  }

 private:
  const OpContext& ctx_;
  ReadableEntries& entries_;
  const std::vector<std::string> paths_;
  std::size_t next_path_ = 0;
  SalvagedEntry one_;
  std::size_t next_ref_ = 0;
  LoadedChunks loaded_;
  ByteView rest_;  // of the present chunk
  std::vector<Extent> runs_;
  std::size_t run_ = 0;
  std::uint64_t in_run_ = 0;
};

class ReadableScan final : public TreeScan {
 public:
  ReadableScan(const OpContext& ctx, const Access& access, const Manifest& manifest,
               const std::vector<PageRef>& pages, const std::set<std::uint32_t>& bad_packs)
      : ctx_(ctx),
        entries_(access, manifest, pages, bad_packs),
        content_(access, manifest, pages, bad_packs) {}

  Result<bool> next(TreeEntry& entry, bool& unchanged) override {
    SalvagedEntry one;
    ASCOPE_TRY_ASSIGN(const bool more, entries_.next(ctx_, one, unchanged));
    entry = std::move(one.entry);
    return more;
  }
  Result<std::unique_ptr<TreeSource>> read(const std::vector<std::string>& paths) override {
    return std::unique_ptr<TreeSource>(std::make_unique<ReadableFiles>(ctx_, content_, paths));
  }

 private:
  const OpContext& ctx_;
  ReadableEntries entries_;
  ReadableEntries content_;  // behind the other, as far as content was asked for
};

class Repair {
 public:
  Repair(const OpContext& ctx, ChunkRepository& repository, const Access& access, const HistoryItem& item,
         const RepairOptions& options)
      : ctx_(ctx), repository_(repository), access_(access), item_(item), options_(options) {}
  Result<RepairOutcome> run();

 private:
  // By its id, under whatever name of the slot; false: there is none.
  Result<bool> read_manifest();
  Result<void> find_bad_packs();
  Result<std::uint64_t> find_lost(SnapshotPart part);
  Result<void> save();
  [[nodiscard]] const std::vector<PageRef>* pages_of(SnapshotPart part) const {
    const ManifestRoot& root = manifest_.root;
    return part == SnapshotPart::workspace ? &root.workspace : root.roots ? &*root.roots : nullptr;
  }

  const OpContext& ctx_;
  ChunkRepository& repository_;
  const Access& access_;
  const HistoryItem& item_;
  const RepairOptions& options_;
  Manifest manifest_;
  std::set<std::uint32_t> bad_packs_;
  RepairOutcome out_;
};

Result<bool> Repair::read_manifest() {
  std::vector<std::string> objects = {item_.object};
  const std::optional<ManifestName> name = parse_manifest_key(item_.object);
  ASCOPE_TRY_ASSIGN(const std::vector<StoredManifest> others,
                    list_manifests(ctx_, *access_.store, name ? name->folder : item_.object));
  for (const StoredManifest& one : others) {
    objects.push_back(one.info.key);
  }
  for (const std::string& object : objects) {
    Result<ManifestRoot> root = read_root(ctx_, access_, object);
    if (!root && !is_damage(root.error())) {
      return std::move(root).error();
    }
    if (root && root->id == item_.snapshot) {
      manifest_ = {object, std::move(*root)};
      return true;
    }
  }
  return false;
}

// A pack that others took over from is read through them, chunk by chunk, and so is one that is damaged.
Result<void> Repair::find_bad_packs() {
  std::set<std::string> named;
  for (const SnapshotProblem& one : out_.problems) {
    named.insert(one.object);
  }
  for (std::size_t i = 0; i < manifest_.root.packs.size(); ++i) {
    const PackName& pack = manifest_.root.packs[i].name;
    ASCOPE_TRY_ASSIGN(const auto problem, repository_.check_pack(ctx_, pack, options_.read_data));
    if (problem || named.contains(pack_key(pack))) {
      bad_packs_.insert(static_cast<std::uint32_t>(i));
    }
  }
  return ok();
}

// How many entries are left.
Result<std::uint64_t> Repair::find_lost(SnapshotPart part) {
  std::uint64_t left = 0;
  const std::vector<PageRef>* pages = pages_of(part);
  if (pages == nullptr) {
    return left;
  }
  ReadableEntries entries(access_, manifest_, *pages, bad_packs_);
  SalvagedEntry one;
  bool is_safe = false;
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool more, entries.next(ctx_, one, is_safe));
    if (!more) {
      break;
    }
    ++left;
  }
  for (const LostEntry& lost : entries.lost()) {
    out_.lost.push_back({part, lost});
  }
  return left;
}

TreeNote note_of(const LostEntry& lost) {
  if (!lost.is_range) {
    return {lost.path, "lost: " + lost.what};
  }
  const std::string end = lost.until.empty() ? "to the end" : "up to '" + lost.until + "'";
  return {lost.path, "lost, with all " + end + ": " + lost.what};
}

Result<void> Repair::save() {
  SaveRequest request;
  request.id = options_.id;
  request.parent = &item_;
  request.origin = options_.origin;
  request.scan = [this](SnapshotPart part) -> Result<std::unique_ptr<TreeScan>> {
    const std::vector<PageRef>* pages = pages_of(part);
    return pages == nullptr ? std::unique_ptr<TreeScan>()
                            : std::make_unique<ReadableScan>(ctx_, access_, manifest_, *pages, bad_packs_);
  };
  for (const std::uint32_t pack : bad_packs_) {
    request.avoid_packs.insert(to_hex(manifest_.root.packs[pack].name.view()));
  }
  constexpr std::size_t kMostNotes = 100;
  for (const LostContent& one : out_.lost) {
    if (request.notes.size() < kMostNotes) {
      request.notes.push_back(note_of(one.entry));
    }
  }
  ASCOPE_TRY_ASSIGN(SaveOutcome saved, repository_.save(ctx_, request));
  out_.item = std::move(saved.item);
  return ok();
}

Result<RepairOutcome> Repair::run() {
  ASCOPE_TRY_ASSIGN(out_.problems, repository_.problems(ctx_, item_, options_.read_data));
  if (out_.problems.empty()) {
    return std::move(out_);
  }
  ASCOPE_TRY_ASSIGN(const bool readable, read_manifest());
  std::uint64_t left = 0;
  if (readable) {
    ASCOPE_TRY(find_bad_packs());
    ASCOPE_TRY_ASSIGN(left, find_lost(SnapshotPart::workspace));
    ASCOPE_TRY_ASSIGN(const std::uint64_t more, find_lost(SnapshotPart::roots));
    left += more;
  }
  out_.is_all_lost = left == 0;
  if (!out_.is_all_lost && !options_.dry_run) {
    ASCOPE_TRY(save());
  }
  return std::move(out_);
}

// Whether an object can be read; one that is gone meanwhile can.
template <typename Read>
Result<bool> can_be_read(Read read) {
  const auto outcome = read();
  if (outcome || outcome.error().kind == ErrorKind::not_found) {
    return true;
  }
  return outcome.error().kind == ErrorKind::corrupt ? Result<bool>(false) : outcome.error();
}

}  // namespace

Result<RepairOutcome> repair_snapshot(const OpContext& ctx, ChunkRepository& repository,
                                      const HistoryItem& item, const RepairOptions& options) {
  ASCOPE_TRY_ASSIGN(const Access access, repository.access(ctx));
  return Repair(ctx, repository, access, item, options).run();
}

Result<std::vector<CollectedObject>> repair_markers(const OpContext& ctx, const Access& access,
                                                    const CollectOptions& options) {
  StoreTime now = ctx.clock->wall();
  if (!options.dry_run) {
    ASCOPE_TRY_ASSIGN(now, store_time(ctx, access));
  }
  std::vector<CollectedObject> out;
  for (const std::string_view folder : {kCondemnedFolder, kPinsFolder, kHintsFolder}) {
    ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> all, access.store->list(ctx, std::string(folder)));
    for (const BlobInfo& one : all) {
      ASCOPE_TRY(ctx.check("looking for what cannot be read"));
      ASCOPE_TRY_ASSIGN(
          const bool good, can_be_read([&]() -> Result<void> {
            ASCOPE_TRY_ASSIGN(const std::string bytes, access.store->read(ctx, one.key, kMaxSealedBytes));
            const bool fits = folder == kCondemnedFolder ? decode_condemned(*access.key, bytes).has_value()
                              : folder == kPinsFolder    ? decode_pin(*access.key, bytes).has_value()
                                                         : decode_hints(*access.key, bytes).has_value();
            return fits ? ok() : Result<void>(damaged(one.key, "cannot be read"));
          }));
      if (good) {
        continue;
      }
      const bool removed = folder == kHintsFolder || now - one.modified > options.grace;
      if (removed && !options.dry_run) {
        ASCOPE_TRY(access.store->remove(ctx, one.key));
      }
      out.push_back({one.key, one.size_bytes, removed,
                     removed ? "it cannot be read" : "it cannot be read, but is young"});
    }
  }
  return out;
}

}  // namespace ascope::chunks
