// SPDX-License-Identifier: Apache-2.0
// What one gc is about to delete, as writers must know it before the gc looks for the last time (protocols
// 3.5): the list is put, then everything is looked at again, then objects are removed, and only when each is
// known to be gone is the list lifted.
#pragma once

#include <string>
#include <vector>

#include "core/repository/chunks/chunk_reader.h"

namespace ascope::chunks {

class Condemnation {
 public:
  explicit Condemnation(const Access& access);

  // The list's object.
  [[nodiscard]] const std::string& object() const { return object_; }
  Result<void> put(const OpContext& ctx, const std::vector<PackName>& packs);
  // Removes an object and asks until it is gone.
  Result<void> destroy(const OpContext& ctx, const std::string& object);
  // REQUIRES: every destroy() succeeded, and none will follow.
  Result<void> lift(const OpContext& ctx);
  // After a failure: lifts, as far as the store can be reached, unless something may yet be removed. What
  // stays is for the next gc.
  void give_up(const OpContext& ctx);

 private:
  const Access& access_;
  std::string object_;
  bool unsure_ = false;  // an object was to be removed, and nobody knows whether it is
};

// The store's clock: what it says of an object put now.
Result<std::chrono::system_clock::time_point> store_time(const OpContext& ctx, const Access& access);

}  // namespace ascope::chunks
