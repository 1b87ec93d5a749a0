// SPDX-License-Identifier: Apache-2.0
// Host ids for the sandboxes of root: each gets 65 536 of its own, so that nothing inside is ever the host's
// root.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/op_context.h"

namespace ascope::bwrap {

// The lowest range that none of `taken` overlaps: from the `ascope` line of `subuid_path` (/etc/subuid), else
// from 0x70000000 up, beginning at a place that depends on `state_dir` so that two state folders rarely share
// one. `unsupported` if there is none, or if this process's own user namespace does not hold it.
Result<std::uint32_t> choose_id_base(const std::string& state_dir, const std::vector<std::uint32_t>& taken,
                                     const std::string& subuid_path = "/etc/subuid");

}  // namespace ascope::bwrap
