// SPDX-License-Identifier: Apache-2.0
// Making one thing in a folder, and giving it owner, attributes, mode and time in the order that works: a
// chown clears setuid bits and capabilities, a read-only mode refuses attributes, anything changes the time.
#pragma once

#include <string>
#include <sys/stat.h>

#include "core/base/fd.h"
#include "core/tree/tree.h"
#include "core/tree/xattrs.h"

namespace ascope {

// Entries come as Admission left them: host ids (UINT32_MAX = leave), permitted modes and attributes.

struct MetadataFailures {
  std::uint64_t owners = 0;  // could not be set for want of rights
  std::string xattrs;        // why attributes of the last entry could not be set; empty: they were
};

// Writes a new regular file `name` in `dir` block by block.
class NewFile {
 public:
  // `io` if something is there already.
  Result<void> create(int dir, const std::string& name, const TreeEntry& entry);
  Result<void> write(const DataBlock& block);
  // Copies the data in [0, end) of `from`, its holes left out.
  Result<void> copy_from(int from, std::uint64_t end);
  // Size, metadata, close.
  Result<void> finish(const TreeEntry& entry, MetadataFailures& failures);

 private:
  UniqueFd fd_;
  std::uint64_t end_ = 0;
  std::uint64_t size_ = 0;
  std::string path_;
};

// Makes a link, fifo or device with its metadata. false: devices are not allowed to us.
Result<bool> make_special(int dir, const std::string& name, const TreeEntry& entry,
                          MetadataFailures& failures);

// True if mode, owner, time or attributes (`xattrs`: what is there) are not as `entry` says.
bool metadata_differs(const struct stat& present, const XattrList& xattrs, const TreeEntry& entry);
// Makes them so, for what lies behind the O_PATH descriptor `fd`, a file or folder.
Result<void> set_metadata(int fd, const TreeEntry& entry, MetadataFailures& failures);
// The same for a link, fifo or device, by name.
Result<void> set_special_metadata(int dir, const std::string& name, const TreeEntry& entry,
                                  MetadataFailures& failures);

std::int64_t mtime_of(const struct stat& info);

}  // namespace ascope
