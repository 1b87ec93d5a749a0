// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "core/backend.h"
#include "core/base/hash.h"

namespace ascope {

std::string_view to_string(SandboxPhase phase) {
  switch (phase) {
    case SandboxPhase::running:
      return "running";
    case SandboxPhase::stopped:
      return "stopped";
    case SandboxPhase::gone:
      return "gone";
    case SandboxPhase::moving:
      return "moving";
  }
  return "gone";
}

int ExecOutcome::exit_code() const {
  switch (end) {
    case ExecEnd::exited:
      return code;
    case ExecEnd::signaled:
      return 128 + signal;
    case ExecEnd::timed_out:
      return 124;
    case ExecEnd::not_found:
      return 127;
    case ExecEnd::not_executable:
      return 126;
    case ExecEnd::sandbox_ended:
      return 125;
  }
  return 125;
}

std::map<std::string, std::string> SandboxSettings::describe() const {
  std::map<std::string, std::string> lines;
  const auto add = [&](std::string key, std::string value) {
    if (!value.empty()) {
      lines.emplace(std::move(key), std::move(value));
    }
  };
  add("image", image);
  add("rootfs", rootfs);
  add("network", network);
  add("memory", memory_bytes ? fmt::format("{}", *memory_bytes) : "");
  add("cpus", cpus ? fmt::format("{}", *cpus) : "");
  add("pids", pids ? fmt::format("{}", *pids) : "");
  add("user", user);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    add(fmt::format("ports.{}", i), ports[i]);
  }
  for (const auto& [name, value] : labels) {
    lines.emplace("labels." + name, value);
  }
  add("read_only_root", read_only_root ? "true" : "false");
  for (const auto& [name, value] : options) {
    const bool secret = std::find(secret_options.begin(), secret_options.end(), name) != secret_options.end();
    lines.emplace("options." + name, secret ? "********" : value);
  }
  add("workspace_root", workspace_root);
  for (const auto& [name, value] : environment) {
    lines.emplace("environment." + name, "set");
  }
  for (const MountSpec& mount : mounts) {
    add("mounts." + mount.path, (mount.read_only ? "ro:" : "rw:") + mount.host_path);
  }
  return lines;
}

// Each part goes in with its length before it, so that no two different sets of lines give the same bytes.
std::string SandboxSettings::digest() const {
  Sha256 hash;
  for (const auto& [key, value] : describe()) {
    hash.update(fmt::format("{}:{}={}:{}\n", key.size(), key, value.size(), value));
  }
  return hash.finish_hex();
}

}  // namespace ascope
