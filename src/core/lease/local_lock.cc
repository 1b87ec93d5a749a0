// SPDX-License-Identifier: Apache-2.0
#include "core/lease/local_lock.h"

#include <algorithm>

#include "core/lease/lock_queue.h"

namespace ascope {

namespace {

Millis left_until(Millis until) {
  return std::max(Millis(0), until - system_clock().boottime());
}

Error busy(LockMode mode) {
  return make_error(ErrorKind::busy,
                    mode == LockMode::shared ? "another command on this host has the slot to itself"
                                             : "another command on this host uses the slot",
                    "wait longer with --wait");
}

// True: the locks of `mode` are held. False: time passed, and none is.
Result<bool> enter(const OpContext& ctx, LockQueue& queue, LockMode mode, Millis until) {
  if (mode == LockMode::shared) {
    return queue.enter_gate(ctx, false, left_until(until));
  }
  ASCOPE_TRY_ASSIGN(const std::uint64_t ticket, queue.draw(ctx));
  ASCOPE_TRY_ASSIGN(const bool first, queue.wait_free(ctx, 0, ticket, left_until(until)));
  if (!first || mode == LockMode::commit) {
    return first;
  }
  return queue.enter_gate(ctx, true, left_until(until));
}

}  // namespace

Result<LocalLock> LocalLock::acquire(const OpContext& ctx, const std::string& path, LockMode mode,
                                     Millis wait) {
  const Millis until = system_clock().boottime() + wait;
  while (true) {
    ASCOPE_TRY_ASSIGN(LockQueue queue, LockQueue::open(path));
    ASCOPE_TRY_ASSIGN(const bool entered, enter(ctx, queue, mode, until));
    // Somebody may have removed the file while we waited: a lock on what is left excludes nobody.
    ASCOPE_TRY_ASSIGN(const bool current, queue.is_current());
    if (entered && current) {
      return LocalLock(std::move(queue).take_fd(), mode);
    }
    if (!entered && (current || left_until(until) == Millis(0))) {
      return busy(mode);
    }
  }
}

LocalLock& LocalLock::operator=(LocalLock&& other) noexcept {
  if (this != &other) {
    unlock();
    fd_ = std::move(other.fd_);
    mode_ = other.mode_;
  }
  return *this;
}

// Closing is not enough while a child between fork and exec has the descriptor too.
void LocalLock::unlock() {
  if (fd_.is_open()) {
    unlock_queue_file(fd_.get());
    fd_.reset();
  }
}

Result<void> LocalLock::change(const OpContext& ctx, LockMode mode, Millis wait) {
  if (mode == mode_) {
    return ok();
  }
  if (mode == LockMode::shared || mode_ == LockMode::shared) {
    return make_error(ErrorKind::internal, "a shared lock cannot change its mode in place");
  }
  if (mode == LockMode::commit) {
    leave_queue_gate(fd_.get());
  } else {
    ASCOPE_TRY_ASSIGN(const bool entered, enter_queue_gate(ctx, fd_.get(), true, wait));
    if (!entered) {
      return make_error(ErrorKind::busy, "commands run in the slot's sandbox",
                        "wait for them with --wait, or end them");
    }
  }
  mode_ = mode;
  return ok();
}

}  // namespace ascope
