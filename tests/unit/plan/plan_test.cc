// SPDX-License-Identifier: Apache-2.0
// plan_start against oracle.py over every combination of facts, and what must hold whatever the table says.
#include "core/plan.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "plan_oracle_table.h"

namespace ascope {
namespace {

constexpr std::size_t kCombinations = std::size_t{4} * 8 * 3 * 7 * 8 * 6 * 2;

// The combination that stands at `row` of the oracle's walk: the last fact turns fastest.
StartFacts facts_at(std::size_t row) {
  const auto take = [&row](std::size_t values) {
    const std::size_t digit = row % values;
    row /= values;
    return digit;
  };
  StartFacts f;
  f.allow_loss = take(2) == 1;
  f.snapshot = static_cast<SnapshotFact>(take(6));
  f.work = static_cast<WorkFact>(take(8));
  f.sandbox = static_cast<SandboxFact>(take(7));
  f.live = static_cast<LiveFact>(take(3));
  f.state = static_cast<StateFact>(take(8));
  f.lease = static_cast<LeaseFact>(take(4));
  return f;
}

std::string text_of(const StartFacts& f) {
  std::string text;
  for (const std::string_view part :
       {to_string(f.lease), to_string(f.state), to_string(f.live), to_string(f.sandbox), to_string(f.work),
        to_string(f.snapshot), std::string_view(f.allow_loss ? "loss" : "no")}) {
    text.append(part).append(" ");
  }
  return text;
}

// Calls `check` for every combination; it answers what is wrong, or nothing. Reports the first few.
void for_all(const std::function<std::string(const StartFacts&, const StartDecision&, std::size_t)>& check) {
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < kCombinations; ++row) {
    const StartFacts facts = facts_at(row);
    const std::string complaint = check(facts, plan_start(facts), row);
    if (!complaint.empty() && ++wrong <= 5) {
      FAIL_CHECK(text_of(facts) << "-> " << complaint);
    }
  }
  CHECK(wrong == 0);
}

const std::map<std::string, ErrorKind, std::less<>> kKinds{
    {"4", ErrorKind::not_found},
    {"5", ErrorKind::busy},
    {"6", ErrorKind::conflict},
    {"7", ErrorKind::refused},
    {"8", ErrorKind::corrupt},
    {"9", ErrorKind::backend_unavailable},
    {"10", ErrorKind::store_unavailable},
    {"13", ErrorKind::unsupported},
};

bool restores(const StartDecision& d) {
  return d.branch == Branch::b || d.branch == Branch::c;
}

bool leaves_the_tree(const StartDecision& d) {
  return restores(d) || d.branch == Branch::d;
}

TEST_CASE("every combination is decided as the oracle decides it") {
  REQUIRE(std::size(kOracleRows) == kCombinations);
  std::set<std::string> rules;
  for_all([&rules](const StartFacts&, const StartDecision& d, std::size_t row) -> std::string {
    const OracleOutcome& want = kOracleOutcomes[kOracleRows[row]];
    rules.insert(d.rule);
    const std::string_view branch(want.branch);
    if (d.rule != want.rule) {
      return "rule " + d.rule + ", want " + want.rule;
    }
    if (d.oracle_note != want.note) {
      return "note '" + d.oracle_note + "', want '" + want.note + "'";
    }
    if (branch == "refuse") {
      const bool same = !d.branch && d.refusal == kKinds.at(want.action) && d.oracle == to_string(d.refusal);
      return same ? "" : "not refused as " + std::string(want.action);
    }
    if (!d.branch || std::string(1, branch_letter(*d.branch)) != branch) {
      return "not branch " + std::string(branch);
    }
    return d.oracle == want.action ? "" : "action '" + d.oracle + "', want '" + want.action + "'";
  });
  CHECK(rules.size() == 19);
}

TEST_CASE("nothing is done without the lease or a readable record") {
  for_all([](const StartFacts& f, const StartDecision& d, std::size_t) -> std::string {
    const bool readable =
        f.state != StateFact::unreadable && f.state != StateFact::corrupt && f.state != StateFact::newer;
    return d.branch && (f.lease != LeaseFact::held || !readable) ? "acts" : "";
  });
}

TEST_CASE("what could not be asked is never taken as gone") {
  for_all([](const StartFacts& f, const StartDecision& d, std::size_t) -> std::string {
    const bool unclear = f.sandbox == SandboxFact::unknown || f.sandbox == SandboxFact::moving;
    const bool excused = f.state == StateFact::other_backend || f.state == StateFact::tombstone ||
                         (f.state == StateFact::absent && f.sandbox == SandboxFact::moving && f.allow_loss);
    if (d.branch && unclear && !excused) {
      return "sandbox";
    }
    const bool recorded = f.state != StateFact::absent && f.state != StateFact::tombstone;
    return leaves_the_tree(d) && f.work == WorkFact::unknown && recorded ? "tree" : "";
  });
}

TEST_CASE("no start is cold over a snapshot, and none restores without one") {
  for_all([](const StartFacts& f, const StartDecision& d, std::size_t) -> std::string {
    if (d.branch == Branch::d && !f.allow_loss && f.state != StateFact::tombstone &&
        f.snapshot != SnapshotFact::never) {
      return "cold over a snapshot";
    }
    const bool usable = f.snapshot == SnapshotFact::usable || f.snapshot == SnapshotFact::foreign_newer;
    if (restores(d) != d.restore) {
      return "restore flag";
    }
    return restores(d) && !usable ? "restores nothing" : "";
  });
}

TEST_CASE("unsaved work is never overwritten unsaved, here or elsewhere") {
  for_all([](const StartFacts& f, const StartDecision& d, std::size_t) -> std::string {
    const bool unsaved = f.work == WorkFact::stale_dirty || f.work == WorkFact::unmarked;
    if (leaves_the_tree(d) && !f.allow_loss && unsaved && f.state != StateFact::tombstone &&
        !d.strand_first) {
      return "tree overwritten";
    }
    const bool recorded = f.state != StateFact::absent && f.state != StateFact::tombstone;
    return d.branch && f.live == LiveFact::elsewhere && !f.allow_loss && recorded ? "took a live slot" : "";
  });
}

TEST_CASE("warm is only for a tree that is the slot's, and sees a foreign commit") {
  for_all([](const StartFacts& f, const StartDecision& d, std::size_t) -> std::string {
    if (d.branch != Branch::a) {
      return "";
    }
    if (f.work == WorkFact::current) {
      return f.snapshot == SnapshotFact::foreign_newer ? "foreign commit ignored" : "";
    }
    const bool kept = f.work == WorkFact::unmarked || f.work == WorkFact::stale_dirty;
    return kept && d.mark_tree ? "" : "wrong tree";
  });
}

TEST_CASE("flags say what the action says") {
  for_all([](const StartFacts& f, const StartDecision& d, std::size_t) -> std::string {
    const auto has = [&d](std::string_view text) { return d.oracle.find(text) != std::string::npos; };
    const bool up = f.sandbox == SandboxFact::alive || f.sandbox == SandboxFact::stopped;
    if (d.strand_first != has("stranded snapshot")) {
      return "strand_first";
    }
    if (d.lost_snapshot != (d.branch && d.oracle_note == "lost")) {
      return "lost_snapshot";
    }
    if (d.oracle_note == "lost_since" && !d.lost_since) {
      return "lost_since";
    }
    if (d.adopt_foreign_head != (d.restore && f.snapshot == SnapshotFact::foreign_newer)) {
      return "adopt_foreign_head";
    }
    if ((d.rule == "A1" || d.rule == "A2") && d.new_sandbox) {
      return "a new sandbox beside a living one";
    }
    if (d.branch && !up && !d.new_sandbox) {
      return "no sandbox";
    }
    return d.branch == Branch::c && !d.new_sandbox ? "C in the old sandbox" : "";
  });
}

TEST_CASE("each decision gives its reason, and one for each branch not taken") {
  for_all([](const StartFacts&, const StartDecision& d, std::size_t) -> std::string {
    if (d.why.empty() || d.why.back() == '.') {
      return "why";
    }
    if (!d.branch && d.hint.empty()) {
      return "refused without a hint";
    }
    std::string letters;
    for (const RejectedBranch& rejected : d.rejected) {
      letters += rejected.branch;
      if (rejected.reason.empty()) {
        return "no reason against " + rejected.branch;
      }
    }
    std::string want = "ABCD";
    if (d.branch) {
      want.erase(static_cast<std::size_t>(branch_letter(*d.branch) - 'A'), 1);
    }
    return letters == want ? "" : "rejected " + letters;
  });
}

TEST_CASE("expectations") {
  struct Row {
    const char* name;
    Branch found;
    std::vector<Branch> expect;
    bool no_cold;
    bool allowed;
  };
  const std::vector<Row> rows{
      {"no wish", Branch::d, {}, false, true},
      {"expected", Branch::c, {Branch::a, Branch::c}, false, true},
      {"not expected", Branch::c, {Branch::a, Branch::b}, false, false},
      {"cold forbidden", Branch::d, {}, true, false},
      {"cold forbidden, though listed", Branch::d, {Branch::d}, true, false},
      {"not cold", Branch::a, {}, true, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    StartDecision decision;
    decision.branch = row.found;
    decision.why = "because";
    const std::optional<Error> error = check_expectation(decision, row.expect, row.no_cold);
    CHECK(error.has_value() != row.allowed);
    if (error) {
      CHECK(error->kind == ErrorKind::refused);
      CHECK(error->message.find("because") != std::string::npos);
      CHECK_FALSE(error->hint.empty());
    }
  }
}

TEST_CASE("a refusal keeps its own reason under an expectation") {
  StartFacts facts;
  facts.lease = LeaseFact::busy;
  const StartDecision decision = plan_start(facts);
  CHECK(decision.refusal == ErrorKind::busy);
  CHECK_FALSE(check_expectation(decision, {Branch::a}, true).has_value());
}

}  // namespace
}  // namespace ascope
