// SPDX-License-Identifier: Apache-2.0
#include "core/repository/formats.h"

#include <utility>

namespace ascope {

namespace {

constexpr std::string_view kChunks = "chunks";

class Formats final : public SnapshotRepository {
 public:
  Formats(BlobStore& blobs, std::string format, ChunkOptions options)
      : format_(std::move(format)),
        blobs_(blobs),
        tar_(make_tar_repository(blobs)),
        chunks_(make_chunk_repository(blobs, std::move(options))) {}

  ChunkRepository& chunks() override { return *chunks_; }
  Result<SaveOutcome> save(const OpContext& ctx, const SaveRequest& request) override {
    SaveRequest own = request;
    if (own.parent != nullptr && own.parent->format != format_) {
      own.parent = nullptr;  // nothing to compare with: a whole snapshot
    }
    ASCOPE_TRY_ASSIGN(SaveOutcome saved, writer().save(ctx, own));
    // What was not stored anew lies in packs of before, and the workspace still has it.
    const bool relies = format_ == kChunks && (own.read_parent || !saved.changed);
    if (!relies) {
      return saved;
    }
    ASCOPE_TRY_ASSIGN(const std::vector<SnapshotProblem> problems,
                      lost_content(ctx, saved.item, own.read_parent));
    return problems.empty() ? Result<SaveOutcome>(std::move(saved)) : save_without(ctx, own, saved, problems);
  }
  Result<std::unique_ptr<TreeSource>> open(const OpContext& ctx, const HistoryItem& item,
                                           SnapshotPart part) override {
    return reader(item).open(ctx, item, part);
  }
  Result<std::unique_ptr<TreeSource>> open_paths(const OpContext& ctx, const HistoryItem& item,
                                                 SnapshotPart part,
                                                 const std::vector<std::string>& paths) override {
    return reader(item).open_paths(ctx, item, part, paths);
  }
  Result<std::vector<SnapshotProblem>> problems(const OpContext& ctx, const HistoryItem& item,
                                                bool read_data) override {
    return reader(item).problems(ctx, item, read_data);
  }
  Result<SnapshotHealth> check(const OpContext& ctx, const HistoryItem& item, bool read_data) override {
    return item.format == kChunks && !read_data ? presence(ctx, item)
                                                : reader(item).check(ctx, item, read_data);
  }
  Result<void> remove(const OpContext& ctx, const HistoryItem& item) override {
    return reader(item).remove(ctx, item);
  }
  Result<void> remove_uncommitted(const OpContext& ctx, const SnapshotOrigin& origin,
                                  const std::string& id) override {
    ASCOPE_TRY(tar_->remove_uncommitted(ctx, origin, id));
    return chunks_->remove_uncommitted(ctx, origin, id);
  }
  Result<HistoryItem> find(const OpContext& ctx, const std::string& id) override {
    Result<HistoryItem> tar = tar_->find(ctx, id);
    if (tar || tar.error().kind != ErrorKind::not_found) {
      return tar;
    }
    Result<HistoryItem> chunks = chunks_->find(ctx, id);
    // A store without anything in chunks: what the tar's side said.
    return !chunks && chunks.error().kind == ErrorKind::not_found ? std::move(tar) : std::move(chunks);
  }
  Result<std::vector<BlobInfo>> list(const OpContext& ctx) override {
    ASCOPE_TRY_ASSIGN(std::vector<BlobInfo> all, tar_->list(ctx));
    ASCOPE_TRY_ASSIGN(std::vector<BlobInfo> manifests, chunks_->list(ctx));
    all.insert(all.end(), std::make_move_iterator(manifests.begin()),
               std::make_move_iterator(manifests.end()));
    return all;
  }

 private:
  Repository& writer() { return format_ == kChunks ? static_cast<Repository&>(*chunks_) : *tar_; }
  Repository& reader(const HistoryItem& item) {
    return item.format == kChunks ? static_cast<Repository&>(*chunks_) : *tar_;
  }

  Result<std::vector<SnapshotProblem>> lost_content(const OpContext& ctx, const HistoryItem& item,
                                                    bool read_data) {
    if (!read_data) {
      ASCOPE_TRY_ASSIGN(const SnapshotHealth health, presence(ctx, item));
      if (health == SnapshotHealth::usable) {
        return std::vector<SnapshotProblem>();
      }
    }
    return chunks_->problems(ctx, item, read_data);
  }

  // Saves once more, without the packs that are missing or damaged.
  Result<SaveOutcome> save_without(const OpContext& ctx, SaveRequest request, const SaveOutcome& first,
                                   const std::vector<SnapshotProblem>& problems) {
    constexpr std::string_view kPacks = "packs/";
    for (const SnapshotProblem& one : problems) {
      if (one.object.starts_with(kPacks)) {
        request.avoid_packs.insert(one.object.substr(one.object.rfind('/') + 1));
      }
    }
    if (!request.scan) {
      return make_error(ErrorKind::corrupt,
                        "object '" + problems.front().object + "' " + problems.front().what,
                        "'ascope-sandbox snapshot repair' saves what is left");
    }
    if (first.changed) {
      ASCOPE_TRY(chunks_->remove(ctx, first.item));
    }
    if (request.avoid_packs.empty()) {
      request.parent = nullptr;  // its manifest or pages
    }
    ASCOPE_TRY_ASSIGN(SaveOutcome second, chunks_->save(ctx, request));
    ASCOPE_TRY_ASSIGN(const std::vector<SnapshotProblem> left,
                      lost_content(ctx, second.item, request.read_parent));
    if (!left.empty()) {
      return make_error(ErrorKind::corrupt, "object '" + left.front().object + "' " + left.front().what,
                        "'ascope-sandbox snapshot check' tells what is left");
    }
    second.item.notes.push_back(note_json(
        {"", "stored anew, for object '" + problems.front().object + "' " + problems.front().what}));
    second.read_bytes += first.read_bytes;
    second.stored_bytes += first.stored_bytes;
    return second;
  }

  Result<SnapshotHealth> presence(const OpContext& ctx, const HistoryItem& item) {
    auto root = chunks_->read_root(ctx, item.object);
    if (!root) {
      switch (root.error().kind) {
        case ErrorKind::not_found:
          return SnapshotHealth::missing;
        case ErrorKind::corrupt:
          return SnapshotHealth::corrupt;
        default:
          return std::move(root).error();
      }
    }
    for (const chunks::PackUse& pack : root->packs) {
      ASCOPE_TRY_ASSIGN(const auto info, blobs_.stat(ctx, chunks::pack_key(pack.name)));
      if (!info) {
        // Its content may have moved into another pack: the whole look tells.
        return chunks_->check(ctx, item, false);
      }
      if (info->size_bytes != pack.size_bytes) {
        return SnapshotHealth::corrupt;
      }
    }
    return SnapshotHealth::usable;
  }

  std::string format_;
  BlobStore& blobs_;
  std::unique_ptr<Repository> tar_;
  std::unique_ptr<ChunkRepository> chunks_;
};

}  // namespace

std::unique_ptr<SnapshotRepository> make_repository(BlobStore& blobs, std::string format,
                                                    ChunkOptions chunks) {
  return std::make_unique<Formats>(blobs, std::move(format), std::move(chunks));
}

}  // namespace ascope
