// SPDX-License-Identifier: Apache-2.0
#include "core/plan.h"

#include <array>

#include "core/plan_words.h"

namespace ascope {

namespace {

using Facts = StartFacts;

// A refusal, and a branch, with what is the same for each.

StartDecision refuse(ErrorKind kind, std::string_view note, std::string why, std::string hint) {
  StartDecision d;
  d.refusal = kind;
  d.oracle = to_string(kind);
  d.oracle_note = note;
  d.why = std::move(why);
  d.hint = std::move(hint);
  return d;
}

StartDecision proceed(Branch branch, std::string oracle, std::string why) {
  StartDecision d;
  d.branch = branch;
  d.oracle = std::move(oracle);
  d.why = std::move(why);
  return d;
}

// L, S: the right to act, and a record that can be read.

StartDecision lease_busy(const Facts&) {
  return refuse(ErrorKind::busy, "busy", "another holder has the slot's lease",
                "ascope-sandbox lock ls shows the holder; --wait DURATION waits longer");
}

StartDecision lease_lost(const Facts&) {
  return refuse(ErrorKind::conflict, "lost", "the lease was lost before anything was done",
                "run the command again; ascope-sandbox lock ls shows who holds the slot");
}

StartDecision lease_store_down(const Facts&) {
  return refuse(ErrorKind::store_unavailable, "lease store", "the lease store cannot be reached",
                "ascope-sandbox doctor tests the profile's stores");
}

StartDecision state_unreadable(const Facts&) {
  return refuse(ErrorKind::store_unavailable, "state store",
                "the state store cannot be read, and an unread record is not an absent one",
                "ascope-sandbox doctor tests the profile's stores");
}

StartDecision state_newer(const Facts&) {
  return refuse(ErrorKind::unsupported, "newer", "the record was written by a newer version of this program",
                "update ascope-sandbox on this machine");
}

StartDecision state_corrupt(const Facts&) {
  return refuse(
      ErrorKind::corrupt, "state export --raw; adopt", "the slot's record is damaged",
      "ascope-sandbox state export --raw saves its bytes, ascope-sandbox adopt rebuilds it from the "
      "slot's snapshots, ascope-sandbox state rm gives it up");
}

// N: no record. A cold start needs proof that nothing is known anywhere.

constexpr std::string_view kAdoptHint =
    "ascope-sandbox adopt rebuilds the record; --allow-loss starts cold beside what is there";

StartDecision absent_store_down(const Facts&) {
  return refuse(ErrorKind::store_unavailable, "cannot tell never from lost",
                "there is no record, and the snapshot store cannot be asked whether the slot ever had one",
                "ascope-sandbox doctor tests the profile's stores; --allow-loss starts cold");
}

StartDecision absent_with_snapshots(const Facts&) {
  return refuse(ErrorKind::refused, "adopt", "there is no record, but snapshots of the slot exist",
                std::string(kAdoptHint));
}

StartDecision absent_with_sandbox(const Facts&) {
  return refuse(ErrorKind::refused, "adopt",
                "there is no record, but a sandbox labelled with the slot exists", std::string(kAdoptHint));
}

StartDecision absent_provider_unknown(const Facts&) {
  return refuse(ErrorKind::backend_unavailable, "provider",
                "there is no record, and the provider cannot be asked for sandboxes of the slot",
                "ascope-sandbox doctor tests the backend");
}

StartDecision absent_with_tree(const Facts&) {
  return refuse(ErrorKind::refused, "adopt", "there is no record, but a workspace tree of the slot exists",
                std::string(kAdoptHint));
}

StartDecision absent(const Facts& f) {
  const bool loss = f.allow_loss && (f.snapshot != SnapshotFact::never || is_up(f) || !tree_is_gone(f));
  StartDecision d =
      proceed(Branch::d, "new sandbox",
              loss ? "there is no record, and --allow-loss gives up what else is left of the slot"
                   : "there is no record, no snapshot, no sandbox and no tree of the slot");
  d.new_sandbox = true;
  return d;
}

StartDecision tombstone(const Facts& f) {
  if (f.sandbox == SandboxFact::unknown) {
    return refuse(ErrorKind::backend_unavailable, "provider",
                  "the slot was removed, and the provider cannot be asked what is left of it",
                  "ascope-sandbox doctor tests the backend");
  }
  StartDecision d = proceed(Branch::d, "new sandbox",
                            "the slot was removed on request, so it begins anew; gc collects the rest");
  d.oracle_note = "left-over destroyed by gc";
  d.new_sandbox = true;
  return d;
}

// H, O, X: who may hold unsaved work, and a sandbox that cannot be judged.

StartDecision live_elsewhere(const Facts&) {
  return refuse(ErrorKind::refused, "stop/snapshot there, or --allow-loss",
                "another host may hold unsaved work of the slot",
                "run ascope-sandbox stop (or snapshot) on that host, or give its work up with --allow-loss");
}

StartDecision other_backend_live(const Facts&) {
  return refuse(ErrorKind::refused, "snapshot with the old profile first",
                "a sandbox of another backend may hold unsaved work of the slot",
                "run ascope-sandbox snapshot with the former profile, or give its work up with --allow-loss");
}

StartDecision sandbox_unknown(const Facts& f) {
  return refuse(ErrorKind::backend_unavailable, "never taken as gone",
                f.sandbox == SandboxFact::moving
                    ? "the sandbox stayed in a transition past the deadline, which is not gone"
                    : "the provider cannot be asked about the sandbox, which is not gone",
                "ascope-sandbox doctor tests the backend; try again when it answers");
}

// A1, A2, C1: by the tree and the snapshot.

StartDecision refuse_snapshot(const Facts& f) {
  const std::string why = describe_tree(f) + ", and " + describe_snapshot(f);
  switch (f.snapshot) {
    case SnapshotFact::missing:
      return refuse(ErrorKind::not_found, "missing", why,
                    "ascope-sandbox snapshot ls shows the others, ascope-sandbox restore puts one back; "
                    "--allow-loss starts cold");
    case SnapshotFact::corrupt:
      return refuse(ErrorKind::corrupt, "corrupt", why,
                    "ascope-sandbox snapshot check names the damage, snapshot repair keeps what can be read, "
                    "restore puts an older one back; --allow-loss starts cold");
    default:
      return refuse(ErrorKind::store_unavailable, "store_down", why,
                    "ascope-sandbox doctor tests the profile's stores; --allow-loss starts cold");
  }
}

// The head put back, in this sandbox (B) or in a new one (C); or what takes its place.
StartDecision from_snapshot(const Facts& f, Branch branch) {
  if (has_usable_snapshot(f)) {
    StartDecision d = proceed(branch, "restore", describe_sandbox(f) + ", " + describe_tree(f));
    d.restore = true;
    d.adopt_foreign_head = f.snapshot == SnapshotFact::foreign_newer;
    d.lost_since = is_live(f) && tree_is_gone(f);
    if (d.lost_since && f.sandbox != SandboxFact::alive) {
      d.oracle_note = "lost_since";
    }
    return d;
  }
  if (f.snapshot == SnapshotFact::never) {
    StartDecision d =
        proceed(Branch::d, "no snapshot ever", describe_tree(f) + ", and " + describe_snapshot(f));
    d.lost_since = is_live(f);
    d.oracle_note = d.lost_since ? "lost_since" : "";
    return d;
  }
  if (!f.allow_loss) {
    return refuse_snapshot(f);
  }
  StartDecision d =
      proceed(Branch::d, "--allow-loss: " + std::string(to_string(f.snapshot)),
              describe_tree(f) + ", " + describe_snapshot(f) + ", and --allow-loss gives it up");
  d.lost_snapshot = true;
  d.lost_since = is_live(f) && tree_is_gone(f);
  d.oracle_note = "lost";
  return d;
}

// The tree may hold work that no commit has: it is saved beside the history before anything else.
StartDecision strand_then_restore(const Facts& f, Branch branch) {
  if (f.snapshot == SnapshotFact::store_down) {
    return refuse(ErrorKind::store_unavailable, f.allow_loss ? "store down" : "cannot save stranded work",
                  describe_tree(f) + ", and the snapshot store it would be saved in cannot be reached",
                  "ascope-sandbox doctor tests the profile's stores");
  }
  StartDecision d = from_snapshot(f, branch);
  if (!d.branch.has_value()) {
    return d;
  }
  if (f.snapshot == SnapshotFact::never) {
    d = proceed(Branch::a, "mark and keep: there is no head to go back to",
                describe_tree(f) + ", and there is no head to go back to: it is kept and marked");
    d.mark_tree = true;
    return d;
  }
  d.strand_first = true;
  d.oracle = "stranded snapshot, then " + d.oracle;
  d.why += "; its work is saved as a stranded snapshot first";
  return d;
}

StartDecision by_tree(const Facts& f, Branch branch) {
  const bool up = branch == Branch::b;
  switch (f.work) {
    case WorkFact::unknown:
      return refuse(ErrorKind::backend_unavailable, "probe failed is not lost",
                    "the workspace tree could not be probed, which is not lost",
                    "ascope-sandbox doctor tests the backend; try again when it answers");
    case WorkFact::current:
      if (f.snapshot == SnapshotFact::foreign_newer) {
        return strand_then_restore(f, branch);
      }
      return proceed(Branch::a, up ? "alive" : "new sandbox round the tree",
                     describe_sandbox(f) + ", and the workspace tree is current");
    case WorkFact::unmarked:
      if (f.state == StateFact::foreign && up) {
        StartDecision d =
            proceed(Branch::a, "foreign sandbox, marked now",
                    "another program's record names this sandbox: its tree is marked as the slot's");
        d.mark_tree = true;
        return d;
      }
      return strand_then_restore(f, branch);
    case WorkFact::stale_dirty:
      return strand_then_restore(f, branch);
    case WorkFact::stale_clean:
    case WorkFact::partial:
    case WorkFact::none:
    case WorkFact::lost:
      break;
  }
  return from_snapshot(f, branch);
}

StartDecision with_sandbox(const Facts& f) {
  return by_tree(f, Branch::b);
}

StartDecision without_sandbox(const Facts& f) {
  StartDecision d = by_tree(f, Branch::c);
  d.new_sandbox = d.branch.has_value();
  return d;
}

// The table.

struct Rule {
  std::string_view name;
  bool (*applies)(const Facts&);
  StartDecision (*decide)(const Facts&);
};

bool is_absent(const Facts& f) {
  return f.state == StateFact::absent;
}

bool is_absent_and_kept(const Facts& f) {
  return is_absent(f) && !f.allow_loss;
}

bool cannot_be_judged(const Facts& f) {
  return f.sandbox == SandboxFact::unknown || f.sandbox == SandboxFact::moving;
}

// First match wins; the last one matches everything.
constexpr std::array<Rule, 19> kRules{{
    {"L1", [](const Facts& f) { return f.lease == LeaseFact::busy; }, lease_busy},
    {"L2", [](const Facts& f) { return f.lease == LeaseFact::lost; }, lease_lost},
    {"L3", [](const Facts& f) { return f.lease == LeaseFact::store_down; }, lease_store_down},
    {"S1", [](const Facts& f) { return f.state == StateFact::unreadable; }, state_unreadable},
    {"S2", [](const Facts& f) { return f.state == StateFact::newer; }, state_newer},
    {"S3", [](const Facts& f) { return f.state == StateFact::corrupt; }, state_corrupt},
    {"N1", [](const Facts& f) { return is_absent_and_kept(f) && f.snapshot == SnapshotFact::store_down; },
     absent_store_down},
    {"N2", [](const Facts& f) { return is_absent_and_kept(f) && f.snapshot != SnapshotFact::never; },
     absent_with_snapshots},
    {"N3",
     [](const Facts& f) { return is_absent_and_kept(f) && (is_up(f) || f.sandbox == SandboxFact::moving); },
     absent_with_sandbox},
    {"N4", [](const Facts& f) { return is_absent(f) && f.sandbox == SandboxFact::unknown; },
     absent_provider_unknown},
    {"N5",
     [](const Facts& f) { return is_absent_and_kept(f) && !tree_is_gone(f) && f.work != WorkFact::unknown; },
     absent_with_tree},
    {"N6", is_absent, absent},
    {"N7", [](const Facts& f) { return f.state == StateFact::tombstone; }, tombstone},
    {"H1", [](const Facts& f) { return f.live == LiveFact::elsewhere && !f.allow_loss; }, live_elsewhere},
    {"O1", [](const Facts& f) { return is_other_backend(f) && f.live == LiveFact::here && !f.allow_loss; },
     other_backend_live},
    {"X1", [](const Facts& f) { return cannot_be_judged(f) && !is_other_backend(f); }, sandbox_unknown},
    {"A1", [](const Facts& f) { return f.sandbox == SandboxFact::alive && !is_other_backend(f); },
     with_sandbox},
    {"A2", [](const Facts& f) { return f.sandbox == SandboxFact::stopped && !is_other_backend(f); },
     with_sandbox},
    {"C1", [](const Facts&) { return true; }, without_sandbox},
}};

constexpr std::array kBranches{Branch::a, Branch::b, Branch::c, Branch::d};

}  // namespace

StartDecision plan_start(const StartFacts& facts) {
  for (const Rule& rule : kRules) {
    if (!rule.applies(facts)) {
      continue;
    }
    StartDecision decision = rule.decide(facts);
    decision.rule = rule.name;
    for (const Branch branch : kBranches) {
      if (decision.branch != branch) {
        decision.rejected.push_back(
            {std::string(1, branch_letter(branch)), reject_reason(branch, facts, decision)});
      }
    }
    return decision;
  }
  return refuse(ErrorKind::internal, "", "no rule matched", "");  // unreachable: the last rule matches all
}

std::optional<Error> check_expectation(const StartDecision& decision, const std::vector<Branch>& expect,
                                       bool no_cold) {
  if (!decision.branch.has_value()) {
    return std::nullopt;  // refused already, for a reason of its own
  }
  const Branch branch = *decision.branch;
  const std::string found =
      "start would take branch " + std::string(1, branch_letter(branch)) + " (" + decision.why + ")";
  if (no_cold && branch == Branch::d) {
    return make_error(ErrorKind::refused, found + ", and --no-cold forbids a cold start",
                      "ascope-sandbox explain shows each branch with its reason");
  }
  std::string wanted;
  for (const Branch each : expect) {
    if (each == branch) {
      return std::nullopt;
    }
    wanted += (wanted.empty() ? "" : ",") + std::string(1, branch_letter(each));
  }
  if (wanted.empty()) {
    return std::nullopt;
  }
  return make_error(ErrorKind::refused, found + ", and --expect allows only " + wanted,
                    "ascope-sandbox explain shows each branch with its reason");
}

}  // namespace ascope
