// SPDX-License-Identifier: Apache-2.0
// The manifests of a store by the names of their objects: whose they are, and how old, without reading them.
#pragma once

#include <string_view>
#include <vector>

#include "core/repository/chunks/chunk_reader.h"
#include "core/repository/chunks/root.h"

namespace ascope::chunks {

struct StoredManifest {
  BlobInfo info;
  ManifestName name;  // folder (of realm and slot), revision, fence and snapshot id
};

// Those below `folder`: all (kManifestsFolder), a realm's (realm_folder), a slot's (manifest_folder). By
// folder, in it by revision and fence.
Result<std::vector<StoredManifest>> list_manifests(const OpContext& ctx, StoreAccess& store,
                                                   std::string_view folder = kManifestsFolder);

// A manifest's root by its object. `not_found`, or `corrupt` with the object's name.
Result<ManifestRoot> read_root(const OpContext& ctx, const Access& access, const std::string& object);
// nullopt: it was removed since it was listed.
Result<std::optional<ManifestRoot>> read_listed_root(const OpContext& ctx, const Access& access,
                                                     const std::string& object);

}  // namespace ascope::chunks
