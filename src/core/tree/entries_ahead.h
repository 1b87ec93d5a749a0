// SPDX-License-Identifier: Apache-2.0
// Entries of a tree, read by a thread of their own while the caller works on those before.
#pragma once

#include <memory>

#include "core/tree/tree.h"

namespace ascope {

class EntriesAhead {
 public:
  // From now until next() has given false or an error, or this is gone, `source` is the thread's alone. Its
  // content is not read.
  explicit EntriesAhead(TreeSource& source);
  ~EntriesAhead();
  EntriesAhead(const EntriesAhead&) = delete;
  EntriesAhead& operator=(const EntriesAhead&) = delete;

  // As TreeSource::next. Memory: some 1000 entries, fewer if their paths are long.
  Result<bool> next(TreeEntry& entry);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ascope
