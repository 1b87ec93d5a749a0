// SPDX-License-Identifier: Apache-2.0
// The entries of a part, or those under some paths only, without reading the pages between.
#pragma once

#include <string>
#include <vector>

#include "core/repository/chunks/entry_reader.h"

namespace ascope::chunks {

class SelectedEntries {
 public:
  // `paths` empty: all. Otherwise what is at or below them, and the folders that lead there.
  SelectedEntries(ChunkReader& chunks, const Manifest& manifest, const std::vector<PageRef>& pages,
                  const std::vector<std::string>& paths);

  // As EntryReader. `not_found` once it is clear that one of the paths does not exist.
  Result<bool> next(const OpContext& ctx, TreeEntry& entry);
  Result<bool> next_refs(const OpContext& ctx, std::vector<ChunkRef>& refs) {
    return entries_.next_refs(ctx, refs);
  }

 private:
  struct Target {
    std::string path;
    bool below = false;  // what lies below it too
    bool found = false;
  };
  const Manifest& manifest_;
  EntryReader entries_;
  std::vector<Target> targets_;
  std::size_t at_ = 0;
  bool all_;
  TreeEntry ahead_;
  bool has_ahead_ = false;
  bool ended_ = false;
};

}  // namespace ascope::chunks
