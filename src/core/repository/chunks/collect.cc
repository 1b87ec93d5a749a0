// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/collect.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/repository/chunks/condemnation.h"
#include "core/repository/chunks/hints.h"
#include "core/repository/chunks/live_packs.h"
#include "core/repository/chunks/sealed.h"

namespace ascope::chunks {

namespace {

class Collector {
 public:
  Collector(const OpContext& ctx, const Access& access, const CollectOptions& options)
      : ctx_(ctx), access_(access), options_(options) {}
  Result<CollectOutcome> run();

 private:
  Result<void> look();
  Result<void> read_stale_lists();
  void choose();
  Result<void> destroy(Condemnation& condemned);
  Result<void> destroy_pack(Condemnation& condemned, const PackName& pack);
  Result<void> clear_lists();
  Result<void> clear_pins();
  Result<void> clear_hints();
  Result<void> clear(const BlobInfo& info, std::string reason);
  void note(std::string object, std::uint64_t size_bytes, bool removed, std::string reason);
  [[nodiscard]] bool is_old(StoreTime modified) const { return now_ - modified > options_.grace; }

  const OpContext& ctx_;
  const Access& access_;
  const CollectOptions& options_;
  StoreTime now_;
  std::map<PackName, StoredPack> packs_;  // that exist
  LivePacks live_;
  struct StaleList {
    BlobInfo info;
    std::vector<PackName> packs;
  };
  std::vector<StaleList> stale_lists_;
  std::set<PackName> left_over_;      // packs in stale lists
  std::vector<PackName> candidates_;  // packs, with their forwarders; some are gone already
  CollectOutcome out_;
  bool removed_packs_ = false;
};

void Collector::note(std::string object, std::uint64_t size_bytes, bool removed, std::string reason) {
  out_.removed_bytes += removed ? size_bytes : 0;
  out_.objects.push_back({std::move(object), size_bytes, removed, std::move(reason)});
}

Result<void> Collector::look() {
  if (options_.dry_run) {
    now_ = ctx_.clock->wall();
  } else {
    ASCOPE_TRY_ASSIGN(now_, store_time(ctx_, access_));
  }
  ASCOPE_TRY_ASSIGN(packs_, list_packs(ctx_, *access_.store));
  ASCOPE_TRY(read_stale_lists());
  return live_.look(ctx_, access_, now_);
}

// Younger lists belong to a gc that is at work.
Result<void> Collector::read_stale_lists() {
  ASCOPE_TRY_ASSIGN(std::vector<BlobInfo> lists, access_.store->list(ctx_, std::string(kCondemnedFolder)));
  for (BlobInfo& one : lists) {
    if (!is_old(one.modified)) {
      continue;
    }
    Result<std::optional<std::vector<PackName>>> packs =
        read_condemned_list(ctx_, *access_.store, *access_.key, one.key);
    if (!packs && packs.error().kind == ErrorKind::corrupt) {
      note(one.key, one.size_bytes, false,
           "it is damaged, and no save goes on while it is there: repair the store");
      continue;
    }
    if (!packs) {
      return std::move(packs).error();
    }
    if (*packs) {
      left_over_.insert((*packs)->begin(), (*packs)->end());
      stale_lists_.push_back({std::move(one), std::move(**packs)});
    }
  }
  return ok();
}

void Collector::choose() {
  for (const auto& [name, pack] : packs_) {
    const bool left_over = left_over_.contains(name);
    if (live_.contains(name)) {
      if (left_over) {
        out_.to_repack.push_back(name);
      }
    } else if (left_over || is_old(pack.modified)) {
      candidates_.push_back(name);
    } else {
      note(pack_key(name), pack.size_bytes, false, "no snapshot needs it, but it is young");
    }
  }
  for (const Forwarder& one : live_.forwarders()) {
    const bool known = !candidates_.empty() && candidates_.back() == one.from;
    if (!live_.contains(one.from) && !packs_.contains(one.from) && !known && is_old(one.info.modified)) {
      candidates_.push_back(one.from);
    }
  }
}

Result<void> Collector::destroy_pack(Condemnation& condemned, const PackName& pack) {
  if (const auto found = packs_.find(pack); found != packs_.end()) {
    if (!options_.dry_run) {
      ASCOPE_TRY(condemned.destroy(ctx_, pack_key(pack)));
    }
    note(pack_key(pack), found->second.size_bytes, true, "no snapshot needs it");
    packs_.erase(found);
    removed_packs_ = true;
  }
  for (const Forwarder& one : forwarders_of(live_.forwarders(), pack)) {
    if (!options_.dry_run) {
      ASCOPE_TRY(condemned.destroy(ctx_, one.info.key));
    }
    note(one.info.key, one.info.size_bytes, true, "no snapshot needs the pack that it stands for");
  }
  return ok();
}

Result<void> Collector::destroy(Condemnation& condemned) {
  if (!options_.dry_run) {
    ASCOPE_TRY(condemned.put(ctx_, candidates_));
    ASCOPE_TRY(live_.look(ctx_, access_, now_));  // a save may have named some of them before it could know
  }
  for (const PackName& pack : candidates_) {
    if (!live_.contains(pack)) {
      ASCOPE_TRY(destroy_pack(condemned, pack));
    } else if (const auto found = packs_.find(pack); found != packs_.end()) {
      note(pack_key(pack), found->second.size_bytes, false, "a snapshot has come that needs it");
      if (left_over_.contains(pack)) {
        out_.to_repack.push_back(pack);
      }
    }
  }
  return options_.dry_run ? ok() : condemned.lift(ctx_);
}

Result<void> Collector::clear(const BlobInfo& info, std::string reason) {
  if (!options_.dry_run) {
    ASCOPE_TRY(access_.store->remove(ctx_, info.key));
  }
  note(info.key, info.size_bytes, true, std::move(reason));
  return ok();
}

// A list may go when all its packs have: whoever still works by it can harm nothing then.
Result<void> Collector::clear_lists() {
  for (const StaleList& one : stale_lists_) {
    const bool done = std::none_of(one.packs.begin(), one.packs.end(),
                                   [&](const PackName& pack) { return packs_.contains(pack); });
    if (done) {
      ASCOPE_TRY(clear(one.info, "it is of a gc that died, and all its packs are gone"));
    } else {
      note(one.info.key, one.info.size_bytes, false,
           "it is of a gc that died, and names packs that are needed");
    }
  }
  return ok();
}

Result<void> Collector::clear_pins() {
  const std::vector<BlobInfo> pins = live_.stale_pins();
  for (const BlobInfo& one : pins) {
    ASCOPE_TRY(clear(one, "the time that it held a snapshot for is over"));
  }
  return ok();
}

// Only after packs went, for hints are large. An old hint's packs, if they exist, were in our list.
Result<void> Collector::clear_hints() {
  if (!removed_packs_) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> hints, access_.store->list(ctx_, std::string(kHintsFolder)));
  for (const BlobInfo& one : hints) {
    ASCOPE_TRY(ctx_.check("looking at hints"));
    if (!is_old(one.modified)) {
      continue;
    }
    Result<std::string> bytes = access_.store->read(ctx_, one.key, kMaxSealedBytes);
    if (!bytes && bytes.error().kind != ErrorKind::not_found) {
      return std::move(bytes).error();
    }
    if (!bytes) {
      continue;
    }
    const Result<std::vector<NamedIndex>> packs = decode_hints(*access_.key, *bytes);
    const bool useless = !packs || std::none_of(packs->begin(), packs->end(), [&](const NamedIndex& pack) {
      return packs_.contains(pack.pack);
    });
    if (useless) {
      ASCOPE_TRY(clear(one, packs ? "all its packs are gone" : "it cannot be read, and is a hint only"));
    }
  }
  return ok();
}

Result<CollectOutcome> Collector::run() {
  ASCOPE_TRY(look());
  choose();
  if (!candidates_.empty()) {
    Condemnation condemned(access_);
    if (Result<void> done = destroy(condemned); !done) {
      if (!options_.dry_run) {
        condemned.give_up(ctx_);
      }
      return std::move(done).error();
    }
  }
  ASCOPE_TRY(clear_lists());
  ASCOPE_TRY(clear_pins());
  ASCOPE_TRY(clear_hints());
  return std::move(out_);
}

}  // namespace

Result<CollectOutcome> collect(const OpContext& ctx, const Access& access, const CollectOptions& options) {
  return Collector(ctx, access, options).run();
}

}  // namespace ascope::chunks
