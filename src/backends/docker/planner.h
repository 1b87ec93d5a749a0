// SPDX-License-Identifier: Apache-2.0
// Turns settings into what the engine is sent; shared by settings.cc and options.cc only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "backends/docker/settings.h"

namespace ascope::docker {

Error bad_value(std::string_view name, std::string_view value, std::string_view hint);

// What a package manager needs as root, and our guest to become other users and to pack every file.
constexpr std::string_view kCapabilities[] = {"CHOWN",  "DAC_OVERRIDE", "FOWNER", "FSETID",
                                              "SETUID", "SETGID",       "KILL"};

class Planner {
 public:
  explicit Planner(const SandboxSettings& settings) : settings_(settings) {}

  Result<ContainerPlan> plan();

 private:
  Result<void> check_settings() const;

  Result<void> keys();

  Result<void> label(const std::string& key, const std::string& value);

  Result<void> publish(std::string_view name, const std::string& text);

  using Take = Result<void> (Planner::*)(const std::string& name, const std::string& value);
  struct Option {
    std::string_view name;
    Take take;
  };

  Result<void> option(const std::string& name, const std::string& value);

  Result<void> take_nothing(const std::string& /*name*/, const std::string& /*value*/);

  Result<void> check_twice(const std::string& name, std::string_view key, bool is_set) const;
  Result<void> take_image(const std::string& name, const std::string& value);
  Result<void> take_network(const std::string& name, const std::string& value);
  Result<void> take_memory(const std::string& name, const std::string& value);
  Result<void> set_memory(const std::string& name, const std::string& value);
  Result<void> take_cpus(const std::string& name, const std::string& value);
  Result<void> set_cpus(const std::string& name, const std::string& value);
  Result<void> take_ports(const std::string& name, const std::string& value);

  static std::string capability(std::string text);
  Result<void> take_cap_add(const std::string& name, const std::string& value);
  Result<void> take_cap_drop(const std::string& name, const std::string& value);
  Result<void> take_privileges(const std::string& name, const std::string& value);
  Result<void> take_dns(const std::string& name, const std::string& value);
  Result<void> take_hosts(const std::string& name, const std::string& value);
  Result<void> take_security(const std::string& name, const std::string& value);
  Result<void> take_list(const std::string& name, const std::string& value, const char* member);
  Result<void> take_hostname(const std::string& /*name*/, const std::string& value);
  Result<void> take_platform(const std::string& /*name*/, const std::string& value);
  Result<void> take_pull(const std::string& name, const std::string& value);
  Result<void> take_runtime(const std::string& /*name*/, const std::string& value);
  Result<void> take_shm(const std::string& name, const std::string& value);
  Result<void> take_tmpfs(const std::string& name, const std::string& value);
  Result<void> take_ulimits(const std::string& name, const std::string& value);
  Result<void> take_host_config(const std::string& name, const std::string& value);

  static std::string docker_size(const std::string& text);
  Result<void> set_pids(const std::string& name, const std::string& value);
  Result<void> set_user(const std::string& /*name*/, const std::string& value);
  Result<void> set_network(const std::string& /*name*/, const std::string& value);
  Result<void> set_label(const std::string& /*name*/, const std::string& value);
  Result<void> set_port(const std::string& name, const std::string& value);
  Result<void> set_read_only(const std::string& name, const std::string& value);
  Result<void> set_security(const std::string& name, const std::string& value);

  Result<void> take_run_args(const std::string& name, const std::string& value);

  Result<void> build();

  Result<void> mounts();

  const SandboxSettings& settings_;
  ContainerPlan plan_;
  std::string image_, network_, user_;
  std::optional<std::uint64_t> memory_;
  std::int64_t nano_cpus_ = 0;
  std::uint64_t pids_ = 0;
  bool read_only_ = false;
  bool added_ = false;
  std::set<std::string, std::less<>> capabilities_, dropped_;
  Json labels_ = Json::object();
  Json exposed_ = Json::object();
  Json bindings_ = Json::object();
  Json host_ = Json::object();
  Json raw_host_ = Json::object();
};

}  // namespace ascope::docker
