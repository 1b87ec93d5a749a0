// SPDX-License-Identifier: Apache-2.0
// Lease holders as stores keep them and as people see them, the proof that one is dead, and joining a lease
// by its token.
#pragma once

#include <string>
#include <string_view>

#include "core/store.h"

namespace ascope {

// The holder as one JSON object, {"host", "host_name", "boot", "pid_namespace", "pid", "start_time", "user",
// "command"}; bytes that are not UTF-8 are kept. Back: `corrupt`.
std::string holder_text(const LeaseHolder& holder);
Result<LeaseHolder> parse_holder(std::string_view text);

// Where a process id means something.
struct PidScope {
  std::string host;
  std::string boot;
  std::uint64_t pid_namespace = 0;
};
Result<PidScope> this_pid_scope(std::string host);
// True only if the holder ran in this very scope and its process, told by pid and start time, is gone; or it
// ran on this host before the last boot. Anything that cannot be told is false, and so is a holder without a
// process.
Result<bool> is_proven_dead(const LeaseHolder& holder, const PidScope& here);

// "alice on build7, pid 4711 ('run -- make')", safe for a terminal.
std::string holder_name(const LeaseHolder& holder);
// The same and more: "alice on build7, pid 4711 ('run -- make'), since 2026-01-02T03:04:05.678Z, for 40s
// more".
std::string describe_holder(const LeaseInfo& info);
// The `busy` error of an acquire that met this holder.
Error lease_busy_error(const LeaseInfo& info);

// Checks that `token` is the live lease of slot `name` and renews it: `conflict` if it is another slot's, ran
// out or was given back. The grant may be renewed and checked by a keeper, and must not be released by it.
Result<LeaseGrant> join_lease(LeaseStore& store, const OpContext& ctx, std::string_view name,
                              std::string_view token);

}  // namespace ascope
