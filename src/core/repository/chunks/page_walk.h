// SPDX-License-Identifier: Apache-2.0
// Every chunk that manifests refer to, page by page and each page once, however many manifests share it.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>

#include "core/repository/chunks/chunk_reader.h"
#include "core/repository/chunks/page.h"
#include "core/repository/chunks/root.h"

namespace ascope::chunks {

// Memory: some 60 bytes for each page.
class PageWalk {
 public:
  explicit PageWalk(const Access& access) : access_(access) {}

  // Gives the chunks that the manifest's pages refer to and, with `is_page`, the pages themselves; `pack` is
  // where the manifest says that they lie. A page that was walked before is given, but not read again. Errors
  // name the object.
  using Take = std::function<Result<void>(const PackName& pack, const ChunkRef& ref, bool is_page)>;
  Result<void> walk(const OpContext& ctx, const std::string& object, const ManifestRoot& root,
                    const Take& take);

 private:
  Result<void> walk_part(const OpContext& ctx, const std::string& object, const ManifestRoot& root,
                         const std::vector<PageRef>& pages, const Take& take);
  Result<void> read(const OpContext& ctx, const std::string& object, const PackName& pack,
                    const std::vector<ChunkRef>& pages, const Take& take);

  const Access& access_;
  FrameDecompressor decompressor_;
  std::unordered_set<ChunkId, ChunkId::Hash> walked_;
};

}  // namespace ascope::chunks
