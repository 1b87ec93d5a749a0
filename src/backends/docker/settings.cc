// SPDX-License-Identifier: Apache-2.0
#include "backends/docker/settings.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/docker/planner.h"
#include "core/base/file.h"

namespace ascope::docker {

namespace {

constexpr std::uint64_t kDefaultProcesses = 4096;  // a fork bomb must not be the host's

}  // namespace

Error bad_value(std::string_view name, std::string_view value, std::string_view hint) {
  return make_error(ErrorKind::config, fmt::format("'{}' is '{}'", name, value), std::string(hint));
}

Result<ContainerPlan> Planner::plan() {
  ASCOPE_TRY(check_settings());
  ASCOPE_TRY(keys());
  for (const auto& [name, value] : settings_.options) {
    auto taken = option(name, value);
    if (!taken) {
      return std::move(taken).error();
    }
  }
  ASCOPE_TRY(build());
  return std::move(plan_);
}

Result<void> Planner::check_settings() const {
  if (settings_.rootfs != "host") {
    return make_error(ErrorKind::unsupported, "docker cannot do 'backend.rootfs'",
                      "use 'backend.image', or backend bubblewrap");
  }
  if (settings_.allow_host_root) {
    return make_error(ErrorKind::unsupported, "'--allow-host-root' has no meaning for containers",
                      "leave it out");
  }
  const std::string& root = settings_.workspace_root;
  if (root.size() < 2 || root.front() != '/' || root == "/run" || root == "/run/ascope" ||
      root.starts_with("/run/ascope/")) {
    return make_error(ErrorKind::unsupported, fmt::format("docker cannot do 'workspace.root: {}'", root),
                      "choose a folder below '/' that is not our own /run/ascope");
  }
  return ok();
}

Result<void> Planner::keys() {
  image_ = settings_.image;
  network_ = settings_.network;
  memory_ = settings_.memory_bytes;
  nano_cpus_ = settings_.cpus ? static_cast<std::int64_t>(*settings_.cpus * 1e9) : 0;
  pids_ = settings_.pids.value_or(kDefaultProcesses);
  user_ = settings_.user;
  read_only_ = settings_.read_only_root;
  capabilities_.insert(std::begin(kCapabilities), std::end(kCapabilities));
  for (const std::string& port : settings_.ports) {
    ASCOPE_TRY(publish("backend.ports", port));
  }
  for (const auto& [key, value] : settings_.labels) {
    ASCOPE_TRY(label(key, value));
  }
  return ok();
}

Result<void> Planner::label(const std::string& key, const std::string& value) {
  if (key.empty() || key.starts_with("ascope.")) {
    return make_error(ErrorKind::config, fmt::format("label '{}' cannot be set", key),
                      "labels that begin with 'ascope.' are this program's own");
  }
  labels_[key] = value;
  return ok();
}

// [ADDRESS:][HOST:]CONTAINER[/PROTOCOL]
Result<void> Planner::publish(std::string_view name, const std::string& text) {
  constexpr std::string_view kHint = "write 8080, 8080:80 or 127.0.0.1:8080:80/udp";
  std::string_view rest = text;
  std::string protocol = "tcp";
  if (const auto slash = rest.rfind('/'); slash != std::string_view::npos) {
    protocol = rest.substr(slash + 1);
    rest = rest.substr(0, slash);
  }
  const auto last = rest.rfind(':');
  const std::string inside(last == std::string_view::npos ? rest : rest.substr(last + 1));
  std::string outside = inside;
  std::string address;
  if (last != std::string_view::npos) {
    rest = rest.substr(0, last);
    const auto before = rest.rfind(':');
    outside = before == std::string_view::npos ? rest : rest.substr(before + 1);
    address = before == std::string_view::npos ? std::string_view() : rest.substr(0, before);
    if (address.starts_with('[') && address.ends_with(']')) {
      address = address.substr(1, address.size() - 2);
    }
  }
  const auto is_port = [](const std::string& port) {
    return !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos &&
           std::stoul(port) >= 1 && std::stoul(port) <= 65535;
  };
  const bool known = protocol == "tcp" || protocol == "udp" || protocol == "sctp";
  if (!is_port(inside) || !is_port(outside) || !known) {
    return bad_value(name, text, kHint);
  }
  const std::string port = inside + "/" + protocol;
  exposed_[port] = Json::object();
  bindings_[port].push_back(Json{{"HostIp", address}, {"HostPort", outside}});
  return ok();
}

Result<void> Planner::build() {
  plan_.image = image_.empty() ? kDefaultImage : image_;
  plan_.user = user_;
  if (!exposed_.empty() && network_ == "none") {
    return make_error(ErrorKind::config, "ports are published, and 'backend.network' is none",
                      "set 'backend.network: bridge', or leave the ports out");
  }
  if (network_.starts_with("container:")) {
    return make_error(ErrorKind::unsupported, fmt::format("docker cannot do 'backend.network: {}'", network_),
                      "'none', 'bridge', 'host' and networks by name can be had");
  }
  Json add = Json::array();
  for (const std::string& capability : capabilities_) {
    if (!dropped_.contains(capability)) {
      add.push_back(capability);
    }
  }
  if (plan_.no_capabilities && added_) {
    return make_error(ErrorKind::unsupported, "capabilities are added, and all are dropped",
                      "leave out one of 'cap_add' and 'cap_drop: ALL'");
  }
  host_["CapDrop"] = Json::array({"ALL"});
  host_["CapAdd"] = std::move(add);
  host_["SecurityOpt"].push_back("no-new-privileges");
  host_["NetworkMode"] = network_;
  host_["PidsLimit"] = pids_;
  if (memory_) {
    host_["Memory"] = *memory_;
    host_["MemorySwap"] = *memory_;
  }
  if (nano_cpus_ != 0) {
    host_["NanoCpus"] = nano_cpus_;
  }
  host_["ReadonlyRootfs"] = read_only_;
  if (!bindings_.empty()) {
    host_["PortBindings"] = bindings_;
  }
  host_["Init"] = false;  // the guest is
  host_["AutoRemove"] = false;
  host_["RestartPolicy"] = Json{{"Name", "no"}};
  host_["LogConfig"] = Json{{"Type", "none"}};
  for (const auto& [key, value] : raw_host_.items()) {
    host_[key] = value;
  }
  ASCOPE_TRY(mounts());
  plan_.body["Cmd"] = Json::array();
  plan_.body["User"] = "0:0";
  plan_.body["WorkingDir"] = "/";
  plan_.body["StopSignal"] = "SIGTERM";
  plan_.body["Healthcheck"] = Json{{"Test", Json::array({"NONE"})}};  // nothing of the image runs by itself
  plan_.body["Labels"] = labels_;
  if (!exposed_.empty()) {
    plan_.body["ExposedPorts"] = exposed_;
  }
  plan_.body["HostConfig"] = host_;
  return ok();
}

Result<void> Planner::mounts() {
  Json list = Json::array();
  for (const MountSpec& mount : settings_.mounts) {
    ASCOPE_TRY_ASSIGN(const bool exists, path_exists(mount.host_path));
    if (!exists) {
      return make_error(ErrorKind::config, fmt::format("'{}', to be mounted at '{}', does not exist",
                                                       mount.host_path, mount.path));
    }
    list.push_back(Json{{"Type", "bind"},
                        {"Source", mount.host_path},
                        {"Target", mount.path},
                        {"ReadOnly", mount.read_only}});
    plan_.shares_folders = plan_.shares_folders || !mount.read_only;
  }
  host_["Mounts"] = std::move(list);
  return ok();
}

Result<ContainerPlan> plan_container(const SandboxSettings& settings) {
  return Planner(settings).plan();
}

std::string likely_home(const ImageFacts& image, const std::string& user) {
  for (const std::string& item : image.environment) {
    if (item.starts_with("HOME=/") && item.size() > 6) {
      return absolute_path(item.substr(5), "/");
    }
  }
  const std::string wanted = user.empty() ? image.user : user;
  const std::string name = wanted.substr(0, wanted.find(':'));
  if (name.empty() || name == "root" || name == "0") {
    return "/root";
  }
  return name.find_first_not_of("0123456789") == std::string::npos || name.find('/') != std::string::npos
             ? std::string()
             : "/home/" + name;
}

}  // namespace ascope::docker
