// SPDX-License-Identifier: Apache-2.0
// One try to save a tree: everything but the manifest's root is written. What runs where: this thread reads,
// cuts, hashes and looks up; the pipeline compresses, places and puts.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/repository/chunks/chunk_reader.h"
#include "core/repository/chunks/chunker.h"
#include "core/repository/chunks/frame_pipeline.h"
#include "core/repository/chunks/known_chunks.h"
#include "core/repository/chunks/root.h"
#include "core/repository/repository.h"

namespace ascope::chunks {

struct SaveContext {
  StoreAccess* store = nullptr;
  const RepositoryKey* key = nullptr;
  ChunkReader* reader = nullptr;
  ChunkSizes sizes;
  PipelineOptions pipeline;
  Dedup dedup = Dedup::store;
  std::string cache_dir;    // of this store
  std::string journal_dir;  // of this slot
  const Manifest* parent = nullptr;
  std::set<PackName> avoid;
  std::vector<PackName> offered;  // packs that took over from those to avoid
};

struct SaveResult {
  bool changed = true;           // false: every page is the parent's
  ManifestRoot root;             // packs, pages, totals and notes filled in
  std::vector<PackName> unsure;  // packs of the root that must be asked for (session_packs.h)
  std::vector<PackName> own;     // packs that were put
  std::uint64_t new_bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t reused_bytes = 0;
};

// On failure packs may be left that nothing names; the journal knows them.
Result<SaveResult> save_content(const OpContext& ctx, const SaveContext& context, const SaveRequest& request);

}  // namespace ascope::chunks
