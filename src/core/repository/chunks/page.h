// SPDX-License-Identifier: Apache-2.0
// Pages: a manifest's entries in path order (path_order.h), in pieces that are stored as chunks. Everything
// that an unchanged page says is in its bytes, packs included, so that it keeps its bytes and is stored once.
//
//   page     "ASPG" · u8 version (1) · varint count · count × pack name[16]
//            · varint count · count × ( varint pack · varint offset · varint stored · varint raw · u8 codec )
//            · records to the end
//   record   u8 kind · what the kind has:
//   0…7      an entry: file, directory, symlink, hard link, fifo, (5 is not used), character device, block
//   device
//            varint bytes shared with the path of the entry before in this page · text rest of the path
//            · varint mode · varint uid · varint gid · i64 mtime (ns since the epoch)
//            · varint count · count × ( text name · text value ) of extended attributes
//            0: varint size · varint 0 or 1 + runs of its sparse map · varint chunks
//            2, 3: text target · 6, 7: varint device (Linux's 64-bit dev_t)
//   8        runs of the file before: varint count · count × ( varint gap · varint length )
//   9        chunks of the file before: varint count · count × ( varint frame · varint at · varint raw ·
//   id[32] )
//
// text = varint bytes · bytes; pack and frame count in the page's own two tables. A gap counts from the end
// of the run before, the first of a record from 0. A file's runs come before its chunks, as many as its entry
// says, in records of at most 4096 runs or 1024 chunks. Its chunks, put together, are its data: all of it, or
// with a sparse map the runs of data, between which it reads as zeros.
//
// A page ends behind the last record of an entry whose path's SHA-256 begins with a zero byte, and behind any
// record with which it has 4096 entries or 1 MiB. So a file may go on in the page that follows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/repository/chunks/types.h"
#include "core/tree/tree.h"

namespace ascope::chunks {

class FieldReader;

inline constexpr std::size_t kPageEntries = 4096;
inline constexpr std::size_t kPageBytes = 1U << 20U;
inline constexpr std::size_t kRunsARecord = 4096;
inline constexpr std::size_t kChunksARecord = 1024;
// What we read: a page of ours ends at 1 MiB and one record more.
inline constexpr std::size_t kMaxPageBytes = 4U << 20U;

// True if a page ends behind the entry of this path.
bool ends_page(std::string_view path);

// Writes one page after the other. `packs` is the table that ChunkRef::pack counts in; it may grow.
class PageWriter {
 public:
  explicit PageWriter(const std::vector<PackName>& packs) : packs_(packs) {}

  void entry(const TreeEntry& entry, std::uint64_t chunks);
  void runs(std::span<const Extent> runs);            // at most kRunsARecord
  void chunks(std::span<const ChunkRef> references);  // at most kChunksARecord
  [[nodiscard]] bool empty() const { return records_.empty(); }
  [[nodiscard]] bool is_full() const;
  // The page's bytes; the next one begins.
  std::string finish();

 private:
  std::uint32_t local_frame(const ChunkRef& ref);

  const std::vector<PackName>& packs_;
  std::string pack_table_;
  std::string frame_table_;
  std::string records_;
  std::unordered_map<std::uint32_t, std::uint32_t> local_packs_;
  std::unordered_map<std::uint64_t, std::uint32_t> local_frames_;
  std::size_t entries_ = 0;
  std::string last_path_;
};

struct PageRecord {
  enum class Kind { entry, runs, chunks };
  Kind kind = Kind::entry;
  TreeEntry entry;         // without its extents
  std::uint64_t runs = 0;  // that follow
  std::uint64_t chunks = 0;
  std::vector<Extent> extents;
  std::vector<ChunkRef> references;  // their pack counts in PageReader::packs()
};

// Reads a page that nobody vouches for: every number is in its range, every path as check_tree_path demands,
// every byte used. `corrupt` without a name.
class PageReader {
 public:
  // Keeps `bytes`.
  static Result<PageReader> open(std::string bytes);
  [[nodiscard]] const std::vector<PackName>& packs() const { return packs_; }
  // false: the end.
  Result<bool> next(PageRecord& record);

 private:
  Result<void> read_entry(FieldReader& fields, EntryType type, PageRecord& record);

  std::string bytes_;
  std::size_t at_ = 0;
  std::vector<PackName> packs_;
  std::vector<ChunkRef> frames_;  // pack and frame only
  std::string last_path_;
};

}  // namespace ascope::chunks
