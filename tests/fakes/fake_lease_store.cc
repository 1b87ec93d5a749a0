// SPDX-License-Identifier: Apache-2.0
#include "fakes/fake_lease_store.h"

#include <algorithm>

#include "core/lease/holder.h"

namespace ascope::testing {

class FakeLeaseServer::Connection final : public LeaseStore {
 public:
  explicit Connection(FakeLeaseServer& server) : server_(server) {}

  Result<LeaseGrant> acquire(const OpContext& ctx, const LeaseRequest& request) override {
    std::unique_lock lock(server_.mutex_);
    const Millis until = system_clock().boottime() + request.wait;
    bool queued = false;
    bool told = false;
    while (true) {
      ASCOPE_TRY(up());
      Entry& entry = server_.entries_[request.name];
      if (!queued) {
        entry.queue.push_back(request.token);
        queued = true;
      }
      const bool ours = entry.info.token == request.token;
      const bool free = entry.info.token.empty() || entry.expires <= ctx.clock->boottime();
      if (ours || (free && entry.queue.front() == request.token)) {
        leave(entry, request.token);
        return grant(ctx, entry, request, ours);
      }
      auto checked = ctx.check("waiting for a lease");
      if (!checked || system_clock().boottime() >= until) {
        leave(entry, request.token);
        return checked ? lease_busy_error(shown(ctx, request.name, entry)) : std::move(checked).error();
      }
      if (!told && request.on_wait) {
        told = true;
        request.on_wait(shown(ctx, request.name, entry));
      }
      server_.changed_.wait_for(lock, Millis(5));
    }
  }

  Result<bool> renew(const OpContext& ctx, const LeaseGrant& grant) override {
    const std::lock_guard lock(server_.mutex_);
    ASCOPE_TRY(up());
    Entry* entry = find(grant.name, grant.token);
    if (entry == nullptr) {
      return false;
    }
    entry->expires = ctx.clock->boottime() + grant.ttl;
    entry->info.ttl = grant.ttl;
    return true;
  }

  Result<bool> release(const OpContext& /*ctx*/, const LeaseGrant& grant) override {
    return give_up(grant.name, grant.token);
  }

  Result<std::uint64_t> raise(const OpContext& /*ctx*/, const LeaseGrant& grant,
                              std::uint64_t at_least) override {
    const std::lock_guard lock(server_.mutex_);
    ASCOPE_TRY(up());
    Entry* entry = find(grant.name, grant.token);
    if (entry == nullptr) {
      return make_error(ErrorKind::conflict, "lease lost: another has taken it, or it was broken");
    }
    entry->info.fence = std::max(entry->info.fence, at_least) + 1;
    return entry->info.fence;
  }

  Result<std::vector<LeaseInfo>> list(const OpContext& ctx) override {
    const std::lock_guard lock(server_.mutex_);
    ASCOPE_TRY(up());
    std::vector<LeaseInfo> out;
    for (const auto& [name, entry] : server_.entries_) {
      if (!entry.info.token.empty()) {
        out.push_back(shown(ctx, name, entry));
      }
    }
    return out;
  }

  Result<bool> break_lease(const OpContext& /*ctx*/, std::string_view name, std::string_view token) override {
    return give_up(std::string(name), token);
  }

  [[nodiscard]] std::string_view order() const override { return "kept"; }

 private:
  [[nodiscard]] Result<void> up() const {
    return server_.down_ ? make_error(ErrorKind::store_unavailable, "the lease store is down")
                         : Result<void>();
  }

  Entry* find(const std::string& name, std::string_view token) {
    const auto found = server_.entries_.find(name);
    return found != server_.entries_.end() && found->second.info.token == token ? &found->second : nullptr;
  }

  static void leave(Entry& entry, const std::string& token) { std::erase(entry.queue, token); }

  static LeaseInfo shown(const OpContext& ctx, const std::string& name, const Entry& entry) {
    LeaseInfo info = entry.info;
    info.name = name;
    if (const Millis left = entry.expires - ctx.clock->boottime(); left > Millis(0)) {
      info.remaining = left;
    }
    return info;
  }

  static LeaseGrant grant(const OpContext& ctx, Entry& entry, const LeaseRequest& request, bool ours) {
    const Millis now = ctx.clock->boottime();
    if (!ours) {
      const auto us =
          std::chrono::duration_cast<std::chrono::microseconds>(ctx.clock->wall().time_since_epoch());
      entry.info.fence =
          std::max({entry.info.fence + 1, static_cast<std::uint64_t>(us.count()), request.min_fence + 1});
      entry.info.token = request.token;
      entry.info.holder = request.holder;
      entry.info.since = format_time(ctx.clock->wall());
    }
    entry.info.ttl = request.ttl;
    entry.expires = now + request.ttl;
    return {request.name, request.token, entry.info.fence, request.ttl, now};
  }

  Result<bool> give_up(const std::string& name, std::string_view token) {
    const std::lock_guard lock(server_.mutex_);
    ASCOPE_TRY(up());
    Entry* entry = find(name, token);
    if (entry == nullptr) {
      return false;
    }
    entry->info.token.clear();
    server_.changed_.notify_all();
    return true;
  }

  FakeLeaseServer& server_;
};

std::unique_ptr<LeaseStore> FakeLeaseServer::connect() {
  return std::make_unique<Connection>(*this);
}

void FakeLeaseServer::wipe() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

void FakeLeaseServer::set_down(bool down) {
  const std::lock_guard lock(mutex_);
  down_ = down;
}

}  // namespace ascope::testing
