// SPDX-License-Identifier: Apache-2.0
#include "core/repository/repository.h"

#include <algorithm>
#include <functional>

#include "core/base/hash.h"
#include "core/repository/chunks/root.h"
#include "core/repository/tar.h"

namespace ascope {

namespace {

struct StoredObject {
  BlobInfo info;
  std::string sha256;
  TarStats stats;
};

// The object's size and digest as the history has them.
struct ExpectedObject {
  std::string key;
  std::uint64_t size_bytes = 0;
  std::string sha256;
  std::string version;
};

ExpectedObject expected(const HistoryItem& item, SnapshotPart part) {
  if (part == SnapshotPart::workspace) {
    return {item.object, item.size_bytes, item.sha256, item.version};
  }
  return {item.roots_object, item.roots_size_bytes, item.roots_sha256, ""};
}

// What a save compares its stream with.
struct Parent {
  ExpectedObject object;
  std::function<Result<bool>()> is_whole;  // the store has all of the parent as it was saved
};

// A tar on its way to the store; at its end it knows size and digest. Where they equal the parent's, and the
// store still has that, it fails instead of ending, so that the store keeps nothing and syncs nothing.
class SavedStream final : public ByteSource {
 public:
  SavedStream(TreeSource& tree, std::optional<Parent> parent)
      : parent_(std::move(parent)), pipe_(pipe_source([this, &tree](ByteSink& sink) -> Result<void> {
          ASCOPE_TRY_ASSIGN(stats_, write_tar(tree, sink, TarCompression::none));
          return ok();
        })) {}

  Result<std::size_t> read(std::span<char> buffer) override {
    if (!sha256_.empty()) {
      return std::size_t{0};
    }
    ASCOPE_TRY_ASSIGN(const std::size_t count, pipe_->read(buffer));
    if (count > 0) {
      hash_.update(ByteView(buffer.data(), count));
      size_bytes_ += count;
      return count;
    }
    sha256_ = hash_.finish_hex();
    if (parent_ && parent_->object.size_bytes == size_bytes_ && parent_->object.sha256 == sha256_) {
      ASCOPE_TRY_ASSIGN(unchanged_, parent_->is_whole());
      if (unchanged_) {
        return make_error(ErrorKind::cancelled, "nothing changed");
      }
    }
    return count;
  }
  // Valid after the end.
  [[nodiscard]] bool unchanged() const { return unchanged_; }
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  [[nodiscard]] TarStats& stats() { return stats_; }

 private:
  std::optional<Parent> parent_;
  TarStats stats_;
  Sha256 hash_;
  std::uint64_t size_bytes_ = 0;
  std::string sha256_;
  bool unchanged_ = false;
  std::unique_ptr<ByteSource> pipe_;  // last: its thread writes stats_
};

// Entries of a stored tar; the end comes only if every byte was as saved.
class VerifiedTree final : public TreeSource {
 public:
  VerifiedTree(std::unique_ptr<ByteSource> bytes, ExpectedObject want)
      : bytes_(std::move(bytes)), hashed_(*bytes_), want_(std::move(want)) {}

  Result<void> open() {
    Result<std::unique_ptr<TreeSource>> tar = read_tar(hashed_);
    if (!tar) {
      return damaged(std::move(tar).error());
    }
    tar_ = std::move(*tar);
    return ok();
  }
  Result<bool> next(TreeEntry& entry) override {
    Result<bool> more = tar_->next(entry);
    if (!more) {
      return damaged(std::move(more).error());
    }
    if (*more || verified_) {
      return more;
    }
    ASCOPE_TRY(verify());
    return false;
  }
  Result<std::optional<DataBlock>> read() override {
    Result<std::optional<DataBlock>> block = tar_->read();
    return block ? std::move(block) : Result<std::optional<DataBlock>>(damaged(std::move(block).error()));
  }

 private:
  [[nodiscard]] Error damaged(Error error) const {
    return std::move(error)
        .within("object '" + want_.key + "'")
        .with_hint("restore another snapshot of the slot: ascope-sandbox snapshot ls");
  }
  Result<void> verify() {
    std::string rest(64U << 10U, '\0');
    while (true) {
      ASCOPE_TRY_ASSIGN(const std::size_t count, hashed_.read(rest));
      if (count == 0) {
        break;
      }
    }
    const bool same_size = hashed_.size_bytes() == want_.size_bytes;
    if (!want_.sha256.empty() && (!same_size || hashed_.finish_hex() != want_.sha256)) {
      return make_error(ErrorKind::corrupt,
                        "object '" + want_.key + "' is not what was saved: its " +
                            (same_size ? "SHA-256" : "size") + " differs",
                        "restore another snapshot of the slot: ascope-sandbox snapshot ls");
    }
    verified_ = true;
    return ok();
  }

  std::unique_ptr<ByteSource> bytes_;
  HashingSource hashed_;
  ExpectedObject want_;
  std::unique_ptr<TreeSource> tar_;
  bool verified_ = false;
};

// What the format could not hold.
void add_notes(HistoryItem& item, const std::vector<TreeNote>& notes) {
  constexpr std::size_t kMost = 100;
  for (const TreeNote& note : notes) {
    if (item.notes.size() < kMost) {
      item.notes.push_back(note_json(note));
    }
  }
}

class TarRepository final : public Repository {
 public:
  explicit TarRepository(BlobStore& blobs) : blobs_(blobs) {}

  Result<SaveOutcome> save(const OpContext& ctx, const SaveRequest& request) override;
  Result<std::unique_ptr<TreeSource>> open(const OpContext& ctx, const HistoryItem& item,
                                           SnapshotPart part) override;
  Result<std::unique_ptr<TreeSource>> open_paths(const OpContext& ctx, const HistoryItem& item,
                                                 SnapshotPart part,
                                                 const std::vector<std::string>& /*paths*/) override {
    return open(ctx, item, part);
  }
  Result<SnapshotHealth> check(const OpContext& ctx, const HistoryItem& item, bool read_data) override;
  Result<std::vector<SnapshotProblem>> problems(const OpContext& ctx, const HistoryItem& item,
                                                bool read_data) override;
  Result<void> remove(const OpContext& ctx, const HistoryItem& item) override;
  Result<void> remove_uncommitted(const OpContext& ctx, const SnapshotOrigin& origin,
                                  const std::string& id) override;
  Result<HistoryItem> find(const OpContext& ctx, const std::string& id) override {
    return describe_object(ctx, blobs_, id);
  }
  Result<std::vector<BlobInfo>> list(const OpContext& ctx) override;

 private:
  // nullopt: equal to `parent`, nothing kept.
  Result<std::optional<StoredObject>> put(const OpContext& ctx, const std::string& key, TreeSource& tree,
                                          std::optional<Parent> parent);
  Result<SnapshotHealth> check_object(const OpContext& ctx, const ExpectedObject& want, bool read_data);

  BlobStore& blobs_;
};

Result<std::optional<StoredObject>> TarRepository::put(const OpContext& ctx, const std::string& key,
                                                       TreeSource& tree, std::optional<Parent> parent) {
  SavedStream stream(tree, std::move(parent));
  Result<std::optional<BlobInfo>> stored = blobs_.put(ctx, key, stream);
  if (stream.unchanged()) {
    return std::optional<StoredObject>();
  }
  if (!stored) {
    return std::move(stored).error().within("saving object '" + key + "'");
  }
  if (!*stored) {
    return make_error(ErrorKind::conflict, "object '" + key + "' exists already");
  }
  if ((*stored)->size_bytes != stream.size_bytes()) {
    static_cast<void>(blobs_.remove(ctx, key).has_value());
    return make_error(ErrorKind::store_unavailable,
                      "the store kept another number of bytes of '" + key + "' than it was given");
  }
  return std::optional<StoredObject>(
      StoredObject{std::move(**stored), stream.sha256(), std::move(stream.stats())});
}

// Read whole, and nothing kept.
SaveOutcome unchanged(const HistoryItem& parent) {
  SaveOutcome out;
  out.changed = false;
  out.item = parent;
  out.read_bytes = parent.content_bytes;
  return out;
}

Result<SaveOutcome> TarRepository::save(const OpContext& ctx, const SaveRequest& request) {
  const HistoryItem* parent = request.parent;
  const bool comparable = parent != nullptr && parent->format == "tar" &&
                          parent->roots_object.empty() == (request.roots == nullptr);
  const auto is_whole = [&]() -> Result<bool> {
    ASCOPE_TRY_ASSIGN(const SnapshotHealth health, check(ctx, *parent, request.read_parent));
    return health == SnapshotHealth::usable;
  };
  const auto parent_part = [&](SnapshotPart part) {
    return comparable ? std::optional(Parent{expected(*parent, part), is_whole}) : std::nullopt;
  };
  SaveOutcome out;
  HistoryItem& item = out.item;
  item.snapshot = request.id;
  item.format = "tar";
  item.object = request.id + std::string(kTarObject);
  // With a second object the first must be kept until the second is known.
  const bool alone = request.roots == nullptr;
  ASCOPE_TRY_ASSIGN(
      std::optional<StoredObject> first,
      put(ctx, item.object, *request.workspace, alone ? parent_part(SnapshotPart::workspace) : std::nullopt));
  if (!first) {
    return unchanged(*parent);
  }
  item.size_bytes = first->info.size_bytes;
  item.version = first->info.version;
  item.sha256 = first->sha256;
  item.files = first->stats.files;
  item.content_bytes = first->stats.content_bytes;
  item.added_bytes = item.size_bytes;
  add_notes(item, first->stats.notes);
  out.read_bytes = item.content_bytes;
  out.stored_bytes = item.added_bytes;
  if (alone) {
    return out;
  }
  const bool same = comparable && parent->size_bytes == item.size_bytes && parent->sha256 == item.sha256;
  item.roots_object = request.id + std::string(kTarRoots);
  Result<std::optional<StoredObject>> second =
      put(ctx, item.roots_object, *request.roots, same ? parent_part(SnapshotPart::roots) : std::nullopt);
  if (!second || !*second) {
    ASCOPE_TRY(blobs_.remove(ctx, item.object));
    return second ? Result<SaveOutcome>(unchanged(*parent)) : std::move(second).error();
  }
  item.roots_size_bytes = (*second)->info.size_bytes;
  item.roots_sha256 = (*second)->sha256;
  item.added_bytes += item.roots_size_bytes;
  item.files += (*second)->stats.files;
  item.content_bytes += (*second)->stats.content_bytes;
  add_notes(item, (*second)->stats.notes);
  out.read_bytes = item.content_bytes;
  out.stored_bytes = item.added_bytes;
  return out;
}

Result<std::unique_ptr<TreeSource>> TarRepository::open(const OpContext& ctx, const HistoryItem& item,
                                                        SnapshotPart part) {
  ExpectedObject want = expected(item, part);
  if (want.key.empty()) {
    return std::unique_ptr<TreeSource>(std::make_unique<EmptyTree>());
  }
  if (item.format != "tar") {
    return make_error(ErrorKind::unsupported,
                      "snapshot '" + item.snapshot + "' is of format '" + item.format + "'");
  }
  Result<std::unique_ptr<ByteSource>> bytes = blobs_.get(ctx, want.key);
  if (!bytes) {
    return std::move(bytes)
        .error()
        .within("snapshot '" + item.snapshot + "'")
        .with_hint("'ascope-sandbox snapshot check' tells what is left");
  }
  auto tree = std::make_unique<VerifiedTree>(std::move(*bytes), std::move(want));
  ASCOPE_TRY(tree->open());
  return std::unique_ptr<TreeSource>(std::move(tree));
}

Result<SnapshotHealth> TarRepository::check_object(const OpContext& ctx, const ExpectedObject& want,
                                                   bool read_data) {
  ASCOPE_TRY_ASSIGN(const std::optional<BlobInfo> info, blobs_.stat(ctx, want.key));
  if (!info) {
    return SnapshotHealth::missing;
  }
  if (info->size_bytes != want.size_bytes) {
    return SnapshotHealth::overwritten;
  }
  // A store that was copied elsewhere has other versions of the same bytes: then the digest decides.
  const bool other_version = !want.version.empty() && !info->version.empty() && want.version != info->version;
  if ((!read_data && !other_version) || want.sha256.empty()) {
    return other_version ? SnapshotHealth::overwritten : SnapshotHealth::usable;
  }
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<ByteSource> bytes, blobs_.get(ctx, want.key));
  HashingSource hashed(*bytes);
  std::string buffer(256U << 10U, '\0');
  while (true) {
    ASCOPE_TRY(ctx.check("checking object '" + want.key + "'"));
    ASCOPE_TRY_ASSIGN(const std::size_t count, hashed.read(buffer));
    if (count == 0) {
      break;
    }
  }
  if (hashed.finish_hex() == want.sha256) {
    return SnapshotHealth::usable;
  }
  return other_version ? SnapshotHealth::overwritten : SnapshotHealth::corrupt;
}

Result<SnapshotHealth> TarRepository::check(const OpContext& ctx, const HistoryItem& item, bool read_data) {
  ASCOPE_TRY_ASSIGN(const SnapshotHealth first,
                    check_object(ctx, expected(item, SnapshotPart::workspace), read_data));
  if (first != SnapshotHealth::usable || item.roots_object.empty()) {
    return first;
  }
  return check_object(ctx, expected(item, SnapshotPart::roots), read_data);
}

Result<std::vector<SnapshotProblem>> TarRepository::problems(const OpContext& ctx, const HistoryItem& item,
                                                             bool read_data) {
  std::vector<SnapshotProblem> out;
  for (const SnapshotPart part : {SnapshotPart::workspace, SnapshotPart::roots}) {
    const ExpectedObject want = expected(item, part);
    if (want.key.empty()) {
      continue;
    }
    ASCOPE_TRY_ASSIGN(const SnapshotHealth health, check_object(ctx, want, read_data));
    if (health != SnapshotHealth::usable) {
      out.push_back({want.key, health == SnapshotHealth::missing,
                     health == SnapshotHealth::missing   ? "is missing"
                     : health == SnapshotHealth::corrupt ? "is damaged: its SHA-256 differs"
                                                         : "has another size or version than was saved"});
    }
  }
  return out;
}

Result<void> TarRepository::remove(const OpContext& ctx, const HistoryItem& item) {
  ASCOPE_TRY(blobs_.remove(ctx, item.object));
  return item.roots_object.empty() ? ok() : blobs_.remove(ctx, item.roots_object);
}

Result<void> TarRepository::remove_uncommitted(const OpContext& ctx, const SnapshotOrigin& /*origin*/,
                                               const std::string& id) {
  ASCOPE_TRY(blobs_.remove(ctx, id + std::string(kTarObject)));
  return blobs_.remove(ctx, id + std::string(kTarRoots));
}

Result<std::vector<BlobInfo>> TarRepository::list(const OpContext& ctx) {
  ASCOPE_TRY_ASSIGN(std::vector<BlobInfo> all, blobs_.list(ctx, ""));
  std::erase_if(all, [](const BlobInfo& one) { return !one.key.ends_with(kTarObject); });
  return all;
}

}  // namespace

SnapshotHealth health_of(const std::vector<SnapshotProblem>& problems) {
  if (problems.empty()) {
    return SnapshotHealth::usable;
  }
  const bool missing =
      std::any_of(problems.begin(), problems.end(), [](const auto& one) { return one.missing; });
  return missing ? SnapshotHealth::missing : SnapshotHealth::corrupt;
}

std::string snapshot_of_object(std::string_view key) {
  if (const auto manifest = chunks::parse_manifest_key(key)) {
    return manifest->id;
  }
  return std::string(key.substr(0, key.find(key.ends_with(kTarRoots) ? kTarRoots : kTarObject)));
}

std::unique_ptr<Repository> make_tar_repository(BlobStore& blobs) {
  return std::make_unique<TarRepository>(blobs);
}

}  // namespace ascope
