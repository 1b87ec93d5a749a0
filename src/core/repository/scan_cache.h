// SPDX-License-Identifier: Apache-2.0
// What the files of a tree looked like when a snapshot of it was made or laid out, so that the next snapshot
// reads only what was touched since. It lies on the host, out of reach of what runs in the sandbox, and holds
// for one tree and one snapshot only.
//
// File: "ASSC" u8 1 · u8 length and 64 bytes of snapshot id · i64 start of the scan in ns since the epoch ·
// first 8 bytes of the SHA-256 of all that; then blocks = u32 payload bytes · first 8 bytes of its SHA-256 ·
// payload. A payload holds entries in path order: u8 part · varint length of what is shared with the path
// before · string rest · u64 inode · i64 ctime · i64 mtime · u64 size. It is a cache: what cannot be read, is
// cut or altered costs time only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/repository/repository.h"
#include "core/tree/tree.h"

namespace ascope {

// Asked in the order of a walk, workspace first; memory: one block.
class ScanCache {
 public:
  // Without a usable cache of `snapshot` at `path` nothing is known of any entry.
  ScanCache(const std::string& path, const std::string& snapshot);
  ~ScanCache();
  ScanCache(const ScanCache&) = delete;
  ScanCache& operator=(const ScanCache&) = delete;

  // True if nothing of the entry, content included, can have changed since: size, mtime, ctime and inode are
  // the same, and it was not touched so shortly before that scan that the clock's grain could hide a later
  // change. A change through a writable shared mapping shows only when the kernel writes it back.
  bool same(SnapshotPart part, const TreeEntry& entry);
  [[nodiscard]] bool is_usable() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Writes a cache beside `path`, and over it when finished.
class ScanRecorder {
 public:
  // The scan begins now, by the clock that new files get their times from, or at `started_ns`.
  explicit ScanRecorder(std::string path, std::optional<std::int64_t> started_ns = std::nullopt);
  ~ScanRecorder();
  ScanRecorder(const ScanRecorder&) = delete;
  ScanRecorder& operator=(const ScanRecorder&) = delete;

  // In the order of a walk, workspace first.
  void add(SnapshotPart part, const TreeEntry& entry);
  // The tree is what `snapshot` holds. Without it, or after any failure, nothing is left.
  Result<void> finish(const std::string& snapshot);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ascope
