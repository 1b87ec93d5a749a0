// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/stats.h"

#include <compare>
#include <cstring>
#include <map>

#include "core/repository/chunks/compact_set.h"
#include "core/repository/chunks/hints.h"
#include "core/repository/chunks/manifest_list.h"
#include "core/repository/chunks/markers.h"
#include "core/repository/chunks/page_walk.h"
#include "core/repository/chunks/repo_object.h"

namespace ascope::chunks {

namespace {

// Eight bytes of an id tell chunks apart well enough to count them.
std::uint64_t short_id(const ChunkId& id) {
  std::uint64_t out = 0;
  std::memcpy(&out, id.bytes.data(), sizeof out);
  return out;
}

struct DistinctChunk {
  std::uint64_t id = 0;
  std::uint32_t raw = 0;
  bool is_page = false;
  auto operator<=>(const DistinctChunk&) const = default;
};

struct DistinctPlace {
  std::uint32_t pack = 0;
  std::uint32_t frame = 0;
  std::uint32_t at = 0;
  std::uint32_t stored = 0;
  auto operator<=>(const DistinctPlace&) const = default;
};

// What is different among the chunks of some manifests.
class Distinct {
 public:
  void add(const ChunkRef& ref, std::uint32_t pack, bool is_page) {
    chunks_.add({short_id(ref.id), ref.raw, is_page});
    places_.add({pack, ref.frame.offset, ref.at, static_cast<std::uint32_t>(stored_share(ref))});
  }
  void count(ContentStats& into) {
    for (const DistinctChunk& one : chunks_.records()) {
      (one.is_page ? into.page_bytes : into.unique_bytes) += one.raw;
      into.chunks += one.is_page ? 0 : 1;
    }
    for (const DistinctPlace& one : places_.records()) {
      into.needed_bytes += one.stored;
    }
  }

 private:
  CompactSet<DistinctChunk> chunks_;
  CompactSet<DistinctPlace> places_;
};

class Counter {
 public:
  Counter(const OpContext& ctx, const Access& access) : ctx_(ctx), access_(access) {}
  Result<StoreStats> run(std::string_view folder);

 private:
  Result<void> count_manifest(const StoredManifest& manifest);
  void end_slot();
  Result<void> count_objects();

  const OpContext& ctx_;
  const Access& access_;
  StoreStats out_;
  std::map<PackName, std::uint32_t> pack_numbers_;
  Distinct all_;
  // Of the slot at hand:
  std::string folder_;
  std::optional<Distinct> slot_;
  std::optional<PageWalk> walk_;
};

Result<void> Counter::count_manifest(const StoredManifest& manifest) {
  ASCOPE_TRY_ASSIGN(const std::optional<ManifestRoot> root,
                    read_listed_root(ctx_, access_, manifest.info.key));
  if (!root) {
    return ok();
  }
  if (manifest.name.folder != folder_) {
    end_slot();
    folder_ = manifest.name.folder;
    out_.slots.push_back({root->realm, root->slot, {}});
    slot_.emplace();
    walk_.emplace(access_);
  }
  for (ContentStats* stats : {&out_.slots.back().content, &out_.content}) {
    ++stats->snapshots;
    stats->files += root->files;
    stats->logical_bytes += root->content_bytes;
  }
  out_.manifest_bytes += manifest.info.size_bytes;
  return walk_->walk(ctx_, manifest.info.key, *root,
                     [&](const PackName& pack, const ChunkRef& ref, bool is_page) -> Result<void> {
                       const auto next = static_cast<std::uint32_t>(pack_numbers_.size());
                       const std::uint32_t number = pack_numbers_.try_emplace(pack, next).first->second;
                       slot_->add(ref, number, is_page);
                       all_.add(ref, number, is_page);
                       return ok();
                     });
}

void Counter::end_slot() {
  if (slot_) {
    slot_->count(out_.slots.back().content);
    slot_.reset();
  }
}

Result<void> Counter::count_objects() {
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> packs, access_.store->list(ctx_, std::string(kPacksFolder)));
  for (const BlobInfo& one : packs) {
    ++out_.packs;
    out_.pack_bytes += one.size_bytes;
  }
  for (const std::string_view folder :
       {kHintsFolder, kMovedFolder, kCondemnedFolder, kPinsFolder, kRepoObject}) {
    ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> all, access_.store->list(ctx_, std::string(folder)));
    for (const BlobInfo& one : all) {
      out_.other_bytes += one.size_bytes;
    }
  }
  return ok();
}

Result<StoreStats> Counter::run(std::string_view folder) {
  ASCOPE_TRY_ASSIGN(const std::vector<StoredManifest> manifests,
                    list_manifests(ctx_, *access_.store, folder));
  for (const StoredManifest& one : manifests) {
    ASCOPE_TRY(ctx_.check("counting what the store holds"));
    ASCOPE_TRY(count_manifest(one));
  }
  end_slot();
  all_.count(out_.content);
  ASCOPE_TRY(count_objects());
  return std::move(out_);
}

}  // namespace

Result<StoreStats> count_store(const OpContext& ctx, const Access& access, std::string_view folder) {
  return Counter(ctx, access).run(folder);
}

}  // namespace ascope::chunks
