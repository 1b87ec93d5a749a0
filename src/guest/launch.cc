// SPDX-License-Identifier: Apache-2.0
#include "guest/launch.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/applets.h"
#include "guest/users.h"

namespace ascope::guest {

namespace {

constexpr const char* kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct Prepared {
  User user;
  std::string cwd;
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::vector<std::string> candidates;  // paths to try, in order
  std::vector<char*> argv_pointers;
  std::vector<char*> environment_pointers;
};

void set_variable(std::vector<std::string>& environment, std::string_view name, std::string_view value) {
  const auto is_same = [name](const std::string& item) {
    return item.size() > name.size() && item[name.size()] == '=' && item.compare(0, name.size(), name) == 0;
  };
  std::string text(name);
  text += '=';
  text += value;
  for (std::string& item : environment) {
    if (is_same(item)) {
      item = std::move(text);
      return;
    }
  }
  environment.push_back(std::move(text));
}

std::vector<std::string> build_environment(const ExecBody& body, const GuestConfig& config,
                                           const User& user) {
  std::vector<std::string> out;
  set_variable(out, "PATH", kDefaultPath);
  set_variable(out, "HOME", user.home);
  set_variable(out, "USER", user.name);
  set_variable(out, "LOGNAME", user.name);
  for (const auto& [name, value] : config.environment) {
    set_variable(out, name, value);
  }
  for (const auto& [name, value] : body.environment) {
    set_variable(out, name, value);
  }
  return out;
}

// The files a name without a slash may mean, as execvp looks for them in the command's own PATH.
std::vector<std::string> build_candidates(const std::string& program,
                                          const std::vector<std::string>& environment) {
  if (program.empty() || program.find('/') != std::string::npos) {
    return {program};
  }
  std::vector<std::string> out;
  for (const std::string& item : environment) {
    if (item.compare(0, 5, "PATH=") != 0) {
      continue;
    }
    std::string_view rest = std::string_view(item).substr(5);
    while (true) {
      const auto colon = std::min(rest.find(':'), rest.size());
      std::string path(rest.substr(0, colon));
      out.push_back(path.empty() ? "./" + program : path + "/" + program);
      if (colon == rest.size()) {
        return out;
      }
      rest.remove_prefix(colon + 1);
    }
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& text : strings) {
    out.push_back(text.data());
  }
  out.push_back(nullptr);
  return out;
}

bool has_nul(const Prepared& prepared) {
  for (const auto* list : {&prepared.argv, &prepared.environment}) {
    for (const std::string& text : *list) {
      if (text.find('\0') != std::string::npos) {
        return true;
      }
    }
  }
  return prepared.cwd.find('\0') != std::string::npos;
}

bool prepare(const ExecBody& body, const GuestConfig& config, const LaunchPlan& plan, Prepared& out,
             LaunchFailure& failure) {
  const std::string_view wanted =
      plan.applet_as_root && !config.one_user ? std::string_view("0:0") : body.user;
  if (!find_user(config, wanted, out.user)) {
    failure = {FailStage::user, ENOENT};
    return false;
  }
  out.cwd = body.cwd.empty() ? config.cwd : std::string(body.cwd);
  for (const auto& word : body.argv) {
    out.argv.emplace_back(word);
  }
  out.environment = build_environment(body, config, out.user);
  if (has_nul(out)) {
    failure = {FailStage::request, EINVAL};
    return false;
  }
  out.candidates = build_candidates(out.argv.front(), out.environment);
  out.argv_pointers = pointers(out.argv);
  out.environment_pointers = pointers(out.environment);
  return true;
}

void limit(__rlimit_resource_t resource, std::uint64_t value) {
  if (value != 0) {
    rlimit present{};
    ::getrlimit(resource, &present);
    const rlim_t wanted =
        present.rlim_max == RLIM_INFINITY ? value : std::min<rlim_t>(value, present.rlim_max);
    const rlimit both{wanted, wanted};
    ::setrlimit(resource, &both);
  }
}

// With no_new_privs, which we have, no exec brings any back.
bool drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0;
}

// Descriptors, terminal, limits, ids and folder of the new process. Everything here is a system call: it runs
// in memory shared with the parent.
bool set_up_child(const Prepared& prepared, const GuestConfig& config, const LaunchPlan& plan,
                  LaunchFailure& failure) {
  failure.stage = FailStage::terminal;
  ::setsid();
  if (plan.terminal >= 0 && ::ioctl(plan.terminal, TIOCSCTTY, 0) != 0) {
    return false;
  }
  for (int i = 0; i < 3; ++i) {
    const int from = plan.terminal >= 0 ? plan.terminal : plan.stdio[i];
    if (from >= 0 && ::dup2(from, i) < 0) {
      return false;
    }
  }
  ::close_range(3, ~0U, 0);
  limit(RLIMIT_NPROC, config.max_processes);
  limit(RLIMIT_DATA, config.max_data_bytes);
  failure.stage = FailStage::user;
  if (!config.one_user && (::setgroups(prepared.user.groups.size(), prepared.user.groups.data()) != 0 ||
                           ::setresgid(prepared.user.gid, prepared.user.gid, prepared.user.gid) != 0 ||
                           ::setresuid(prepared.user.uid, prepared.user.uid, prepared.user.uid) != 0)) {
    return false;
  }
  if (config.no_capabilities && !plan.applet && !drop_capabilities()) {
    return false;
  }
  failure.stage = FailStage::cwd;
  if (::chdir(prepared.cwd.c_str()) != 0) {
    return false;
  }
  ::umask(022);
  for (const int ignored : {SIGPIPE, SIGHUP, SIGINT, SIGTERM, SIGTTOU}) {
    ::signal(ignored, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  return true;
}

// execve over the candidates; returns only on failure, with the errno that says most.
int exec_first(const Prepared& prepared) {
  int result = ENOENT;
  for (const std::string& path : prepared.candidates) {
    ::execve(path.c_str(), prepared.argv_pointers.data(), prepared.environment_pointers.data());
    if (errno != ENOENT && errno != ENOTDIR) {
      result = errno;
      if (errno != EACCES) {
        break;
      }
    }
  }
  return result;
}

[[noreturn]] void run_as_applet(const Prepared& prepared, const GuestConfig& config, const LaunchPlan& plan) {
  LaunchFailure failure;
  if (!set_up_child(prepared, config, plan, failure)) {
    ::_exit(127);
  }
  ::_exit(run_applet(prepared.argv));
}

}  // namespace

pid_t launch(const ExecBody& body, const GuestConfig& config, const LaunchPlan& plan,
             LaunchFailure& failure) {
  Prepared prepared;
  if (!prepare(body, config, plan, prepared, failure)) {
    return -1;
  }
  if (plan.applet) {
    prepared.cwd = "/";
    const pid_t pid = ::fork();
    if (pid == 0) {
      run_as_applet(prepared, config, plan);
    }
    failure = {FailStage::fork, errno};
    return pid;
  }
  // Written by the child in memory that it shares with us until it is gone: volatile, or a compiler drops
  // stores that nothing in the child reads again.
  volatile int child_error = 0;
  volatile FailStage child_stage = FailStage::request;
  // The child makes system calls only.
  const pid_t pid = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork,bugprone-unsafe-functions)
  if (pid == 0) {
    LaunchFailure child_failure;
    if (!set_up_child(prepared, config, plan, child_failure)) {
      child_error = errno;
      child_stage = child_failure.stage;
    } else {
      child_stage = FailStage::exec;
      child_error = exec_first(prepared);
    }
    ::_exit(127);
  }
  // A change of ids in memory shared with us may have reset it (fs.suid_dumpable).
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (pid < 0) {
    failure = {FailStage::fork, errno};
    return -1;
  }
  if (child_error != 0) {
    failure = {child_stage, child_error};
    return -1;  // the dead child is reaped with the caller's exit
  }
  return pid;
}

}  // namespace ascope::guest
