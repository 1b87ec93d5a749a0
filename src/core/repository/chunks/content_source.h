// SPDX-License-Identifier: Apache-2.0
// A part of a snapshot as a tree. As long as only entries are asked for, only pages are read; with the first
// read() what follows is fetched ahead.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/repository/chunks/chunk_reader.h"
#include "core/repository/chunks/entry_reader.h"
#include "core/tree/tree.h"

namespace ascope::chunks {

// `pages` is one of the manifest's lists. `chunks` and `key` outlive the source.
std::unique_ptr<TreeSource> open_content(const OpContext& ctx, ChunkReader& chunks, const RepositoryKey& key,
                                         std::unique_ptr<Manifest> manifest,
                                         const std::vector<PageRef>& pages,
                                         const std::vector<std::string>& paths);

}  // namespace ascope::chunks
