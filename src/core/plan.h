// SPDX-License-Identifier: Apache-2.0
// What `start` decides: a pure function from facts to a branch or a refusal (protocols 6). `explain` prints
// the result, `start` executes the same object. tests/unit/plan compares every combination with the oracle's
// table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace ascope {

enum class LeaseFact { held, busy, lost, store_down };
enum class StateFact { absent, tombstone, ours, foreign, other_backend, corrupt, newer, unreadable };
enum class LiveFact { no, here, elsewhere };
enum class SandboxFact { none, alive, stopped, gone, not_ours, moving, unknown };
enum class WorkFact { none, current, stale_clean, stale_dirty, lost, partial, unmarked, unknown };
enum class SnapshotFact { never, usable, missing, corrupt, store_down, foreign_newer };

struct StartFacts {
  LeaseFact lease = LeaseFact::held;
  StateFact state = StateFact::absent;
  LiveFact live = LiveFact::no;
  SandboxFact sandbox = SandboxFact::none;
  WorkFact work = WorkFact::none;
  SnapshotFact snapshot = SnapshotFact::never;
  bool allow_loss = false;
  bool operator==(const StartFacts&) const = default;
};
std::string_view to_string(LeaseFact);
std::string_view to_string(StateFact);
std::string_view to_string(LiveFact);
std::string_view to_string(SandboxFact);
std::string_view to_string(WorkFact);
std::string_view to_string(SnapshotFact);

enum class Branch { a, b, c, d };
char branch_letter(Branch branch);

// One rule that was looked at and did not apply, with the condition that failed.
struct RejectedBranch {
  std::string branch;  // "A", "B", …
  std::string reason;
};

struct StartDecision {
  std::string rule;              // "N2", "A1", … as in protocols 6
  std::optional<Branch> branch;  // nullopt: refused
  ErrorKind refusal = ErrorKind::internal;
  std::string why;                  // one clause for people
  std::string hint;                 // of a refusal
  bool restore = false;             // B, C: put the head back
  bool strand_first = false;        // save the present tree as a stranded snapshot before
  bool adopt_foreign_head = false;  // the newer foreign tar becomes head
  bool mark_tree = false;           // an unmarked tree becomes this slot's current tree
  bool new_sandbox = false;
  // Work since the last commit is gone: said. Also where the oracle has no note for it: a living sandbox
  // whose tree was lost.
  bool lost_since = false;
  bool lost_snapshot = false;  // went cold over a snapshot, by --allow-loss
  // The oracle's words for the action ("restore", "stranded snapshot, then restore", …) or the refusal's
  // kind, and its note.
  std::string oracle;
  std::string oracle_note;
  std::vector<RejectedBranch> rejected;
};

// Total: every combination of facts has a decision; first matching rule wins.
StartDecision plan_start(const StartFacts& facts);

// --expect and --no-cold, applied to a decision: nullopt if it may go on, else `refused`.
std::optional<Error> check_expectation(const StartDecision& decision, const std::vector<Branch>& expect,
                                       bool no_cold);

}  // namespace ascope
