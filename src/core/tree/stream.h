// SPDX-License-Identifier: Apache-2.0
// Tree entries on a byte stream, between us and the guest: a frame a message, checked on reading, in constant
// memory.
//
// Stream = magic "ASTS" u8 version(1) · frames. Frame = u8 kind · u32 length (little endian, ≤ 1 MiB) ·
// payload. Kinds: 'E' entry (fields in the order of TreeEntry, integers little endian, strings as u32 length
// + bytes; xattrs as u32 count + pairs; the sparse map only as its flag), 'S' extents (pairs of u64) of the
// entry that comes next, 'D' data (u64 offset + bytes) of the entry before, 'N' note (path, what), 'Z' end of
// the stream (then EOF). A stream without 'Z' was cut: `corrupt`.
#pragma once

#include <memory>

#include "core/base/bytes.h"
#include "core/tree/tree.h"

namespace ascope {

// Writes all of `source` to `sink`, with `notes` (may be null; a walker's notes()) as they come, and ends the
// stream. A failing source leaves the stream without its end.
Result<void> write_tree_stream(TreeSource& source, ByteSink& sink,
                               const std::vector<TreeNote>* notes = nullptr);
// Reads a stream; every path passes check_tree_path. Does not own `bytes`. `notes` (may be null) collects 'N'
// frames.
std::unique_ptr<TreeSource> read_tree_stream(ByteSource& bytes, std::vector<TreeNote>* notes);

}  // namespace ascope
