// SPDX-License-Identifier: Apache-2.0
// The services of a store: immutable objects, slot records by compare-and-swap, leases, and a journal of
// receipts. A kind of store may lack a service. To add a store: one file in src/store and one line in
// src/store/stores.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/op_context.h"
#include "core/base/secret.h"

namespace ascope {

// ---- objects
// ------------------------------------------------------------------------------------------------------

struct BlobInfo {
  std::string key;
  std::uint64_t size_bytes = 0;
  std::string version;                             // an ETag or such; empty where the store has none
  std::chrono::system_clock::time_point modified;  // by the store's clock
};

// Keys that is_object_key (core/object_key.h) refuses are `internal`.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  // Stores the stream under `key` if nothing is there. nullopt: the key exists already, and nothing was
  // changed. All or nothing: a reader never sees a part, a failure leaves nothing under `key`. Durable
  // (fsync) when it returns.
  virtual Result<std::optional<BlobInfo>> put(const OpContext& ctx, std::string_view key,
                                              ByteSource& data) = 0;
  // `not_found` only if the store was asked and has no such key. `length` 0 = to the end.
  virtual Result<std::unique_ptr<ByteSource>> get(const OpContext& ctx, std::string_view key,
                                                  std::uint64_t offset = 0, std::uint64_t length = 0) = 0;
  virtual Result<std::optional<BlobInfo>> stat(const OpContext& ctx, std::string_view key) = 0;
  // Every key that begins with `prefix`, in byte order. Temporary files are never listed.
  virtual Result<std::vector<BlobInfo>> list(const OpContext& ctx, std::string_view prefix) = 0;
  // A repeat is harmless.
  virtual Result<void> remove(const OpContext& ctx, std::string_view key) = 0;
  // Several threads may call at once, and read what get() gave meanwhile.
  [[nodiscard]] virtual bool is_concurrent() const { return false; }
};

// ---- records
// ------------------------------------------------------------------------------------------------------

inline constexpr std::string_view kRecordKey =
    "_sandbox_state";  // AgentScope's key of a slot's record (reference 4.1)
inline constexpr std::string_view kAuxPrefix = "_ascope.";  // protocols 1.1
// The pseudo slot that holds what belongs to the whole state store, such as key "_ascope_realm".
inline constexpr std::string_view kRealmSlot = "_ascope_realm";

// Values by (slot name, key) in AgentScope's layout. A slot name is SlotKey::store_name(). Values are bytes.
// "Absent" is said only when the store was asked and had nothing; anything else is store_unavailable, denied
// or io.
class StateStore {
 public:
  virtual ~StateStore() = default;
  virtual Result<std::optional<std::string>> read(const OpContext& ctx, std::string_view slot,
                                                  std::string_view key) = 0;
  // Writes `desired` if the value is exactly `expected` (nullopt = absent). false: it was another; nothing
  // was written. One atomic step, durable when it returns. An error means the outcome is unknown: read again
  // and compare.
  virtual Result<bool> swap(const OpContext& ctx, std::string_view slot, std::string_view key,
                            const std::optional<std::string>& expected, std::string_view desired) = 0;
  // Physically removes a value (aux keys, test data; a slot's record is never removed but tombstoned). Repeat
  // is harmless.
  virtual Result<void> remove(const OpContext& ctx, std::string_view slot, std::string_view key) = 0;
  // Keys of one slot that exist, sorted.
  virtual Result<std::vector<std::string>> keys(const OpContext& ctx, std::string_view slot) = 0;
  // Names of all slots that hold a record (tombstones too), sorted by bytes. Includes what Java agents left.
  virtual Result<std::vector<std::string>> slots(const OpContext& ctx) = 0;
};

// How many receipts of a slot a store keeps.
inline constexpr std::size_t kReceiptsKept = 200;

// The list of a slot's receipts, newest last; the store keeps the last kReceiptsKept of each slot.
class ReceiptStore {
 public:
  virtual ~ReceiptStore() = default;
  virtual Result<void> append(const OpContext& ctx, std::string_view slot, std::string_view receipt_json) = 0;
  // At most `limit` of them, newest first.
  virtual Result<std::vector<std::string>> newest(const OpContext& ctx, std::string_view slot,
                                                  std::size_t limit) = 0;
  virtual Result<void> clear(const OpContext& ctx, std::string_view slot) = 0;
};

// ---- leases
// -------------------------------------------------------------------------------------------------------

// Who holds: enough to prove a holder dead on its own host (host, boot, pid namespace, pid AND start time),
// and to show.
struct LeaseHolder {
  std::string host;
  std::string host_name;
  std::string boot;
  std::uint64_t pid_namespace = 0;
  std::int64_t pid = 0;  // 0: no process stands behind it (`lock acquire`); only its deadline proves it dead
  std::uint64_t start_time = 0;
  std::string user;
  std::string command;
};

struct LeaseGrant {
  std::string name;   // the slot's store_name()
  std::string token;  // 32 hex digits
  std::uint64_t fence = 0;
  Millis ttl{0};
  Millis asked{0};  // boot-time clock at the start of the step that granted it; 0: not said
};

struct LeaseInfo {
  std::string name;
  std::string token;
  std::uint64_t fence = 0;
  LeaseHolder holder;
  std::string since;                // RFC 3339, the store's clock
  std::optional<Millis> remaining;  // nullopt: expired
  Millis ttl{0};                    // as it was asked for
  bool proven_dead = false;         // the holder's process is gone, seen on this very host
};

struct LeaseRequest {
  std::string name;
  std::string token;  // chosen by the caller: the same token again gets the same grant (a lost reply)
  LeaseHolder holder;
  Millis ttl{60'000};
  Millis wait{60'000};          // 0 = try once
  Millis retry{500};            // poll interval where the store cannot wake a waiter
  std::uint64_t min_fence = 0;  // the grant's fence is higher than this
  // Called once when it turns out that we must wait, with the present holder (for "waiting for …" on stderr).
  // May be empty.
  std::function<void(const LeaseInfo&)> on_wait;
};

// A grant belongs to the object that gave it: acquire, renew and release it there (a store may keep a
// connection or a file lock for the hold). Other objects may renew, raise and release it too, as commands
// that joined it do, but those who wait may then be woken later.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;
  // Waits in order of arrival up to `wait`. `busy` names the holder in its message. Fences only ever rise.
  virtual Result<LeaseGrant> acquire(const OpContext& ctx, const LeaseRequest& request) = 0;
  // Extends by ttl from now on the store's clock. false: lost (expired and taken, or broken).
  virtual Result<bool> renew(const OpContext& ctx, const LeaseGrant& grant) = 0;
  // false: it was not ours any more; nothing was changed.
  virtual Result<bool> release(const OpContext& ctx, const LeaseGrant& grant) = 0;
  // While holding: lifts the fence above `at_least` (the slot's record carries a higher one); returns the new
  // fence.
  virtual Result<std::uint64_t> raise(const OpContext& ctx, const LeaseGrant& grant,
                                      std::uint64_t at_least) = 0;
  virtual Result<std::vector<LeaseInfo>> list(const OpContext& ctx) = 0;
  // Ends the lease if it is still the one that was shown (`token`). false: it was another or none.
  virtual Result<bool> break_lease(const OpContext& ctx, std::string_view name, std::string_view token) = 0;
  // "kept": order of arrival; "not": polling.
  [[nodiscard]] virtual std::string_view order() const = 0;
};

// ---- kinds
// --------------------------------------------------------------------------------------------------------

// A store's URL, split once. `text` is safe to show (no password).
struct StoreUrl {
  std::string scheme;  // "local", "json", "sqlite", "none", "redis", …
  std::string path;    // what stands behind "scheme:" without the query; may be empty
  std::map<std::string, std::string> query;
  Secret password;
  std::string text;
};
Result<StoreUrl> parse_store_url(std::string_view text);
// The file or folder that a URL of this machine names, absolute; relative ones count from the working
// directory. `config` if it names none.
Result<std::string> store_path(const StoreUrl& url);
// `config` if the URL has an option that is not among `known`.
Result<void> check_store_options(const StoreUrl& url, std::span<const std::string_view> known = {});

struct StoreContext {
  std::string state_dir;  // default places lie below it
  std::string host;       // host_id()
};

// One kind of store; a null function = the kind has no such service. Constants with static storage.
struct StoreKind {
  std::string_view scheme;
  std::string_view summary;  // one line for the manual
  bool shared = false;       // other machines see it too
  Result<std::unique_ptr<BlobStore>> (*open_blobs)(const OpContext&, const StoreUrl&,
                                                   const StoreContext&) = nullptr;
  Result<std::unique_ptr<StateStore>> (*open_state)(const OpContext&, const StoreUrl&,
                                                    const StoreContext&) = nullptr;
  Result<std::unique_ptr<ReceiptStore>> (*open_receipts)(const OpContext&, const StoreUrl&,
                                                         const StoreContext&) = nullptr;
  Result<std::unique_ptr<LeaseStore>> (*open_leases)(const OpContext&, const StoreUrl&,
                                                     const StoreContext&) = nullptr;
};

}  // namespace ascope
