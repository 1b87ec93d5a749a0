// SPDX-License-Identifier: Apache-2.0
#include "cli/supervise.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <poll.h>
#include <set>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "core/base/file.h"
#include "core/base/op_context.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ascope {

namespace {

constexpr Millis kGrace{2000};  // between TERM and KILL

std::vector<std::string> environment_with(const std::map<std::string, std::string>& env) {
  std::vector<std::string> out;
  for (char** item = environ; *item != nullptr; ++item) {
    const std::string_view text = *item;
    if (!env.contains(std::string(text.substr(0, text.find('='))))) {
      out.emplace_back(text);
    }
  }
  for (const auto& [name, value] : env) {
    out.push_back(name + "=" + value);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (auto& text : strings) {
    out.push_back(text.data());
  }
  out.push_back(nullptr);
  return out;
}

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) {
    ::sigaddset(&set, number);
  }
  return set;
}

// pid of the parent, 0 if the process is gone.
pid_t parent_of(pid_t pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) {
    return 0;
  }
  const auto close = text->rfind(')');  // the name before it may hold anything (proc(5))
  pid_t parent = 0;
  if (close != std::string::npos && close + 4 < text->size()) {
    std::from_chars(text->data() + close + 4, text->data() + text->size(), parent);
  }
  return parent;
}

// Every process below us. We are their subreaper, so none that lost its parent gets away.
std::set<pid_t> descendants() {
  std::map<pid_t, pid_t> parents;
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) {
    return {};
  }
  while (const dirent* entry = ::readdir(folder)) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr == end && pid > 0) {
      parents[pid] = parent_of(pid);
    }
  }
  ::closedir(folder);
  std::set<pid_t> out;
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [pid, parent] : parents) {
      if ((parent == ::getpid() || out.contains(parent)) && out.insert(pid).second) {
        grew = true;
      }
    }
  }
  return out;
}

void signal_tree(int number) {
  for (const pid_t pid : descendants()) {
    ::kill(pid, number);
  }
}

// In the child; async-signal-safe calls only, but execvpe, which allocates nothing for a short PATH.
[[noreturn]] void become(char* const* argv, char* const* env, const sigset_t& mask, pid_t parent,
                         int failed_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == parent) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
      struct sigaction action{};
      ::sigaction(number, nullptr, &action);
      if (action.sa_handler != SIG_IGN || number == SIGPIPE) {
        ::signal(number, SIG_DFL);
      }
    }
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    ::execvpe(argv[0], argv, env);
  }
  const int saved = errno;
  static_cast<void>(::write(failed_fd, &saved, sizeof saved));
  ::_exit(127);
}

Error start_error(const std::string& name, int number) {
  if (number == ENOENT || number == ENOTDIR) {
    return make_error(ErrorKind::not_found, "program '" + name + "' not found");
  }
  return make_error(ErrorKind::denied, "program '" + name + "' cannot be executed: " + std::strerror(number));
}

}  // namespace

int shell_code(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

SupervisedProgram::SupervisedProgram(SupervisedProgram&& other) noexcept
    : child_(std::exchange(other.child_, -1)),
      signals_(std::move(other.signals_)),
      end_(std::move(other.end_)),
      old_mask_(other.old_mask_) {}

Result<SupervisedProgram> SupervisedProgram::start(const std::vector<std::string>& argv,
                                                   const std::map<std::string, std::string>& env) {
  std::vector<std::string> args = argv;
  std::vector<std::string> variables = environment_with(env);
  const auto arg_pointers = pointers(args);
  const auto env_pointers = pointers(variables);
  ASCOPE_TRY_ASSIGN(Pipe failed, make_pipe());
  const sigset_t watched = watched_signals();
  SupervisedProgram out;
  out.end_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  out.signals_ = UniqueFd(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!out.end_.is_open() || !out.signals_.is_open()) {
    return errno_error("watching signals", errno);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::sigprocmask(SIG_BLOCK, &watched, &out.old_mask_);
  const pid_t parent = ::getpid();
  out.child_ = ::fork();
  if (out.child_ == 0) {
    become(arg_pointers.data(), env_pointers.data(), out.old_mask_, parent, failed.write_end.get());
  }
  if (out.child_ < 0) {
    const int saved = errno;
    ::sigprocmask(SIG_SETMASK, &out.old_mask_, nullptr);
    return errno_error("fork", saved);
  }
  failed.write_end.reset();
  int exec_errno = 0;
  std::array<char, sizeof exec_errno> bytes{};
  const auto count = read_some(failed.read_end.get(), bytes);
  if (count && *count == sizeof exec_errno) {
    std::memcpy(&exec_errno, bytes.data(), sizeof exec_errno);
    return start_error(argv[0], exec_errno);
  }
  return out;
}

SupervisedProgram::~SupervisedProgram() {
  if (child_ < 0) {
    return;
  }
  int status = 0;
  if (!reap(status)) {
    signal_tree(SIGKILL);
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

// True once the program itself has ended. Orphans of it that came to us are reaped too.
bool SupervisedProgram::reap(int& status) const {
  // The program itself stays a zombie until the end, so that its pid stays its own.
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    if (info.si_pid == child_) {
      break;
    }
    ::waitpid(info.si_pid, nullptr, WNOHANG);
    info = {};
  }
  const pid_t ended = ::waitpid(child_, &status, WNOHANG);
  return ended == child_ || (ended < 0 && errno == ECHILD);
}

void SupervisedProgram::end_soon() const {
  const std::uint64_t one = 1;
  static_cast<void>(::write(end_.get(), &one, sizeof one));
}

void SupervisedProgram::on_signal(int number, bool from_terminal, int& asked) {
  if (number == SIGCHLD) {
    return;
  }
  if (!from_terminal) {
    if ((number == SIGINT || number == SIGTERM) && ++asked > 1) {
      signal_tree(SIGKILL);
      return;
    }
    ::kill(child_, number);
  }
}

Result<int> SupervisedProgram::wait() {
  int asked = 0;
  std::optional<Millis> kill_at;
  if (const int early = interrupt_signal.load(); early != 0) {
    on_signal(early, false, asked);  // it came before the program was there to hear it
  }
  while (true) {
    int status = 0;
    if (reap(status)) {
      if (kill_at) {
        signal_tree(SIGKILL);  // it ended in time, what it started may not
      }
      child_ = -1;
      ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
      return status;
    }
    int timeout = -1;
    if (kill_at) {
      const Millis left = *kill_at - system_clock().boottime();
      if (left <= Millis(0)) {
        signal_tree(SIGKILL);
      }
      timeout =
          left > Millis(0) ? static_cast<int>(left.count()) : 20;  // again, for what was forked meanwhile
    }
    std::array<pollfd, 2> items{{{signals_.get(), POLLIN, 0}, {kill_at ? -1 : end_.get(), POLLIN, 0}}};
    if (::poll(items.data(), items.size(), timeout) < 0 && errno != EINTR) {
      return errno_error("poll", errno);
    }
    if (items[1].revents != 0) {
      signal_tree(SIGTERM);
      signal_tree(SIGCONT);  // a stopped one hears it too
      kill_at = system_clock().boottime() + kGrace;
    }
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      on_signal(static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL, asked);
    }
  }
}

}  // namespace ascope
