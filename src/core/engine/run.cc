// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include <fmt/format.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/engine/finish.h"
#include "core/engine/import.h"
#include "core/engine/save.h"
#include "core/engine/start.h"

namespace ascope {

namespace {

Json exec_json(const ExecOutcome& outcome) {
  std::string end;
  switch (outcome.end) {
    case ExecEnd::exited:
      end = "exited";
      break;
    case ExecEnd::signaled:
      end = "signaled";
      break;
    case ExecEnd::timed_out:
      end = "timed_out";
      break;
    case ExecEnd::not_found:
      end = "not_found";
      break;
    case ExecEnd::not_executable:
      end = "not_executable";
      break;
    case ExecEnd::sandbox_ended:
      end = "sandbox_ended";
      break;
  }
  return Json{{"exit_code", outcome.exit_code()},
              {"end", end},
              {"signal", outcome.signal},
              {"killed", outcome.killed},
              {"duration_ms", outcome.duration.count()}};
}

// The profile's present variables below the call's own: a sandbox that runs already knows those of its start.
// A relative working folder is below the workspace root.
ExecRequest with_environment(const Profile& profile, ExecRequest request) {
  if (!request.cwd.empty()) {
    request.cwd = absolute_path(request.cwd, profile.workspace_root);
  }
  request.environment.insert(profile.environment.begin(), profile.environment.end());
  return request;
}

Error not_running(const SlotKey& slot, std::string_view what) {
  return make_error(ErrorKind::not_found, fmt::format("{}: {}", slot.written(), what),
                    fmt::format("'ascope-sandbox start {}' brings it up; 'run' does both", slot.written()));
}

}  // namespace

Result<void> mark_dirty(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                        const SlotView& view) {
  constexpr int kTries = 20;  // a holder writes a handful of times
  const std::string tree = view.record.meta->live->tree;
  SlotView now = view;
  for (int i = 0; i < kTries; ++i) {
    SlotMeta meta = *now.record.meta;
    if (!meta.live->clean) {
      return ok();
    }
    meta.rev += 1;
    meta.live->clean = false;
    meta.live->since = format_time(ctx.clock->wall());
    const std::string bytes = build_record(now.record.document_text, false, meta);
    ASCOPE_TRY_ASSIGN(StateStore * state, services.state());
    ASCOPE_TRY_ASSIGN(const bool swapped,
                      state->swap(ctx, slot.store_name(), kRecordKey, now.record.bytes, bytes));
    if (swapped) {
      return ok();
    }
    // A holder has claimed or saved, or another exec has set the same mark: the tree may still be this one.
    ASCOPE_TRY_ASSIGN(now, read_slot(services, ctx, slot));
    if (now.record.kind != RecordClass::ours || !now.record.meta->live ||
        now.record.meta->live->tree != tree) {
      break;
    }
  }
  return make_error(ErrorKind::conflict,
                    fmt::format("the state of {} changed at this very moment", slot.written()),
                    "run the command again");
}

namespace {

Result<AttachedSlot> attach(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                            const SlotView& view, bool peek) {
  const SlotRecord& record = view.record;
  ASCOPE_TRY(require_readable(slot, record));
  if (record.kind == RecordClass::absent || record.kind == RecordClass::tombstone) {
    return not_running(slot, "there is no such slot");
  }
  std::string id = external_id(view, StartOptions{});
  const bool external = !id.empty();
  if (!external) {
    if (record.kind != RecordClass::ours || !record.meta->live) {
      return not_running(slot, "it has no sandbox");
    }
    ASCOPE_TRY_ASSIGN(const HostFacts host, services.host());
    const LiveMark& live = *record.meta->live;
    if (live.backend != services.backend_kind().name) {
      return not_running(slot, fmt::format("its sandbox is of backend '{}'", live.backend));
    }
    if (live.bound && *live.bound != host.id) {
      return not_running(slot, fmt::format("its sandbox is on host {}", *live.bound));
    }
    id = live.sandbox.value_or("");
  }
  ASCOPE_TRY_ASSIGN(Backend * backend, services.backend());
  auto sandbox = backend->attach(ctx, id);
  if (!sandbox) {
    if (sandbox.error().kind == ErrorKind::not_found) {
      return not_running(slot, fmt::format("sandbox '{}' is gone", id));
    }
    return std::move(sandbox).error();
  }
  AttachedSlot out;
  ASCOPE_TRY_ASSIGN(out.info, peek ? (*sandbox)->peek(ctx) : (*sandbox)->info(ctx));
  if (!external && out.info.slot != slot.store_name()) {
    return not_running(slot, fmt::format("sandbox '{}' belongs to another slot", id));
  }
  out.sandbox = std::move(*sandbox);
  out.external = external;
  return out;
}

}  // namespace

Result<AttachedSlot> attach_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                                 const SlotView& view) {
  return attach(services, ctx, slot, view, false);
}

Result<ExecOutcome> exec_in_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                                 const ExecOptions& options, const ExecStreams& streams, Receipt& receipt) {
  SessionOptions session_options;
  session_options.local = options.locked ? LockMode::commit : LockMode::shared;
  session_options.lease = options.locked;
  session_options.wait = options.lock.wait;
  session_options.lease_token = options.lock.lease_token;
  ASCOPE_TRY_ASSIGN(auto session, SlotSession::open(services, ctx, slot, session_options, receipt));
  // The sandbox may end by its idle timeout between the look and the command: then once more through `start`.
  constexpr int kAttempts = 5;
  for (int attempt = 1;; ++attempt) {
    ASCOPE_TRY_ASSIGN(const SlotView view, read_slot(services, ctx, slot));
    ASCOPE_TRY_ASSIGN(AttachedSlot attached, attach(services, ctx, slot, view, true));
    if (attached.info.phase != SandboxPhase::running) {
      return not_running(slot, fmt::format("its sandbox is {}", to_string(attached.info.phase)));
    }
    receipt.sandbox = attached.info.id;
    receipt.tree = attached.info.tree;
    if (!attached.external) {
      ASCOPE_TRY(mark_dirty(services, ctx, slot, view));
    }
    PhaseTimer timer(receipt, "exec", *ctx.clock);
    auto outcome =
        attached.sandbox->exec(ctx, with_environment(services.profile(), options.request), streams);
    if (outcome) {
      receipt.exec = exec_json(*outcome);
      ASCOPE_TRY(session->close(ctx));
      return outcome;
    }
    if (outcome.error().kind != ErrorKind::not_found || attempt == kAttempts) {
      return std::move(outcome).error();
    }
    ASCOPE_TRY(session->close(ctx));
    Receipt started = receipt;
    ASCOPE_TRY(start_slot(services, ctx, slot, StartOptions{options.lock, {Branch::a}, true, false, {}, {}},
                          started));
    ASCOPE_TRY_ASSIGN(session, SlotSession::open(services, ctx, slot, session_options, receipt));
  }
}

Result<ExecOutcome> run_in_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                                const RunOptions& options, const ExecStreams& streams, Receipt& receipt) {
  if (!options.tag.empty()) {
    ASCOPE_TRY(check_tag(options.tag));
  }
  SessionOptions session_options;
  session_options.wait = options.start.lock.wait;
  session_options.lease_token = options.start.lock.lease_token;
  session_options.on_lost = [&options] {
    if (options.send_signal) {
      options.send_signal(SIGTERM);
    }
  };
  ASCOPE_TRY_ASSIGN(auto session, SlotSession::open(services, ctx, slot, session_options, receipt));
  ASCOPE_TRY_ASSIGN(StartedSlot started,
                    start_under_session(services, ctx, slot, *session, options.start, true, receipt));
  ASCOPE_TRY(session->relock(ctx, LockMode::commit));
  // From here on a signal is the command's; what follows it is done all the same.
  OpContext after = ctx;
  after.uninterruptible = true;
  const auto say_running = [&](bool running) {
    if (options.on_exec) {
      options.on_exec(running);
    }
  };
  ASCOPE_TRY(ctx.check("starting the command"));
  say_running(true);
  auto outcome = [&] {
    PhaseTimer timer(receipt, "exec", *ctx.clock);
    return started.sandbox->exec(after, with_environment(services.profile(), options.request), streams);
  }();
  say_running(false);
  if (outcome) {
    receipt.exec = exec_json(*outcome);
  }
  if (auto held = session->check(); !held) {
    return std::move(held).error().with_hint(
        fmt::format("nothing was written to the slot; the work is kept in sandbox '{}'", started.info.id));
  }
  if (!outcome) {
    return std::move(outcome).error();
  }
  ASCOPE_TRY_ASSIGN(started.info, started.sandbox->info(after));
  AttachedSlot attached{std::move(started.sandbox), std::move(started.info), started.external};
  FinishOptions finish;
  finish.kind = "run";
  finish.tag = options.tag;
  finish.release = options.release.empty() ? services.profile().release : options.release;
  ASCOPE_TRY(finish_call(services, after, *session, attached, finish, receipt));
  ASCOPE_TRY(session->close(after));
  return outcome;
}

}  // namespace ascope
