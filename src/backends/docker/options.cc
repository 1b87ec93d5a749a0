// SPDX-License-Identifier: Apache-2.0
// backend.options of a container, AgentScope's names and the arguments of 'docker run' among them.
#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "backends/docker/planner.h"
#include "core/base/file.h"
#include "core/base/units.h"

namespace ascope::docker {

namespace {

// An option's value: a list as its JSON, or one item as it is.
Result<std::vector<std::string>> list_of(const std::string& name, const std::string& text) {
  std::vector<std::string> out;
  if (!text.starts_with('[')) {
    if (!text.empty()) {
      out.push_back(text);
    }
    return out;
  }
  const auto json = parse_json(text);
  if (!json || !json->is_array()) {
    return bad_value(name, text, "write a list, such as [a, b]");
  }
  for (const Json& item : *json) {
    if (item.is_string()) {
      out.push_back(item.get<std::string>());
    } else if (item.is_number_integer()) {
      out.push_back(dump_json(item));
    } else {
      return bad_value(name, text, "its items must be texts or numbers");
    }
  }
  return out;
}

Result<bool> flag_of(const std::string& name, const std::string& text) {
  if (text == "true" || text == "false") {
    return text == "true";
  }
  return bad_value(name, text, "write true or false");
}

Result<std::int64_t> number_of(const std::string& name, std::string_view text) {
  std::int64_t out = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || out < 0) {
    return bad_value(name, text, "write a whole number");
  }
  return out;
}

}  // namespace

Result<void> Planner::option(const std::string& name, const std::string& value) {
  static constexpr Option kOptions[] = {
      {"additionalRunArgs", &Planner::take_run_args},
      {"cap_add", &Planner::take_cap_add},
      {"cap_drop", &Planner::take_cap_drop},
      {"context", &Planner::take_nothing},  // which engine: read when it is opened
      {"cpuCount", &Planner::take_cpus},
      {"dns", &Planner::take_dns},
      {"exposedPorts", &Planner::take_ports},
      {"extra_hosts", &Planner::take_hosts},
      {"host", &Planner::take_nothing},
      {"host_config", &Planner::take_host_config},
      {"hostname", &Planner::take_hostname},
      {"image", &Planner::take_image},
      {"memorySizeBytes", &Planner::take_memory},
      {"network", &Planner::take_network},
      {"no_new_privileges", &Planner::take_privileges},
      {"platform", &Planner::take_platform},
      {"pull", &Planner::take_pull},
      {"runtime", &Planner::take_runtime},
      {"security_opt", &Planner::take_security},
      {"shm_size", &Planner::take_shm},
      {"tmpfs", &Planner::take_tmpfs},
      {"ulimits", &Planner::take_ulimits},
  };
  const auto* const found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                         [&](const Option& one) { return one.name == name; });
  if (found == std::end(kOptions)) {
    std::string all;
    for (const Option& one : kOptions) {
      all += fmt::format("{}{}", all.empty() ? "" : ", ", one.name);
    }
    return make_error(ErrorKind::unsupported, fmt::format("docker has no 'backend.options.{}'", name),
                      "options are: " + all);
  }
  return (this->*found->take)("backend.options." + name, value);
}

Result<void> Planner::take_nothing(const std::string& /*name*/, const std::string& /*value*/) {
  return ok();
}

// An option of AgentScope's that says what a key of ours says too.
Result<void> Planner::check_twice(const std::string& name, std::string_view key, bool is_set) const {
  return is_set ? Result<void>(make_error(ErrorKind::config,
                                          fmt::format("'{}' and '{}' say the same", key, name),
                                          fmt::format("leave out '{}'", name)))
                : ok();
}

Result<void> Planner::take_image(const std::string& name, const std::string& value) {
  ASCOPE_TRY(check_twice(name, "backend.image", !settings_.image.empty()));
  image_ = value;
  return ok();
}

Result<void> Planner::take_network(const std::string& name, const std::string& value) {
  ASCOPE_TRY(check_twice(name, "backend.network", settings_.network != "none"));
  network_ = value.find_first_not_of(' ') == std::string::npos ? "none" : value;
  return ok();
}

Result<void> Planner::take_memory(const std::string& name, const std::string& value) {
  ASCOPE_TRY(check_twice(name, "backend.memory", settings_.memory_bytes.has_value()));
  return set_memory(name, value);
}

Result<void> Planner::set_memory(const std::string& name, const std::string& value) {
  const auto size = parse_size(docker_size(value));
  if (!size) {
    return bad_value(name, value, "write a size such as 512MiB");
  }
  memory_ = *size;
  return ok();
}

Result<void> Planner::take_cpus(const std::string& name, const std::string& value) {
  ASCOPE_TRY(check_twice(name, "backend.cpus", settings_.cpus.has_value()));
  return set_cpus(name, value);
}

Result<void> Planner::set_cpus(const std::string& name, const std::string& value) {
  double cpus = 0;
  const auto parsed = std::from_chars(value.data(), value.data() + value.size(), cpus);
  if (value.empty() || parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size() || cpus < 0.01 ||
      cpus > 100000) {
    return bad_value(name, value, "write a number such as 1.5");
  }
  nano_cpus_ = static_cast<std::int64_t>(cpus * 1e9);
  return ok();
}

Result<void> Planner::take_ports(const std::string& name, const std::string& value) {
  ASCOPE_TRY_ASSIGN(const auto ports, list_of(name, value));
  for (const std::string& port : ports) {
    ASCOPE_TRY(publish(name, port));
  }
  return ok();
}

std::string Planner::capability(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text.starts_with("CAP_") ? text.substr(4) : text;
}

Result<void> Planner::take_cap_add(const std::string& name, const std::string& value) {
  ASCOPE_TRY_ASSIGN(const auto items, list_of(name, value));
  for (const std::string& item : items) {
    capabilities_.insert(capability(item));
    added_ = true;
  }
  return ok();
}

Result<void> Planner::take_cap_drop(const std::string& name, const std::string& value) {
  ASCOPE_TRY_ASSIGN(const auto items, list_of(name, value));
  for (const std::string& item : items) {
    const std::string dropped = capability(item);
    if (dropped == "ALL") {
      plan_.no_capabilities = true;
    } else if (std::find(std::begin(kCapabilities), std::end(kCapabilities), dropped) !=
               std::end(kCapabilities)) {
      return make_error(
          ErrorKind::unsupported, fmt::format("'{}: {}' cannot be dropped alone", name, dropped),
          "drop ALL: then commands have none, and only this program's helper has those it needs");
    } else {
      dropped_.insert(dropped);
    }
  }
  return ok();
}

Result<void> Planner::take_privileges(const std::string& name, const std::string& value) {
  ASCOPE_TRY_ASSIGN(const bool wanted, flag_of(name, value));
  return wanted ? ok()
                : Result<void>(make_error(ErrorKind::unsupported, "commands never gain privileges here",
                                          fmt::format("leave '{}' out, and use 'exec --as root'", name)));
}

Result<void> Planner::take_dns(const std::string& name, const std::string& value) {
  return take_list(name, value, "Dns");
}

Result<void> Planner::take_hosts(const std::string& name, const std::string& value) {
  return take_list(name, value, "ExtraHosts");
}

Result<void> Planner::take_security(const std::string& name, const std::string& value) {
  return take_list(name, value, "SecurityOpt");
}

Result<void> Planner::take_list(const std::string& name, const std::string& value, const char* member) {
  ASCOPE_TRY_ASSIGN(const auto items, list_of(name, value));
  for (const std::string& item : items) {
    host_[member].push_back(item);
  }
  return ok();
}

Result<void> Planner::take_hostname(const std::string& /*name*/, const std::string& value) {
  plan_.body["Hostname"] = value;
  return ok();
}

Result<void> Planner::take_platform(const std::string& /*name*/, const std::string& value) {
  plan_.platform = value;
  return ok();
}

Result<void> Planner::take_pull(const std::string& name, const std::string& value) {
  if (value != "missing" && value != "always" && value != "never") {
    return bad_value(name, value, "write missing, always or never");
  }
  plan_.pull = value == "always"  ? PullPolicy::always
               : value == "never" ? PullPolicy::never
                                  : PullPolicy::missing;
  return ok();
}

Result<void> Planner::take_runtime(const std::string& /*name*/, const std::string& value) {
  host_["Runtime"] = value;
  return ok();
}

Result<void> Planner::take_shm(const std::string& name, const std::string& value) {
  const auto size = parse_size(docker_size(value));
  if (!size) {
    return bad_value(name, value, "write a size such as 64MiB");
  }
  host_["ShmSize"] = *size;
  return ok();
}

// PATH[:OPTIONS]
Result<void> Planner::take_tmpfs(const std::string& name, const std::string& value) {
  ASCOPE_TRY_ASSIGN(const auto items, list_of(name, value));
  for (const std::string& item : items) {
    const auto colon = item.find(':');
    const std::string path = absolute_path(item.substr(0, colon), "/");
    const std::string& root = settings_.workspace_root;
    if (!item.starts_with('/') || path == "/") {
      return bad_value(name, item, "write an absolute path inside, with options behind a colon");
    }
    if (path == root || root.starts_with(path + "/")) {
      return make_error(ErrorKind::unsupported, fmt::format("'{}: {}' would hide the workspace", name, item),
                        "a workspace must outlive the processes in it");
    }
    host_["Tmpfs"][path] = colon == std::string::npos ? "" : item.substr(colon + 1);
  }
  return ok();
}

// NAME=SOFT[:HARD]
Result<void> Planner::take_ulimits(const std::string& name, const std::string& value) {
  ASCOPE_TRY_ASSIGN(const auto items, list_of(name, value));
  for (const std::string& item : items) {
    const auto equals = item.find('=');
    const std::string limits = equals == std::string::npos ? "" : item.substr(equals + 1);
    const auto colon = limits.find(':');
    ASCOPE_TRY_ASSIGN(const std::int64_t soft, number_of(name, limits.substr(0, colon)));
    ASCOPE_TRY_ASSIGN(const std::int64_t hard, colon == std::string::npos
                                                   ? Result<std::int64_t>(soft)
                                                   : number_of(name, limits.substr(colon + 1)));
    host_["Ulimits"].push_back(Json{{"Name", item.substr(0, equals)}, {"Soft", soft}, {"Hard", hard}});
  }
  return ok();
}

Result<void> Planner::take_host_config(const std::string& name, const std::string& value) {
  const auto json = parse_json(value);
  if (!json || !json->is_object()) {
    return bad_value(name, value, "write a JSON object of the engine's HostConfig");
  }
  for (const auto& [key, member] : json->items()) {
    static constexpr std::string_view kOurs[] = {"AutoRemove", "Binds",   "Init",          "LogConfig",
                                                 "Mounts",     "PidMode", "RestartPolicy", "VolumesFrom"};
    if (std::find(std::begin(kOurs), std::end(kOurs), key) != std::end(kOurs)) {
      return make_error(ErrorKind::unsupported, fmt::format("'{}' cannot set '{}'", name, key),
                        "it is this program's to set; folders are mounted by entries of kind bind_mount");
    }
    raw_host_[key] = member;
  }
  return ok();
}

// Docker's own sizes have no "i": 512m is 512 MiB.
std::string Planner::docker_size(const std::string& text) {
  if (text.size() > 1 && std::isalpha(static_cast<unsigned char>(text.back())) != 0 &&
      std::isdigit(static_cast<unsigned char>(text[text.size() - 2])) != 0) {
    const char unit = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
    const std::string number = text.substr(0, text.size() - 1);
    return unit == 'B' ? text : number + unit + "iB";
  }
  const bool bare = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return bare ? text + "B" : text;
}

Result<void> Planner::set_pids(const std::string& name, const std::string& value) {
  ASCOPE_TRY_ASSIGN(const std::int64_t pids, number_of(name, value));
  pids_ = static_cast<std::uint64_t>(pids);
  return ok();
}

Result<void> Planner::set_user(const std::string& /*name*/, const std::string& value) {
  user_ = value;
  return ok();
}

Result<void> Planner::set_network(const std::string& /*name*/, const std::string& value) {
  network_ = value;
  return ok();
}

Result<void> Planner::set_label(const std::string& /*name*/, const std::string& value) {
  const auto equals = value.find('=');
  return label(value.substr(0, equals), equals == std::string::npos ? "" : value.substr(equals + 1));
}

Result<void> Planner::set_port(const std::string& name, const std::string& value) {
  return publish(name, value);
}

Result<void> Planner::set_read_only(const std::string& name, const std::string& value) {
  ASCOPE_TRY_ASSIGN(read_only_, flag_of(name, value.empty() ? "true" : value));
  return ok();
}

Result<void> Planner::set_security(const std::string& name, const std::string& value) {
  if (value == "no-new-privileges" || value == "no-new-privileges:true" ||
      value == "no-new-privileges=true") {
    return ok();  // always so
  }
  return take_security(name, value);
}

Result<void> Planner::take_run_args(const std::string& name, const std::string& value) {
  struct Argument {
    std::string_view name;
    Take take;
    bool is_flag = false;
  };
  static constexpr Argument kArguments[] = {
      {"--add-host", &Planner::take_hosts},
      {"--cap-add", &Planner::take_cap_add},
      {"--cap-drop", &Planner::take_cap_drop},
      {"--cpus", &Planner::set_cpus},
      {"--dns", &Planner::take_dns},
      {"--hostname", &Planner::take_hostname},
      {"-h", &Planner::take_hostname},
      {"--init", &Planner::take_nothing, true},
      {"--label", &Planner::set_label},
      {"-l", &Planner::set_label},
      {"--memory", &Planner::set_memory},
      {"-m", &Planner::set_memory},
      {"--net", &Planner::set_network},
      {"--network", &Planner::set_network},
      {"--pids-limit", &Planner::set_pids},
      {"--platform", &Planner::take_platform},
      {"--publish", &Planner::set_port},
      {"-p", &Planner::set_port},
      {"--pull", &Planner::take_pull},
      {"--read-only", &Planner::set_read_only, true},
      {"--runtime", &Planner::take_runtime},
      {"--security-opt", &Planner::set_security},
      {"--shm-size", &Planner::take_shm},
      {"--tmpfs", &Planner::take_tmpfs},
      {"--ulimit", &Planner::take_ulimits},
      {"--user", &Planner::set_user},
      {"-u", &Planner::set_user},
  };
  ASCOPE_TRY_ASSIGN(const auto words, list_of(name, value));
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].find_first_not_of(' ') == std::string::npos) {
      continue;  // AgentScope drops them too
    }
    const auto equals = words[i].find('=');
    const std::string word = words[i].substr(0, equals);
    const auto* const found = std::find_if(std::begin(kArguments), std::end(kArguments),
                                           [&](const Argument& one) { return one.name == word; });
    if (found == std::end(kArguments)) {
      return make_error(ErrorKind::unsupported, fmt::format("'{}': '{}' cannot be had", name, words[i]),
                        "use a key of 'backend', or 'backend.options.host_config'");
    }
    std::string argument = equals == std::string::npos ? "" : words[i].substr(equals + 1);
    if (equals == std::string::npos && !found->is_flag) {
      if (++i == words.size()) {
        return make_error(ErrorKind::config, fmt::format("'{}': '{}' has no value", name, word),
                          "write its value behind it, or after '='");
      }
      argument = words[i];
    }
    ASCOPE_TRY((this->*found->take)(fmt::format("{} {}", name, word), argument));
  }
  return ok();
}

}  // namespace ascope::docker
