// SPDX-License-Identifier: Apache-2.0
// Locks between processes of one host: byte ranges of a file with OFD locks, first come first served, dropped
// by the kernel when their holder dies (protocols 2.4).
#pragma once

#include <memory>
#include <string>

#include "core/base/fd.h"
#include "core/base/op_context.h"

namespace ascope {

// Compatible: shared+shared, shared+commit. Not: commit+commit, exclusive+anything (protocols 2.1).
enum class LockMode { shared, commit, exclusive };

// A held lock; released by destruction. Close-on-exec, so no child inherits it.
class LocalLock {
 public:
  LocalLock(LocalLock&&) noexcept = default;
  LocalLock& operator=(LocalLock&& other) noexcept;
  ~LocalLock() { unlock(); }

  // Takes the lock `path` (made if missing, 0600, in an existing folder) within `wait`; Millis(0) = try once.
  // `busy` if not, `cancelled` at once on a signal. Waiters of commit and exclusive are served in order of
  // arrival and woken by the kernel; an exclusive one at its turn still waits for the shared ones to end, and
  // does not keep new ones out (two commands joined by a pipe must not wait for each other).
  static Result<LocalLock> acquire(const OpContext& ctx, const std::string& path, LockMode mode, Millis wait);
  [[nodiscard]] LockMode mode() const { return mode_; }
  // Swaps commit for exclusive, or back, keeping the place in the queue. `busy` if shared holders did not end
  // within `wait`; the old mode is kept then. To or from shared is `internal`: let go and acquire anew.
  Result<void> change(const OpContext& ctx, LockMode mode, Millis wait);

 private:
  LocalLock(UniqueFd fd, LockMode mode) : fd_(std::move(fd)), mode_(mode) {}
  void unlock();
  UniqueFd fd_;
  LockMode mode_;
};

}  // namespace ascope
