// SPDX-License-Identifier: Apache-2.0
// One command's hold on a slot: local lock, store lease, record, claim and commit (protocols 1.2 and 2.1).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/services.h"
#include "core/lease/lease_keeper.h"
#include "core/lease/local_lock.h"
#include "core/receipt.h"
#include "core/record.h"

namespace ascope {

struct SessionOptions {
  LockMode local = LockMode::commit;
  bool lease = true;              // false: looking only, or exec
  std::optional<Millis> wait;     // nullopt: the profile's lock.wait
  std::string lease_token;        // --lease / ASCOPE_LEASE: join that lease
  std::function<void()> on_lost;  // runs on the keeper's thread when the lease is lost
};

// Reads a slot's record and the aux it names. `store_unavailable` if the store cannot be asked; every class
// of record is a value. A record without its aux: a history of its head alone, and `aux_lost`.
struct SlotView {
  SlotRecord record;
  Aux aux;
  bool aux_lost = false;
};
Result<SlotView> read_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot);

// `corrupt` or `unsupported` for a record that cannot be read or is of a newer version; nothing is done with
// it.
Result<void> require_readable(const SlotKey& slot, const SlotRecord& record);

// Where a small file of ours names the objects of a save before they are put, so that gc finds those of a
// save that was killed and never takes another program's object for garbage.
std::string pending_folder(const EngineServices& services);
// `realm`: of the state store whose record is to name the snapshot.
struct PendingSave {
  std::string slot;  // written form
  std::string realm;
};
Result<void> note_pending_save(const EngineServices& services, const std::string& snapshot,
                               const PendingSave& save);
Result<PendingSave> read_pending_save(const EngineServices& services, const std::string& snapshot);
// A repeat is harmless.
Result<void> forget_pending_save(const EngineServices& services, const std::string& snapshot);

// Identifies this whole state store; made on first use (protocols 3.1).
Result<std::string> store_realm(EngineServices& services, const OpContext& ctx);

class SlotSession {
 public:
  // Takes the locks in order (local, lease), reads the slot. Fills fence, lock_wait, order of `receipt`.
  // `busy` names the holder; `conflict` for a token of another slot or one that ran out.
  static Result<std::unique_ptr<SlotSession>> open(EngineServices& services, const OpContext& ctx,
                                                   const SlotKey& slot, const SessionOptions& options,
                                                   Receipt& receipt);
  ~SlotSession();

  [[nodiscard]] const SlotKey& slot() const { return slot_; }
  [[nodiscard]] const SlotRecord& record() const { return view_.record; }
  [[nodiscard]] const SlotView& view() const { return view_; }
  // For `--from-state`: what was read is replaced by what the user gave; the compare token stays.
  void use_view(SlotView view);
  [[nodiscard]] Aux& aux() { return view_.aux; }
  [[nodiscard]] bool aux_lost() const { return view_.aux_lost; }
  [[nodiscard]] std::uint64_t fence() const { return fence_; }
  // The lease still holds (always true without one).
  [[nodiscard]] Result<void> check() const;
  // note_pending_save() of this slot; the next commit forgets it.
  Result<void> note_pending(const std::string& snapshot, const std::string& realm);
  // For a sandbox that several slots are bound to: also takes the lease of its own id, after the slot's,
  // until the session ends. `busy` names the holder. Without a lease of the slot there is nothing to take.
  Result<void> share_sandbox(const OpContext& ctx, const std::string& id, Receipt& receipt);
  // Swaps the local lock between commit and exclusive, never letting go. `busy` if commands that run in the
  // sandbox did not end within the session's wait.
  Result<void> relock(const OpContext& ctx, LockMode mode);

  // Writes our fence into the record (or makes a first one as a tombstone-free claim: an absent slot is
  // claimed by its first commit). `conflict` if a higher fence is there, `unsupported` for a newer record,
  // `corrupt` for a corrupt one.
  Result<void> claim(const OpContext& ctx, Receipt& receipt);

  struct Change {
    std::string document;  // the AgentScope document, as text
    bool deleted = false;
    std::optional<HeadRef> head;
    std::optional<LiveMark> live;
  };
  // Writes aux (if it changed), checks the lease, swaps the record. `conflict` if another wrote meanwhile; an
  // unknown outcome is resolved by reading back. Older aux keys beyond two are deleted after.
  Result<void> commit(const OpContext& ctx, const Change& change, Receipt& receipt);

  // Gives the lease back; the locks go with the object.
  Result<void> close(const OpContext& ctx);

 private:
  SlotSession(EngineServices& services, SlotKey slot) : services_(services), slot_(std::move(slot)) {}
  Result<void> swap_record(const OpContext& ctx, const std::string& document, bool deleted, SlotMeta& meta,
                           Receipt& receipt);
  Result<void> remove_old_aux(const OpContext& ctx, StateStore& state);

  EngineServices& services_;
  SlotKey slot_;
  SlotView view_;
  std::optional<RecordClass> present_kind_;  // what really stands in the store, after use_view()
  std::vector<std::string> pending_;
  std::string lock_path_;
  Millis wait_{0};  // for the locks
  std::optional<LocalLock> lock_;
  std::unique_ptr<LeaseStore> keeper_store_;
  std::unique_ptr<LeaseKeeper> keeper_;
  bool joined_ = false;  // working under somebody's lease: renewed by us, never released
  std::uint64_t fence_ = 0;
  std::function<void()> on_lost_;
  std::unique_ptr<LeaseStore> shared_store_;  // share_sandbox()
  std::unique_ptr<LeaseKeeper> shared_keeper_;
};

}  // namespace ascope
