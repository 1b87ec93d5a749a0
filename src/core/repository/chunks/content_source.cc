// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/content_source.h"

#include <algorithm>

#include "core/repository/chunks/prefetcher.h"
#include "core/repository/chunks/selected_entries.h"

namespace ascope::chunks {

namespace {

class ContentSource final : public TreeSource {
 public:
  ContentSource(const OpContext& ctx, ChunkReader& chunks, const RepositoryKey& key,
                std::unique_ptr<Manifest> manifest, const std::vector<PageRef>& pages,
                const std::vector<std::string>& paths)
      : ctx_(ctx),
        chunks_(chunks),
        key_(key),
        manifest_(std::move(manifest)),
        entries_(chunks, *manifest_, pages, paths) {}

  Result<bool> next(TreeEntry& entry) override {
    ASCOPE_TRY(ctx_.check("reading a snapshot"));
    ASCOPE_TRY_ASSIGN(const bool more, prefetcher_ ? prefetcher_->next(entry) : entries_.next(ctx_, entry));
    chunk_ = {};
    runs_.clear();
    run_ = 0;
    in_run_ = 0;
    if (more && entry.type == EntryType::file && entry.size_bytes > 0) {
      runs_ = entry.sparse ? entry.extents : std::vector<Extent>{{0, entry.size_bytes}};
    }
    return more;
  }

  Result<std::optional<DataBlock>> read() override {
    if (run_ == runs_.size()) {
      return std::optional<DataBlock>();
    }
    if (chunk_.empty()) {
      ASCOPE_TRY(ctx_.check("reading a snapshot"));
      if (!prefetcher_) {
        prefetcher_ = std::make_unique<Prefetcher>(ctx_, chunks_, key_, *manifest_, entries_);
      }
      ASCOPE_TRY_ASSIGN(const std::optional<ByteView> next, prefetcher_->chunk());
      if (!next) {  // the manifest's sums were checked
        return make_error(ErrorKind::internal, "a snapshot's content ended early");
      }
      chunk_ = *next;
    }
    const Extent& run = runs_[run_];
    DataBlock block{run.offset + in_run_, chunk_};
    if (run.length - in_run_ < block.bytes.size()) {
      block.bytes = block.bytes.substr(0, static_cast<std::size_t>(run.length - in_run_));
    }
    chunk_.remove_prefix(block.bytes.size());
    in_run_ += block.bytes.size();
    if (in_run_ == run.length) {
      ++run_;
      in_run_ = 0;
    }
    return std::optional<DataBlock>(block);
  }

 private:
  const OpContext ctx_;
  ChunkReader& chunks_;
  const RepositoryKey& key_;
  std::unique_ptr<Manifest> manifest_;
  SelectedEntries entries_;
  ByteView chunk_;  // what is left of the present one
  std::vector<Extent> runs_;
  std::size_t run_ = 0;
  std::uint64_t in_run_ = 0;
  std::unique_ptr<Prefetcher> prefetcher_;  // last: its threads use what is above
};

}  // namespace

std::unique_ptr<TreeSource> open_content(const OpContext& ctx, ChunkReader& chunks, const RepositoryKey& key,
                                         std::unique_ptr<Manifest> manifest,
                                         const std::vector<PageRef>& pages,
                                         const std::vector<std::string>& paths) {
  return std::make_unique<ContentSource>(ctx, chunks, key, std::move(manifest), pages, paths);
}

}  // namespace ascope::chunks
