// SPDX-License-Identifier: Apache-2.0
// The record that a state-changing command leaves, and that `explain` predicts: one schema,
// "ascope.receipt/1".
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/op_context.h"
#include "core/plan.h"
#include "core/tree/tree.h"

namespace ascope {

struct Evidence {
  std::string fact;    // "record", "sandbox", "workspace", "snapshot", "lease", …
  std::string value;   // "ours", "alive", "current", …
  std::string detail;  // "tree sb-1f… is named by the record (rev 12)"
};

struct Phase {
  std::string
      name;  // "lease", "claim", "attach", "restore", "entries", "projection", "exec", "snapshot", "commit"
  Millis duration{0};
};

struct Receipt {
  std::string id;          // random hex, 16 digits
  std::string command;     // "start", "run", "snapshot", …
  bool predicted = false;  // by explain / --dry-run
  std::string slot;        // written form
  std::string time;        // RFC 3339, when it began
  std::string host;
  std::string outcome = "done";           // done | refused | failed
  std::string error_kind, error_message;  // of a failure
  int exit_code = 0;

  int priority = 0;    // 1–4 of acquire; 0 where none
  std::string branch;  // "A"…"D", "external", ""
  std::string rule;
  std::string why;
  std::vector<Evidence> evidence;
  std::vector<RejectedBranch> rejected;
  std::vector<Phase> phases;

  std::string backend, sandbox, tree;
  std::string snapshot;    // the head when done
  std::string parent;      // the head before
  bool changed = false;    // a new head was committed
  std::string restored;    // snapshot id that was put back
  std::string stranded;    // snapshot id of work saved beside the history
  std::string safety;      // snapshot id saved before a restore
  std::string lost_since;  // RFC 3339: work after this is gone
  std::string lost_snapshot;
  std::vector<std::string> replaced_settings;  // "network: none → host"
  std::uint64_t fence = 0, rev = 0, claimed_over = 0;
  std::string foreign_writer;
  Millis lock_wait{0};
  std::string order;  // "kept" | "not" | "none"
  Millis frozen{0};
  std::string ids;                        // "range" | "single"
  std::vector<std::string> not_enforced;  // limits that hold only in part
  Json entries = Json::array();           // [{"path","action"}]
  Json projection = Json::object();       // counts and conflicts (projection.h)
  Json saved = nullptr;                   // {"read_bytes","stored_bytes"}: what the last save of it cost
  Json exec = nullptr;                    // {"exit_code","end","signal","duration_ms"}
  std::vector<TreeNote> notes;
  std::vector<std::string> warnings;
};

Json receipt_json(const Receipt& receipt);
Result<Receipt> parse_receipt(const Json& json);

// Measures a phase from construction to done() or destruction.
class PhaseTimer {
 public:
  PhaseTimer(Receipt& receipt, std::string name, const Clock& clock);
  ~PhaseTimer() { done(); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;
  void done();

 private:
  Receipt& receipt_;
  std::string name_;
  const Clock& clock_;
  Millis begin_;
  bool open_ = true;
};

}  // namespace ascope
