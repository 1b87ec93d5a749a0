// SPDX-License-Identifier: Apache-2.0
// Leases in a SQLite file. A row decides who holds, until when, and carries the fence; a LockQueue in
// "<file>.locks/<sha256 of the name>" beside it gives order of arrival and wakes the next one. A holder keeps
// its ticket for as long as it holds, so that the kernel wakes its successor when it ends in any way.
#include <algorithm>
#include <map>
#include <set>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/lease/holder.h"
#include "core/lease/lock_queue.h"
#include "store/sqlite_db.h"

namespace ascope {

namespace {

// `expires` counts on the boot-time clock of (machine_id, boot_id), `expires_wall` since the epoch for other
// machines; both in ms. Rows are never deleted: the fence lives in them.
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS ascope_leases (name BLOB PRIMARY KEY, token TEXT, fence INTEGER NOT NULL "
    "DEFAULT 0, "
    "holder TEXT, ticket INTEGER, machine_id TEXT, boot_id TEXT, ttl INTEGER, expires INTEGER, "
    "expires_wall INTEGER, since TEXT) WITHOUT ROWID";
constexpr std::string_view kColumns =
    "name, token, fence, holder, ticket, machine_id, boot_id, ttl, expires, expires_wall, since";

// A waiter looks at the row this often while the kernel has it blocked: for a lease that ran out or was
// broken.
constexpr Millis kLook{250};
// A lease that nobody takes for so long although somebody is first in the queue: that one is stopped.
constexpr Millis kPatience{2000};

enum class Claim { free, live, expired, dead };

struct Row {
  LeaseInfo info;
  std::optional<std::uint64_t> ticket;
  Claim claim = Claim::free;
  [[nodiscard]] bool is_live() const { return claim == Claim::live; }
};

std::int64_t wall_ms(const OpContext& ctx) {
  return std::chrono::duration_cast<Millis>(ctx.clock->wall().time_since_epoch()).count();
}

std::uint64_t wall_us(const OpContext& ctx) {
  const auto count =
      std::chrono::duration_cast<std::chrono::microseconds>(ctx.clock->wall().time_since_epoch()).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
}

class SqliteLeases final : public LeaseStore {
 public:
  SqliteLeases(SqliteDb db, PidScope here)
      : db_(std::move(db)), here_(std::move(here)), folder_(db_.file() + ".locks") {}

  Result<LeaseGrant> acquire(const OpContext& ctx, const LeaseRequest& request) override;
  Result<bool> renew(const OpContext& ctx, const LeaseGrant& grant) override;
  Result<bool> release(const OpContext& ctx, const LeaseGrant& grant) override;
  Result<std::uint64_t> raise(const OpContext& ctx, const LeaseGrant& grant, std::uint64_t at_least) override;
  Result<std::vector<LeaseInfo>> list(const OpContext& ctx) override;
  Result<bool> break_lease(const OpContext& ctx, std::string_view name, std::string_view token) override;
  [[nodiscard]] std::string_view order() const override { return "kept"; }

  // One look, at the file that is there now; a name without a row is free.
  Result<Row> look(const OpContext& ctx, std::string_view name);
  // Takes the lease if it is not live now, by another token.
  Result<std::optional<LeaseGrant>> take(const OpContext& ctx, const LeaseRequest& request,
                                         std::optional<std::uint64_t> ticket);

 private:
  Result<Row> find(const OpContext& ctx, std::string_view name);
  Result<Row> read_row(const OpContext& ctx, const SqliteStatement& statement) const;
  Result<Claim> judge(const OpContext& ctx, Row& row, std::int64_t expires, std::int64_t expires_wall) const;
  Result<std::optional<LeaseGrant>> again(const OpContext& ctx, const LeaseRequest& request);
  Result<bool> give_up(const OpContext& ctx, std::string_view name, std::string_view token);
  Result<LockQueue> open_queue(std::string_view name) const;
  Result<void> refresh(const OpContext& ctx);

  SqliteDb db_;
  PidScope here_;
  std::string folder_;
  std::map<std::string, LockQueue> held_;  // by token: the tickets of the leases that this object gave
};

// One wait for a lease: its place in the queue, and whom it passes over.
class Turn {
 public:
  Turn(SqliteLeases& leases, const LeaseRequest& request, LockQueue& queue, std::uint64_t ticket)
      : leases_(leases),
        request_(request),
        queue_(queue),
        ticket_(ticket),
        until_(system_clock().boottime() + request.wait) {}

  Result<LeaseGrant> wait(const OpContext& ctx) {
    const bool process = request_.holder.pid > 0;
    while (true) {
      ASCOPE_TRY_ASSIGN(Row row, leases_.look(ctx, request_.name));
      ASCOPE_TRY(pass_over(row));
      ASCOPE_TRY_ASSIGN(const bool first, is_first(ctx, Millis(0)));
      if (first && !row.is_live()) {
        ASCOPE_TRY_ASSIGN(
            std::optional<LeaseGrant> grant,
            leases_.take(ctx, request_, process ? std::optional<std::uint64_t>(ticket_) : std::nullopt));
        if (grant) {
          return std::move(*grant);
        }
        continue;  // somebody who was passed over woke up and was faster
      }
      if (left() == Millis(0)) {
        return row.is_live() ? lease_busy_error(row.info) : queue_error();
      }
      if (row.is_live() && request_.on_wait && !told_) {
        told_ = true;
        request_.on_wait(row.info);
      }
      if (first) {
        ASCOPE_TRY(wait_for_holder(ctx, row));
      } else {
        ASCOPE_TRY_ASSIGN(const bool turn, is_first(ctx, slice(row)));
        quick_ = turn ? Millis(1) : quick_;
      }
    }
  }

 private:
  [[nodiscard]] Millis left() const { return std::max(Millis(0), until_ - system_clock().boottime()); }

  [[nodiscard]] Millis slice(const Row& row) const {
    Millis out = std::min(left(), kLook);
    if (row.is_live() && row.info.remaining) {
      out = std::min(out, *row.info.remaining + Millis(1));
    }
    return std::max(out, Millis(1));
  }

  [[nodiscard]] Error queue_error() const {
    return make_error(ErrorKind::busy, "others wait for the lease of '" + request_.name + "'",
                      "wait longer with --wait");
  }

  // True when nobody before us holds a ticket but those passed over. A ticket is never taken twice, so one
  // gap after the other may be waited for.
  Result<bool> is_first(const OpContext& ctx, Millis wait) {
    const Millis until = system_clock().boottime() + wait;
    std::uint64_t begin = 0;
    for (const std::uint64_t passed : passed_) {
      const Millis rest = std::max(Millis(0), until - system_clock().boottime());
      ASCOPE_TRY_ASSIGN(const bool free, queue_.wait_free(ctx, begin, passed, rest));
      if (!free) {
        return false;
      }
      begin = passed + 1;
    }
    const Millis rest = std::max(Millis(0), until - system_clock().boottime());
    return queue_.wait_free(ctx, begin, ticket_, rest);
  }

  // Whose lease is over need not be waited for, though its process (stopped, or not yet aware) still has its
  // ticket. Nor who is first and does not act.
  Result<void> pass_over(const Row& row) {
    if (row.is_live()) {
      idle_.reset();
      return ok();
    }
    if (row.ticket && *row.ticket < ticket_ && passed_.insert(*row.ticket).second) {
      idle_.reset();
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const std::optional<std::uint64_t> before, lowest_before());
    if (!before) {
      idle_.reset();
      return ok();
    }
    const Millis now = system_clock().boottime();
    if (!idle_ || idle_->ticket != *before || idle_->fence != row.info.fence) {
      idle_ = Idle{*before, row.info.fence, now};
    } else if (now - idle_->since >= kPatience) {
      log("lease", LogLevel::info, "passing over a waiter for '{}' that does not act", request_.name);
      passed_.insert(*before);
      idle_.reset();
    }
    return ok();
  }

  Result<std::optional<std::uint64_t>> lowest_before() const {
    std::uint64_t begin = 0;
    for (const std::uint64_t passed : passed_) {
      ASCOPE_TRY_ASSIGN(const std::optional<std::uint64_t> found, queue_.lowest_held(begin, passed));
      if (found) {
        return found;
      }
      begin = passed + 1;
    }
    return queue_.lowest_held(begin, ticket_);
  }

  // First in the queue, but the row is live: its holder has a ticket behind ours (we were passed over), or
  // none (`lock acquire`), or its process ended just now and is not quite gone.
  Result<void> wait_for_holder(const OpContext& ctx, const Row& row) {
    if (row.ticket && *row.ticket > ticket_) {
      ASCOPE_TRY_ASSIGN(const auto held, queue_.lowest_held(*row.ticket, *row.ticket + 1));
      if (held) {
        ASCOPE_TRY_ASSIGN(const bool freed, queue_.wait_free(ctx, *row.ticket, *row.ticket + 1, slice(row)));
        quick_ = freed ? Millis(1) : quick_;
        return ok();
      }
    }
    if (!watching_) {
      watching_ = true;
      queue_.watch();
      return ok();  // what was rung before the watch is seen at the next look
    }
    Millis pause = slice(row);
    if (row.info.holder.pid > 0) {
      pause = std::min(pause, quick_);
      quick_ = std::min(quick_ * 2, std::max(request_.retry, Millis(1)));
    }
    return queue_.listen(ctx, pause);
  }

  struct Idle {
    std::uint64_t ticket;
    std::uint64_t fence;
    Millis since;
  };
  SqliteLeases& leases_;
  const LeaseRequest& request_;
  LockQueue& queue_;
  const std::uint64_t ticket_;
  const Millis until_;
  std::set<std::uint64_t> passed_;
  std::optional<Idle> idle_;
  Millis quick_{1};  // grows while a process without a ticket holds
  bool told_ = false;
  bool watching_ = false;
};

Result<Claim> SqliteLeases::judge(const OpContext& ctx, Row& row, std::int64_t expires,
                                  std::int64_t expires_wall) const {
  const LeaseHolder& holder = row.info.holder;
  // `expires` means nothing after a boot, so here even a holder without a process ends with it.
  const bool last_boot = holder.host == here_.host && holder.boot != here_.boot;
  ASCOPE_TRY_ASSIGN(const bool gone, is_proven_dead(holder, here_));
  row.info.proven_dead = gone || last_boot;
  if (row.info.proven_dead) {
    return Claim::dead;
  }
  Millis remaining{0};
  if (holder.host == here_.host) {
    remaining = Millis(expires) - ctx.clock->boottime();
  } else {
    log("lease", LogLevel::warn, "the lease of '{}' is another machine's: its wall clock is trusted",
        row.info.name);
    remaining = Millis(expires_wall - wall_ms(ctx));
  }
  if (remaining <= Millis(0)) {
    return Claim::expired;
  }
  row.info.remaining = remaining;
  return Claim::live;
}

Result<Row> SqliteLeases::read_row(const OpContext& ctx, const SqliteStatement& statement) const {
  Row row;
  row.info.name = statement.bytes(0);
  row.info.token = statement.bytes(1);
  row.info.fence = static_cast<std::uint64_t>(statement.integer(2));
  if (!statement.is_null(4)) {
    row.ticket = static_cast<std::uint64_t>(statement.integer(4));
  }
  if (row.info.token.empty()) {
    return row;
  }
  auto holder = parse_holder(statement.bytes(3));
  if (!holder) {
    return std::move(holder).error().within("lease of '" + row.info.name + "' in '" + db_.file() + "'");
  }
  row.info.holder = std::move(holder).value();
  row.info.holder.host = statement.bytes(5);
  row.info.holder.boot = statement.bytes(6);
  row.info.ttl = Millis(statement.integer(7));
  row.info.since = statement.bytes(10);
  ASCOPE_TRY_ASSIGN(row.claim, judge(ctx, row, statement.integer(8), statement.integer(9)));
  return row;
}

// A database that was deleted or replaced under us is opened anew: what is in the old file counts no more.
Result<void> SqliteLeases::refresh(const OpContext& ctx) {
  ASCOPE_TRY_ASSIGN(const bool current, db_.is_current());
  if (!current) {
    ASCOPE_TRY_ASSIGN(SqliteDb fresh, SqliteDb::open(ctx, db_.file(), SqliteDurability::ordered));
    ASCOPE_TRY(fresh.run(kSchema));
    db_ = std::move(fresh);
  }
  return ok();
}

Result<Row> SqliteLeases::look(const OpContext& ctx, std::string_view name) {
  ASCOPE_TRY(refresh(ctx));
  return find(ctx, name);
}

Result<Row> SqliteLeases::find(const OpContext& ctx, std::string_view name) {
  ASCOPE_TRY_ASSIGN(SqliteStatement select,
                    db_.prepare("SELECT " + std::string(kColumns) + " FROM ascope_leases WHERE name=?1"));
  select.bind_blob(1, name);
  ASCOPE_TRY_ASSIGN(const bool found, select.step());
  if (!found) {
    Row row;
    row.info.name = name;
    return row;
  }
  return read_row(ctx, select);
}

Result<LockQueue> SqliteLeases::open_queue(std::string_view name) const {
  const std::string path = folder_ + "/" + sha256_hex(name);
  auto queue = LockQueue::open(path);
  if (queue || queue.error().kind != ErrorKind::not_found) {
    return queue;
  }
  ASCOPE_TRY(make_dirs(folder_));
  return LockQueue::open(path);
}

Result<std::optional<LeaseGrant>> SqliteLeases::take(const OpContext& ctx, const LeaseRequest& request,
                                                     std::optional<std::uint64_t> ticket) {
  LeaseGrant grant{
      .name = request.name, .token = request.token, .fence = 0, .ttl = request.ttl, .asked = Millis(0)};
  ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, db_));
  grant.asked = ctx.clock->boottime();
  ASCOPE_TRY_ASSIGN(const Row row, find(ctx, request.name));
  if (row.is_live()) {
    return std::optional<LeaseGrant>();
  }
  grant.fence = std::max({row.info.fence + 1, wall_us(ctx), request.min_fence + 1});
  ASCOPE_TRY_ASSIGN(
      SqliteStatement put,
      db_.prepare("INSERT INTO ascope_leases (" + std::string(kColumns) +
                  ") VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11) ON CONFLICT(name) DO UPDATE SET "
                  "token=?2, fence=?3, holder=?4, ticket=?5, machine_id=?6, boot_id=?7, ttl=?8, "
                  "expires=?9, expires_wall=?10, since=?11"));
  put.bind_blob(1, request.name).bind(2, request.token).bind(3, static_cast<std::int64_t>(grant.fence));
  put.bind(4, holder_text(request.holder));
  if (ticket) {
    put.bind(5, static_cast<std::int64_t>(*ticket));
  } else {
    put.bind_null(5);
  }
  put.bind(6, here_.host).bind(7, here_.boot).bind(8, static_cast<std::int64_t>(request.ttl.count()));
  put.bind(9, static_cast<std::int64_t>((grant.asked + request.ttl).count()));
  put.bind(10, wall_ms(ctx) + static_cast<std::int64_t>(request.ttl.count()));
  put.bind(11, format_time(ctx.clock->wall()));
  ASCOPE_TRY(put.run());
  ASCOPE_TRY(transaction.commit());
  return std::optional<LeaseGrant>(std::move(grant));
}

// The caller holds it already and asks again, because our answer was lost.
Result<std::optional<LeaseGrant>> SqliteLeases::again(const OpContext& ctx, const LeaseRequest& request) {
  const Millis asked = ctx.clock->boottime();
  ASCOPE_TRY_ASSIGN(const Row row, look(ctx, request.name));
  if (!row.is_live() || row.info.token != request.token) {
    return std::optional<LeaseGrant>();
  }
  LeaseGrant grant{request.name, request.token, row.info.fence, request.ttl, asked};
  ASCOPE_TRY_ASSIGN(const bool renewed, renew(ctx, grant));
  return renewed ? std::optional<LeaseGrant>(std::move(grant)) : std::nullopt;
}

Result<LeaseGrant> SqliteLeases::acquire(const OpContext& ctx, const LeaseRequest& request) {
  if (request.token.empty() || request.ttl <= Millis(0)) {
    return make_error(ErrorKind::internal, "a lease was asked for without token or TTL");
  }
  ASCOPE_TRY_ASSIGN(std::optional<LeaseGrant> before, again(ctx, request));
  if (before) {
    return std::move(*before);
  }
  ASCOPE_TRY_ASSIGN(LockQueue queue, open_queue(request.name));
  ASCOPE_TRY_ASSIGN(const std::uint64_t ticket, queue.draw(ctx));
  ASCOPE_TRY_ASSIGN(LeaseGrant grant, Turn(*this, request, queue, ticket).wait(ctx));
  if (request.holder.pid > 0) {
    held_.insert_or_assign(request.token, std::move(queue));
  }
  return grant;
}

Result<bool> SqliteLeases::renew(const OpContext& ctx, const LeaseGrant& grant) {
  ASCOPE_TRY(refresh(ctx));
  ASCOPE_TRY_ASSIGN(SqliteStatement update,
                    db_.prepare("UPDATE ascope_leases SET expires=?3, expires_wall=?4, ttl=?5 "
                                "WHERE name=?1 AND token=?2"));
  const auto ttl = static_cast<std::int64_t>(grant.ttl.count());
  update.bind_blob(1, grant.name).bind(2, grant.token);
  update.bind(3, ctx.clock->boottime().count() + ttl).bind(4, wall_ms(ctx) + ttl).bind(5, ttl);
  ASCOPE_TRY(update.run());
  return db_.changes() == 1;
}

// `ticket` stays: whoever waits behind it sees that its lease is over.
Result<bool> SqliteLeases::give_up(const OpContext& ctx, std::string_view name, std::string_view token) {
  ASCOPE_TRY(refresh(ctx));
  ASCOPE_TRY_ASSIGN(SqliteStatement update,
                    db_.prepare("UPDATE ascope_leases SET token=NULL WHERE name=?1 AND token=?2"));
  update.bind_blob(1, name).bind(2, token);
  ASCOPE_TRY(update.run());
  const bool ours = db_.changes() == 1;
  if (const auto held = held_.find(std::string(token)); held != held_.end()) {
    held->second.leave();  // closing is not enough while a child between fork and exec has the descriptor too
    held_.erase(held);
  }
  if (ours) {
    ASCOPE_TRY_ASSIGN(const LockQueue queue, open_queue(name));
    ASCOPE_TRY(queue.ring());
  }
  return ours;
}

Result<bool> SqliteLeases::release(const OpContext& ctx, const LeaseGrant& grant) {
  return give_up(ctx, grant.name, grant.token);
}

Result<bool> SqliteLeases::break_lease(const OpContext& ctx, std::string_view name, std::string_view token) {
  return give_up(ctx, name, token);
}

Result<std::uint64_t> SqliteLeases::raise(const OpContext& ctx, const LeaseGrant& grant,
                                          std::uint64_t at_least) {
  ASCOPE_TRY(refresh(ctx));
  ASCOPE_TRY_ASSIGN(SqliteStatement update,
                    db_.prepare("UPDATE ascope_leases SET fence=max(fence,?3)+1 WHERE name=?1 AND token=?2 "
                                "RETURNING fence"));
  update.bind_blob(1, grant.name).bind(2, grant.token).bind(3, static_cast<std::int64_t>(at_least));
  ASCOPE_TRY_ASSIGN(const bool found, update.step());
  if (!found) {
    return make_error(ErrorKind::conflict, "lease lost: another has taken it, or it was broken");
  }
  const auto fence = static_cast<std::uint64_t>(update.integer(0));
  ASCOPE_TRY(update.run());
  return fence;
}

Result<std::vector<LeaseInfo>> SqliteLeases::list(const OpContext& ctx) {
  ASCOPE_TRY(refresh(ctx));
  ASCOPE_TRY_ASSIGN(SqliteStatement select,
                    db_.prepare("SELECT " + std::string(kColumns) +
                                " FROM ascope_leases WHERE token IS NOT NULL ORDER BY name"));
  std::vector<LeaseInfo> out;
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool found, select.step());
    if (!found) {
      return out;
    }
    ASCOPE_TRY_ASSIGN(Row row, read_row(ctx, select));
    out.push_back(std::move(row.info));
  }
}

}  // namespace

Result<std::unique_ptr<LeaseStore>> open_sqlite_leases(const OpContext& ctx, const StoreUrl& url,
                                                       const StoreContext& context) {
  ASCOPE_TRY_ASSIGN(const std::string file, sqlite_file(url, context));
  // Ordered is enough: after a power cut all holders are dead, and the fence follows the clock.
  ASCOPE_TRY_ASSIGN(SqliteDb db, SqliteDb::open(ctx, file, SqliteDurability::ordered));
  ASCOPE_TRY(db.run(kSchema));
  ASCOPE_TRY_ASSIGN(PidScope here, this_pid_scope(context.host));
  return std::unique_ptr<LeaseStore>(std::make_unique<SqliteLeases>(std::move(db), std::move(here)));
}

}  // namespace ascope
