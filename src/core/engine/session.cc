// SPDX-License-Identifier: Apache-2.0
#include "core/engine/session.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/lease/holder.h"

namespace ascope {

namespace {

// Revision of an aux key "_ascope.<rev>-<writer>"; nullopt for other keys.
std::optional<std::uint64_t> aux_revision(std::string_view key) {
  if (!key.starts_with(kAuxPrefix)) {
    return std::nullopt;
  }
  std::uint64_t rev = 0;
  const std::string_view rest = key.substr(kAuxPrefix.size());
  const auto [end, ec] = std::from_chars(rest.data(), rest.data() + rest.size(), rev);
  if (ec != std::errc{} || end == rest.data() + rest.size() || *end != '-') {
    return std::nullopt;
  }
  return rev;
}

// What the record alone knows of its head.
HistoryItem item_of(const HeadRef& head) {
  HistoryItem item;
  item.snapshot = head.snapshot;
  item.format = head.format;
  item.object = head.object;
  item.size_bytes = head.size_bytes;
  item.sha256 = head.sha256;
  item.version = head.version;
  return item;
}

struct FoundAux {
  Aux aux;
  std::uint64_t rev = 0;
};

// The newest aux that can be read, for a record that another program wrote or that is gone.
Result<std::optional<FoundAux>> newest_aux(StateStore& state, const OpContext& ctx, const std::string& slot) {
  ASCOPE_TRY_ASSIGN(const auto keys, state.keys(ctx, slot));
  std::vector<std::pair<std::uint64_t, std::string>> found;
  for (const auto& key : keys) {
    if (const auto rev = aux_revision(key)) {
      found.emplace_back(*rev, key);
    }
  }
  std::sort(found.rbegin(), found.rend());
  for (const auto& [rev, key] : found) {
    ASCOPE_TRY_ASSIGN(const auto bytes, state.read(ctx, slot, key));
    if (!bytes) {
      continue;
    }
    if (auto aux = parse_aux(*bytes)) {
      return std::optional<FoundAux>(FoundAux{std::move(*aux), rev});
    }
  }
  return std::optional<FoundAux>{};
}

// The history of a record that we can trust. It always has the head: where the aux is lost, that alone is
// known.
Result<void> load_own_aux(StateStore& state, const OpContext& ctx, const std::string& slot, SlotView& view) {
  const SlotMeta& meta = *view.record.meta;
  if (meta.aux) {
    ASCOPE_TRY_ASSIGN(const auto bytes, state.read(ctx, slot, meta.aux->key));
    auto aux = bytes && sha256_hex(*bytes) == meta.aux->sha256
                   ? parse_aux(*bytes)
                   : Result<Aux>(make_error(ErrorKind::corrupt, "the aux value is missing or altered"));
    if (aux) {
      view.aux = std::move(*aux);
    } else {
      view.aux_lost = true;
      log("state", LogLevel::warn, "history of slot '{}' is lost: {}", slot, aux.error().message);
    }
  }
  auto& history = view.aux.history;
  const auto is_head = [&](const HistoryItem& item) { return item.snapshot == meta.head->snapshot; };
  if (meta.head && std::none_of(history.begin(), history.end(), is_head)) {
    history.insert(history.begin(), item_of(*meta.head));
  }
  return ok();
}

Result<void> load_aux(StateStore& state, const OpContext& ctx, const std::string& slot, SlotView& view) {
  auto& meta = view.record.meta;
  const RecordClass kind = view.record.kind;
  if (kind == RecordClass::ours || (kind == RecordClass::tombstone && meta)) {
    return load_own_aux(state, ctx, slot, view);
  }
  if (kind == RecordClass::foreign || kind == RecordClass::absent || kind == RecordClass::corrupt) {
    ASCOPE_TRY_ASSIGN(auto found, newest_aux(state, ctx, slot));
    if (!found) {
      return ok();
    }
    view.aux = std::move(found->aux);
    if (kind != RecordClass::absent) {
      if (!meta) {
        meta.emplace();
      }
      meta->rev = std::max(meta->rev, found->rev);
      for (const auto& item : view.aux.history) {
        meta->fence = std::max(meta->fence, item.fence);
      }
    }
  }
  return ok();
}

// For what must be done although a signal came or time is over.
OpContext ending_context() {
  OpContext out = OpContext{}.with_timeout(Millis(2000));
  out.uninterruptible = true;
  return out;
}

// Gives a lease back that its taker did not come to use.
struct UnusedLease {
  LeaseStore* store = nullptr;
  LeaseGrant grant = {};
  ~UnusedLease() {
    if (store != nullptr) {
      if (auto released = store->release(ending_context(), grant); !released) {
        log("lease", LogLevel::warn, "could not release: {}", released.error().message);
      }
    }
  }
};

// A request for the lease `name`, which is shown as `shown` to who waits.
Result<LeaseRequest> lease_request(EngineServices& services, std::string name, const std::string& shown,
                                   Millis wait) {
  LeaseRequest request;
  request.name = std::move(name);
  request.token = random_hex(16);
  ASCOPE_TRY_ASSIGN(const HostFacts host, services.host());
  request.holder = {host.id,  host.name,       host.boot, host.pid_namespace,
                    host.pid, host.start_time, host.user, host.command};
  request.ttl = services.profile().lock_ttl;
  request.wait = std::max(Millis(0), wait);
  request.retry = services.profile().lock_retry;
  request.on_wait = [&services, shown](const LeaseInfo& info) {
    services.status(fmt::format("Waiting for {}: held by {}.", shown, describe_holder(info)));
  };
  return request;
}

}  // namespace

Result<SlotView> read_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot) {
  ASCOPE_TRY_ASSIGN(StateStore * state, services.state());
  const std::string name = slot.store_name();
  auto bytes = state->read(ctx, name, kRecordKey);
  if (!bytes) {
    return std::move(bytes).error().within("reading the state of " + slot.written());
  }
  SlotView view;
  view.record = parse_record(*bytes);
  ASCOPE_TRY(load_aux(*state, ctx, name, view));
  return view;
}

Result<void> require_readable(const SlotKey& slot, const SlotRecord& record) {
  if (record.kind == RecordClass::newer) {
    return make_error(ErrorKind::unsupported,
                      fmt::format("the state of {} was written by a newer version", slot.written()),
                      "use that version of ascope-sandbox");
  }
  if (record.kind == RecordClass::corrupt) {
    return make_error(
        ErrorKind::corrupt, fmt::format("the state of {} is damaged: {}", slot.written(), record.problem),
        fmt::format(
            "'ascope-sandbox state export --raw {0}' shows it; 'adopt {0}' rebuilds it; 'state rm {0}' "
            "gives it up",
            slot.written()));
  }
  return ok();
}

Result<std::string> store_realm(EngineServices& services, const OpContext& ctx) {
  ASCOPE_TRY_ASSIGN(StateStore * state, services.state());
  for (int attempt = 0; attempt < 3; ++attempt) {
    ASCOPE_TRY_ASSIGN(const auto found, state->read(ctx, kRealmSlot, kRealmSlot));
    if (found) {
      ASCOPE_TRY_ASSIGN(const Json json, parse_json(*found));
      return get_string(json, "realm");
    }
    const std::string fresh = dump_json(Json{{"realm", random_uuid()}});
    ASCOPE_TRY(state->swap(ctx, kRealmSlot, kRealmSlot, std::nullopt, fresh));
  }
  return make_error(ErrorKind::store_unavailable, "the state store does not keep its realm id");
}

SlotSession::~SlotSession() {
  if (shared_keeper_) {
    if (auto released = shared_keeper_->release(ending_context()); !released) {
      log("lease", LogLevel::warn, "could not release: {}", released.error().message);
    }
  }
  if (keeper_ && !joined_) {
    // The holder ends without close(): a lease that cannot be given back runs out by itself.
    if (auto released = keeper_->release(ending_context()); !released) {
      log("lease", LogLevel::warn, "could not release: {}", released.error().message);
    }
  }
}

Result<std::unique_ptr<SlotSession>> SlotSession::open(EngineServices& services, const OpContext& ctx,
                                                       const SlotKey& slot, const SessionOptions& options,
                                                       Receipt& receipt) {
  std::unique_ptr<SlotSession> session(new SlotSession(services, slot));
  const Profile& profile = services.profile();
  const Millis wait = options.wait.value_or(profile.lock_wait);
  session->wait_ = wait;
  session->on_lost_ = options.on_lost;
  const Millis begin = ctx.clock->boottime();
  PhaseTimer timer(receipt, "lease", *ctx.clock);

  const std::string lock_dir = services.state_dir() + "/locks";
  ASCOPE_TRY(make_dirs(lock_dir));
  session->lock_path_ = lock_dir + "/" + slot.file_name();
  auto local = LocalLock::acquire(ctx, session->lock_path_, options.local, wait);
  if (!local) {
    return std::move(local).error().within("waiting for other commands of " + slot.written() +
                                           " on this host");
  }
  session->lock_.emplace(std::move(*local));

  receipt.order = "none";
  if (options.lease && services.has_leases()) {
    ASCOPE_TRY_ASSIGN(session->keeper_store_, services.open_leases());
    receipt.order = session->keeper_store_->order();
    LeaseGrant grant;
    UnusedLease unused;
    if (!options.lease_token.empty()) {
      ASCOPE_TRY_ASSIGN(grant,
                        join_lease(*session->keeper_store_, ctx, slot.store_name(), options.lease_token));
      session->joined_ = true;
    } else {
      ASCOPE_TRY_ASSIGN(const LeaseRequest request, lease_request(services, slot.store_name(), slot.written(),
                                                                  wait - (ctx.clock->boottime() - begin)));
      ASCOPE_TRY_ASSIGN(grant, session->keeper_store_->acquire(ctx, request));
      unused.store = session->keeper_store_.get();
      unused.grant = grant;
    }
    ASCOPE_TRY_ASSIGN(session->view_, read_slot(services, ctx, slot));
    const std::uint64_t seen = session->view_.record.meta ? session->view_.record.meta->fence : 0;
    if (grant.fence <= seen && !session->joined_) {
      // A lease store that lost its count is lifted to what the slot has seen (protocols 2.1).
      ASCOPE_TRY_ASSIGN(grant.fence, session->keeper_store_->raise(ctx, grant, seen));
    }
    session->fence_ = grant.fence;
    unused.store = nullptr;
    session->keeper_ = std::make_unique<LeaseKeeper>(*session->keeper_store_, grant, *ctx.clock,
                                                     profile.max_hold.value_or(Millis(0)), options.on_lost);
  } else {
    ASCOPE_TRY_ASSIGN(session->view_, read_slot(services, ctx, slot));
  }
  receipt.lock_wait = ctx.clock->boottime() - begin;
  receipt.fence = session->fence_;
  return session;
}

void SlotSession::use_view(SlotView view) {
  view.record.bytes = view_.record.bytes;
  present_kind_ = view_.record.kind;
  view_ = std::move(view);
}

Result<void> SlotSession::check() const {
  if (keeper_) {
    ASCOPE_TRY(keeper_->check());
  }
  return shared_keeper_ ? shared_keeper_->check() : ok();
}

Result<void> SlotSession::share_sandbox(const OpContext& ctx, const std::string& id, Receipt& receipt) {
  if (!keeper_ || shared_keeper_) {
    return ok();
  }
  PhaseTimer timer(receipt, "lease", *ctx.clock);
  const Millis begin = ctx.clock->boottime();
  ASCOPE_TRY_ASSIGN(shared_store_, services_.open_leases());
  const std::string shown = fmt::format("sandbox '{}'", id);
  const std::string name = fmt::format("external/{}/{}", services_.backend_kind().name, id);
  ASCOPE_TRY_ASSIGN(const LeaseRequest request,
                    lease_request(services_, name, shown, wait_ - receipt.lock_wait));
  auto grant = shared_store_->acquire(ctx, request);
  if (!grant) {
    return std::move(grant).error().within("waiting for other slots that share " + shown);
  }
  shared_keeper_ = std::make_unique<LeaseKeeper>(*shared_store_, *grant, *ctx.clock,
                                                 services_.profile().max_hold.value_or(Millis(0)), on_lost_);
  receipt.lock_wait += ctx.clock->boottime() - begin;
  return ok();
}

std::string pending_folder(const EngineServices& services) {
  return services.state_dir() + "/pending";
}

Result<void> note_pending_save(const EngineServices& services, const std::string& snapshot,
                               const PendingSave& save) {
  ASCOPE_TRY(make_dirs(pending_folder(services)));
  ASCOPE_TRY(create_file(pending_folder(services) + "/" + snapshot, save.slot + "\n" + save.realm));
  return ok();
}

Result<PendingSave> read_pending_save(const EngineServices& services, const std::string& snapshot) {
  ASCOPE_TRY_ASSIGN(const std::string text, read_file(pending_folder(services) + "/" + snapshot, 64U << 10U));
  const auto end = text.find('\n');
  return PendingSave{text.substr(0, end), end == std::string::npos ? "" : text.substr(end + 1)};
}

Result<void> forget_pending_save(const EngineServices& services, const std::string& snapshot) {
  return remove_file(pending_folder(services) + "/" + snapshot);
}

Result<void> SlotSession::note_pending(const std::string& snapshot, const std::string& realm) {
  ASCOPE_TRY(note_pending_save(services_, snapshot, {slot_.written(), realm}));
  pending_.push_back(snapshot);
  return ok();
}

Result<void> SlotSession::relock(const OpContext& ctx, LockMode mode) {
  // In place: who let go of it and queued anew would wait for those behind him, and they for his lease.
  auto changed = lock_->change(ctx, mode, wait_);
  if (!changed) {
    return std::move(changed).error().within("waiting for other commands of " + slot_.written() +
                                             " on this host");
  }
  return ok();
}

Result<void> SlotSession::remove_old_aux(const OpContext& ctx, StateStore& state) {
  const std::string name = slot_.store_name();
  ASCOPE_TRY_ASSIGN(const auto keys, state.keys(ctx, name));
  std::vector<std::pair<std::uint64_t, std::string>> found;
  for (const auto& key : keys) {
    if (const auto rev = aux_revision(key)) {
      found.emplace_back(*rev, key);
    }
  }
  std::sort(found.rbegin(), found.rend());
  for (std::size_t i = 2; i < found.size(); ++i) {
    if (!view_.record.meta->aux || found[i].second != view_.record.meta->aux->key) {
      ASCOPE_TRY(state.remove(ctx, name, found[i].second));
    }
  }
  return ok();
}

Result<void> SlotSession::close(const OpContext& ctx) {
  Result<void> shared = ok();
  if (shared_keeper_) {
    OpContext ending = ctx;
    ending.uninterruptible = true;
    shared = shared_keeper_->release(ending);
    shared_keeper_.reset();
  }
  if (keeper_ && !joined_) {
    OpContext ending = ctx;
    ending.uninterruptible = true;  // a signal ends the command, and its lease with it
    auto released = keeper_->release(ending);
    keeper_.reset();
    lock_.reset();
    return released ? std::move(shared) : std::move(released);
  }
  if (keeper_) {
    keeper_.reset();  // the lease belongs to who took it
  }
  lock_.reset();
  return shared;
}

}  // namespace ascope
