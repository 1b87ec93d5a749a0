// SPDX-License-Identifier: Apache-2.0
// A backend's side of the guest's socket: who answers there, one-message calls, and a command from its
// request to its exit status. Nothing that the guest sends is believed beyond its range.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/backend.h"
#include "core/base/fd.h"
#include "guest/wire.h"

namespace ascope::guest {

// Connects to the socket `name` in an open folder (a path through /proc/self/fd never gets too long).
// `not_found` if nobody listens there.
Result<UniqueFd> connect_socket(int folder, const char* name);
// The process that listens at the other end, as the kernel knows it; 0 if it is in no pid namespace of ours.
Result<pid_t> peer_pid(int connection);

// Sends one message (with hello before it) and returns the payload of its answer, which must be of type
// `expected`. `conflict`: the guest has seen a higher fence; `not_found`: the connection ended without an
// answer; `backend_unavailable`: a guest of another version, not a guest, or one that does not answer in 20
// s.
Result<std::string> call(const OpContext& ctx, int connection, std::uint64_t fence, FrameType type,
                         std::string_view payload, FrameType expected);

// A running call keeps its connection (freeze): the same on a connection that was greeted already.
Result<std::string> call_again(const OpContext& ctx, int connection, FrameType type, std::string_view payload,
                               FrameType expected);

struct ExecOptions {
  bool applet = false;  // argv names a part of the guest
  bool as_root = false;
  bool while_frozen = false;  // it only looks: it need not wait for a thaw
};
// Runs a command to its end and closes the connection. As Sandbox::exec: `not_found` if the connection ended
// before the guest had accepted the command.
Result<ExecOutcome> exec(const OpContext& ctx, UniqueFd connection, const ExecRequest& request,
                         const ExecStreams& streams, const ExecOptions& options);

}  // namespace ascope::guest
