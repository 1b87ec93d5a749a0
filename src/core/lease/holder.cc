// SPDX-License-Identifier: Apache-2.0
#include "core/lease/holder.h"

#include <algorithm>

#include "core/base/json.h"
#include "core/base/process.h"
#include "core/slot_key.h"

namespace ascope {

namespace {

// Names of hosts, users and commands go to terminals and logs.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(byte < 0x20 || byte == 0x7f ? '?' : c);
  }
  return out;
}

Error lost(std::string message) {
  return make_error(ErrorKind::conflict, std::move(message),
                    "take a new one with 'ascope-sandbox lock acquire', or unset ASCOPE_LEASE");
}

Result<std::string> text_member(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end()) {
    return make_error(ErrorKind::corrupt, "a lease holder has no '" + std::string(key) + "'");
  }
  return json_bytes(*found);
}

}  // namespace

std::string holder_text(const LeaseHolder& holder) {
  Json object;
  object["host"] = bytes_json(holder.host);
  object["host_name"] = bytes_json(holder.host_name);
  object["boot"] = bytes_json(holder.boot);
  object["pid_namespace"] = holder.pid_namespace;
  object["pid"] = holder.pid;
  object["start_time"] = holder.start_time;
  object["user"] = bytes_json(holder.user);
  object["command"] = bytes_json(holder.command);
  return dump_json(object);
}

Result<LeaseHolder> parse_holder(std::string_view text) {
  ASCOPE_TRY_ASSIGN(const Json object, parse_json(text));
  if (!object.is_object()) {
    return make_error(ErrorKind::corrupt, "a lease holder is not a JSON object");
  }
  LeaseHolder out;
  ASCOPE_TRY_ASSIGN(out.host, text_member(object, "host"));
  ASCOPE_TRY_ASSIGN(out.host_name, text_member(object, "host_name"));
  ASCOPE_TRY_ASSIGN(out.boot, text_member(object, "boot"));
  ASCOPE_TRY_ASSIGN(const std::int64_t pid_namespace, get_int(object, "pid_namespace"));
  out.pid_namespace = static_cast<std::uint64_t>(pid_namespace);
  ASCOPE_TRY_ASSIGN(out.pid, get_int(object, "pid"));
  ASCOPE_TRY_ASSIGN(const std::int64_t start_time, get_int(object, "start_time"));
  out.start_time = static_cast<std::uint64_t>(start_time);
  ASCOPE_TRY_ASSIGN(out.user, text_member(object, "user"));
  ASCOPE_TRY_ASSIGN(out.command, text_member(object, "command"));
  return out;
}

Result<PidScope> this_pid_scope(std::string host) {
  PidScope out;
  out.host = std::move(host);
  ASCOPE_TRY_ASSIGN(out.boot, boot_id());
  ASCOPE_TRY_ASSIGN(out.pid_namespace, pid_namespace());
  return out;
}

Result<bool> is_proven_dead(const LeaseHolder& holder, const PidScope& here) {
  if (holder.host != here.host || holder.host.empty() || holder.pid <= 0) {
    return false;
  }
  if (holder.boot != here.boot) {
    return !holder.boot.empty();
  }
  if (holder.pid_namespace != here.pid_namespace) {
    return false;
  }
  ASCOPE_TRY_ASSIGN(const bool alive, process_alive(static_cast<pid_t>(holder.pid), holder.start_time));
  return !alive;
}

std::string holder_name(const LeaseHolder& holder) {
  std::string out = shown(holder.user.empty() ? "somebody" : holder.user);
  if (const auto& host = holder.host_name.empty() ? holder.host : holder.host_name; !host.empty()) {
    out += " on " + shown(host);
  }
  if (holder.pid > 0) {
    out += ", pid " + std::to_string(holder.pid);
  }
  if (!holder.command.empty()) {
    out += " ('" + shown(holder.command) + "')";
  }
  return out;
}

std::string describe_holder(const LeaseInfo& info) {
  std::string out = holder_name(info.holder);
  if (!info.since.empty()) {
    out += ", since " + shown(info.since);
  }
  if (info.proven_dead) {
    out += ", whose process is gone";
  } else if (info.remaining) {
    const Millis left = std::max(*info.remaining, Millis(1));
    out +=
        ", for " + format_duration(left < Millis(1000) ? left : Millis(left.count() / 1000 * 1000)) + " more";
  } else {
    out += ", expired";
  }
  return out;
}

Error lease_busy_error(const LeaseInfo& info) {
  return make_error(ErrorKind::busy,
                    "the lease of " + SlotKey::from_store_name(info.name).written() + " is held by " +
                        describe_holder(info),
                    "wait longer with --wait; 'ascope-sandbox lock ls' shows all holders");
}

Result<LeaseGrant> join_lease(LeaseStore& store, const OpContext& ctx, std::string_view name,
                              std::string_view token) {
  ASCOPE_TRY_ASSIGN(const std::vector<LeaseInfo> all, store.list(ctx));
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const LeaseInfo& info) { return !token.empty() && info.token == token; });
  if (found == all.end()) {
    return lost("the lease that was handed on is not held any more");
  }
  if (found->name != name) {
    return lost("the lease that was handed on is of slot '" + found->name + "', not of '" +
                std::string(name) + "'");
  }
  if (!found->remaining) {
    return lost("the lease that was handed on ran out");
  }
  LeaseGrant grant;
  grant.name = found->name;
  grant.token = found->token;
  grant.fence = found->fence;
  grant.ttl = found->ttl > Millis(0) ? found->ttl : *found->remaining;
  grant.asked = ctx.clock->boottime();
  ASCOPE_TRY_ASSIGN(const bool renewed, store.renew(ctx, grant));
  if (!renewed) {
    return lost("the lease that was handed on is not held any more");
  }
  return grant;
}

}  // namespace ascope
