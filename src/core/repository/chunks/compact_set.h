// SPDX-License-Identifier: Apache-2.0
// A set of small records in one sorted piece of memory: no more than twice their bytes, where a tree would
// take five times as much. Filled first, read then.
#pragma once

#include <algorithm>
#include <vector>

namespace ascope::chunks {

template <typename Record>
class CompactSet {
 public:
  void add(const Record& record) {
    records_.push_back(record);
    if (records_.size() >= limit_) {
      compact();
      limit_ = std::max(kLeast, records_.size() * 2);
    }
  }
  // Sorted, each once. Adding may go on.
  const std::vector<Record>& records() {
    compact();
    return records_;
  }

 private:
  static constexpr std::size_t kLeast = 64;
  void compact() {
    std::sort(records_.begin(), records_.end());
    records_.erase(std::unique(records_.begin(), records_.end()), records_.end());
  }
  std::vector<Record> records_;
  std::size_t limit_ = kLeast;
};

}  // namespace ascope::chunks
