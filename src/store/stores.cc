// SPDX-License-Identifier: Apache-2.0
// To add a store: declare its kind and put it into the list, in the order of the manual.
#include "store/stores.h"

#include <array>

namespace ascope {

extern const StoreKind kJsonStore;
extern const StoreKind kLocalStore;
extern const StoreKind kNoneStore;
extern const StoreKind kSqliteStore;

std::span<const StoreKind* const> store_kinds() {
  static constexpr std::array kKinds{
      &kNoneStore,
      &kLocalStore,
      &kJsonStore,
      &kSqliteStore,
  };
  return kKinds;
}

const StoreKind* find_store_kind(std::string_view scheme) {
  for (const StoreKind* kind : store_kinds()) {
    if (kind->scheme == scheme) {
      return kind;
    }
  }
  return nullptr;
}

}  // namespace ascope
