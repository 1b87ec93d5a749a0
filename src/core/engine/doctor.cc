// SPDX-License-Identifier: Apache-2.0
#include "core/engine/doctor.h"

#include <functional>

#include <fmt/format.h>

#include "core/base/random.h"
#include "core/engine/engine.h"
#include "core/engine/session.h"

namespace ascope {

namespace {

class Doctor {
 public:
  Doctor(EngineServices& services, const OpContext& ctx, SlotKey slot)
      : services_(services), ctx_(ctx), slot_(std::move(slot)) {}

  std::vector<DoctorCheck> run() {
    const bool state = step("state store", true, [&] { return check_state(); });
    const bool lease = step("leases", state && services_.has_leases(), [&] { return check_lease(); });
    const bool snapshots = step("snapshot store", services_.has_snapshots(), [&] { return check_blobs(); });
    const bool backend = step("backend", true, [&] { return check_backend(); });
    const bool ready = state && backend && (lease || !services_.has_leases());
    const bool started = step("start", ready, [&] { return start("D"); });
    const bool ran =
        step("run a command", started, [&] { return exec("echo well > probe && cat probe", "well\n"); });
    const bool saved = step("snapshot", ran && snapshots, [&] { return save(); });
    const bool removed = step("destroy", saved, [&] { return remove(false); });
    const bool back = step("restore", removed, [&] { return start("C"); });
    step("read back", back, [&] { return exec("cat probe", "well\n"); });
    step("clean up", started, [&] { return remove(true); });
    return std::move(checks_);
  }

 private:
  using Check = std::function<Result<std::string>()>;

  // Runs a check unless `possible` is false; true if it was healthy.
  bool step(std::string name, bool possible, const Check& check) {
    DoctorCheck& row = checks_.emplace_back();
    row.name = std::move(name);
    if (!possible) {
      row.skipped = true;
      return false;
    }
    const Millis begin = ctx_.clock->boottime();
    auto result = check();
    row.duration = ctx_.clock->boottime() - begin;
    if (!result) {
      row.problem = std::move(result).error();
      return false;
    }
    row.detail = std::move(*result);
    return true;
  }

  Result<std::string> check_state() {
    ASCOPE_TRY_ASSIGN(StateStore * state, services_.state());
    const std::string name = slot_.store_name();
    const std::string key = fmt::format("{}doctor", kAuxPrefix);
    ASCOPE_TRY_ASSIGN(const bool stored, state->swap(ctx_, name, key, std::nullopt, "1"));
    ASCOPE_TRY_ASSIGN(const bool stale, state->swap(ctx_, name, key, "0", "2"));
    ASCOPE_TRY_ASSIGN(const auto value, state->read(ctx_, name, key));
    ASCOPE_TRY(state->remove(ctx_, name, key));
    if (!stored || stale || value != "1") {
      return make_error(ErrorKind::store_unavailable, "the state store does not compare before it swaps",
                        "use another kind of state store");
    }
    return services_.profile().state_store;
  }

  Result<std::string> check_lease() {
    ASCOPE_TRY_ASSIGN(LeaseStore * leases, services_.leases());
    ASCOPE_TRY_ASSIGN(const HostFacts host, services_.host());
    LeaseRequest request;
    request.name = slot_.store_name();
    request.token = random_hex(16);
    request.holder = {host.id,  host.name,       host.boot, host.pid_namespace,
                      host.pid, host.start_time, host.user, host.command};
    request.wait = Millis(0);
    ASCOPE_TRY_ASSIGN(const LeaseGrant grant, leases->acquire(ctx_, request));
    LeaseRequest second = request;
    second.token = random_hex(16);
    const auto refused = leases->acquire(ctx_, second);
    ASCOPE_TRY_ASSIGN(const bool released, leases->release(ctx_, grant));
    if (refused || !released) {
      return make_error(ErrorKind::store_unavailable, "the lease store gave one lease to two holders",
                        "use another kind of lease store");
    }
    return fmt::format("{}, order {}", services_.profile().lock_store, leases->order());
  }

  Result<std::string> check_blobs() {
    ASCOPE_TRY_ASSIGN(BlobStore * blobs, services_.blobs());
    const std::string key = "doctor-" + random_hex(8);
    ViewSource data("well");
    ASCOPE_TRY_ASSIGN(const auto stored, blobs->put(ctx_, key, data));
    ASCOPE_TRY_ASSIGN(const auto source, blobs->get(ctx_, key));
    ASCOPE_TRY_ASSIGN(const std::string bytes, read_all(*source, 64));
    ASCOPE_TRY(blobs->remove(ctx_, key));
    if (!stored || bytes != "well") {
      return make_error(ErrorKind::corrupt, "the snapshot store gave back other bytes than were put",
                        "use another snapshot store");
    }
    return services_.profile().snapshot_store;
  }

  Result<std::string> check_backend() {
    ASCOPE_TRY_ASSIGN(Backend * backend, services_.backend());
    ASCOPE_TRY_ASSIGN(const auto problems, backend->diagnose(ctx_));
    if (!problems.empty()) {
      return Error(problems.front());
    }
    return std::string(services_.backend_kind().name);
  }

  Result<std::string> start(std::string_view want) {
    Receipt receipt;
    receipt.id = random_hex(8);
    ASCOPE_TRY(start_slot(services_, ctx_, slot_, StartOptions{}, receipt));
    if (receipt.branch != want) {
      return make_error(ErrorKind::internal,
                        fmt::format("branch {} was expected, {} came", want, receipt.branch));
    }
    return fmt::format("branch {}", receipt.branch);
  }

  Result<std::string> exec(const std::string& script, std::string_view want) {
    ExecOptions options;
    options.request.argv = {"sh", "-c", script};
    options.request.job = "doctor";
    StringSink out(4096);
    StringSink err(4096);
    ExecStreams streams;
    streams.out = &out;
    streams.err = &err;
    Receipt receipt;
    ASCOPE_TRY_ASSIGN(const ExecOutcome outcome,
                      exec_in_slot(services_, ctx_, slot_, options, streams, receipt));
    const std::string said = out.take();
    if (outcome.exit_code() != 0 || said != want) {
      return make_error(ErrorKind::backend_unavailable, fmt::format("a command gave exit code {} and '{}'",
                                                                    outcome.exit_code(), said + err.take()));
    }
    return fmt::format("{} ms", outcome.duration.count());
  }

  Result<std::string> save() {
    Receipt receipt;
    ASCOPE_TRY(snapshot_slot(services_, ctx_, slot_, SnapshotOptions{}, receipt));
    return receipt.snapshot;
  }

  Result<std::string> remove(bool purge) {
    Receipt receipt;
    RemoveOptions options;
    options.purge = purge;
    options.allow_loss = purge;
    ASCOPE_TRY(remove_slot(services_, ctx_, slot_, options, receipt));
    if (purge) {
      ASCOPE_TRY_ASSIGN(StateStore * state, services_.state());
      ASCOPE_TRY_ASSIGN(const auto keys, state->keys(ctx_, slot_.store_name()));
      for (const auto& key : keys) {
        ASCOPE_TRY(state->remove(ctx_, slot_.store_name(), key));
      }
    }
    return std::string();
  }

  EngineServices& services_;
  const OpContext& ctx_;
  SlotKey slot_;
  std::vector<DoctorCheck> checks_;
};

}  // namespace

std::vector<DoctorCheck> run_doctor(EngineServices& services, const OpContext& ctx) {
  SlotIds ids;
  ids.agent = "ascope-doctor";
  ids.session = "doctor-" + random_hex(8);
  ids.scope = Scope::session;
  auto slot = SlotKey::resolve(ids, nullptr);
  if (!slot) {
    DoctorCheck failed;
    failed.name = "slot";
    failed.problem = std::move(slot).error();
    return {failed};
  }
  return Doctor(services, ctx, std::move(*slot)).run();
}

}  // namespace ascope
