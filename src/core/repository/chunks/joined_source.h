// SPDX-License-Identifier: Apache-2.0
// A tree to be saved, beside what the parent's manifest has under the same paths.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/repository/chunks/entry_reader.h"
#include "core/repository/repository.h"

namespace ascope::chunks {

// The parent's entries of one part, moved along with the paths that are asked for. From a damaged parent come
// fewer.
class ParentEntries {
 public:
  // `parent` may be null. References into packs to avoid are not given.
  ParentEntries(ChunkReader& chunks, const Manifest* parent, const std::vector<PageRef>* pages,
                const std::set<PackName>& avoid);

  // REQUIRES: paths ascend. The parent's entry if it is a regular file, else nullptr; valid until the next
  // call.
  Result<const TreeEntry*> find_file(const OpContext& ctx, const std::string& path);
  // Of the file found: all its chunks, none if some of them lie in a pack to avoid.
  Result<std::vector<ChunkRef>> refs(const OpContext& ctx);
  // Why the parent could not be read to its end; empty: it could.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  Result<bool> pass(Result<bool> outcome);

  const Manifest* parent_;
  const std::set<PackName>& avoid_;
  std::unique_ptr<EntryReader> entries_;  // null: at the end, or none
  TreeEntry entry_;
  bool has_entry_ = false;
  std::string problem_;
};

struct JoinedEntry {
  TreeEntry entry;
  bool unchanged = false;        // `before` is its content
  std::vector<ChunkRef> before;  // the parent's chunks of this path
};

class JoinedSource {
 public:
  virtual ~JoinedSource() = default;
  virtual Result<bool> next(const OpContext& ctx, JoinedEntry& out) = 0;
  // Of a regular file that is not unchanged.
  virtual Result<std::optional<DataBlock>> read() = 0;
};

// Over a source with all its content. `parent` may be null: nothing is joined.
std::unique_ptr<JoinedSource> join_source(TreeSource& source, ParentEntries* parent);
// Over a scan. `notes` collects what vanished before it could be read.
std::unique_ptr<JoinedSource> join_scan(TreeScan& scan, ParentEntries& parent, std::vector<TreeNote>& notes);

}  // namespace ascope::chunks
