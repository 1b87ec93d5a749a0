// SPDX-License-Identifier: Apache-2.0
#include "backends/bubblewrap/cgroup.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/file.h"

namespace ascope::bwrap {

namespace {

constexpr const char* kMount = "/sys/fs/cgroup";
constexpr int kRemovalTries = 500;
constexpr useconds_t kRemovalPauseMicros = 2000;
constexpr int kPeriodMicros = 100000;  // of the processor quota, the kernel's own default

bool put(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd.is_open() && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// The highest group above our own (our own included) into which we may move processes; empty: none.
std::string delegated_group() {
  const auto text = read_file("/proc/self/cgroup", 1U << 20U);
  const auto at = text ? text->find("0::/") : std::string::npos;
  if (at == std::string::npos) {
    return {};
  }
  std::string path = kMount + text->substr(at + 3, text->find('\n', at) - at - 3);
  std::string highest;
  while (path.size() >= std::string_view(kMount).size()) {
    if (::access((path + "/cgroup.procs").c_str(), W_OK) != 0) {
      break;
    }
    highest = path;
    path.resize(path.rfind('/'));
  }
  while (!highest.empty() && highest.back() == '/') {
    highest.pop_back();
  }
  return highest;
}

Cgroup make_version_2(const std::string& id, const SandboxSettings& settings) {
  Cgroup out;
  const std::string parent = delegated_group();
  const std::string folder = parent + "/ascope-" + id;
  if (parent.empty() || (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)) {
    return out;
  }
  for (const char* controller : {"+memory", "+pids", "+cpu"}) {
    put(parent + "/cgroup.subtree_control", controller);  // refused where the parent holds processes
  }
  if (settings.memory_bytes) {
    out.memory = put(folder + "/memory.max", std::to_string(*settings.memory_bytes));
    put(folder + "/memory.swap.max", "0");
    put(folder + "/memory.oom.group", "1");
  }
  if (settings.pids) {
    out.pids = put(folder + "/pids.max", std::to_string(*settings.pids));
  }
  if (settings.cpus) {
    out.cpus =
        put(folder + "/cpu.max",
            fmt::format("{} {}", static_cast<std::int64_t>(*settings.cpus * kPeriodMicros), kPeriodMicros));
  }
  out.folders.push_back(folder);
  return out;
}

Cgroup make_version_1(const std::string& id, const SandboxSettings& settings) {
  Cgroup out;
  const auto make = [&](const char* controller, const char* file, const std::string& value) {
    const std::string folder = std::string(kMount) + "/" + controller + "/ascope-" + id;
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
      return false;
    }
    out.folders.push_back(folder);
    return put(folder + "/" + file, value);
  };
  if (settings.memory_bytes) {
    const std::string bytes = std::to_string(*settings.memory_bytes);
    out.memory = make("memory", "memory.limit_in_bytes", bytes);
    if (out.memory) {
      put(out.folders.back() + "/memory.memsw.limit_in_bytes", bytes);
    }
  }
  if (settings.pids) {
    out.pids = make("pids", "pids.max", std::to_string(*settings.pids));
  }
  if (settings.cpus) {
    out.cpus = make("cpu", "cpu.cfs_quota_us",
                    std::to_string(static_cast<std::int64_t>(*settings.cpus * kPeriodMicros)));
  }
  return out;
}

}  // namespace

Cgroup make_cgroup(const std::string& id, const SandboxSettings& settings) {
  if (!settings.memory_bytes && !settings.pids && !settings.cpus) {
    return {};
  }
  const bool version_2 = ::access((std::string(kMount) + "/cgroup.controllers").c_str(), F_OK) == 0;
  return version_2 ? make_version_2(id, settings) : make_version_1(id, settings);
}

Result<void> join_cgroup(const Cgroup& cgroup, pid_t pid) {
  for (const std::string& folder : cgroup.folders) {
    if (!put(folder + "/cgroup.procs", std::to_string(pid))) {
      return errno_error("entering control group '" + folder + "'", errno);
    }
  }
  return ok();
}

void remove_cgroup(const std::vector<std::string>& folders) {
  // bwrap's own process ends a moment after the guest: until then the group is busy.
  for (const std::string& folder : folders) {
    for (int tries = 0; ::rmdir(folder.c_str()) != 0 && errno == EBUSY && tries < kRemovalTries; ++tries) {
      ::usleep(kRemovalPauseMicros);
    }
  }
}

}  // namespace ascope::bwrap
