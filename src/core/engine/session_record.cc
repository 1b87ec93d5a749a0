// SPDX-License-Identifier: Apache-2.0
// The writes of a session: claim and commit, each one compare-and-swap of the record (protocols 1.2).
#include <fmt/format.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/engine/session.h"

namespace ascope {

namespace {

// `after` is `before` but for the mark that an exec sets without a lease: its sandbox is clean no more.
bool is_marked_only(const SlotRecord& before, const SlotRecord& after) {
  if (before.kind != RecordClass::ours || after.kind != RecordClass::ours ||
      before.document_text != after.document_text || !before.meta->live || !after.meta->live) {
    return false;
  }
  LiveMark marked = *before.meta->live;
  marked.clean = false;
  marked.since = after.meta->live->since;
  return before.meta->live->clean && marked == *after.meta->live && before.meta->realm == after.meta->realm &&
         before.meta->fence == after.meta->fence && before.meta->head == after.meta->head &&
         before.meta->aux == after.meta->aux;
}

}  // namespace

Result<void> SlotSession::claim(const OpContext& ctx, Receipt& receipt) {
  PhaseTimer timer(receipt, "claim", *ctx.clock);
  ASCOPE_TRY(services_.step("before-claim"));
  SlotRecord& record = view_.record;
  ASCOPE_TRY(require_readable(slot_, record));
  const std::uint64_t seen = record.meta ? record.meta->fence : 0;
  if (!keeper_) {
    fence_ = seen + 1;  // lock.store none: order by the record's own compare-and-swap alone
  } else if (fence_ < seen || (fence_ == seen && !joined_)) {
    return make_error(ErrorKind::conflict, fmt::format("a later holder has claimed {}", slot_.written()),
                      "run the command again");
  }
  receipt.claimed_over = seen;
  receipt.fence = fence_;
  if (present_kind_.value_or(record.kind) == RecordClass::absent) {
    return ok();  // the first commit creates the record, and only if it is still absent
  }
  SlotMeta meta = record.meta.value_or(SlotMeta{});
  if (meta.realm.empty()) {
    ASCOPE_TRY_ASSIGN(meta.realm, store_realm(services_, ctx));
  }
  meta.rev += 1;
  meta.fence = fence_;
  ASCOPE_TRY(swap_record(ctx, record.document_text, record.kind == RecordClass::tombstone, meta, receipt));
  return services_.step("after-claim");
}

Result<void> SlotSession::swap_record(const OpContext& ctx, const std::string& document, bool deleted,
                                      SlotMeta& meta, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(StateStore * state, services_.state());
  const std::string name = slot_.store_name();
  while (true) {
    const std::string bytes = build_record(document, deleted, meta);
    const std::optional<std::string> expected =
        present_kind_.value_or(view_.record.kind) == RecordClass::absent
            ? std::nullopt
            : std::optional<std::string>(view_.record.bytes);
    ASCOPE_TRY(check());
    auto swapped = state->swap(ctx, name, kRecordKey, expected, bytes);
    std::optional<std::string> present = bytes;
    if (!swapped || !*swapped) {
      // Refused, or the outcome is unknown: what stands there decides.
      auto read = state->read(ctx, name, kRecordKey);
      if (!read) {
        return swapped ? std::move(read).error() : std::move(swapped).error();
      }
      present = std::move(*read);
    }
    if (present == bytes) {
      view_.record = parse_record(bytes);
      present_kind_.reset();
      receipt.rev = meta.rev;
      return ok();
    }
    if (!swapped) {
      return std::move(swapped).error();
    }
    SlotRecord other = parse_record(present);
    if (!present_kind_ && is_marked_only(view_.record, other)) {
      // An exec went in beside us: what it does may be in our save or not, so the tree is not clean.
      meta.rev = other.meta->rev + 1;
      if (meta.live && meta.live->tree == other.meta->live->tree) {
        meta.live->clean = false;
        meta.live->since = other.meta->live->since;
      }
      view_.record = std::move(other);
      continue;
    }
    receipt.foreign_writer =
        other.meta && other.kind == RecordClass::ours ? other.meta->writer : "another program";
    return make_error(
        ErrorKind::conflict,
        fmt::format("the state of {} was changed by another writer; nothing was overwritten",
                    slot_.written()),
        fmt::format("look with 'ascope-sandbox show {}' and run the command again", slot_.written()));
  }
}

Result<void> SlotSession::commit(const OpContext& ctx, const Change& change, Receipt& receipt) {
  PhaseTimer timer(receipt, "commit", *ctx.clock);
  ASCOPE_TRY_ASSIGN(StateStore * state, services_.state());
  const std::string name = slot_.store_name();
  SlotMeta meta = view_.record.meta.value_or(SlotMeta{});
  if (meta.realm.empty()) {
    ASCOPE_TRY_ASSIGN(meta.realm, store_realm(services_, ctx));
  }
  meta.rev += 1;
  meta.fence = fence_;
  meta.head = change.head;
  meta.live = change.live;
  view_.aux.slot = slot_.written();
  const std::string aux_bytes = dump_aux(view_.aux);
  const std::string digest = sha256_hex(aux_bytes);
  ASCOPE_TRY(services_.step("before-aux"));
  if (!meta.aux || meta.aux->sha256 != digest) {
    const std::string key = fmt::format("{}{}-{}", kAuxPrefix, meta.rev, random_hex(8));
    ASCOPE_TRY_ASSIGN(const bool stored, state->swap(ctx, name, key, std::nullopt, aux_bytes));
    if (!stored) {
      return make_error(ErrorKind::conflict, fmt::format("value '{}' exists already", key),
                        "run the command again");
    }
    meta.aux = AuxRef{key, digest};
  }
  ASCOPE_TRY(services_.step("before-commit"));
  ASCOPE_TRY(swap_record(ctx, change.document, change.deleted, meta, receipt));
  ASCOPE_TRY(services_.step("after-commit"));
  for (const auto& snapshot : std::exchange(pending_, {})) {
    ASCOPE_TRY(forget_pending_save(services_, snapshot));
  }
  return remove_old_aux(ctx, *state);
}

}  // namespace ascope
