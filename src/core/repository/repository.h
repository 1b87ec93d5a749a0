// SPDX-License-Identifier: Apache-2.0
// Saved workspaces over any BlobStore. `format: tar`: "<id>.tar" holds the workspace root alone, as
// AgentScope writes it; "<id>.roots.tar" what else is persisted (paths relative to "/"). `format: chunks`:
// chunks/chunk_repository.h. formats.h reads both.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/record.h"
#include "core/store.h"
#include "core/tree/tree.h"

namespace ascope {

enum class SnapshotPart { workspace, roots };

// Whose snapshot it is: stands in the manifests and the object names of format chunks.
struct SnapshotOrigin {
  std::string realm;  // of the state store
  std::string slot;   // written form
  std::uint64_t rev = 0;
  std::uint64_t fence = 0;
  std::string time;  // RFC 3339
  std::string host;
};

// A tree to be saved of which most is known already: entries first, content only where it is asked for.
class TreeScan {
 public:
  virtual ~TreeScan() = default;
  // The next entry in the walker's order, without content and, of a regular file, without extended
  // attributes; false at the end. `unchanged`: the caller knows that both are what the parent has under this
  // path.
  virtual Result<bool> next(TreeEntry& entry, bool& unchanged) = 0;
  // These regular files with their content, in the walker's order, which the paths are in too. Others that
  // come along are passed over; a file that is gone does not come. Read to its end before the next call.
  virtual Result<std::unique_ptr<TreeSource>> read(const std::vector<std::string>& paths) = 0;
  // Asked first. All entries with their content in one go, where nothing is known to be unchanged; nullptr:
  // there is something to be gained from next() and read().
  virtual Result<std::unique_ptr<TreeSource>> whole() { return std::unique_ptr<TreeSource>(); }
};

struct SaveRequest {
  std::string id;                       // fresh UUID
  TreeSource* workspace = nullptr;      // entries relative to the workspace root
  TreeSource* roots = nullptr;          // entries relative to "/"; nullptr: no second object
  const HistoryItem* parent = nullptr;  // if the streams equal its objects, nothing is kept: unchanged
  bool read_parent = false;  // before that is said, read its objects; else look at size and version

  // The rest is for format chunks.
  SnapshotOrigin origin;
  // The sources come in the walker's order (part by part as bytes, folders first); else they are sorted on
  // the way.
  bool ordered = false;
  // Instead of the sources: gives the scan of a part, nullptr for a part that there is not. Asked again where
  // a save has to start over because packs that it relied on were collected meanwhile.
  std::function<Result<std::unique_ptr<TreeScan>>(SnapshotPart)> scan;
  std::set<std::string> avoid_packs;  // pack names (hex) not to be relied on: found missing or damaged
  std::vector<TreeNote> notes;        // kept with the snapshot, before those of the save itself
};

struct SaveOutcome {
  bool changed = true;  // false: `item` is the parent
  HistoryItem item;     // id, format, objects, sizes, digests, version, files, content_bytes filled in
  std::uint64_t read_bytes = 0;    // content that was read
  std::uint64_t stored_bytes = 0;  // that were written to the store
  // Of format chunks:
  std::uint64_t new_bytes = 0;      // content that was not in the store, before compression
  std::uint64_t reused_bytes = 0;   // content read and found in the store already
  unsigned condemned_rewrites = 0;  // times the save started over
};

// What a store says of a snapshot.
enum class SnapshotHealth {
  usable,
  missing,
  corrupt,
  overwritten
};  // overwritten: another size or version than saved

// A thing that is wrong with a snapshot.
struct SnapshotProblem {
  std::string object;
  bool missing = false;  // else damaged
  std::string what;
};

// One word for all that is wrong with a snapshot.
SnapshotHealth health_of(const std::vector<SnapshotProblem>& problems);

class Repository {
 public:
  virtual ~Repository() = default;
  // Writes the objects, streaming, in constant memory. On failure nothing of this id is left. `conflict` if
  // the id exists. A parent whose objects are not in the store as they were saved is never "unchanged".
  virtual Result<SaveOutcome> save(const OpContext& ctx, const SaveRequest& request) = 0;
  // Opens one part. The object's size and SHA-256 are checked while it is read: next() answers `corrupt`
  // instead of the end if they differ from `item`. A part that the item does not have is an empty source.
  // `not_found` if it is missing.
  virtual Result<std::unique_ptr<TreeSource>> open(const OpContext& ctx, const HistoryItem& item,
                                                   SnapshotPart part) = 0;
  // As open(), of what lies at or below `paths`, with the folders that lead there; more may come along where
  // that costs no more. A path that the snapshot does not have is `not_found` while reading, or gives
  // nothing.
  virtual Result<std::unique_ptr<TreeSource>> open_paths(const OpContext& ctx, const HistoryItem& item,
                                                         SnapshotPart part,
                                                         const std::vector<std::string>& paths) = 0;
  // Presence, size and version; with `read_data` every byte is read and compared with the digest.
  virtual Result<SnapshotHealth> check(const OpContext& ctx, const HistoryItem& item, bool read_data) = 0;
  // As check(), with all that is wrong. A store that cannot be asked is an error.
  virtual Result<std::vector<SnapshotProblem>> problems(const OpContext& ctx, const HistoryItem& item,
                                                        bool read_data) = 0;
  // Removes the objects that are this snapshot's alone. A repeat is harmless.
  virtual Result<void> remove(const OpContext& ctx, const HistoryItem& item) = 0;
  // As remove(), of a save that was cut off before anybody noted an item: `id` of a request whose slot and
  // realm `origin` names.
  virtual Result<void> remove_uncommitted(const OpContext& ctx, const SnapshotOrigin& origin,
                                          const std::string& id) = 0;
  // The item of an id that no history names, as far as the store tells. `not_found`.
  virtual Result<HistoryItem> find(const OpContext& ctx, const std::string& id) = 0;
  // Every snapshot object in the store, whoever wrote it (for gc's orphans, N2 and adopt).
  virtual Result<std::vector<BlobInfo>> list(const OpContext& ctx) = 0;
};

// The id that an object of list() is of.
std::string snapshot_of_object(std::string_view key);

std::unique_ptr<Repository> make_tar_repository(BlobStore& blobs);

// An item from an object that no history names (a Java agent's "<id>.tar"): size and digest read from the
// store.
Result<HistoryItem> describe_object(const OpContext& ctx, BlobStore& blobs, const std::string& id);

}  // namespace ascope
