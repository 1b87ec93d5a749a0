// SPDX-License-Identifier: Apache-2.0
#include "core/lease/lock_queue.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

namespace ascope {

namespace {

constexpr off_t kMutexByte = 0;
constexpr off_t kGateByte = 1;
constexpr off_t kCounterOffset = 8;
constexpr off_t kBellOffset = 16;
constexpr off_t kTicketBase = 1000;
// How long a signal can go unnoticed that arrives in the instant before the kernel blocks us.
constexpr Millis kTick{250};
// Drawing a ticket takes others microseconds; only a process stopped in the middle of it lasts longer.
constexpr Millis kDrawPatience{2000};

void on_tick(int /*signal*/) {}

int tick_signal() {
  return SIGRTMIN + 6;
}

// The handler does nothing: it exists so that the blocked call returns EINTR, hence no SA_RESTART.
void install_tick_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_handler = on_tick;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(tick_signal(), &action, nullptr);
  });
}

// Interrupts this thread's blocking calls, and no other thread's, again and again while it exists.
class Ticker {
 public:
  Ticker() {
    install_tick_handler();
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, tick_signal());
    ::pthread_sigmask(SIG_UNBLOCK, &set, &old_mask_);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = tick_signal();
    event._sigev_un._tid = ::gettid();
    armed_ = ::timer_create(CLOCK_BOOTTIME, &event, &timer_) == 0;
    errno_ = errno;
  }
  ~Ticker() {
    if (armed_) {
      ::timer_delete(timer_);
    }
    ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  Result<void> start(Millis first) {
    if (!armed_) {
      return errno_error("making a timer", errno_);
    }
    first = std::clamp(first, Millis(1), kTick);
    itimerspec spec{};
    spec.it_value.tv_nsec = first.count() * 1'000'000;
    spec.it_interval.tv_nsec = kTick.count() * 1'000'000;
    if (::timer_settime(timer_, 0, &spec, nullptr) != 0) {
      return errno_error("starting a timer", errno);
    }
    return ok();
  }

 private:
  timer_t timer_{};
  sigset_t old_mask_{};
  bool armed_ = false;
  int errno_ = 0;
};

struct flock range(short type, off_t start, off_t length) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;
  return lock;  // l_pid must be 0 for OFD locks
}

Result<bool> try_lock(int fd, short type, off_t start, off_t length) {
  struct flock lock = range(type, start, length);
  while (::fcntl(fd, F_OFD_SETLK, &lock) != 0) {
    if (errno == EAGAIN || errno == EACCES) {
      return false;
    }
    if (errno != EINTR) {
      return errno_error("locking", errno);
    }
  }
  return true;
}

void unlock(int fd, off_t start, off_t length) {
  struct flock lock = range(F_UNLCK, start, length);
  while (::fcntl(fd, F_OFD_SETLK, &lock) != 0 && errno == EINTR) {
  }
}

// Real time: a fake clock of a test must not keep the kernel waiting.
Result<bool> wait_lock(const OpContext& ctx, int fd, short type, off_t start, off_t length, Millis wait) {
  ASCOPE_TRY_ASSIGN(const bool at_once, try_lock(fd, type, start, length));
  if (at_once || wait <= Millis(0)) {
    return at_once;
  }
  const Millis until = system_clock().boottime() + wait;
  Ticker ticker;
  while (true) {
    ASCOPE_TRY(ctx.check("waiting for a lock"));
    Millis left = until - system_clock().boottime();
    if (left <= Millis(0)) {
      return try_lock(fd, type, start, length);
    }
    if (const auto deadline = ctx.remaining()) {
      left = std::min(left, *deadline);
    }
    ASCOPE_TRY(ticker.start(left));
    struct flock lock = range(type, start, length);
    if (::fcntl(fd, F_OFD_SETLKW, &lock) == 0) {
      return true;
    }
    if (errno != EINTR) {
      return errno_error("waiting for a lock", errno);
    }
  }
}

Result<std::uint64_t> read_number(int fd, off_t offset) {
  std::uint64_t value = 0;
  const ssize_t count = ::pread(fd, &value, sizeof value, offset);
  if (count < 0) {
    return errno_error("reading a lock file", errno);
  }
  return count == sizeof value ? value : std::uint64_t{0};  // a file just made
}

Result<void> write_number(int fd, off_t offset, std::uint64_t value) {
  if (::pwrite(fd, &value, sizeof value, offset) != sizeof value) {
    return errno_error("writing a lock file", errno);
  }
  return ok();
}

off_t ticket_byte(std::uint64_t ticket) {
  return kTicketBase + static_cast<off_t>(ticket);
}

// Start of a write lock of another that touches the range, whichever the kernel names first.
Result<std::optional<off_t>> any_held(int fd, off_t start, off_t length) {
  struct flock lock = range(F_RDLCK, start, length);
  if (::fcntl(fd, F_OFD_GETLK, &lock) != 0) {
    return errno_error("looking at a lock", errno);
  }
  if (lock.l_type == F_UNLCK) {
    return std::optional<off_t>();
  }
  return std::optional<off_t>(lock.l_start);
}

// Under the mutex. A counter that went back (the file was emptied) must not overtake who waits already.
Result<std::uint64_t> next_ticket(int fd) {
  ASCOPE_TRY_ASSIGN(std::uint64_t next, read_number(fd, kCounterOffset));
  while (true) {
    ASCOPE_TRY_ASSIGN(const std::optional<off_t> beyond, any_held(fd, ticket_byte(next), 0));
    if (!beyond) {
      break;
    }
    next = static_cast<std::uint64_t>(*beyond - kTicketBase) + 1;
  }
  ASCOPE_TRY_ASSIGN(const bool taken, try_lock(fd, F_WRLCK, ticket_byte(next), 1));
  if (!taken) {
    return make_error(ErrorKind::internal, "a ticket byte is locked that nobody drew");
  }
  if (auto written = write_number(fd, kCounterOffset, next + 1); !written) {
    unlock(fd, ticket_byte(next), 1);
    return std::move(written).error();
  }
  return next;
}

}  // namespace

Result<LockQueue> LockQueue::open(const std::string& path) {
  ASCOPE_TRY_ASSIGN(UniqueFd fd, open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  return LockQueue(std::move(fd), path);
}

Result<std::uint64_t> LockQueue::draw(const OpContext& ctx) {
  if (ticket_) {
    return make_error(ErrorKind::internal, "a second ticket was drawn");
  }
  ASCOPE_TRY_ASSIGN(const bool mine, wait_lock(ctx, fd_.get(), F_WRLCK, kMutexByte, 1, kDrawPatience));
  if (!mine) {
    return make_error(ErrorKind::busy, "the lock file '" + path_ + "' is held by a stopped process",
                      "continue or end that process (see 'lslocks')");
  }
  auto ticket = next_ticket(fd_.get());
  unlock(fd_.get(), kMutexByte, 1);
  if (!ticket) {
    return std::move(ticket).error().within("'" + path_ + "'");
  }
  ticket_ = *ticket;
  return *ticket;
}

void LockQueue::leave() {
  if (ticket_) {
    unlock(fd_.get(), ticket_byte(*ticket_), 1);
    ticket_.reset();
  }
}

Result<bool> LockQueue::wait_free(const OpContext& ctx, std::uint64_t first, std::uint64_t last,
                                  Millis wait) const {
  if (first >= last) {
    return true;
  }
  const off_t length = static_cast<off_t>(last - first);
  ASCOPE_TRY_ASSIGN(const bool free, wait_lock(ctx, fd_.get(), F_RDLCK, ticket_byte(first), length, wait));
  if (free) {
    unlock(fd_.get(), ticket_byte(first), length);
  }
  return free;
}

Result<std::optional<std::uint64_t>> LockQueue::lowest_held(std::uint64_t first, std::uint64_t last) const {
  std::optional<std::uint64_t> lowest;
  while (first < last) {
    ASCOPE_TRY_ASSIGN(const std::optional<off_t> found,
                      any_held(fd_.get(), ticket_byte(first), static_cast<off_t>(last - first)));
    if (!found) {
      break;
    }
    last = static_cast<std::uint64_t>(*found - kTicketBase);
    lowest = last;
  }
  return lowest;
}

Result<bool> enter_queue_gate(const OpContext& ctx, int fd, bool exclusive, Millis wait) {
  return wait_lock(ctx, fd, exclusive ? F_WRLCK : F_RDLCK, kGateByte, 1, wait);
}

void leave_queue_gate(int fd) {
  unlock(fd, kGateByte, 1);
}

void unlock_queue_file(int fd) {
  unlock(fd, 0, 0);
}

Result<bool> LockQueue::enter_gate(const OpContext& ctx, bool exclusive, Millis wait) const {
  return enter_queue_gate(ctx, fd_.get(), exclusive, wait);
}

void LockQueue::leave_gate() const {
  leave_queue_gate(fd_.get());
}

Result<void> LockQueue::ring() const {
  ASCOPE_TRY_ASSIGN(const std::uint64_t rung, read_number(fd_.get(), kBellOffset));
  return write_number(fd_.get(), kBellOffset, rung + 1);
}

void LockQueue::watch() {
  if (watch_.is_open()) {
    return;
  }
  UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (fd.is_open() && ::inotify_add_watch(fd.get(), path_.c_str(), IN_MODIFY) >= 0) {
    watch_ = std::move(fd);
  }
}

Result<void> LockQueue::listen(const OpContext& ctx, Millis wait) const {
  const Millis until = system_clock().boottime() + wait;
  while (true) {
    ASCOPE_TRY(ctx.check("waiting for a lease"));
    Millis left = std::min(until - system_clock().boottime(), kTick);
    if (const auto deadline = ctx.remaining()) {
      left = std::min(left, *deadline);
    }
    if (left <= Millis(0)) {
      return ok();
    }
    pollfd item{watch_.get(), POLLIN, 0};
    const int ready = ::poll(&item, watch_.is_open() ? 1 : 0, static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) {
      return errno_error("poll", errno);
    }
    if (ready > 0) {
      std::array<char, 4096> events;  // NOLINT(cppcoreguidelines-pro-type-member-init): only emptied
      while (::read(watch_.get(), events.data(), events.size()) > 0) {
      }
      return ok();
    }
  }
}

Result<bool> LockQueue::is_current() const {
  struct stat ours{};
  struct stat named{};
  if (::fstat(fd_.get(), &ours) != 0) {
    return errno_error("looking at '" + path_ + "'", errno);
  }
  if (::lstat(path_.c_str(), &named) != 0) {
    if (errno == ENOENT) {
      return false;
    }
    return errno_error("looking at '" + path_ + "'", errno);
  }
  return ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

}  // namespace ascope
