// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/live_packs.h"

#include "core/repository/chunks/manifest_list.h"

namespace ascope::chunks {

Result<std::map<PackName, StoredPack>> list_packs(const OpContext& ctx, StoreAccess& store) {
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> all, store.list(ctx, std::string(kPacksFolder)));
  std::map<PackName, StoredPack> out;
  for (const BlobInfo& one : all) {
    if (const Result<PackName> name = pack_name_from_hex(one.key.substr(one.key.rfind('/') + 1))) {
      out.emplace(*name, StoredPack{one.size_bytes, one.modified});
    }
  }
  return out;
}

Result<void> LivePacks::look_at_manifests(const OpContext& ctx, const Access& access, const TakeRoot& take) {
  ASCOPE_TRY_ASSIGN(const std::vector<StoredManifest> manifests, list_manifests(ctx, *access.store));
  for (const StoredManifest& one : manifests) {
    ASCOPE_TRY(ctx.check("looking for packs that are needed"));
    if (seen_.contains(one.info.key)) {
      continue;
    }
    ASCOPE_TRY_ASSIGN(const std::optional<ManifestRoot> root, read_listed_root(ctx, access, one.info.key));
    if (root) {
      for (const PackUse& use : root->packs) {
        packs_.insert(use.name);
      }
      seen_.insert(one.info.key);
      if (take) {
        ASCOPE_TRY(take(one.info.key, *root));
      }
    }
  }
  return ok();
}

Result<void> LivePacks::look_at_pins(const OpContext& ctx, const Access& access, StoreTime now) {
  stale_pins_.clear();
  ASCOPE_TRY_ASSIGN(std::vector<BlobInfo> pins, access.store->list(ctx, std::string(kPinsFolder)));
  for (BlobInfo& one : pins) {
    if (now - one.modified > kPinLife) {
      stale_pins_.push_back(std::move(one));
      continue;
    }
    if (!seen_.contains(one.key)) {
      ASCOPE_TRY_ASSIGN(const std::optional<Pin> pin, read_pin(ctx, *access.store, *access.key, one.key));
      if (pin) {
        packs_.insert(pin->packs.begin(), pin->packs.end());
        pinned_.insert(pin->packs.begin(), pin->packs.end());
        seen_.insert(std::move(one.key));
      }
    }
  }
  return ok();
}

void LivePacks::follow_forwarders() {
  std::vector<PackName> to_follow;
  for (const Forwarder& one : forwarders_) {
    if (packs_.contains(one.from)) {
      to_follow.push_back(one.from);
    }
  }
  while (!to_follow.empty()) {
    const PackName pack = to_follow.back();
    to_follow.pop_back();
    for (const Forwarder& one : forwarders_of(forwarders_, pack)) {
      if (packs_.insert(one.to).second) {
        to_follow.push_back(one.to);
      }
    }
  }
}

Result<void> LivePacks::look(const OpContext& ctx, const Access& access, StoreTime now,
                             const TakeRoot& take) {
  ASCOPE_TRY(look_at_manifests(ctx, access, take));
  ASCOPE_TRY(look_at_pins(ctx, access, now));
  ASCOPE_TRY_ASSIGN(forwarders_, list_forwarders(ctx, *access.store));
  follow_forwarders();
  return ok();
}

}  // namespace ascope::chunks
