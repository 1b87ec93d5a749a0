// SPDX-License-Identifier: Apache-2.0
// A tree in memory, as a source of entries and as what a source gave.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tree/tree.h"

namespace ascope {

struct MemoryEntry {
  TreeEntry entry;
  std::vector<std::pair<std::uint64_t, std::string>> blocks;

  // The whole content, holes as zeros. For files of a size that fits.
  [[nodiscard]] std::string content() const {
    std::string out(entry.size_bytes, '\0');
    for (const auto& [offset, bytes] : blocks) {
      out.replace(offset, bytes.size(), bytes);
    }
    return out;
  }
};

class MemoryTree final : public TreeSource {
 public:
  MemoryTree() = default;
  explicit MemoryTree(std::vector<MemoryEntry> list) : entries(std::move(list)) {}

  MemoryEntry& add(EntryType type, std::string path, std::string data = {}) {
    MemoryEntry one;
    one.entry.path = std::move(path);
    one.entry.type = type;
    one.entry.mode = type == EntryType::directory ? 0755 : type == EntryType::symlink ? 0777 : 0644;
    one.entry.mtime_ns = 1'700'000'000'123'456'789;
    if (type == EntryType::symlink || type == EntryType::hardlink) {
      one.entry.link_target = std::move(data);
    } else if (type == EntryType::file) {
      one.entry.size_bytes = data.size();
      if (!data.empty()) {
        one.blocks.emplace_back(0, std::move(data));
      }
    }
    entries.push_back(std::move(one));
    return entries.back();
  }
  MemoryEntry& file(std::string path, std::string data) {
    return add(EntryType::file, std::move(path), std::move(data));
  }
  MemoryEntry& folder(std::string path) { return add(EntryType::directory, std::move(path)); }

  Result<bool> next(TreeEntry& entry) override {
    if (fail_at == at_) {
      return make_error(ErrorKind::corrupt, "the source fails here");
    }
    if (at_ == entries.size()) {
      return false;
    }
    entry = entries[at_++].entry;
    block_ = 0;
    return true;
  }
  Result<std::optional<DataBlock>> read() override {
    if (at_ == 0 || block_ == entries[at_ - 1].blocks.size()) {
      return std::optional<DataBlock>();
    }
    const auto& [offset, bytes] = entries[at_ - 1].blocks[block_++];
    return std::optional<DataBlock>(DataBlock{offset, bytes});
  }

  std::vector<MemoryEntry> entries;
  std::size_t fail_at = static_cast<std::size_t>(-1);  // next() fails instead of giving this entry

 private:
  std::size_t at_ = 0;
  std::size_t block_ = 0;
};

// Reads a source to its end; ctime and inode are dropped, so that what came from a disk compares with what
// did not.
inline Result<std::vector<MemoryEntry>> collect(TreeSource& source) {
  std::vector<MemoryEntry> out;
  while (true) {
    MemoryEntry one;
    ASCOPE_TRY_ASSIGN(const bool more, source.next(one.entry));
    if (!more) {
      return out;
    }
    one.entry.ctime_ns = 0;
    one.entry.inode = 0;
    while (one.entry.type == EntryType::file) {
      ASCOPE_TRY_ASSIGN(const std::optional<DataBlock> block, source.read());
      if (!block) {
        break;
      }
      one.blocks.emplace_back(block->offset, std::string(block->bytes));
    }
    out.push_back(std::move(one));
  }
}

// One line an entry, for comparing whole trees with a readable difference.
inline std::vector<std::string> describe(const std::vector<MemoryEntry>& entries) {
  std::vector<std::string> out;
  for (const MemoryEntry& one : entries) {
    const TreeEntry& e = one.entry;
    std::string line = e.path + " type=" + std::to_string(static_cast<int>(e.type)) +
                       " mode=" + std::to_string(e.mode) + " uid=" + std::to_string(e.uid) +
                       " gid=" + std::to_string(e.gid) + " mtime=" + std::to_string(e.mtime_ns) +
                       " size=" + std::to_string(e.size_bytes) + " to=" + e.link_target +
                       " dev=" + std::to_string(e.device);
    for (const auto& [name, value] : e.xattrs) {
      line += " " + name + "=" + value;
    }
    for (const Extent& extent : e.extents) {
      line += " [" + std::to_string(extent.offset) + "+" + std::to_string(extent.length) + "]";
    }
    std::uint64_t hash = 1469598103934665603U;
    if (e.size_bytes < (64U << 20U)) {
      for (const char c : one.content()) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
      }
    }
    out.push_back(line + " content=" + std::to_string(hash));
  }
  return out;
}

}  // namespace ascope
