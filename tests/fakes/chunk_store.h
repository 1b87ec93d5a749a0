// SPDX-License-Identifier: Apache-2.0
// What the tests of the chunk store share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/repository/chunks/chunk_repository.h"
#include "fakes/fake_blobs.h"
#include "fakes/memory_tree.h"
#include "fakes/sample_bytes.h"
#include "fakes/temp_folder.h"

namespace ascope::test {

// Files of text in folders of a hundred, in the walker's order.
inline std::vector<MemoryEntry> many_files(std::size_t count, std::size_t bytes, std::uint64_t seed) {
  MemoryTree tree;
  tree.folder("");
  for (std::size_t i = 0; i < count; ++i) {
    std::string number = std::to_string(i);
    number.insert(0, 6 - number.size(), '0');
    if (i % 100 == 0) {
      tree.folder("d" + number.substr(0, 4));
    }
    tree.file("d" + number.substr(0, 4) + "/" + number, prose(bytes + i % 100, seed + i));
  }
  return std::move(tree.entries);
}

// Many packs of few frames for little content.
inline ChunkOptions small_packs(bool encrypted) {
  ChunkOptions out;
  out.pipeline.pack_bytes = 15'000;
  out.pipeline.frame_bytes = 8'000;
  if (encrypted) {
    out.key = Secret(std::string(32, 'k'));
  }
  return out;
}

// A store in memory with a repository over it.
struct ChunkRig {
  FakeBlobStore blobs;
  TempFolder cache;
  ChunkOptions options;
  std::unique_ptr<ChunkRepository> repository;
  SnapshotOrigin origin{"realm-1", "user/a/b", 1, 7, "2026-01-02T03:04:05.678Z", "host-1"};
  int last_id = 0;

  explicit ChunkRig(ChunkOptions wanted = {}) : options(std::move(wanted)) { reopen(); }

  // As another process, with the same cache.
  void reopen() {
    options.cache_dir = cache.path();
    repository = make_chunk_repository(blobs, options);
  }
  std::string new_id() {
    std::string digits = std::to_string(++last_id);
    return "00000000-0000-4000-8000-" + std::string(12 - digits.size(), '0') + digits;
  }
  SaveRequest request(TreeSource& tree, const HistoryItem* parent = nullptr) {
    SaveRequest out;
    out.id = new_id();
    out.workspace = &tree;
    out.parent = parent;
    out.origin = origin;
    out.origin.rev += static_cast<std::uint64_t>(last_id);
    out.ordered = true;
    return out;
  }
  Result<SaveOutcome> save(std::vector<MemoryEntry> entries, const HistoryItem* parent = nullptr,
                           bool ordered = true) {
    MemoryTree tree(std::move(entries));
    SaveRequest wanted = request(tree, parent);
    wanted.ordered = ordered;
    return repository->save(OpContext{}, wanted);
  }
  Result<std::vector<MemoryEntry>> load(const HistoryItem& item, SnapshotPart part = SnapshotPart::workspace,
                                        const std::vector<std::string>& paths = {}) {
    ASCOPE_TRY_ASSIGN(const auto tree, repository->open_paths(OpContext{}, item, part, paths));
    return collect(*tree);
  }
  [[nodiscard]] std::vector<std::string> keys(std::string_view prefix = "") {
    std::vector<std::string> out;
    for (const auto& [key, object] : blobs.objects) {
      if (key.starts_with(prefix)) {
        out.push_back(key);
      }
    }
    return out;
  }
  [[nodiscard]] std::uint64_t stored_bytes() {
    std::uint64_t sum = 0;
    for (const auto& [key, object] : blobs.objects) {
      sum += object.bytes.size();
    }
    return sum;
  }
};

}  // namespace ascope::test
