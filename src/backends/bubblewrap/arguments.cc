// SPDX-License-Identifier: Apache-2.0
#include "backends/bubblewrap/arguments.h"

#include <algorithm>
#include <sys/stat.h>
#include <unistd.h>

namespace ascope::bwrap {

namespace {

// Enough for package managers and builds inside an id range of its own, nothing that reaches past it.
constexpr const char* kCapabilities[] = {"CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID",
                                         "CAP_SETUID", "CAP_SETGID",       "CAP_KILL"};
// Of /proc, what tells of the host or of its kernel's inside.
constexpr const char* kMaskedFiles[] = {"kcore", "keys", "key-users", "timer_list", "sched_debug", "kmsg"};
constexpr const char* kMaskedFolders[] = {"scsi", "acpi", "asound", "fs", "pressure"};
constexpr std::uint64_t kMaxTmpBytes = 4ULL << 30U;
constexpr const char* kRunBytes = "67108864";

std::string tmp_bytes(const SandboxSettings& settings) {
  if (settings.memory_bytes) {
    return std::to_string(*settings.memory_bytes);
  }
  const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 1L));
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::to_string(std::min(pages * page_bytes / 2, kMaxTmpBytes));
}

bool is_there(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

class Arguments {
 public:
  void add(std::initializer_list<std::string> words) { words_.insert(words_.end(), words); }
  std::vector<std::string> take() { return std::move(words_); }

 private:
  std::vector<std::string> words_;
};

void add_namespaces(Arguments& out, const Meta& meta, const SandboxSettings& settings) {
  if (!meta.id_base) {
    const std::string id = std::to_string(kAgentId);
    out.add({"--unshare-user", "--disable-userns", "--uid", id, "--gid", id});
  }
  out.add(
      {"--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"});
  if (settings.network != "host") {
    out.add({"--unshare-net"});
  }
  out.add({"--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL"});
  if (meta.id_base) {
    for (const char* capability : kCapabilities) {
      out.add({"--cap-add", capability});
    }
  }
}

std::string system_source(const std::string& path, const SandboxSettings& settings, const Sources& sources) {
  if (sources.rootfs.empty() || path.rfind(settings.rootfs, 0) != 0) {
    return path;
  }
  return sources.rootfs + path.substr(settings.rootfs.size());
}

void add_tree(Arguments& out, const SandboxSettings& settings, const Layout& layout, const Sources& sources) {
  if (settings.read_only_root) {
    out.add({"--ro-bind", sources.tree, "/"});
    for (const std::string& place :
         {settings.workspace_root, std::string("/home"), std::string("/var/tmp")}) {
      out.add({"--bind-try", sources.tree + place, place});
    }
  } else {
    out.add({"--bind", sources.tree, "/"});
  }
  for (const Bind& bind : layout.system) {
    out.add({"--ro-bind", system_source(bind.source, settings, sources), bind.target});
  }
  for (const std::string& place : layout.generated) {
    out.add({"--ro-bind", sources.tree + place, place});
  }
}

void add_kernel_places(Arguments& out) {
  out.add({"--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"});
  for (const char* name : kMaskedFiles) {
    const std::string path = std::string("/proc/") + name;
    if (is_there(path)) {
      out.add({"--ro-bind", "/dev/null", path});
    }
  }
  for (const char* name : kMaskedFolders) {
    const std::string path = std::string("/proc/") + name;
    if (is_there(path)) {
      out.add({"--size", "4096", "--perms", "0555", "--tmpfs", path, "--remount-ro", path});
    }
  }
  out.add({"--dev", "/dev"});
}

}  // namespace

std::vector<std::string> bwrap_arguments(const std::string& bwrap, const Meta& meta,
                                         const SandboxSettings& settings, const Layout& layout,
                                         const Sources& sources, const ArgumentFds& fds) {
  Arguments out;
  out.add({bwrap});
  add_namespaces(out, meta, settings);
  add_tree(out, settings, layout, sources);
  add_kernel_places(out);
  out.add({"--size", tmp_bytes(settings), "--perms", "1777", "--tmpfs", "/tmp"});
  out.add({"--size", kRunBytes, "--perms", "0755", "--tmpfs", "/run"});
  out.add({"--perms", "0555", "--ro-bind-data", std::to_string(fds.guest), "/run/ascope/guest"});
  for (std::size_t i = 0; i < layout.mounts.size(); ++i) {
    const Bind& mount = layout.mounts[i];
    out.add({mount.read_only ? "--ro-bind" : "--bind", sources.mounts[i], mount.target});
  }
  out.add({"--chdir", "/", "--seccomp", std::to_string(fds.seccomp), "--info-fd", std::to_string(fds.info),
           "--", "/run/ascope/guest", "init", std::to_string(fds.listen), std::to_string(fds.ready),
           meta.id});
  return out.take();
}

}  // namespace ascope::bwrap
