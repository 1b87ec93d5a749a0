// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/chunk_repository.h"

#include <algorithm>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/repository/chunks/content_source.h"
#include "core/repository/chunks/manifest_check.h"
#include "core/repository/chunks/manifest_list.h"
#include "core/repository/chunks/markers.h"
#include "core/repository/chunks/pinned_source.h"
#include "core/repository/chunks/publish.h"
#include "core/repository/chunks/repo_object.h"
#include "core/repository/chunks/save_session.h"
#include "core/repository/chunks/sealed.h"

namespace ascope {

using namespace chunks;  // NOLINT(google-build-using-namespace)

namespace {

constexpr unsigned kMostRewrites = 8;

// What is open of a store, from the first call on.
struct OpenStore {
  explicit OpenStore(OpenedRepo opened, StoreAccess& store)
      : repo(std::move(opened)), reader(store, repo.key) {}
  OpenedRepo repo;
  ChunkReader reader;
};

class Chunks final : public ChunkRepository {
 public:
  Chunks(BlobStore& blobs, ChunkOptions options) : store_(blobs), options_(std::move(options)) {}

  Result<SaveOutcome> save(const OpContext& ctx, const SaveRequest& request) override;
  Result<std::unique_ptr<TreeSource>> open(const OpContext& ctx, const HistoryItem& item,
                                           SnapshotPart part) override {
    return open_paths(ctx, item, part, {});
  }
  Result<SnapshotHealth> check(const OpContext& ctx, const HistoryItem& item, bool read_data) override;
  Result<void> remove(const OpContext& ctx, const HistoryItem& item) override {
    return store_.remove(ctx, item.object);
  }
  Result<void> remove_uncommitted(const OpContext& ctx, const SnapshotOrigin& origin,
                                  const std::string& id) override;
  Result<HistoryItem> find(const OpContext& ctx, const std::string& id) override;
  Result<std::vector<BlobInfo>> list(const OpContext& ctx) override;

  Result<std::unique_ptr<TreeSource>> open_paths(const OpContext& ctx, const HistoryItem& item,
                                                 SnapshotPart part,
                                                 const std::vector<std::string>& paths) override;
  Result<std::vector<SnapshotProblem>> problems(const OpContext& ctx, const HistoryItem& item,
                                                bool read_data) override;
  Result<std::optional<SnapshotProblem>> check_pack(const OpContext& ctx, const PackName& pack,
                                                    bool read_data) override;
  Result<ManifestRoot> read_root(const OpContext& ctx, const std::string& object) override;
  Result<HistoryItem> describe(const OpContext& ctx, const std::string& object) override;
  Result<std::vector<SnapshotProblem>> repo_problems(const OpContext& ctx) override {
    return chunks::repo_problems(ctx, store_);
  }
  Result<std::vector<SnapshotProblem>> mend_repo(const OpContext& ctx) override {
    open_.reset();
    return chunks::mend_repo(ctx, store_);
  }
  Result<Access> access(const OpContext& ctx) override;

 private:
  Result<OpenStore*> open_store(const OpContext& ctx, bool create);
  Result<std::unique_ptr<Manifest>> read_manifest(const OpContext& ctx, const HistoryItem& item);
  Result<SaveContext> save_context(const OpContext& ctx, const SaveRequest& request);
  // The parent to compare with; nullptr: none that can be read, said in `note`.
  Result<std::unique_ptr<Manifest>> read_parent(const OpContext& ctx, const HistoryItem* parent, Json& notes);

  StoreAccess store_;
  ChunkOptions options_;
  std::unique_ptr<OpenStore> open_;
};

Result<OpenStore*> Chunks::open_store(const OpContext& ctx, bool create) {
  if (!open_) {
    ASCOPE_TRY_ASSIGN(OpenedRepo repo, open_repo(ctx, store_, options_.key, create, options_.sizes));
    open_ = std::make_unique<OpenStore>(std::move(repo), store_);
  }
  return open_.get();
}

Result<std::unique_ptr<Manifest>> Chunks::read_manifest(const OpContext& ctx, const HistoryItem& item) {
  if (item.format != "chunks") {
    return make_error(ErrorKind::unsupported,
                      "snapshot '" + item.snapshot + "' is of format '" + item.format + "'");
  }
  ASCOPE_TRY_ASSIGN(const OpenStore* open, open_store(ctx, false));
  ASCOPE_TRY_ASSIGN(const std::string bytes, store_.read(ctx, item.object, kMaxSealedBytes));
  const bool as_saved =
      item.sha256.empty() || (bytes.size() == item.size_bytes && sha256_hex(bytes) == item.sha256);
  if (!as_saved) {
    return damaged(item.object, "is not what was saved: its size or SHA-256 differs");
  }
  auto out = std::make_unique<Manifest>();
  out->object = item.object;
  Result<ManifestRoot> root = decode_root(open->repo.key, bytes);
  if (!root) {
    return in_object(item.object, std::move(root).error());
  }
  if (root->id != item.snapshot) {
    return damaged(item.object, "is the manifest of another snapshot");
  }
  out->root = std::move(*root);
  return out;
}

Result<std::unique_ptr<Manifest>> Chunks::read_parent(const OpContext& ctx, const HistoryItem* parent,
                                                      Json& notes) {
  if (parent == nullptr || parent->format != "chunks") {
    return std::unique_ptr<Manifest>();
  }
  Result<std::unique_ptr<Manifest>> manifest = read_manifest(ctx, *parent);
  if (manifest || !is_damage(manifest.error())) {
    return manifest;
  }
  notes.push_back(
      note_json({"", "the snapshot before could not be compared with: " + manifest.error().message}));
  return std::unique_ptr<Manifest>();
}

Result<SaveContext> Chunks::save_context(const OpContext& ctx, const SaveRequest& request) {
  ASCOPE_TRY_ASSIGN(OpenStore * open, open_store(ctx, true));
  SaveContext out;
  out.store = &store_;
  out.key = &open->repo.key;
  out.reader = &open->reader;
  out.sizes = open->repo.sizes;
  out.pipeline = options_.pipeline;
  out.dedup = options_.dedup;
  out.cache_dir = options_.cache_dir + "/" + open->repo.id;
  out.journal_dir = out.cache_dir + "/journal/" +
                    open->repo.key.object_name("journal", request.origin.realm + "\n" + request.origin.slot);
  for (const std::string& hex : request.avoid_packs) {
    ASCOPE_TRY_ASSIGN(const PackName name, pack_name_from_hex(hex));
    out.avoid.insert(name);
  }
  return out;
}

Result<SaveOutcome> Chunks::save(const OpContext& ctx, const SaveRequest& request) {
  ASCOPE_TRY_ASSIGN(SaveContext context, save_context(ctx, request));
  ASCOPE_TRY(make_dirs(context.cache_dir));
  Json notes = Json::array();
  for (const TreeNote& one : request.notes) {
    notes.push_back(note_json(one));
  }
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<Manifest> parent, read_parent(ctx, request.parent, notes));
  context.parent = parent.get();
  SaveOutcome out;
  for (unsigned rewrite = 0;; ++rewrite) {
    ASCOPE_TRY_ASSIGN(SaveResult saved, save_content(ctx, context, request));
    out.new_bytes += saved.new_bytes;
    out.stored_bytes += saved.stored_bytes;
    out.reused_bytes = saved.reused_bytes;
    out.read_bytes += saved.new_bytes + saved.reused_bytes;
    if (!saved.changed) {
      out.changed = false;
      out.item = *request.parent;
      return out;
    }
    saved.root.notes.insert(saved.root.notes.begin(), notes.begin(), notes.end());
    ASCOPE_TRY_ASSIGN(PublishedRoot published, publish_root(ctx, context, request, saved, rewrite));
    if (published.lost.empty()) {
      out.stored_bytes += published.stored_bytes;
      out.item = std::move(published.item);
      out.item.added_bytes = out.stored_bytes;
      return out;
    }
    ++out.condemned_rewrites;
    if (!request.scan || rewrite == kMostRewrites) {
      return make_error(ErrorKind::conflict,
                        "object '" + pack_key(published.lost.front()) +
                            "' was collected while a snapshot that needs it was being saved",
                        "save again");
    }
    context.avoid.insert(published.lost.begin(), published.lost.end());
    context.offered.insert(context.offered.end(), published.heirs.begin(), published.heirs.end());
  }
}

Result<std::unique_ptr<TreeSource>> Chunks::open_paths(const OpContext& ctx, const HistoryItem& item,
                                                       SnapshotPart part,
                                                       const std::vector<std::string>& paths) {
  ASCOPE_TRY_ASSIGN(std::unique_ptr<Manifest> manifest, read_manifest(ctx, item));
  for (const std::string& path : paths) {
    ASCOPE_TRY(check_tree_path(path, true));
  }
  const ManifestRoot& root = manifest->root;
  if (part == SnapshotPart::roots && !root.roots) {
    return std::unique_ptr<TreeSource>(std::make_unique<EmptyTree>());
  }
  const std::vector<PageRef>& pages = part == SnapshotPart::workspace ? root.workspace : *root.roots;
  std::vector<PackUse> packs = root.packs;
  auto content = open_content(ctx, open_->reader, open_->repo.key, std::move(manifest), pages, paths);
  return pin_source(ctx, store_, open_->repo.key, item.object, std::move(packs), std::move(content));
}

Result<std::vector<SnapshotProblem>> Chunks::problems(const OpContext& ctx, const HistoryItem& item,
                                                      bool read_data) {
  Result<std::unique_ptr<Manifest>> manifest = read_manifest(ctx, item);
  if (!manifest) {
    ASCOPE_TRY_ASSIGN(SnapshotProblem problem, problem_of(item.object, std::move(manifest).error()));
    return std::vector<SnapshotProblem>{std::move(problem)};
  }
  ASCOPE_TRY_ASSIGN(const Access open, access(ctx));
  return check_manifest(ctx, open, **manifest, read_data);
}

Result<SnapshotHealth> Chunks::check(const OpContext& ctx, const HistoryItem& item, bool read_data) {
  ASCOPE_TRY_ASSIGN(const std::vector<SnapshotProblem> found, problems(ctx, item, read_data));
  return health_of(found);
}

Result<std::optional<SnapshotProblem>> Chunks::check_pack(const OpContext& ctx, const PackName& pack,
                                                          bool read_data) {
  ASCOPE_TRY_ASSIGN(const Access open, access(ctx));
  return chunks::check_pack(ctx, open, pack, read_data);
}

Result<std::vector<BlobInfo>> Chunks::list(const OpContext& ctx) {
  ASCOPE_TRY_ASSIGN(std::vector<StoredManifest> all, list_manifests(ctx, store_));
  std::vector<BlobInfo> out;
  out.reserve(all.size());
  for (StoredManifest& one : all) {
    out.push_back(std::move(one.info));
  }
  return out;
}

Result<void> Chunks::remove_uncommitted(const OpContext& ctx, const SnapshotOrigin& origin,
                                        const std::string& id) {
  ASCOPE_TRY_ASSIGN(const std::optional<Access> open, find_access(ctx, *this));
  if (!open) {
    return ok();
  }
  const std::string folder = manifest_folder(*open->key, origin.realm, origin.slot);
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> all, store_.list(ctx, folder));
  for (const BlobInfo& one : all) {
    const std::optional<ManifestName> name = parse_manifest_key(one.key);
    if (name && name->id == id) {
      ASCOPE_TRY(store_.remove(ctx, one.key));
    }
  }
  return ok();
}

Result<ManifestRoot> Chunks::read_root(const OpContext& ctx, const std::string& object) {
  ASCOPE_TRY_ASSIGN(const Access open, access(ctx));
  return chunks::read_root(ctx, open, object);
}

Result<HistoryItem> Chunks::find(const OpContext& ctx, const std::string& id) {
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> all, list(ctx));
  for (const BlobInfo& one : all) {
    if (parse_manifest_key(one.key)->id == id) {
      return describe(ctx, one.key);
    }
  }
  return make_error(ErrorKind::not_found, "the store has no manifest of snapshot '" + id + "'",
                    "'ascope-sandbox snapshot ls --all' lists the objects there are");
}

Result<HistoryItem> Chunks::describe(const OpContext& ctx, const std::string& object) {
  ASCOPE_TRY_ASSIGN(const OpenStore* open, open_store(ctx, false));
  ASCOPE_TRY_ASSIGN(const BlobInfo info, store_.stat_existing(ctx, object));
  ASCOPE_TRY_ASSIGN(const std::string bytes, store_.read(ctx, object, kMaxSealedBytes));
  Result<ManifestRoot> root = decode_root(open->repo.key, bytes);
  if (!root) {
    return in_object(object, std::move(root).error());
  }
  return item_of(*root, object, info, bytes);
}

Result<Access> Chunks::access(const OpContext& ctx) {
  ASCOPE_TRY_ASSIGN(OpenStore * open, open_store(ctx, false));
  return Access{&store_, &open->repo.key, &open->reader};
}

}  // namespace

Result<std::optional<Access>> find_access(const OpContext& ctx, ChunkRepository& repository) {
  Result<Access> found = repository.access(ctx);
  if (!found && found.error().kind == ErrorKind::not_found) {
    return std::optional<Access>();
  }
  return found ? Result(std::optional(*found)) : std::move(found).error();
}

std::unique_ptr<ChunkRepository> make_chunk_repository(BlobStore& blobs, ChunkOptions options) {
  return std::make_unique<Chunks>(blobs, std::move(options));
}

}  // namespace ascope
