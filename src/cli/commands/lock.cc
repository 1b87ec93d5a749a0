// SPDX-License-Identifier: Apache-2.0
// lock acquire, release, ls, wait, break: leases by hand.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/lock_common.h"
#include "core/base/file.h"
#include "core/base/json.h"

namespace ascope {

namespace {

constexpr std::array kPositionals{kLockSlot};
constexpr Millis kDefaultHold{30 * 60 * 1000};

// Where `lock acquire` leaves its token for a `lock release` that was given none.
std::string token_file(const App& app, const SlotKey& slot) {
  return app.state_dir() + "/leases/" + slot.file_name();
}

std::string slot_of(const LeaseInfo& info) {
  return SlotKey::from_store_name(info.name).written();
}

std::string_view standing(const LeaseInfo& info) {
  return info.proven_dead ? "dead" : info.remaining ? "held" : "expired";
}

Json lease_json(const LeaseInfo& info) {
  Json holder;
  holder["host"] = bytes_json(info.holder.host);
  holder["host_name"] = bytes_json(info.holder.host_name);
  holder["boot"] = bytes_json(info.holder.boot);
  holder["pid_namespace"] = info.holder.pid_namespace;
  holder["pid"] = info.holder.pid;
  holder["start_time"] = info.holder.start_time;
  holder["user"] = bytes_json(info.holder.user);
  holder["command"] = bytes_json(info.holder.command);
  Json out;
  out["slot"] = slot_of(info);
  out["standing"] = standing(info);
  out["fence"] = std::to_string(info.fence);
  out["holder"] = std::move(holder);
  out["since"] = bytes_json(info.since);
  out["ttl_ms"] = info.ttl.count();
  out["remaining_ms"] = info.remaining ? Json(info.remaining->count()) : Json();
  return out;
}

Result<std::vector<LeaseInfo>> list_leases(App& app, LeaseStore& store) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(const HostFacts host, services->host());
  const PidScope here{host.id, host.boot, host.pid_namespace};
  ASCOPE_TRY_ASSIGN(std::vector<LeaseInfo> all, store.list(app.ctx()));
  for (LeaseInfo& info : all) {
    if (!info.proven_dead) {
      ASCOPE_TRY_ASSIGN(info.proven_dead, is_proven_dead(info.holder, here));
    }
  }
  return all;
}

// ---- acquire ----

constexpr std::array kAcquireOptions{
    OptionSpec{"ttl", '\0', OptionKind::value, "DURATION", "how long it lasts unless renewed (default 30m)"}};

Result<int> acquire(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  Millis ttl = kDefaultHold;
  if (const auto text = args.value("ttl")) {
    ASCOPE_TRY_ASSIGN(ttl, parse_duration(*text));
    if (ttl < Millis(1000)) {
      return make_error(ErrorKind::usage, "--ttl " + *text + " is too short to be of use", "use at least 1s");
    }
  }
  ASCOPE_TRY_ASSIGN(const auto store, open_lock_store(app));
  ASCOPE_TRY_ASSIGN(LeaseRequest request, lock_request(app, args, slot, ttl));
  request.holder.pid = 0;  // this process ends, the lease stays
  request.holder.start_time = 0;
  ASCOPE_TRY_ASSIGN(const LeaseGrant grant, store->acquire(app.ctx(), request));
  const std::string file = token_file(app, slot);
  const auto keep = [&]() -> Result<void> {
    ASCOPE_TRY(make_dirs(app.state_dir() + "/leases"));
    return write_file_atomic(file, grant.token + "\n");
  };
  if (auto kept = keep(); !kept) {
    static_cast<void>(store->release(app.ctx(), grant).has_value());  // nobody would know its token
    return std::move(kept).error().within("keeping the token");
  }
  Json out;
  out["schema"] = "ascope.lease/1";
  out["slot"] = slot.written();
  out["token"] = grant.token;
  out["fence"] = std::to_string(grant.fence);
  out["ttl_ms"] = grant.ttl.count();
  out["deadline"] = format_time(app.ctx().clock->wall() + grant.ttl);
  app.out().result(out, grant.token + "\n");
  if (app.out().format == OutputFormat::name) {
    app.out().write(grant.token + "\n");
  }
  return 0;
}

// ---- release ----

// --lease, ASCOPE_LEASE, or what `lock acquire` left.
Result<std::string> token_to_release(App& app, const Args& args, const SlotKey& slot) {
  ASCOPE_TRY_ASSIGN(const LockOptions options, app.lock_options(args));
  if (!options.lease_token.empty()) {
    return options.lease_token;
  }
  auto text = read_file(token_file(app, slot), 4096);
  if (!text) {
    if (text.error().kind == ErrorKind::not_found) {
      return make_error(ErrorKind::usage, "no token is known for " + slot.written(),
                        "give the one that 'lock acquire' printed: --lease TOKEN, or ASCOPE_LEASE");
    }
    return text;
  }
  while (!text->empty() && text->back() == '\n') {
    text->pop_back();
  }
  return text;
}

Result<void> forget_token(App& app, const SlotKey& slot, std::string_view token) {
  const std::string file = token_file(app, slot);
  auto text = read_file(file, 4096);
  if (text && text->starts_with(token)) {
    return remove_file(file);
  }
  return ok();
}

Result<int> release(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const std::string token, token_to_release(app, args, slot));
  ASCOPE_TRY_ASSIGN(const auto store, open_lock_store(app));
  ASCOPE_TRY_ASSIGN(const std::vector<LeaseInfo> all, store->list(app.ctx()));
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const LeaseInfo& info) { return info.token == token; });
  if (found != all.end() && found->name != slot.store_name()) {
    return make_error(ErrorKind::conflict,
                      "the token is of slot " + slot_of(*found) + ", not of " + slot.written(),
                      "'ascope-sandbox lock release " + slot_of(*found) + "' releases it");
  }
  LeaseGrant grant;
  grant.name = slot.store_name();
  grant.token = token;
  ASCOPE_TRY_ASSIGN(const bool ours, store->release(app.ctx(), grant));
  ASCOPE_TRY(forget_token(app, slot, token));
  if (!ours || found == all.end() || !found->remaining) {
    return make_error(
        ErrorKind::conflict, "the lease of " + slot.written() + " ran out before it was released",
        "another may have changed the slot since: 'ascope-sandbox history " + slot.written() + "'");
  }
  Json out;
  out["schema"] = "ascope.lock-release/1";
  out["slot"] = slot.written();
  out["released"] = true;
  app.out().result(out, "Released " + slot.written() + "\n");
  return 0;
}

// ---- ls ----

Result<int> ls(App& app, const Args& /*args*/) {
  ASCOPE_TRY_ASSIGN(const auto store, open_lock_store(app));
  ASCOPE_TRY_ASSIGN(const std::vector<LeaseInfo> all, list_leases(app, *store));
  std::vector<Json> rows;
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> table{{"SLOT", "STANDING", "LEFT", "SINCE", "HOLDER"}};
  for (const LeaseInfo& info : all) {
    rows.push_back(lease_json(info));
    names.push_back(slot_of(info));
    const Millis left = info.remaining.value_or(Millis(0));
    table.push_back({slot_of(info), std::string(standing(info)),
                     format_duration(left < Millis(1000) ? left : Millis(left.count() / 1000 * 1000)),
                     info.since, holder_name(info.holder)});
  }
  app.out().list("ascope.leases/1", "leases", rows, names, all.empty() ? "" : text_table(table));
  return 0;
}

// ---- wait ----

// True if the token this command was given holds the slot: nobody waits for its own parent.
Result<bool> holds_already(App& app, const Args& args, const SlotKey& slot, LeaseStore& store) {
  ASCOPE_TRY_ASSIGN(const LockOptions options, app.lock_options(args));
  if (options.lease_token.empty()) {
    return false;
  }
  ASCOPE_TRY(join_lease(store, app.ctx(), slot.store_name(), options.lease_token));
  return true;
}

Result<int> wait(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const auto store, open_lock_store(app));
  const Millis begin = app.ctx().clock->boottime();
  ASCOPE_TRY_ASSIGN(const bool held, holds_already(app, args, slot, *store));
  if (!held) {
    // Takes its turn like everybody and gives it back: no poll, and nobody is overtaken.
    ASCOPE_TRY_ASSIGN(const LeaseRequest request, lock_request(app, args, slot, Millis(60'000)));
    ASCOPE_TRY_ASSIGN(const LeaseGrant grant, store->acquire(app.ctx(), request));
    ASCOPE_TRY(store->release(app.ctx(), grant));
  }
  Json out;
  out["schema"] = "ascope.lock-wait/1";
  out["slot"] = slot.written();
  out["waited_ms"] = (app.ctx().clock->boottime() - begin).count();
  app.out().result(out, slot.written() + " is free\n");
  return 0;
}

// ---- break ----

constexpr std::array kBreakOptions{
    OptionSpec{"dry-run", '\0', OptionKind::flag, {}, "show whose lease would be broken"}};

Result<int> break_it(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const auto store, open_lock_store(app));
  ASCOPE_TRY_ASSIGN(const std::vector<LeaseInfo> all, list_leases(app, *store));
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const LeaseInfo& info) { return info.name == slot.store_name(); });
  Json out;
  out["schema"] = "ascope.lock-break/1";
  out["slot"] = slot.written();
  out["broken"] = false;
  out["lease"] = found == all.end() ? Json() : lease_json(*found);
  if (found == all.end()) {
    app.out().result(out, "Nobody holds " + slot.written() + "\n");
    return 0;
  }
  const std::string holder = describe_holder(*found);
  if (args.flag("dry-run")) {
    app.out().result(out, fmt::format("Would break the lease of {}: {}\n", slot.written(), holder));
    return 0;
  }
  if (!found->proven_dead && found->remaining) {
    ASCOPE_TRY_ASSIGN(const bool sure, app.out().confirm(fmt::format("Break the lease of {}, held by {}?",
                                                                     slot.written(), holder)));
    if (!sure) {
      return make_error(ErrorKind::refused, "the lease was not broken");
    }
  }
  ASCOPE_TRY_ASSIGN(const bool broken, store->break_lease(app.ctx(), found->name, found->token));
  if (!broken) {
    return make_error(ErrorKind::conflict, "the lease of " + slot.written() + " changed hands meanwhile",
                      "'ascope-sandbox lock ls' shows who holds it now");
  }
  out["broken"] = true;
  app.out().result(out, fmt::format("Broke the lease of {}: {}\n", slot.written(), holder));
  return 0;
}

}  // namespace

extern const Command kLockAcquireCommand;
const Command kLockAcquireCommand{
    "lock acquire",
    "Locks",
    "take a slot's lease and print its token",
    "Takes the lease and leaves it standing: the token alone is printed. Later commands work under it with "
    "--lease "
    "TOKEN or ASCOPE_LEASE, and renew it. No process stands behind it, so if nobody releases it, it lasts "
    "for its "
    "whole TTL.",
    kAcquireOptions,
    kPositionals,
    false,
    "ASCOPE_LEASE=$(ascope-sandbox lock acquire --ttl 10m) && export ASCOPE_LEASE",
    "5 8 10 11 13 14 15",
    acquire};

extern const Command kLockReleaseCommand;
const Command kLockReleaseCommand{"lock release",
                                  "Locks",
                                  "give back a lease that lock acquire took",
                                  "Gives the lease of --lease TOKEN or ASCOPE_LEASE back; without a token, "
                                  "the one that this user took last on this "
                                  "host for the slot. A lease of another slot, or one that ran out, is 6.",
                                  {},
                                  kPositionals,
                                  false,
                                  "ascope-sandbox lock release --lease \"$TOKEN\"",
                                  "6 8 10 11 13 14 15",
                                  release};

extern const Command kLockLsCommand;
const Command kLockLsCommand{"lock ls",
                             "Locks",
                             "list the leases and who holds them",
                             "Lists every lease in the profile's lease store: held, expired, or dead where "
                             "the holder's process is proven to be "
                             "gone on this very host. Tokens are not shown.",
                             {},
                             {},
                             false,
                             "ascope-sandbox lock ls -o json",
                             "8 10 11 13 14 15",
                             ls};

extern const Command kLockWaitCommand;
const Command kLockWaitCommand{"lock wait",
                               "Locks",
                               "wait until nobody holds a slot",
                               "Waits its turn, in order of arrival, for at most --wait (default: the "
                               "profile's lock.wait). Under a lease of the "
                               "slot's own (ASCOPE_LEASE) it returns at once.",
                               {},
                               kPositionals,
                               false,
                               "ascope-sandbox lock wait user/assistant/alice --wait 10m",
                               "5 6 8 10 11 13 14 15",
                               wait};

extern const Command kLockBreakCommand;
const Command kLockBreakCommand{"lock break",
                                "Locks",
                                "end somebody else's lease",
                                "Ends the lease that is shown, and no other. A holder whose process is "
                                "proven dead on this host, or whose lease "
                                "has expired, needs no question; any other asks on a terminal and needs "
                                "--yes elsewhere. The holder finds its "
                                "lease lost at its next step and writes nothing more.",
                                kBreakOptions,
                                kPositionals,
                                false,
                                "ascope-sandbox lock break user/assistant/alice --yes",
                                "6 7 8 10 11 13 14 15",
                                break_it};

}  // namespace ascope
