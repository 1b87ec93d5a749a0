// SPDX-License-Identifier: Apache-2.0
// Saved workspaces over any BlobStore. This version writes and reads `format: tar`: "<id>.tar" holds the
// workspace root alone, as AgentScope writes it; "<id>.roots.tar" what else is persisted (paths relative to
// "/").
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/record.h"
#include "core/store.h"
#include "core/tree/tree.h"

namespace ascope {

enum class SnapshotPart { workspace, roots };

struct SaveRequest {
  std::string id;                       // fresh UUID
  TreeSource* workspace = nullptr;      // entries relative to the workspace root
  TreeSource* roots = nullptr;          // entries relative to "/"; nullptr: no second object
  const HistoryItem* parent = nullptr;  // if the streams equal its objects, nothing is kept: unchanged
};

struct SaveOutcome {
  bool changed = true;  // false: `item` is the parent
  HistoryItem item;     // id, format, objects, sizes, digests, version, files, content_bytes filled in
};

// What a store says of a snapshot.
enum class SnapshotHealth {
  usable,
  missing,
  corrupt,
  overwritten
};  // overwritten: another size or version than saved

class Repository {
 public:
  virtual ~Repository() = default;
  // Writes the objects, streaming, in constant memory. On failure nothing of this id is left. `conflict` if
  // the id exists.
  virtual Result<SaveOutcome> save(const OpContext& ctx, const SaveRequest& request) = 0;
  // Opens one part. The object's size and SHA-256 are checked while it is read: next() answers `corrupt`
  // instead of the end if they differ from `item`. A part that the item does not have is an empty source.
  // `not_found` if it is missing.
  virtual Result<std::unique_ptr<TreeSource>> open(const OpContext& ctx, const HistoryItem& item,
                                                   SnapshotPart part) = 0;
  // Presence, size and version; with `read_data` every byte is read and compared with the digest.
  virtual Result<SnapshotHealth> check(const OpContext& ctx, const HistoryItem& item, bool read_data) = 0;
  // Removes the objects. A repeat is harmless.
  virtual Result<void> remove(const OpContext& ctx, const HistoryItem& item) = 0;
  // Ids of every snapshot object in the store, whoever wrote it (for gc's orphans, N2 and adopt).
  virtual Result<std::vector<BlobInfo>> list(const OpContext& ctx) = 0;
};

std::unique_ptr<Repository> make_tar_repository(BlobStore& blobs);

// An item from an object that no history names (a Java agent's "<id>.tar"): size and digest read from the
// store.
Result<HistoryItem> describe_object(const OpContext& ctx, BlobStore& blobs, const std::string& id);

}  // namespace ascope
