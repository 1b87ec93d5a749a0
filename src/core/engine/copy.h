// SPDX-License-Identifier: Apache-2.0
// Files and folders between the host and a slot's sandbox (`cp`).
#pragma once

#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/engine/engine.h"
#include "core/tree/tree.h"

namespace ascope {

struct CopyReport {
  std::uint64_t files = 0;
  std::uint64_t content_bytes = 0;
  std::vector<TreeNote> notes;  // what could not be taken or given as it was
};

// `path`s inside are absolute, or relative to the workspace root. A folder is copied with all it holds, a
// link as a link. Where `target` is a folder (or ends in '/') the copy keeps its name in it, else it gets the
// target's. Something of another type in the way is `conflict`, and then nothing was changed. A source that
// is missing is `not_found`.

// Out of a running sandbox, or of a stopped one whose disk can be read.
Result<CopyReport> copy_out(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                            const LockOptions& lock, const std::vector<std::string>& paths,
                            const std::string& target);
// The same as a tar stream.
Result<CopyReport> copy_out_tar(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                                const LockOptions& lock, const std::vector<std::string>& paths,
                                ByteSink& tar);
// Into a running sandbox; all is its user's there. `sources` are absolute host paths.
Result<CopyReport> copy_in(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                           const LockOptions& lock, const std::vector<std::string>& sources,
                           const std::string& target);
// The members of a tar below the folder `target`, which is made if missing.
Result<CopyReport> copy_in_tar(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                               const LockOptions& lock, ByteSource& tar, const std::string& target);

}  // namespace ascope
