// SPDX-License-Identifier: Apache-2.0
// Reads ahead of somebody who takes a part's content in order: one thread goes through the entries, two fetch
// and unpack frames. What is in memory is bounded; a frame that several chunks nearby lie in is read once.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/repository/chunks/selected_entries.h"

namespace ascope::chunks {

class Prefetcher {
 public:
  // Goes on behind the present entry of `entries`, whose references have not been taken: its content comes
  // first. All outlive the prefetcher, and `entries` is its own from now on.
  Prefetcher(const OpContext& ctx, ChunkReader& chunks, const RepositoryKey& key, const Manifest& manifest,
             SelectedEntries& entries);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next entry; content not taken is skipped.
  Result<bool> next(TreeEntry& entry);
  // The next chunk's bytes of the present entry, valid until the next call; nullopt: no more.
  Result<std::optional<ByteView>> chunk();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ascope::chunks
