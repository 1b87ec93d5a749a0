// SPDX-License-Identifier: Apache-2.0
// Which packs must stay: those that a manifest of any realm names, those that a pin holds, and, where a
// forwarder leads from one of these to another pack, that one too, and so on.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/repository/chunks/chunk_reader.h"
#include "core/repository/chunks/markers.h"

namespace ascope::chunks {

using StoreTime = std::chrono::system_clock::time_point;

struct StoredPack {
  std::uint64_t size_bytes = 0;
  StoreTime modified;
};
// The packs that exist. Objects with other names are passed over.
Result<std::map<PackName, StoredPack>> list_packs(const OpContext& ctx, StoreAccess& store);

// Memory: a name for each pack that is needed (some 40 bytes) and for each manifest (some 150); one root at a
// time.
class LivePacks {
 public:
  // Lists the manifests, then the pins, then the forwarders, and reads what it has not read before; a later
  // look adds to what is live. `now` by the store's clock. `take` is given each root that is read. A root or
  // a pin that cannot be read is an error, with the object's name: what it needs is not known.
  using TakeRoot = std::function<Result<void>(const std::string& object, const ManifestRoot& root)>;
  Result<void> look(const OpContext& ctx, const Access& access, StoreTime now,
                    const TakeRoot& take = nullptr);

  [[nodiscard]] bool contains(const PackName& pack) const { return packs_.contains(pack); }
  // A pin holds it: a reader may want more of it than the manifests that are left.
  [[nodiscard]] bool is_pinned(const PackName& pack) const { return pinned_.contains(pack); }
  // Of the last look, by the pack that is forwarded.
  [[nodiscard]] const std::vector<Forwarder>& forwarders() const { return forwarders_; }
  // Pins of the last look that hold nothing any more.
  [[nodiscard]] const std::vector<BlobInfo>& stale_pins() const { return stale_pins_; }

 private:
  Result<void> look_at_manifests(const OpContext& ctx, const Access& access, const TakeRoot& take);
  Result<void> look_at_pins(const OpContext& ctx, const Access& access, StoreTime now);
  void follow_forwarders();

  std::unordered_set<PackName, PackName::Hash> packs_;
  std::unordered_set<PackName, PackName::Hash> pinned_;
  std::set<std::string> seen_;  // manifests and pins
  std::vector<Forwarder> forwarders_;
  std::vector<BlobInfo> stale_pins_;
};

}  // namespace ascope::chunks
