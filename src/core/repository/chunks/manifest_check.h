// SPDX-License-Identifier: Apache-2.0
// Is all there that a manifest needs, and is it what was written?
#pragma once

#include <map>
#include <set>
#include <vector>

#include "core/repository/chunks/chunk_repository.h"
#include "core/repository/chunks/markers.h"
#include "core/repository/chunks/pack_directory.h"

namespace ascope::chunks {

// All that is wrong with a manifest whose root was read. At most 1000 problems.
Result<std::vector<SnapshotProblem>> check_manifest(const OpContext& ctx, const Access& access,
                                                    const Manifest& manifest, bool read_data);
Result<std::optional<SnapshotProblem>> check_pack(const OpContext& ctx, const Access& access,
                                                  const PackName& pack, bool read_data);

// What an error says of an object; an error that says nothing of objects stays one.
Result<SnapshotProblem> problem_of(const std::string& object, Error error);

}  // namespace ascope::chunks
