// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/live_packs.h"

#include <algorithm>

#include "core/repository/chunks/manifest_list.h"

namespace ascope::chunks {

Result<void> LivePacks::look_at_manifests(const OpContext& ctx, const Access& access) {
  new_manifests_.clear();
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
      new_manifests_.push_back(one.info.key);
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
        seen_.insert(std::move(one.key));
      }
    }
  }
  return ok();
}

void LivePacks::follow_forwarders() {
  std::vector<PackName> fresh;
  const auto by_from = [](const Forwarder& a, const Forwarder& b) { return a.from < b.from; };
  const auto follow = [&](const PackName& pack) {
    const auto [begin, end] =
        std::equal_range(forwarders_.begin(), forwarders_.end(), Forwarder{pack, {}, {}}, by_from);
    for (auto one = begin; one != end; ++one) {
      if (packs_.insert(one->to).second) {
        fresh.push_back(one->to);
      }
    }
  };
  for (const Forwarder& one : forwarders_) {
    if (packs_.contains(one.from)) {
      follow(one.from);
    }
  }
  while (!fresh.empty()) {
    const PackName pack = fresh.back();
    fresh.pop_back();
    follow(pack);
  }
}

Result<void> LivePacks::look(const OpContext& ctx, const Access& access, StoreTime now) {
  ASCOPE_TRY(look_at_manifests(ctx, access));
  ASCOPE_TRY(look_at_pins(ctx, access, now));
  ASCOPE_TRY_ASSIGN(forwarders_, list_forwarders(ctx, *access.store));
  follow_forwarders();
  return ok();
}

}  // namespace ascope::chunks
