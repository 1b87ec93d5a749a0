// SPDX-License-Identifier: Apache-2.0
// The composition root: turns the command line, the profile and the URLs in it into objects, on first use,
// and owns them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "core/engine/engine.h"
#include "core/engine/services.h"

namespace ascope {

class App {
 public:
  explicit App(const Args& globals);
  ~App();
  App(const App&) = delete;
  App& operator=(const App&) = delete;
  // Reads the global options and finds the folders; `usage` for a bad combination. Called once, by main.
  Result<void> setup();

  [[nodiscard]] Output& out() { return out_; }
  [[nodiscard]] const OpContext& ctx() const { return ctx_; }
  // $XDG_STATE_HOME/ascope-sandbox and its like, absolute; folders are made by who writes to them.
  [[nodiscard]] const std::string& state_dir() const { return state_dir_; }
  [[nodiscard]] const std::string& cache_dir() const { return cache_dir_; }
  [[nodiscard]] const std::string& config_dir() const { return config_dir_; }
  [[nodiscard]] const std::string& cwd() const { return cwd_; }

  // The profile, loaded once; its warnings are shown then.
  Result<const Profile*> profile();
  // Profile inputs as given, for `profile` commands.
  Result<ProfileInputs> profile_inputs();
  // The slot of this command: the written form at `args.positionals[index]`, or ids from flags, environment
  // and profile; both at once is `usage`. Says on stderr when a fallback decided.
  Result<SlotKey> slot(const Args& args, std::size_t index = 0);
  // "[SLOT@]SNAP" → slot (this command's if none is written) and the rest.
  Result<std::pair<SlotKey, std::string>> slot_and_snapshot(const std::string& text);
  // The engine's services for the profile.
  Result<EngineServices*> services();
  // Those for another one, which outlives them.
  Result<std::unique_ptr<EngineServices>> services_of(const Profile& profile);
  // --wait, --lease, ASCOPE_LEASE.
  Result<LockOptions> lock_options(const Args& args);

  // Ends a state-changing command: completes the receipt with `result`, appends it to the slot's list (also a
  // refusal or failure), writes --status-file, prints it on stdout (`text`: what -o text shows), and gives
  // the exit code.
  Result<int> finish(const SlotKey& slot, Receipt& receipt, const Result<void>& result,
                     std::string_view text);
  // The same without printing, for exec and run.
  void record(const SlotKey& slot, Receipt& receipt, const Error* failure);
  // Completes the receipt and writes it to --status-file, if there is one; keeps it nowhere else.
  void write_status(Receipt& receipt, const Error* failure);
  // Writes an error that never became a receipt to --status-file. Nothing without that option or if one was
  // written.
  void write_status_error(const Error& error, int code);
  // A receipt with id, command, slot, time and host filled in.
  Result<Receipt> begin(std::string_view command, const SlotKey& slot);

 private:
  Args globals_;
  Output out_;
  OpContext ctx_;
  std::string state_dir_, cache_dir_, config_dir_, cwd_, home_;
  bool status_written_ = false;
  bool fallback_said_ = false;  // that the slot is not the one of a user
  std::optional<Profile> profile_;
  std::unique_ptr<EngineServices> services_;
};

}  // namespace ascope
