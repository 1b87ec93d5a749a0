// SPDX-License-Identifier: Apache-2.0
#include "core/base/process.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/fd.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/random.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ascope {

namespace {

std::vector<std::string> child_environment(const ProgramCall& call) {
  std::map<std::string, std::string> env;
  for (char** item = environ; *item != nullptr; ++item) {
    const std::string_view text = *item;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) {
      env.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  for (const auto& name : call.unset_env) {
    env.erase(name);
  }
  for (const auto& [name, value] : call.set_env) {
    env[name] = value;
  }
  std::vector<std::string> out;
  out.reserve(env.size());
  for (const auto& [name, value] : env) {
    out.push_back(name + "=" + value);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (auto& s : strings) {
    out.push_back(s.data());
  }
  out.push_back(nullptr);
  return out;
}

// Drains both pipes until they end; on limit, deadline or interrupt says so.
Result<void> drain(const OpContext& ctx, const ProgramCall& call, Pipe& out, Pipe& err,
                   ProgramOutcome& outcome) {
  std::array<std::pair<int, std::string*>, 2> streams{
      {{out.read_end.get(), &outcome.out}, {err.read_end.get(), &outcome.err}}};
  std::array<char, 64U << 10U> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (streams[0].first >= 0 || streams[1].first >= 0) {
    ASCOPE_TRY(ctx.check("running '" + call.argv[0] + "'"));
    std::array<pollfd, 2> polls{{{streams[0].first, POLLIN, 0}, {streams[1].first, POLLIN, 0}}};
    const Millis wait = std::min(ctx.remaining().value_or(Millis(500)), Millis(500));
    if (::poll(polls.data(), polls.size(), static_cast<int>(wait.count()) + 1) < 0 && errno != EINTR) {
      return errno_error("poll", errno);
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].first < 0 || polls[i].revents == 0) {
        continue;
      }
      ASCOPE_TRY_ASSIGN(const std::size_t count, read_some(streams[i].first, buffer));
      if (count == 0) {
        streams[i].first = -1;
      }
      streams[i].second->append(buffer.data(), count);
      if (streams[i].second->size() > call.max_output_bytes) {
        return make_error(ErrorKind::corrupt, "'" + call.argv[0] + "' wrote more than " +
                                                  std::to_string(call.max_output_bytes) + " bytes");
      }
    }
  }
  return ok();
}

struct ProcessStat {
  char state = '?';
  std::uint64_t start_time = 0;
};

// nullopt: no such process, or /proc does not show it to us.
Result<std::optional<ProcessStat>> read_stat(pid_t pid) {
  auto text = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) {
    if (text.error().kind == ErrorKind::not_found ||
        text.error().message.find("No such process") != std::string::npos) {
      return std::optional<ProcessStat>();
    }
    return std::move(text).error();
  }
  // Field 2 is the name in parentheses and may hold anything: count from the last ')' (proc(5)); the state is
  // field 3, the start time field 22.
  std::string_view rest = *text;
  const auto close = rest.rfind(')');
  if (close == std::string_view::npos || close + 2 >= rest.size()) {
    return make_error(ErrorKind::internal, "'/proc/PID/stat' has no ')'");
  }
  rest.remove_prefix(close + 2);
  ProcessStat out;
  out.state = rest.front();
  for (int field = 3; field < 22; ++field) {
    rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
  }
  if (std::from_chars(rest.data(), rest.data() + rest.size(), out.start_time).ec != std::errc{}) {
    return make_error(ErrorKind::internal, "'/proc/PID/stat' has no start time");
  }
  return std::optional<ProcessStat>(out);
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return name;
  }
  const char* path_value = std::getenv("PATH");
  std::string_view rest = path_value == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path_value;
  while (true) {
    const auto colon = std::min(rest.find(':'), rest.size());
    const std::string candidate = std::string(rest.substr(0, colon)) + "/" + name;
    struct stat info{};
    if (candidate.front() == '/' && ::stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    if (colon == rest.size()) {
      break;
    }
    rest.remove_prefix(colon + 1);
  }
  return make_error(
      ErrorKind::io, "program '" + name + "' is not installed",
      "install it (Debian: apt-get install " + (name == "bwrap" ? std::string("bubblewrap") : name) + ")");
}

Result<ProgramOutcome> run_program(const OpContext& ctx, const ProgramCall& call) {
  ASCOPE_TRY_ASSIGN(const std::string program, find_program(call.argv.at(0)));
  ASCOPE_TRY_ASSIGN(Pipe out, make_pipe());
  ASCOPE_TRY_ASSIGN(Pipe err, make_pipe());
  ASCOPE_TRY_ASSIGN(Pipe failed, make_pipe());
  std::vector<std::string> args = call.argv;
  std::vector<std::string> env = child_environment(call);
  auto args_ptr = pointers(args);
  auto env_ptr = pointers(env);
  const pid_t child = ::fork();
  if (child < 0) {
    return errno_error("fork", errno);
  }
  if (child == 0) {
    ::setpgid(0, 0);
    const int null_fd = ::open("/dev/null", O_RDONLY);
    if (null_fd >= 0 && ::dup2(null_fd, 0) >= 0 && ::dup2(out.write_end.get(), 1) >= 0 &&
        ::dup2(err.write_end.get(), 2) >= 0 && (call.cwd.empty() || ::chdir(call.cwd.c_str()) == 0)) {
      ::signal(SIGPIPE, SIG_DFL);
      ::execve(program.c_str(), args_ptr.data(), env_ptr.data());
    }
    const int saved = errno;
    static_cast<void>(::write(failed.write_end.get(), &saved, sizeof saved));
    ::_exit(127);
  }
  out.write_end.reset();
  err.write_end.reset();
  failed.write_end.reset();
  ProgramOutcome outcome;
  auto drained = drain(ctx, call, out, err, outcome);
  if (!drained) {
    ::kill(-child, SIGKILL);
  }
  while (::waitpid(child, &outcome.wait_status, 0) < 0 && errno == EINTR) {
  }
  if (!drained) {
    return std::move(drained).error();
  }
  int exec_errno = 0;
  if (::read(failed.read_end.get(), &exec_errno, sizeof exec_errno) == sizeof exec_errno) {
    return errno_error("running '" + program + "'", exec_errno);
  }
  return outcome;
}

Result<std::uint64_t> process_start_time(pid_t pid) {
  ASCOPE_TRY_ASSIGN(const std::optional<ProcessStat> found, read_stat(pid));
  return found ? found->start_time : std::uint64_t{0};
}

Result<bool> process_alive(pid_t pid, std::uint64_t start_time) {
  ASCOPE_TRY_ASSIGN(const std::optional<ProcessStat> found, read_stat(pid));
  if (found) {
    return found->start_time == start_time && found->state != 'Z' && found->state != 'X';
  }
  return ::kill(pid, 0) == 0 || errno != ESRCH;
}

Result<std::string> boot_id() {
  ASCOPE_TRY_ASSIGN(std::string text, read_file("/proc/sys/kernel/random/boot_id", 4096));
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  return text;
}

Result<std::string> host_id(const std::string& state_dir) {
  const auto trimmed = [](std::string text) {
    while (!text.empty() && text.back() == '\n') {
      text.pop_back();
    }
    return text;
  };
  if (auto machine = read_file("/etc/machine-id", 4096); machine && trimmed(*machine).size() == 32) {
    return trimmed(*machine);
  }
  const std::string path = state_dir + "/host-id";
  const auto keep = [&]() -> Result<std::string> {
    ASCOPE_TRY(make_dirs(state_dir));
    ASCOPE_TRY(create_file(path, random_hex(16) + "\n"));
    return read_file(path, 4096);
  };
  const Result<std::string> text = keep();
  if (!text) {
    log("host", LogLevel::warn, "this machine is known until it boots again only: {}", text.error().message);
    return boot_id();
  }
  return trimmed(*text);
}

Result<std::uint64_t> pid_namespace() {
  struct stat info{};
  if (::stat("/proc/self/ns/pid", &info) != 0) {
    return errno_error("looking at '/proc/self/ns/pid'", errno);
  }
  return static_cast<std::uint64_t>(info.st_ino);
}

}  // namespace ascope
