// SPDX-License-Identifier: Apache-2.0
// A file tree as a stream of entries: what the walker, the tar reader, the guest and a test produce, and the
// applier, the tar writer and the guest take. Linked into the guest too: nothing here needs more than the C++
// library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace ascope {

enum class EntryType : std::uint8_t {
  file,
  directory,
  symlink,
  hardlink,
  fifo,
  socket,
  char_device,
  block_device
};

// A run of data in a file with holes.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool operator==(const Extent&) const = default;
};

inline constexpr std::size_t kMaxExtents = 1U << 20U;       // of one file: 16 MiB of memory
inline constexpr std::size_t kMaxXattrBytes = 512U << 10U;  // of one entry, so that it fits a stream frame
// Names at the top of a root that an apply uses for itself; left out of every walk of ours by the caller.
inline constexpr std::string_view kStageName = ".ascope-stage";

// Names are bytes. `path` is relative, without leading "./", without ".", "..", empty parts or NUL; the root
// itself is "".
struct TreeEntry {
  std::string path;
  EntryType type = EntryType::file;
  std::uint32_t mode = 0;  // permission bits with setuid, setgid, sticky (07777)
  std::uint32_t uid = 0;   // ids as seen inside the sandbox
  std::uint32_t gid = 0;
  std::int64_t mtime_ns = 0;     // since the epoch, may be negative
  std::uint64_t size_bytes = 0;  // of a regular file, holes included
  std::string link_target;       // symlink: target text; hardlink: path of the entry that came before it
  std::vector<std::pair<std::string, std::string>> xattrs;
  std::uint64_t device = 0;  // of a device node
  // A file with holes: data lies in `extents` only (ascending, apart, inside the size; none: one big hole).
  // Known before the first block, since a tar header holds it. Without `sparse` all of the file is data.
  bool sparse = false;
  std::vector<Extent> extents;
  // Of the walker only, for change detection; 0 elsewhere.
  std::int64_t ctime_ns = 0;
  std::uint64_t inode = 0;

  bool operator==(const TreeEntry&) const = default;
};

struct DataBlock {
  std::uint64_t offset = 0;
  std::string_view bytes;  // valid until the next call on the source
};

// Entries in an order in which a folder comes before what it holds and a hard link after its target.
class TreeSource {
 public:
  virtual ~TreeSource() = default;
  // The next entry, false at the end. Unread data of the entry before is skipped.
  virtual Result<bool> next(TreeEntry& entry) = 0;
  // The next block of the present regular file with ascending offsets, nullopt at its end. What lies between
  // blocks is a hole and reads as zeros.
  virtual Result<std::optional<DataBlock>> read() = 0;
};

// No entries.
class EmptyTree final : public TreeSource {
 public:
  Result<bool> next(TreeEntry& /*entry*/) override { return false; }
  Result<std::optional<DataBlock>> read() override { return std::optional<DataBlock>(); }
};

// Something that could not be taken or given back as it was: said in receipts, never silently.
struct TreeNote {
  std::string path;
  std::string
      what;  // "socket skipped", "owner 0:0 not restored: Operation not permitted", "changed while read"
};

// Of a list of notes that a hostile tree cannot make long: those beyond are one more, "and N more".
inline constexpr std::size_t kMostTreeNotes = 1000;

// `corrupt` unless `path` is as TreeEntry::path demands (the root "" passes only if `root_ok`), parts ≤ 255
// bytes, total ≤ 64 KiB (protocols 5.4).
Result<void> check_tree_path(std::string_view path, bool root_ok);

}  // namespace ascope
