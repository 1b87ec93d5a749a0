// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/manifest_list.h"

#include "core/repository/chunks/sealed.h"

namespace ascope::chunks {

Result<std::vector<StoredManifest>> list_manifests(const OpContext& ctx, StoreAccess& store,
                                                   std::string_view folder) {
  ASCOPE_TRY_ASSIGN(std::vector<BlobInfo> all, store.list(ctx, std::string(folder)));
  std::vector<StoredManifest> out;
  for (BlobInfo& one : all) {
    if (std::optional<ManifestName> name = parse_manifest_key(one.key)) {
      out.push_back({std::move(one), *std::move(name)});
    }
  }
  return out;
}

Result<ManifestRoot> read_root(const OpContext& ctx, const Access& access, const std::string& object) {
  ASCOPE_TRY_ASSIGN(const std::string bytes, access.store->read(ctx, object, kMaxSealedBytes));
  Result<ManifestRoot> root = decode_root(*access.key, bytes);
  return root ? std::move(root) : in_object(object, std::move(root).error());
}

Result<std::optional<ManifestRoot>> read_listed_root(const OpContext& ctx, const Access& access,
                                                     const std::string& object) {
  Result<ManifestRoot> root = read_root(ctx, access, object);
  if (root) {
    return std::optional(std::move(*root));
  }
  return root.error().kind == ErrorKind::not_found ? Result<std::optional<ManifestRoot>>(std::nullopt)
                                                   : std::move(root).error();
}

}  // namespace ascope::chunks
