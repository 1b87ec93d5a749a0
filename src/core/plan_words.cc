// SPDX-License-Identifier: Apache-2.0
#include "core/plan_words.h"

#include <array>

namespace ascope {

bool is_up(const StartFacts& f) {
  return f.sandbox == SandboxFact::alive || f.sandbox == SandboxFact::stopped;
}

bool has_usable_snapshot(const StartFacts& f) {
  return f.snapshot == SnapshotFact::usable || f.snapshot == SnapshotFact::foreign_newer;
}

bool tree_is_gone(const StartFacts& f) {
  return f.work == WorkFact::none || f.work == WorkFact::lost;
}

bool is_live(const StartFacts& f) {
  return f.live != LiveFact::no;
}

bool is_other_backend(const StartFacts& f) {
  return f.state == StateFact::other_backend;
}

std::string describe_sandbox(const StartFacts& f) {
  if (is_other_backend(f)) {
    return "the sandbox belongs to another backend";
  }
  switch (f.sandbox) {
    case SandboxFact::none:
      return "there is no sandbox";
    case SandboxFact::alive:
      return "the sandbox is alive";
    case SandboxFact::stopped:
      return "the sandbox is stopped with its disk";
    case SandboxFact::gone:
      return "the sandbox is gone";
    case SandboxFact::not_ours:
      return "the sandbox with that id is not ours";
    case SandboxFact::moving:
      return "the sandbox is in a transition";
    case SandboxFact::unknown:
      return "the provider cannot say whether the sandbox lives";
  }
  return {};
}

std::string describe_tree(const StartFacts& f) {
  switch (f.work) {
    case WorkFact::none:
      return "there is no workspace tree";
    case WorkFact::current:
      return f.snapshot == SnapshotFact::foreign_newer
                 ? "another program has written a newer snapshot since the tree was marked"
                 : "the workspace tree is current";
    case WorkFact::stale_clean:
      return "the workspace tree is stale and equals a saved snapshot";
    case WorkFact::stale_dirty:
      return "the workspace tree is stale and may hold unsaved work";
    case WorkFact::lost:
      return "the workspace tree is lost";
    case WorkFact::partial:
      return "a restore of the workspace tree was left half done";
    case WorkFact::unmarked:
      return "the workspace tree carries no mark of this slot";
    case WorkFact::unknown:
      return "the workspace tree could not be probed";
  }
  return {};
}

std::string describe_snapshot(const StartFacts& f) {
  switch (f.snapshot) {
    case SnapshotFact::never:
      return "the slot never had a snapshot";
    case SnapshotFact::usable:
      return "its snapshot is usable";
    case SnapshotFact::missing:
      return "its snapshot is missing from the store";
    case SnapshotFact::corrupt:
      return "its snapshot is damaged";
    case SnapshotFact::store_down:
      return "the snapshot store cannot be reached";
    case SnapshotFact::foreign_newer:
      return "another program has overwritten its snapshot with a newer one";
  }
  return {};
}

namespace {

// Whether the decision fell before sandbox, tree and snapshot were weighed against one another.
bool decided_at_the_gate(const StartDecision& d) {
  return d.rule != "A1" && d.rule != "A2" && d.rule != "C1";
}

std::string reject_warm(const StartFacts& f) {
  if (f.work == WorkFact::current && f.snapshot != SnapshotFact::foreign_newer) {
    return {};
  }
  return describe_tree(f);
}

std::string reject_restore(const StartFacts& f, const StartDecision& d) {
  if (d.branch == Branch::a) {
    return d.mark_tree ? "the tree that is there is kept" : describe_tree(f);
  }
  if (f.work == WorkFact::unknown) {
    return describe_tree(f);
  }
  return describe_snapshot(f);
}

std::string reject_cold(const StartFacts& f, const StartDecision& d) {
  if (d.branch == Branch::a) {
    return d.mark_tree ? "the tree that is there is kept" : describe_tree(f);
  }
  if (has_usable_snapshot(f)) {
    return "the slot has a snapshot";
  }
  if (f.work == WorkFact::unknown) {
    return describe_tree(f);
  }
  return f.allow_loss ? describe_tree(f) + ", and it cannot be saved first"
                      : describe_snapshot(f) + ", and --allow-loss was not given";
}

}  // namespace

std::string reject_reason(Branch branch, const StartFacts& f, const StartDecision& d) {
  if (decided_at_the_gate(d)) {
    if (!d.branch.has_value()) {
      return d.why;
    }
    return f.state == StateFact::tombstone ? "the slot was removed" : "no record names a tree or a snapshot";
  }
  const bool up = is_up(f) && !is_other_backend(f);
  switch (branch) {
    case Branch::a:
      return reject_warm(f);
    case Branch::b:
      return up ? reject_restore(f, d) : describe_sandbox(f);
    case Branch::c:
      return up ? describe_sandbox(f) : reject_restore(f, d);
    case Branch::d:
      return reject_cold(f, d);
  }
  return {};
}

std::string_view to_string(LeaseFact fact) {
  constexpr std::array<std::string_view, 4> kNames{"held", "busy", "lost", "store_down"};
  return kNames.at(static_cast<std::size_t>(fact));
}

std::string_view to_string(StateFact fact) {
  constexpr std::array<std::string_view, 8> kNames{"absent",        "tombstone", "ours",  "foreign",
                                                   "other_backend", "corrupt",   "newer", "unreadable"};
  return kNames.at(static_cast<std::size_t>(fact));
}

std::string_view to_string(LiveFact fact) {
  constexpr std::array<std::string_view, 3> kNames{"no", "here", "elsewhere"};
  return kNames.at(static_cast<std::size_t>(fact));
}

std::string_view to_string(SandboxFact fact) {
  constexpr std::array<std::string_view, 7> kNames{"none",     "alive",  "stopped", "gone",
                                                   "not_ours", "moving", "unknown"};
  return kNames.at(static_cast<std::size_t>(fact));
}

std::string_view to_string(WorkFact fact) {
  constexpr std::array<std::string_view, 8> kNames{"none", "current", "stale_clean", "stale_dirty",
                                                   "lost", "partial", "unmarked",    "unknown"};
  return kNames.at(static_cast<std::size_t>(fact));
}

std::string_view to_string(SnapshotFact fact) {
  constexpr std::array<std::string_view, 6> kNames{"never",   "usable",     "missing",
                                                   "corrupt", "store_down", "foreign_newer"};
  return kNames.at(static_cast<std::size_t>(fact));
}
char branch_letter(Branch branch) {
  return static_cast<char>('A' + static_cast<int>(branch));
}

}  // namespace ascope
