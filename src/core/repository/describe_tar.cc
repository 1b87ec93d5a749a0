// SPDX-License-Identifier: Apache-2.0
// A history's item made from the objects of a tar alone.
#include "core/base/hash.h"
#include "core/object_key.h"
#include "core/repository/repository.h"
#include "core/repository/tar.h"
#include "core/tree/check.h"

namespace ascope {

namespace {

struct Described {
  BlobInfo info;
  std::string sha256;
  TreeTotals totals;
};

// Reads the whole object, by the rules of a restore: what is described here can be put back.
Result<Described> describe_one(const OpContext& ctx, BlobStore& blobs, BlobInfo info) {
  Described out;
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<ByteSource> bytes, blobs.get(ctx, info.key));
  HashingSource hashed(*bytes);
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<TreeSource> tree, read_tar(hashed));
  ASCOPE_TRY_ASSIGN(out.totals, check_tree(ctx, *tree));
  out.info = std::move(info);
  out.sha256 = hashed.finish_hex();
  return out;
}

}  // namespace

Result<HistoryItem> describe_object(const OpContext& ctx, BlobStore& blobs, const std::string& id) {
  HistoryItem item;
  item.snapshot = id;
  item.format = "tar";
  item.object = id + std::string(kTarObject);
  if (!is_object_key(item.object)) {
    return make_error(ErrorKind::corrupt, "'" + id + "' cannot be the id of a snapshot");
  }
  for (const bool roots : {false, true}) {
    const std::string key = id + std::string(roots ? kTarRoots : kTarObject);
    ASCOPE_TRY_ASSIGN(std::optional<BlobInfo> info, blobs.stat(ctx, key));
    if (!info && !roots) {
      return make_error(ErrorKind::not_found, "the store has no object '" + key + "'",
                        "'ascope-sandbox snapshot ls --all' lists the objects there are");
    }
    if (!info) {
      break;
    }
    Result<Described> found = describe_one(ctx, blobs, std::move(*info));
    if (!found) {
      return std::move(found).error().within("object '" + key + "'");
    }
    (roots ? item.roots_size_bytes : item.size_bytes) = found->info.size_bytes;
    (roots ? item.roots_sha256 : item.sha256) = found->sha256;
    if (roots) {
      item.roots_object = key;
    } else {
      item.version = found->info.version;
    }
    item.files += found->totals.files;
    item.content_bytes += found->totals.content_bytes;
  }
  item.added_bytes = item.size_bytes + item.roots_size_bytes;
  return item;
}

}  // namespace ascope
