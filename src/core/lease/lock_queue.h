// SPDX-License-Identifier: Apache-2.0
// A queue of the processes of one host on the byte ranges of a file, with OFD locks: first come first served,
// woken by the kernel, and left without a trace by a process that dies, whichever way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/fd.h"
#include "core/base/op_context.h"

namespace ascope {

// Layout of the file (nothing else may lock or write these bytes):
//   lock on byte 0         held for microseconds while a ticket is drawn
//   lock on byte 1         the gate: shared or exclusive
//   content of bytes 8-15  the next ticket, native byte order (the file never leaves its host)
//   content of bytes 16-23 the bell: rewritten by ring(), so that inotify watchers wake
//   lock on byte 1000+t    ticket t is held, by its owner's open file description
// Single-threaded. The descriptor is close-on-exec: no child keeps a ticket alive.
class LockQueue {
 public:
  // Makes the file (0600) if missing; its folder exists. A symbolic link is refused.
  static Result<LockQueue> open(const std::string& path);

  // Takes the next ticket; a repeat without leave() is `internal`. Blocks for the moment others need to draw.
  Result<std::uint64_t> draw(const OpContext& ctx);
  // Gives the ticket back. Harmless without one.
  void leave();
  [[nodiscard]] std::optional<std::uint64_t> ticket() const { return ticket_; }

  // True as soon as nobody holds a ticket in [first, last); false when `wait` (0 = look once) has passed.
  // `cancelled` on a signal, `timeout` at the context's deadline. The own ticket must lie outside.
  Result<bool> wait_free(const OpContext& ctx, std::uint64_t first, std::uint64_t last, Millis wait) const;
  // The lowest ticket in [first, last) that somebody holds.
  [[nodiscard]] Result<std::optional<std::uint64_t>> lowest_held(std::uint64_t first,
                                                                 std::uint64_t last) const;

  // The gate; false when `wait` has passed. Taking it in another mode swaps the mode; not fair between modes.
  Result<bool> enter_gate(const OpContext& ctx, bool exclusive, Millis wait) const;
  void leave_gate() const;

  // Wakes every listen() of any process.
  Result<void> ring() const;
  // Blocks until ring() or a draw(), `wait`, or a signal (`cancelled`); early returns are possible. Rings
  // between watch() and listen() are not missed. Without inotify (limits) it sleeps `wait`.
  void watch();
  Result<void> listen(const OpContext& ctx, Millis wait) const;

  // False if the path names another file now, or none: a lock on this one excludes nobody any more.
  [[nodiscard]] Result<bool> is_current() const;
  // Ends the object and hands out the descriptor, whose closing gives up ticket and gate.
  [[nodiscard]] UniqueFd take_fd() && { return std::move(fd_); }

 private:
  LockQueue(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
  std::optional<std::uint64_t> ticket_;
  UniqueFd watch_;
};

// Takes the gate of an open queue file; the form for who owns only the descriptor.
Result<bool> enter_queue_gate(const OpContext& ctx, int fd, bool exclusive, Millis wait);
void leave_queue_gate(int fd);
// Gives up gate and ticket.
void unlock_queue_file(int fd);

}  // namespace ascope
