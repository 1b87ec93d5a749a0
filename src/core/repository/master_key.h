// SPDX-License-Identifier: Apache-2.0
// The key that snapshots of format chunks are encrypted with: 32 bytes, written as 64 hex digits or in
// base64, such as `openssl rand -hex 32` prints. Whoever loses it loses the snapshots.
//
// Sources: "file:PATH" (absolute), "env:NAME", "command:PROGRAM ARG…" (words, no shell; its stdout). White
// space around the key is passed over.
#pragma once

#include <optional>
#include <string>

#include "core/base/op_context.h"
#include "core/base/secret.h"

namespace ascope {

// What is wrong with a source, without reading it. "" is none, and right.
std::optional<Error> master_key_problem(const std::string& source);

// "" for no source. `denied` if there is no key where the source points, or it is none; the message never
// holds what was read.
Result<Secret> read_master_key(const OpContext& ctx, const std::string& source);

}  // namespace ascope
