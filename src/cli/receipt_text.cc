// SPDX-License-Identifier: Apache-2.0
#include "cli/receipt_text.h"

#include <fmt/format.h>

#include "cli/output.h"

namespace ascope {

namespace {

std::string short_id(const std::string& id) {
  return id.substr(0, 8);
}

void add(std::string& out, std::string_view name, std::string_view value) {
  if (!value.empty()) {
    out += fmt::format("{:<12}{}\n", std::string(name) + ":", printable(value));
  }
}

std::string branch_text(const Receipt& receipt) {
  if (receipt.branch.empty()) {
    return receipt.outcome == "refused" ? "refused" : "";
  }
  return receipt.branch;
}

void add_lists(std::string& out, const Receipt& receipt) {
  for (const auto& item : receipt.evidence) {
    add(out, "evidence", fmt::format("{} is {}: {}", item.fact, item.value, item.detail));
  }
  for (const auto& item : receipt.rejected) {
    add(out, "not " + item.branch, item.reason);
  }
  for (const auto& item : receipt.replaced_settings) {
    add(out, "replaced", item);
  }
  for (const auto& item : receipt.not_enforced) {
    add(out, "unenforced", item);
  }
  for (const auto& item : receipt.notes) {
    add(out, "note", item.path.empty() ? item.what : fmt::format("{}: {}", item.path, item.what));
  }
  for (const auto& item : receipt.warnings) {
    add(out, "warning", item);
  }
}

std::string phases_text(const Receipt& receipt) {
  std::string text;
  for (const auto& phase : receipt.phases) {
    text += fmt::format("{}{} {} ms", text.empty() ? "" : ", ", phase.name, phase.duration.count());
  }
  return text;
}

}  // namespace

std::string receipt_line(const Receipt& receipt) {
  std::string line;
  if (!receipt.branch.empty()) {
    line = fmt::format("Branch {}", receipt.branch);
    if (!receipt.rule.empty()) {
      line += fmt::format(" ({})", receipt.rule);
    }
    line += fmt::format(": {}", receipt.why);
  } else if (receipt.outcome == "refused") {
    line = fmt::format("Refused ({}): {}", receipt.rule, receipt.why);
  } else if (!receipt.why.empty()) {
    line = receipt.why;
  } else {
    line = receipt.command;
  }
  if (!receipt.restored.empty()) {
    line += fmt::format("; restored {}", short_id(receipt.restored));
  }
  if (!receipt.stranded.empty()) {
    line += fmt::format("; stranded work is snapshot {}", short_id(receipt.stranded));
  }
  if (!receipt.lost_since.empty()) {
    line += fmt::format("; work since {} is lost", receipt.lost_since);
  }
  if (!receipt.lost_snapshot.empty()) {
    line += fmt::format("; snapshot {} was given up", short_id(receipt.lost_snapshot));
  }
  return printable(line) + ".\n";
}

std::string receipt_text(const Receipt& receipt) {
  std::string out;
  add(out, "receipt", receipt.id);
  add(out, "command", receipt.command + (receipt.predicted ? " (predicted)" : ""));
  add(out, "slot", receipt.slot);
  add(out, "time", receipt.time);
  add(out, "host", receipt.host);
  add(out, "outcome", receipt.outcome);
  if (!receipt.error_message.empty()) {
    add(out, "error",
        fmt::format("{} ({}, exit {})", receipt.error_message, receipt.error_kind, receipt.exit_code));
  }
  if (receipt.priority > 0) {
    add(out, "priority", std::to_string(receipt.priority));
  }
  add(out, "branch", branch_text(receipt));
  add(out, "rule", receipt.rule);
  add(out, "why", receipt.why);
  add(out, "sandbox", receipt.sandbox);
  add(out, "snapshot", receipt.snapshot);
  add(out, "parent", receipt.parent);
  add(out, "restored", receipt.restored);
  add(out, "stranded", receipt.stranded);
  add(out, "safety", receipt.safety);
  add(out, "lost since", receipt.lost_since);
  add(out, "lost", receipt.lost_snapshot);
  if (receipt.exec.is_object()) {
    add(out, "exit", fmt::format("{}", dump_json(receipt.exec.value("exit_code", Json(nullptr)))));
  }
  add_lists(out, receipt);
  if (receipt.fence > 0) {
    add(out, "lease",
        fmt::format("fence {}, revision {}, waited {} ms, order {}", receipt.fence, receipt.rev,
                    receipt.lock_wait.count(), receipt.order));
  }
  add(out, "phases", phases_text(receipt));
  return out;
}

}  // namespace ascope
