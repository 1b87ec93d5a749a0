// SPDX-License-Identifier: Apache-2.0
// The operations on a slot, one file each (engine/NAME.cc). Every one fills `receipt` as it goes, so that a
// failure leaves a true record too; the caller (cli) stores and shows it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/services.h"
#include "core/receipt.h"
#include "core/slot_key.h"

namespace ascope {

struct LockOptions {
  std::optional<Millis> wait;  // --wait
  std::string lease_token;     // --lease, ASCOPE_LEASE
};

struct StartOptions {
  LockOptions lock;
  std::vector<Branch> expect;  // --expect A,B
  bool no_cold = false;
  bool allow_loss = false;
  std::string external;    // --external ID: priority 1
  std::string from_state;  // --from-state FILE's content: priority 2
};

// Makes the slot's state without starting. `conflict` if it exists (unless if_missing).
struct CreateOptions {
  LockOptions lock;
  bool if_missing = false;
  std::string external, from_state;
};
Result<void> create_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                         const CreateOptions& options, Receipt& receipt);

// Predicts `start` without side effects; the decision is the object that start executes. A refusal is a
// receipt with outcome "refused", not an Error.
Result<void> explain_start(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                           const StartOptions& options, Receipt& receipt);
Result<void> start_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                        const StartOptions& options, Receipt& receipt);

// Runs a command in the running sandbox. Takes the local lock shared, no lease, unless `locked`.
struct ExecOptions {
  LockOptions lock;
  bool locked = false;  // --lock
  ExecRequest request;
};
Result<ExecOutcome> exec_in_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                                 const ExecOptions& options, const ExecStreams& streams, Receipt& receipt);

// The whole call: start, exec, snapshot, commit, release.
struct RunOptions {
  StartOptions start;
  ExecRequest request;
  std::string release;  // "" = the profile's
  std::string tag;
  // Sends a signal to the command (the CLI writes it to streams.events): when the lease is lost. May be
  // empty.
  std::function<void(int signal)> send_signal;
  // Called with true just before the command starts and with false when it has ended: whose signals are. May
  // be empty.
  std::function<void(bool running)> on_exec;
};
Result<ExecOutcome> run_in_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                                const RunOptions& options, const ExecStreams& streams, Receipt& receipt);

struct SnapshotOptions {
  LockOptions lock;
  std::string tag;
};
Result<void> snapshot_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                           const SnapshotOptions& options, Receipt& receipt);

// Saves, then stops (the disk stays).
Result<void> stop_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                       const LockOptions& lock, Receipt& receipt);
// Saves, then destroys the sandbox. purge: state (tombstone) and snapshots go too; nothing is saved then.
struct RemoveOptions {
  LockOptions lock;
  bool purge = false;
  bool allow_loss = false;
};
Result<void> remove_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                         const RemoveOptions& options, Receipt& receipt);

// What create, snapshot, stop, rm or purge would do, in receipt.why; changes nothing. `not_found` as the
// command itself.
Result<void> preview_command(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                             std::string_view command, Receipt& receipt);

// `target` is where it goes, `source` whose history `snapshot` is looked up in (the same slot, or a fork).
struct RestoreOptions {
  LockOptions lock;
  std::string snapshot;            // as the user wrote it: id, prefix, latest~2, tag
  std::vector<std::string> paths;  // only these, relative to the workspace root
  bool kill = false;               // --kill: end running commands without waiting
  bool allow_loss = false;
  bool dry_run = false;  // fills receipt.notes with the diff through `changes`
  std::vector<std::pair<char, std::string>>* changes = nullptr;
};
Result<void> restore_slot(EngineServices& services, const OpContext& ctx, const SlotKey& source,
                          const SlotKey& target, const RestoreOptions& options, Receipt& receipt);
Result<void> undo_restore(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                          const RestoreOptions& options, Receipt& receipt);

// Looks a snapshot up in a slot's history: id, unique prefix (≥ 4), "latest", "latest~2", a tag. `not_found`
// names near ones; `usage` for an ambiguous prefix.
Result<HistoryItem> find_snapshot(const Aux& aux, const std::optional<HeadRef>& head, std::string_view name);

}  // namespace ascope
