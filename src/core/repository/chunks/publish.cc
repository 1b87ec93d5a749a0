// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/publish.h"

#include <algorithm>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/repository/chunks/markers.h"
#include "core/repository/chunks/sealed.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kHintBytes = 4U << 20U;

Result<BlobInfo> put_manifest(const OpContext& ctx, StoreAccess& store, const std::string& object,
                              const std::string& bytes) {
  ASCOPE_TRY_ASSIGN(std::optional<BlobInfo> put, store.put_bytes(ctx, object, bytes));
  if (!put) {
    return make_error(ErrorKind::conflict, "object '" + object + "' exists already");
  }
  return *std::move(put);
}

// Which of `packs` cannot be relied on. Condemned lists first, presence second: the other way round a gc may
// pass between the two.
Result<std::vector<PackName>> find_lost(const OpContext& ctx, const SaveContext& context,
                                        const std::vector<PackName>& packs) {
  ASCOPE_TRY_ASSIGN(const std::set<PackName> condemned, read_condemned(ctx, *context.store, *context.key));
  std::vector<PackName> out;
  for (const PackName& pack : packs) {
    bool lost = condemned.contains(pack);
    if (!lost) {
      ASCOPE_TRY_ASSIGN(const std::optional<BlobInfo> info, context.store->stat(ctx, pack_key(pack)));
      lost = !info;
    }
    if (lost) {
      out.push_back(pack);
    }
  }
  return out;
}

// The journal has the indexes of the packs that this save, or one that was cut off, has put.
Result<std::uint64_t> put_hints(const OpContext& ctx, const SaveContext& context, const SaveResult& saved) {
  std::vector<PackName> own = saved.own;
  for (const PackName& pack : saved.unsure) {
    if (std::find(own.begin(), own.end(), pack) == own.end()) {
      own.push_back(pack);
    }
  }
  std::uint64_t stored = 0;
  std::vector<NamedIndex> some;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    Result<std::string> index = read_file(context.journal_dir + "/" + to_hex(own[i].view()));
    if (index) {
      bytes += index->size();
      some.push_back({own[i], std::move(*index)});
    } else if (index.error().kind != ErrorKind::not_found) {
      return std::move(index).error();
    }
    if (!some.empty() && (bytes >= kHintBytes || i + 1 == own.size())) {
      ASCOPE_TRY_ASSIGN(const std::uint64_t count, put_hint(ctx, *context.store, *context.key, some));
      stored += count;
      some.clear();
      bytes = 0;
    }
  }
  return stored;
}

}  // namespace

HistoryItem item_of(const ManifestRoot& root, const std::string& object, const BlobInfo& info,
                    const std::string& bytes) {
  HistoryItem item;
  item.snapshot = root.id;
  item.format = "chunks";
  item.object = object;
  item.size_bytes = bytes.size();
  item.sha256 = sha256_hex(bytes);
  item.version = info.version;
  item.roots_object = root.roots ? object : "";
  item.files = root.files;
  item.content_bytes = root.content_bytes;
  item.time = root.time;
  item.parent = root.parent;
  item.rev = root.rev;
  item.fence = root.fence;
  item.host = root.host;
  item.notes = root.notes;
  return item;
}

Result<PublishedRoot> publish_root(const OpContext& ctx, const SaveContext& context,
                                   const SaveRequest& request, SaveResult& saved, unsigned rewrite) {
  ManifestRoot& root = saved.root;
  root.id = request.id;
  root.slot = request.origin.slot;
  root.realm = request.origin.realm;
  root.rev = request.origin.rev;
  root.fence = request.origin.fence;
  root.parent = request.parent == nullptr ? "" : request.parent->snapshot;
  root.time = request.origin.time;
  root.host = request.origin.host;
  const std::string object = manifest_key(manifest_folder(*context.key, root.realm, root.slot), root.rev,
                                          root.fence, root.id, rewrite);
  ASCOPE_TRY_ASSIGN(const std::string bytes, encode_root(*context.key, root));
  PublishedRoot out;
  bool ours = true;  // to be taken back
  const auto publish = [&]() -> Result<void> {
    Result<BlobInfo> info = put_manifest(ctx, *context.store, object, bytes);
    if (!info) {
      ours = info.error().kind != ErrorKind::conflict;
      return std::move(info).error();
    }
    ASCOPE_TRY_ASSIGN(out.lost, find_lost(ctx, context, saved.unsure));
    if (!out.lost.empty()) {
      return context.store->remove(ctx, object);
    }
    out.stored_bytes = bytes.size();
    out.item = item_of(root, object, *info, bytes);
    Result<std::uint64_t> hints = put_hints(ctx, context, saved);
    if (hints) {
      out.stored_bytes += *hints;
    } else if (hints.error().kind == ErrorKind::cancelled || hints.error().kind == ErrorKind::timeout) {
      return std::move(hints).error();
    } else {
      // Hints save room, no more: the snapshot is whole without.
      out.item.notes.push_back(
          note_json({"", "other slots will save its content once more: " + hints.error().message}));
    }
    return ok();
  };
  if (Result<void> done = publish(); !done) {
    if (ours) {
      static_cast<void>(context.store->remove(ctx, object).has_value());  // else retention finds it
    }
    return std::move(done).error();
  }
  for (const PackName& pack : out.lost) {
    ASCOPE_TRY_ASSIGN(const std::vector<PackName> heirs, read_moved(ctx, *context.store, pack));
    out.heirs.insert(out.heirs.end(), heirs.begin(), heirs.end());
  }
  return out;
}

}  // namespace ascope::chunks
