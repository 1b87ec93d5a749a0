// SPDX-License-Identifier: Apache-2.0
#include "backends/bubblewrap/spawn.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

namespace ascope::bwrap {

namespace {

// What the new process tells its starter, one word each.
enum class Step : int { pid = 1, mapped, failed_mounts, failed_namespace, failed_ids, failed_program };
struct Word {
  Step step;
  int value;
};

// All that the child needs, built before the fork: after it the child makes system calls only, for other
// threads of ours may have held locks.
struct ChildPlan {
  const SpawnRequest& request;
  std::vector<char*> argv;
  int null_fd;
  int words;  // written by the child
  int go;     // read by the child
  std::array<int, 64> staged_fds{};
};

void say(const ChildPlan& plan, Step step, int value) {
  const Word word{step, value};
  static_cast<void>(::write(plan.words, &word, sizeof word));
}

// The text of "/proc/self/fd/N" without the C library's help.
void descriptor_path(int fd, char (&out)[32]) {
  const char* prefix = "/proc/self/fd/";
  int at = 0;
  while (prefix[at] != '\0') {
    out[at] = prefix[at];
    ++at;
  }
  char digits[12];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + fd % 10);
    fd /= 10;
  } while (fd > 0);
  while (count > 0) {
    out[at++] = digits[--count];
  }
  out[at] = '\0';
}

// In a mount namespace of our own, binds each staged source below a fresh kStage. errno tells of failure.
bool stage_mounts(ChildPlan& plan) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return false;
  }
  const auto& staged = plan.request.staged;
  for (std::size_t i = 0; i < staged.size(); ++i) {
    plan.staged_fds[i] = ::open(staged[i].source.c_str(), O_PATH | O_CLOEXEC);
    if (plan.staged_fds[i] < 0) {
      return false;
    }
  }
  if (::mount("ascope", kStage, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") != 0) {
    return false;
  }
  for (std::size_t i = 0; i < staged.size(); ++i) {
    const char* target = staged[i].target.c_str();
    if (staged[i].is_folder) {
      if (::mkdir(target, 0755) != 0) {
        return false;
      }
    } else {
      const int file = ::open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      if (file < 0) {
        return false;
      }
      ::close(file);
    }
    char source[32];
    descriptor_path(plan.staged_fds[i], source);
    if (::mount(source, target, nullptr, MS_BIND | MS_REC, nullptr) != 0) {
      return false;
    }
  }
  return true;
}

// Becomes the root of the new user namespace and forbids further ones below it.
bool take_ids() {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0) {
    return false;
  }
  const int fd = ::open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
  return fd >= 0 && ::write(fd, "0", 1) == 1 && ::close(fd) == 0;
}

[[noreturn]] void run_child(ChildPlan& plan) {
  say(plan, Step::pid, ::getpid());
  if (plan.request.id_base) {
    if (!stage_mounts(plan)) {
      say(plan, Step::failed_mounts, errno);
      ::_exit(1);
    }
    if (::unshare(CLONE_NEWUSER) != 0) {
      say(plan, Step::failed_namespace, errno);
      ::_exit(1);
    }
    say(plan, Step::mapped, 0);
  }
  char byte = 0;
  if (::read(plan.go, &byte, 1) != 1) {
    ::_exit(1);  // the starter gave up
  }
  if (plan.request.id_base && !take_ids()) {
    say(plan, Step::failed_ids, errno);
    ::_exit(1);
  }
  // The caller's session keyring must not be reachable from inside; refused only where there are no keyrings.
  static_cast<void>(::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr, 0, 0, 0));
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  static_cast<void>(::chdir("/"));
  ::umask(022);
  if (::dup2(plan.null_fd, 0) >= 0 && ::dup2(plan.null_fd, 1) >= 0 &&
      ::dup2(plan.request.stderr_fd, 2) >= 0 && ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0) {
    for (const int fd : plan.request.keep) {
      ::fcntl(fd, F_SETFD, 0);
    }
    char* environment[] = {nullptr};
    ::execve(plan.argv[0], plan.argv.data(), environment);
  }
  say(plan, Step::failed_program, errno);
  ::_exit(1);
}

Result<void> write_map(pid_t pid, const char* file, std::uint32_t base) {
  const std::string path = fmt::format("/proc/{}/{}", pid, file);
  const std::string text = fmt::format("0 {} {}\n", base, local::kRangeIds);
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.is_open() || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    const int error = errno;
    return make_error(ErrorKind::unsupported,
                      fmt::format("giving the sandbox ids {} and up: {}", base, ::strerrordesc_np(error)),
                      "run as an ordinary user, or use --allow-host-root");
  }
  return ok();
}

Error failure(const Word& word) {
  switch (word.step) {
    case Step::failed_mounts:
      return errno_error("binding the sandbox's folders", word.value);
    case Step::failed_namespace:
      return errno_error("making a user namespace", word.value)
          .with_hint("raise 'sysctl user.max_user_namespaces'");
    case Step::failed_ids:
      return errno_error("taking the sandbox's ids", word.value);
    default:
      return errno_error("running bwrap", word.value);
  }
}

// Reads one word; nullopt at the end, which comes when the program has begun.
Result<std::optional<Word>> read_word(int fd) {
  Word word{};
  while (true) {
    const ssize_t count = ::read(fd, &word, sizeof word);
    if (count == static_cast<ssize_t>(sizeof word)) {
      return std::optional<Word>(word);
    }
    if (count == 0) {
      return std::optional<Word>();
    }
    if (count > 0 || errno != EINTR) {
      return errno_error("starting bwrap", count > 0 ? EIO : errno);
    }
  }
}

Result<pid_t> follow(const SpawnRequest& request, int words, UniqueFd go) {
  pid_t pid = 0;
  bool told = false;
  while (true) {
    ASCOPE_TRY_ASSIGN(const auto word, read_word(words));
    if (!word) {
      if (told) {
        return pid;
      }
      return make_error(ErrorKind::io, "the process that starts bwrap died");
    }
    if (word->step == Step::pid) {
      pid = word->value;
    } else if (word->step == Step::mapped) {
      ASCOPE_TRY(write_map(pid, "uid_map", *request.id_base));
      ASCOPE_TRY(write_map(pid, "gid_map", *request.id_base));
    } else {
      return failure(*word);
    }
    if (!told && (word->step == Step::mapped || !request.id_base)) {
      if (request.before_program) {
        ASCOPE_TRY(request.before_program(pid));
      }
      told = ::write(go.get(), "g", 1) == 1;
    }
  }
}

}  // namespace

Result<pid_t> spawn_detached(const SpawnRequest& request) {
  if (request.staged.size() > 64) {
    return make_error(ErrorKind::unsupported, "more than 60 mounts in one sandbox");
  }
  ASCOPE_TRY_ASSIGN(Pipe words, make_pipe());
  ASCOPE_TRY_ASSIGN(Pipe go, make_pipe());
  const UniqueFd null_fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_fd.is_open()) {
    return errno_error("opening '/dev/null'", errno);
  }
  std::vector<std::string> argv = request.argv;
  ChildPlan plan{request, {}, null_fd.get(), words.write_end.get(), go.read_end.get(), {}};
  for (std::string& word : argv) {
    plan.argv.push_back(word.data());
  }
  plan.argv.push_back(nullptr);
  const pid_t middle = ::fork();
  if (middle < 0) {
    return errno_error("starting a process", errno);
  }
  if (middle == 0) {
    // Twice, so that the program is nobody's child and no terminal's.
    ::setsid();
    ::close(go.write_end.get());
    const pid_t child = ::fork();
    if (child == 0) {
      run_child(plan);
    }
    ::_exit(child < 0 ? 1 : 0);
  }
  words.write_end.reset();
  go.read_end.reset();
  int status = 0;
  while (::waitpid(middle, &status, 0) < 0 && errno == EINTR) {
  }
  return follow(request, words.read_end.get(), std::move(go.write_end));
}

}  // namespace ascope::bwrap
