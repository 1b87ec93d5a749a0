// SPDX-License-Identifier: Apache-2.0
#include "guest/processes.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ascope::guest {

namespace {

struct ProcessEntry {
  pid_t pid;
  pid_t parent;
  char state;
  bool below;  // scratch of find_descendants()
};

constexpr int kMaxProcesses = 1 << 16;
constexpr std::uint64_t kFreezeLimitMs = 5000;
constexpr std::uint64_t kPatienceMs = 50;
ProcessEntry g_processes[kMaxProcesses];
pid_t g_stopped_before[kMaxProcesses];
int g_stopped_before_count = 0;

// Reads state and parent from /proc/PID/stat; false if the process is gone.
bool read_stat(int proc_fd, const char* name, ProcessEntry& entry) {
  char path[32];
  const std::size_t length = std::strlen(name);
  if (length > 20) {
    return false;
  }
  std::copy_n("/stat", 6, std::copy_n(name, length, path));
  const int fd = ::openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  char text[512];
  const ssize_t count = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (count <= 0) {
    return false;
  }
  text[count] = '\0';
  // The name in parentheses may hold anything: count from the last ')'.
  const char* close = std::strrchr(text, ')');
  if (close == nullptr || std::strlen(close) < 5) {
    return false;
  }
  entry.state = close[2];
  entry.parent = 0;
  for (const char* digit = close + 4; *digit >= '0' && *digit <= '9'; ++digit) {
    entry.parent = entry.parent * 10 + (*digit - '0');
  }
  return true;
}

// Fills g_processes, in ascending order of pid; zombies are left out. Returns the number found.
int list_processes() {
  const int proc_fd = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc_fd < 0) {
    return 0;
  }
  int found = 0;
  alignas(8) char buffer[8192];
  while (true) {
    const long count = ::syscall(SYS_getdents64, proc_fd, buffer, sizeof buffer);
    if (count <= 0) {
      break;
    }
    for (long at = 0; at < count;) {
      // struct linux_dirent64: u64 ino, s64 off, u16 reclen, u8 type, name
      std::uint16_t record = 0;
      std::memcpy(&record, buffer + at + 16, sizeof record);
      const char* name = buffer + at + 19;
      at += record;
      if (name[0] < '1' || name[0] > '9' || found == kMaxProcesses) {
        continue;
      }
      ProcessEntry entry{};
      for (const char* digit = name; *digit >= '0' && *digit <= '9'; ++digit) {
        entry.pid = entry.pid * 10 + (*digit - '0');
      }
      if (read_stat(proc_fd, name, entry) && entry.state != 'Z' && entry.state != 'X') {
        g_processes[found++] = entry;
      }
    }
  }
  ::close(proc_fd);
  return found;
}

ProcessEntry* find_process(int count, pid_t pid) {
  ProcessEntry* end = g_processes + count;
  ProcessEntry* at = std::lower_bound(g_processes, end, pid,
                                      [](const ProcessEntry& e, pid_t wanted) { return e.pid < wanted; });
  return at != end && at->pid == pid ? at : nullptr;
}

// Marks the descendants of `root` among the `count` processes; their number. A parent usually has the lower
// pid, so few rounds do.
int mark_descendants(int count, pid_t root) {
  int marked = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < count; ++i) {
      ProcessEntry& entry = g_processes[i];
      if (entry.below || entry.pid == root) {
        continue;
      }
      const ProcessEntry* parent = find_process(count, entry.parent);
      if (entry.parent == root || (parent != nullptr && parent->below)) {
        entry.below = true;
        changed = true;
        ++marked;
      }
    }
  }
  return marked;
}

// True if `parent` waits in the kernel for a child that is stopped: between vfork and exec the parent sleeps
// uninterruptibly and cannot stop itself, but does nothing either.
bool waits_for_stopped_child(int count, const ProcessEntry& parent) {
  return parent.state == 'D' &&
         std::any_of(g_processes, g_processes + count, [&parent](const ProcessEntry& child) {
           return child.parent == parent.pid && (child.state == 'T' || child.state == 't');
         });
}

// `patient`: long enough has passed for a process that sleeps in a file operation to have stopped.
bool all_others_stopped(int count, bool patient) {
  for (int i = 0; i < count; ++i) {
    const ProcessEntry& entry = g_processes[i];
    const bool stopped = entry.pid == 1 || entry.state == 'T' || entry.state == 't';
    if (!stopped && !(patient && waits_for_stopped_child(count, entry))) {
      return false;
    }
  }
  return true;
}

// Reaps what ended; true if no child is left.
bool reap(pid_t main_pid, int* main_status) {
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid == main_pid && main_status != nullptr) {
      *main_status = status;
    }
    if (pid < 0 && errno != EINTR) {
      return true;
    }
    if (pid == 0) {
      return false;
    }
  }
}

// Stops every descendant of `root`, so that the number found settles: what is stopped forks no more. Returns
// it.
std::uint64_t stop_descendants(pid_t root) {
  std::uint64_t found = 0;
  for (int round = 0; round < 100; ++round) {
    const std::uint64_t stopped = signal_descendants(root, SIGSTOP);
    if (stopped <= found && round > 0) {
      break;
    }
    found = std::max(found, stopped);
  }
  return found;
}

}  // namespace

std::uint64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000000;
}

void sleep_ms(unsigned milliseconds) {
  const timespec pause{static_cast<time_t>(milliseconds / 1000),
                       static_cast<long>(milliseconds % 1000) * 1000000};
  ::nanosleep(&pause, nullptr);
}

bool freeze_others() {
  g_stopped_before_count = 0;
  const int before = list_processes();
  for (int i = 0; i < before; ++i) {
    if (g_processes[i].state == 'T' || g_processes[i].state == 't') {
      g_stopped_before[g_stopped_before_count++] = g_processes[i].pid;
    }
  }
  const std::uint64_t begin = now_ms();
  while (::kill(-1, SIGSTOP) == 0) {
    // Two looks in a row: a child forked between the signal and the first look shows in the second.
    const bool patient = now_ms() > begin + kPatienceMs;
    // NOLINTNEXTLINE(misc-redundant-expression)
    if (all_others_stopped(list_processes(), patient) && all_others_stopped(list_processes(), patient)) {
      return true;
    }
    if (now_ms() > begin + kFreezeLimitMs) {
      thaw_others();
      return false;
    }
    sleep_ms(1);
  }
  return true;  // nobody else is there
}

void thaw_others() {
  const int count = list_processes();
  for (int i = 0; i < count; ++i) {
    const pid_t pid = g_processes[i].pid;
    pid_t* end = g_stopped_before + g_stopped_before_count;
    if (pid != 1 && std::find(g_stopped_before, end, pid) == end) {
      ::kill(pid, SIGCONT);
    }
  }
  g_stopped_before_count = 0;
}

std::uint64_t signal_descendants(pid_t root, int signal) {
  const int count = list_processes();
  mark_descendants(count, root);
  std::uint64_t sent = 0;
  for (int i = 0; i < count; ++i) {
    if (g_processes[i].below && ::kill(g_processes[i].pid, signal) == 0) {
      ++sent;
    }
  }
  return sent;
}

void kill_tree(pid_t root) {
  ::kill(root, SIGSTOP);
  stop_descendants(root);
  // Who waits for the command is told by the end of `root`, so that comes last.
  for (int round = 0; round < 100 && signal_descendants(root, SIGKILL) > 0; ++round) {
    sleep_ms(2);
  }
  ::kill(root, SIGKILL);
}

std::uint64_t kill_descendants(pid_t main_pid, int* main_status) {
  const pid_t self = ::getpid();
  const std::uint64_t found = stop_descendants(self);
  while (true) {
    signal_descendants(self, SIGKILL);
    if (reap(main_pid, main_status)) {
      return found;
    }
    sleep_ms(1);
  }
}

}  // namespace ascope::guest
