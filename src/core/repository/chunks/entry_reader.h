// SPDX-License-Identifier: Apache-2.0
// One part of a manifest as a stream of entries with their chunks, a few pages in memory at a time. Nothing
// is believed: order, counts, places and sums are checked. Errors name the object that is damaged.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/repository/chunks/chunk_reader.h"
#include "core/repository/chunks/page.h"
#include "core/repository/chunks/root.h"

namespace ascope::chunks {

// A manifest as it was read: its name and its root.
struct Manifest {
  std::string object;
  ManifestRoot root;
};

class EntryReader {
 public:
  // `manifest` and `pages`, which is one of its lists, outlive the reader.
  EntryReader(ChunkReader& chunks, const Manifest& manifest, const std::vector<PageRef>& pages);
  ~EntryReader();
  EntryReader(const EntryReader&) = delete;
  EntryReader& operator=(const EntryReader&) = delete;

  // Goes on with the first entry at or behind `path`, forward only; pages between are not read.
  void seek(std::string path);
  // The next entry, with its extents; false at the end. References not taken are skipped.
  Result<bool> next(const OpContext& ctx, TreeEntry& entry);
  // Of the present entry: how many chunks it has, and the next of them (`pack` counts in the root's list);
  // false: no more.
  [[nodiscard]] std::uint64_t chunk_count() const;
  Result<bool> next_refs(const OpContext& ctx, std::vector<ChunkRef>& refs);

 private:
  struct State;
  Result<void> skip_refs(const OpContext& ctx);
  std::unique_ptr<State> state_;
};

// Bytes of data that a file's chunks hold.
std::uint64_t data_bytes(const TreeEntry& entry);

}  // namespace ascope::chunks
