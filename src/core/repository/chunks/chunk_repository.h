// SPDX-License-Identifier: Apache-2.0
// `format: chunks`: snapshots that share their content, over any BlobStore. The objects are described where
// they are written: repo_object.h, pack.h, page.h, root.h, markers.h, hints.h, and for strangers in
// ascope-snapshot(5).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/secret.h"
#include "core/repository/chunks/chunk_reader.h"
#include "core/repository/chunks/chunker.h"
#include "core/repository/chunks/entry_reader.h"
#include "core/repository/chunks/frame_pipeline.h"
#include "core/repository/chunks/known_chunks.h"
#include "core/repository/chunks/pack.h"
#include "core/repository/chunks/root.h"
#include "core/repository/repository.h"

namespace ascope {

struct ChunkOptions {
  // Of this machine: hints and the journal of saves that were cut off. Made where it is missing; may be
  // deleted at any time. Several processes may share it.
  std::string cache_dir;
  Secret key;  // master key of 32 bytes; empty: no encryption
  chunks::Dedup dedup = chunks::Dedup::store;
  chunks::PipelineOptions pipeline;  // pack_bytes: 4 MiB where the store has a limit for a value
  chunks::ChunkSizes sizes;          // of a new store; an old one has its own
};

// The objects of a save go in the order of protocols 3.4, W1 to W3 with the hints of W4; a repeat after any
// failure is harmless, and uses again what was put. Sources that open() gives must not outlive the
// repository, which is for one thread. Errors of every call: `denied` for a missing or wrong key, `corrupt`
// and `not_found` with the name of the object. check() and problems() look at the manifest and its pages, and
// of each pack at presence, size, index, and that it holds what the manifest says; open_paths() reads no more
// than it must.
class ChunkRepository : public Repository {
 public:
  // A pack with all its chunks, for a walk through the whole store: its problem, or nullopt.
  virtual Result<std::optional<SnapshotProblem>> check_pack(const OpContext& ctx,
                                                            const chunks::PackName& pack, bool read_data) = 0;
  // The manifest's root by its object; its packs are all that the snapshot needs.
  virtual Result<chunks::ManifestRoot> read_root(const OpContext& ctx, const std::string& object) = 0;
  // An item for a manifest that no history names.
  virtual Result<HistoryItem> describe(const OpContext& ctx, const std::string& object) = 0;
  // As the functions of these names in repo_object.h.
  virtual Result<std::vector<SnapshotProblem>> repo_problems(const OpContext& ctx) = 0;
  virtual Result<std::vector<SnapshotProblem>> mend_repo(const OpContext& ctx) = 0;
  // The store, for those who collect, repack, repair and count. `not_found` where nothing was saved yet.
  virtual Result<chunks::Access> access(const OpContext& ctx) = 0;
};

// As access(); nullopt where nothing was saved yet.
Result<std::optional<chunks::Access>> find_access(const OpContext& ctx, ChunkRepository& repository);

std::unique_ptr<ChunkRepository> make_chunk_repository(BlobStore& blobs, ChunkOptions options);

}  // namespace ascope
