// SPDX-License-Identifier: Apache-2.0
// The snapshots of a store whatever their format: each item is read by its own, new ones are written in one.
#pragma once

#include <memory>
#include <string>

#include "core/repository/chunks/chunk_repository.h"
#include "core/repository/repository.h"

namespace ascope {

class SnapshotRepository : public Repository {
 public:
  // For what concerns a whole store of format chunks. Lives as long as this.
  virtual ChunkRepository& chunks() = 0;
};

// `format` of new snapshots: "tar" or "chunks". check() without `read_data` looks at what a start can afford:
// of a chunks snapshot its manifest and the presence and size of the packs it names.
std::unique_ptr<SnapshotRepository> make_repository(BlobStore& blobs, std::string format,
                                                    ChunkOptions chunks);

}  // namespace ascope
