// SPDX-License-Identifier: Apache-2.0
// Tar streams ↔ tree entries: plain pax tar as AgentScope reads it, and tar.gz / tar.zst for export and
// import.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/tree/tree.h"

namespace ascope {

enum class TarCompression { none, gzip, zstd };

// What the objects of a snapshot of format tar are called after its id.
inline constexpr std::string_view kTarObject = ".tar";
inline constexpr std::string_view kTarRoots = ".roots.tar";

struct TarStats {
  std::uint64_t files = 0;
  std::uint64_t content_bytes = 0;
  std::vector<TreeNote> notes;  // what tar cannot hold (sockets)
};

// Writes `source` as a tar: a global pax header with a comment that marks it as ours, members "./path" ("./"
// for the root), pax headers where needed (long names, nanosecond times, xattrs, sparse maps, sizes), two end
// blocks. The same entries give the same bytes.
Result<TarStats> write_tar(TreeSource& source, ByteSink& sink, TarCompression compression);
// Reads a tar whatever its compression (detected). Hostile input: names are cleaned of "./" and checked;
// absolute names,
// "..", duplicate paths, links to later members, headers that lie are `corrupt` with the member's name; a
// stream without end blocks is `corrupt` ("cut"). Members of an archive that is not marked as ours belong to
// the sandbox's user (kAgentId): its owners are those of another machine. `bytes` must outlive the source.
Result<std::unique_ptr<TreeSource>> read_tar(ByteSource& bytes);

// Turns a sink-writing function into a source to read from, on a thread of its own with a bounded buffer (1
// MiB).
std::unique_ptr<ByteSource> pipe_source(std::function<Result<void>(ByteSink&)> producer);

}  // namespace ascope
