// SPDX-License-Identifier: Apache-2.0
// lock run: a program of this host that holds a slot's lease for as long as it runs.
#include <array>
#include <atomic>

#include <fmt/format.h>

#include "cli/exit_code.h"
#include "cli/lock_common.h"
#include "cli/supervise.h"
#include "core/lease/lease_keeper.h"

namespace ascope {

namespace {

constexpr std::array kPositionals{kLockSlot};
constexpr int kTimedOut = 124;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

struct Held {
  LeaseGrant grant;
  bool joined = false;  // the lease is another's, and stays
};

Result<Held> hold(App& app, const Args& args, const SlotKey& slot, LeaseStore& store,
                  const Profile& profile) {
  ASCOPE_TRY_ASSIGN(const LockOptions options, app.lock_options(args));
  Held held;
  if (!options.lease_token.empty()) {
    ASCOPE_TRY_ASSIGN(held.grant, join_lease(store, app.ctx(), slot.store_name(), options.lease_token));
    held.joined = true;
    return held;
  }
  ASCOPE_TRY_ASSIGN(const LeaseRequest request, lock_request(app, args, slot, profile.lock_ttl));
  ASCOPE_TRY_ASSIGN(held.grant, store.acquire(app.ctx(), request));
  return held;
}

OpContext to_the_end(const App& app) {
  OpContext ctx = app.ctx();
  ctx.uninterruptible = true;
  return ctx;
}

Result<int> not_started(App& app, const Error& error) {
  const int code = error.kind == ErrorKind::not_found ? kNotFound
                   : error.kind == ErrorKind::denied  ? kNotExecutable
                                                      : kExitOurFailure;
  app.out().error(error, code);
  return code;
}

// Runs the program until it ends or the lease does. An Error is a lost lease.
Result<int> run_under(App& app, const Args& args, LeaseStore& store, const Held& held,
                      const Profile& profile) {
  auto program = SupervisedProgram::start(args.argv, {{"ASCOPE_LEASE", held.grant.token}});
  if (!program) {
    const Error& error = program.error();
    if (!held.joined) {
      ASCOPE_TRY(store.release(to_the_end(app), held.grant));
    }
    return not_started(app, error);
  }
  LeaseKeeper keeper(store, held.grant, *app.ctx().clock, profile.max_hold.value_or(Millis(0)),
                     [&program] { program->end_soon(); });
  ASCOPE_TRY_ASSIGN(const int status, program->wait());
  if (keeper.is_over_max_hold()) {
    static_cast<void>(keeper.release(to_the_end(app)).has_value());  // says no more than what follows
    app.out().warn("the command was ended: lock.max_hold, " + format_duration(*profile.max_hold) +
                   ", has passed");
    return kTimedOut;
  }
  ASCOPE_TRY(held.joined ? keeper.check() : keeper.release(to_the_end(app)));
  return shell_code(status);
}

Result<int> lock_run(App& app, const Args& args) {
  if (args.argv.empty()) {
    return make_error(ErrorKind::usage, "no command to run", "ascope-sandbox lock run -- COMMAND ARG…");
  }
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const Profile* profile, app.profile());
  ASCOPE_TRY_ASSIGN(const auto store, open_lock_store(app));
  ASCOPE_TRY_ASSIGN(const Held held, hold(app, args, slot, *store, *profile));
  return run_under(app, args, *store, held, *profile);
}

}  // namespace

extern const Command kLockRunCommand;
const Command kLockRunCommand{
    "lock run",
    "Locks",
    "run a program of this host while holding a slot's lease",
    "Takes the lease, runs ARGV with the lease's token in ASCOPE_LEASE, and gives the lease back. Every "
    "command below "
    "it that is given the same slot works under that lease and waits for nobody.\n\n"
    "ARGV's own exit code is passed on. INT, TERM, HUP and QUIT reach ARGV; a second INT or TERM kills it "
    "with all "
    "that it started. If the lease is lost, ARGV and all that it started get TERM, after two seconds KILL, "
    "and the "
    "exit code is 125.",
    {},
    kPositionals,
    true,
    "ascope-sandbox lock run -- sh -c 'ascope-sandbox start && ascope-sandbox exec -- make test'",
    "124 125 126 127 128+n",
    lock_run};

}  // namespace ascope
