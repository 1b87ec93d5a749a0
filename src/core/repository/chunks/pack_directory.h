// SPDX-License-Identifier: Apache-2.0
// Where chunks lie by the packs' own indexes, the last ones used kept in memory.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>

#include "core/repository/chunks/pack.h"

namespace ascope::chunks {

class PackDirectory {
 public:
  PackDirectory(StoreAccess& store, const RepositoryKey& key) : store_(store), key_(key) {}

  // The pack as its own index has it, valid until the next call; nullptr: there is no such pack.
  Result<const PackInfo*> pack(const OpContext& ctx, const PackName& name);

 private:
  struct Kept {
    PackName name;
    std::optional<PackInfo> info;  // nullopt: there is no such pack
    std::size_t bytes = 0;
  };
  StoreAccess& store_;
  const RepositoryKey& key_;
  std::list<Kept> kept_;  // the last used first
  std::map<PackName, std::list<Kept>::iterator> by_name_;
  std::size_t bytes_ = 0;
};

}  // namespace ascope::chunks
