// SPDX-License-Identifier: Apache-2.0
#include "backends/bubblewrap/starter.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include "backends/bubblewrap/arguments.h"
#include "backends/bubblewrap/cgroup.h"
#include "backends/bubblewrap/seccomp.h"
#include "backends/bubblewrap/spawn.h"
#include "core/base/file.h"
#include "core/base/process.h"
#include "guest/client.h"
#include "guest/embedded.h"

namespace ascope::bwrap {

namespace {

constexpr Millis kStartLimit{20000};
constexpr std::uint64_t kDefaultProcesses = 4096;  // a fork bomb must not be the host's

Result<UniqueFd> guest_file() {
  UniqueFd fd(::memfd_create("ascope-guest", MFD_CLOEXEC));
  if (!fd.is_open()) {
    return errno_error("making a memory file", errno);
  }
  ASCOPE_TRY(write_all(fd.get(), guest::guest_program()));
  if (::lseek(fd.get(), 0, SEEK_SET) != 0) {
    return errno_error("rewinding a memory file", errno);
  }
  return fd;
}

bool range_reaches(const Meta& meta) {
  return meta.id_base.has_value();
}

guest::GuestConfig make_config(const Meta& meta, const SandboxSettings& settings, bool pids_held,
                               bool memory_held) {
  guest::GuestConfig config;
  config.idle_ms = static_cast<std::uint64_t>(std::max<Millis::rep>(settings.idle_timeout.count(), 0));
  config.one_user = !range_reaches(meta);
  if (settings.user == "root" && range_reaches(meta)) {
    config.uid = 0;
    config.gid = 0;
    config.user = "root";
    config.home = "/root";
  }
  config.cwd = settings.workspace_root;
  config.max_processes = pids_held ? 0 : settings.pids.value_or(kDefaultProcesses);
  config.max_data_bytes = memory_held ? 0 : settings.memory_bytes.value_or(0);
  config.environment.assign(settings.environment.begin(), settings.environment.end());
  return config;
}

std::string not_enforced(const SandboxSettings& settings, const Cgroup& cgroup, const Meta& meta) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  if (settings.memory_bytes && !cgroup.memory) {
    add("memory: held for each process, not for all together");
  }
  if (settings.pids && !cgroup.pids) {
    add("pids: held for each user of the sandbox");
  }
  if (settings.cpus && !cgroup.cpus) {
    add("cpus: not held");
  }
  if (::geteuid() == 0 && !meta.id_base) {
    add("ids: files inside are owned by the host's root");
  }
  return out;
}

// Everything a start makes that must be ended or removed if it fails.
struct Started {
  UniqueFd listen;
  UniqueFd guest;
  UniqueFd seccomp;
  UniqueFd connection;
  Pipe info;
  Pipe ready;
  Pipe errors;
  Cgroup cgroup;
  pid_t monitor = 0;
  pid_t guest_pid = 0;
};

Sources stage(const Folder& folder, const SandboxSettings& settings, const Layout& layout, const Meta& meta,
              std::vector<Staged>& staged) {
  Sources sources;
  const bool through = meta.id_base.has_value();
  const auto place = [&](const std::string& source, const std::string& name, bool is_folder) {
    if (!through) {
      return source;
    }
    staged.push_back({source, std::string(kStage) + "/" + name, is_folder});
    return staged.back().target;
  };
  sources.tree = place(folder.path() + "/root", "tree", true);
  if (settings.rootfs != "host") {
    sources.rootfs = place(settings.rootfs, "rootfs", true);
  }
  for (std::size_t i = 0; i < layout.mounts.size(); ++i) {
    sources.mounts.push_back(
        place(layout.mounts[i].source, "m" + std::to_string(i), layout.mounts[i].is_folder));
  }
  return sources;
}

// What bwrap wrote before it gave up, as an error with the mend where we know one.
Error bwrap_error(Pipe& errors) {
  errors.write_end.reset();
  std::string text;
  char buffer[2048];
  ::fcntl(errors.read_end.get(), F_SETFL, O_NONBLOCK);
  const ssize_t count = ::read(errors.read_end.get(), buffer, sizeof buffer);
  if (count > 0) {
    text.assign(buffer, static_cast<std::size_t>(count));
  }
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  const bool namespaces = text.find("namespace") != std::string::npos ||
                          text.find("uid map") != std::string::npos ||
                          text.find("Operation not permitted") != std::string::npos;
  if (namespaces) {
    if (auto problem = user_namespace_problem()) {
      problem->message += " (" + text + ")";
      return std::move(*problem);
    }
  }
  return make_error(ErrorKind::io,
                    "bwrap could not start the sandbox: " + (text.empty() ? "it said nothing" : text));
}

Result<void> wait_readable(const OpContext& ctx, int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  while (true) {
    ASCOPE_TRY(ctx.check("starting the sandbox"));
    const Millis wait = std::min(ctx.remaining().value_or(Millis(500)), Millis(500));
    if (::poll(&poll_fd, 1, static_cast<int>(wait.count()) + 1) > 0) {
      return ok();
    }
  }
}

// The guest's pid from bwrap's report, once the guest listens.
Result<pid_t> wait_for_guest(const OpContext& ctx, Started& started) {
  ASCOPE_TRY(wait_readable(ctx, started.ready.read_end.get()));
  char byte = 0;
  if (::read(started.ready.read_end.get(), &byte, 1) != 1) {
    return bwrap_error(started.errors);
  }
  std::string text;
  char buffer[1024];
  // Written before the guest began.
  const ssize_t count = ::read(started.info.read_end.get(), buffer, sizeof buffer);
  text.assign(buffer, count > 0 ? static_cast<std::size_t>(count) : 0);
  const std::string_view key = "\"child-pid\": ";
  const auto at = text.find(key);
  pid_t pid = 0;
  if (at == std::string::npos ||
      std::from_chars(text.data() + at + key.size(), text.data() + text.size(), pid).ec != std::errc{} ||
      pid <= 1) {
    return make_error(ErrorKind::io, "bwrap did not say which process it started");
  }
  return pid;
}

Result<void> open_pipes(Started& started) {
  ASCOPE_TRY_ASSIGN(started.info, make_pipe());
  ASCOPE_TRY_ASSIGN(started.ready, make_pipe());
  ASCOPE_TRY_ASSIGN(started.errors, make_pipe());
  return ok();
}

bool refuses_setid(const Meta& meta, const Layout& layout) {
  return !meta.id_base || std::any_of(layout.mounts.begin(), layout.mounts.end(),
                                      [](const Bind& mount) { return !mount.read_only; });
}

Result<void> start_steps(const OpContext& ctx, const Folder& folder, const Meta& meta,
                         const SandboxSettings& settings, std::uint64_t fence, Started& started) {
  ASCOPE_TRY_ASSIGN(const std::string program, find_program("bwrap"));
  ASCOPE_TRY_ASSIGN(const Layout layout, plan_layout(settings));
  ASCOPE_TRY(prepare_places(folder, meta, layout));
  ASCOPE_TRY_ASSIGN(started.listen, local::bind_socket(folder));
  ASCOPE_TRY_ASSIGN(started.guest, guest_file());
  ASCOPE_TRY_ASSIGN(started.seccomp, make_seccomp_filter(refuses_setid(meta, layout)));
  ASCOPE_TRY(open_pipes(started));
  started.cgroup = make_cgroup(folder.id(), settings);
  SpawnRequest request;
  const Sources sources = stage(folder, settings, layout, meta, request.staged);
  const ArgumentFds fds{started.guest.get(), started.seccomp.get(), started.info.write_end.get(),
                        started.listen.get(), started.ready.write_end.get()};
  request.argv = bwrap_arguments(program, meta, settings, layout, sources, fds);
  request.keep = {fds.guest, fds.seccomp, fds.info, fds.listen, fds.ready};
  request.stderr_fd = started.errors.write_end.get();
  request.id_base = meta.id_base;
  request.before_program = [&started](pid_t pid) {
    started.monitor = pid;
    return join_cgroup(started.cgroup, pid);
  };
  ASCOPE_TRY_ASSIGN(started.monitor, spawn_detached(request));
  started.info.write_end.reset();
  started.ready.write_end.reset();
  started.listen.reset();
  ASCOPE_TRY_ASSIGN(started.guest_pid, wait_for_guest(ctx, started));
  ASCOPE_TRY_ASSIGN(started.connection, guest::connect_socket(folder.fd(), local::kSocket));
  ASCOPE_TRY_ASSIGN(const pid_t peer, guest::peer_pid(started.connection.get()));
  if (peer != started.guest_pid) {
    return make_error(ErrorKind::backend_unavailable, "another process than the guest answers at its socket");
  }
  std::string config;
  guest::encode(config, make_config(meta, settings, started.cgroup.pids, started.cgroup.memory));
  ASCOPE_TRY(guest::call(ctx, started.connection.get(), fence, guest::FrameType::config, config,
                         guest::FrameType::done));
  ASCOPE_TRY_ASSIGN(const std::uint64_t start_time, process_start_time(started.guest_pid));
  return folder.write_run(
      {started.guest_pid, start_time, not_enforced(settings, started.cgroup, meta), started.cgroup.folders});
}

std::string setting(const char* path) {
  const auto text = read_file(path, 4096);
  return text ? text->substr(0, text->find('\n')) : std::string();
}

}  // namespace

Result<UniqueFd> start_processes(const OpContext& ctx, const Folder& folder, const Meta& meta,
                                 const SandboxSettings& settings, std::uint64_t fence) {
  Started started;
  auto result = start_steps(ctx.with_timeout(kStartLimit), folder, meta, settings, fence, started);
  if (result) {
    return std::move(started.connection);
  }
  for (const pid_t pid : {started.guest_pid, started.monitor}) {
    if (pid > 1) {
      ::kill(pid, SIGKILL);
    }
  }
  if (started.monitor > 1) {
    local::await_end(started.monitor, Millis(2000));
  }
  remove_cgroup(started.cgroup.folders);
  ::unlinkat(folder.fd(), local::kSocket, 0);
  return std::move(result).error();
}

Result<void> send_config(const OpContext& ctx, const Folder& folder, const Meta& meta,
                         const SandboxSettings& settings, std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(const UniqueFd connection, connect_guest(folder));
  ASCOPE_TRY_ASSIGN(const auto run, folder.read_run());
  const bool in_group = run && !run->cgroups.empty();
  const bool pids_held = in_group && run->not_enforced.find("pids:") == std::string::npos && settings.pids;
  const bool memory_held =
      in_group && run->not_enforced.find("memory:") == std::string::npos && settings.memory_bytes;
  std::string config;
  guest::encode(config, make_config(meta, settings, pids_held, memory_held));
  ASCOPE_TRY(
      guest::call(ctx, connection.get(), fence, guest::FrameType::config, config, guest::FrameType::done));
  return ok();
}

std::optional<Error> user_namespace_problem() {
  const auto problem = [](const std::string& name, const std::string& value) {
    return make_error(ErrorKind::io, "user namespaces are off on this machine: '" + name + "' is " + value,
                      "as root: sysctl -w " + name + "=" +
                          (name == "user.max_user_namespaces" ? "15000"
                           : value == "0"                     ? "1"
                                                              : "0"));
  };
  if (setting("/proc/sys/user/max_user_namespaces") == "0") {
    return problem("user.max_user_namespaces", "0");
  }
  if (::geteuid() != 0) {
    if (setting("/proc/sys/kernel/unprivileged_userns_clone") == "0") {
      return problem("kernel.unprivileged_userns_clone", "0");
    }
    if (setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1") {
      return problem("kernel.apparmor_restrict_unprivileged_userns", "1");
    }
  }
  return std::nullopt;
}

}  // namespace ascope::bwrap
