// SPDX-License-Identifier: Apache-2.0
#include "core/profile/build.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/base/file.h"
#include "core/base/spelling.h"
#include "core/base/units.h"
#include "core/profile/profile_schema.h"
#include "core/profile/value.h"
#include "core/profile/variables.h"

namespace ascope {
namespace {

class Builder {
 public:
  Builder(const Layer& layer, const std::map<std::string, std::string>& environment, Profile& profile,
          Problems& problems)
      : layer_(layer), environment_(environment), profile_(profile), problems_(problems) {}

  void build(std::span<const BackendKind* const> backend_kinds) {
    version();
    ids();
    const BackendKind* const kind = backend(backend_kinds);
    settings();
    workspace(kind);
    projection();
    times();
    profile_.persistence = text("persistence");
    profile_.release = text("release");
    variables_are_set();
  }

 private:
  std::string text(std::string_view key) const { return layer_text(layer_, key); }

  void problem(const LayerValue& value, std::string_view message, std::string hint = {}) {
    problems_.push_back(layer_error(value, ErrorKind::config, message, std::move(hint)));
  }

  std::vector<std::string> list(std::string_view key) const {
    std::vector<std::string> items;
    if (const LayerValue* const value = layer_.find(key); value != nullptr && value->value.is_array()) {
      for (const Json& item : value->value) {
        items.push_back(item.get<std::string>());
      }
    }
    return items;
  }

  // A duration was checked when it was read.
  std::optional<Millis> duration(std::string_view key) const {
    const std::string written = text(key);
    const auto parsed = parse_duration(written);
    return written.empty() || !parsed ? std::nullopt : std::optional<Millis>(*parsed);
  }

  void version() {
    const LayerValue* const value = layer_.find("version");
    if (value->value != 1) {
      problem(*value, fmt::format("profile version {} is not known", dump_json(value->value)),
              "this program reads version 1");
    }
  }

  void ids() {
    profile_.ids.agent = text("agent");
    profile_.ids.user = text("user");
    profile_.ids.session = text("session");
    if (auto scope = parse_scope(text("scope")); scope) {
      profile_.ids.scope = *scope;
    } else {
      problem(*layer_.find("scope"), scope.error().message, scope.error().hint);
    }
    if (profile_.ids.agent.empty()) {
      problem(*layer_.find("agent"), "'agent' is empty", "leave it out for the agent 'default'");
    }
  }

  const BackendKind* backend(std::span<const BackendKind* const> kinds) {
    profile_.backend_type = text("backend.type");
    std::vector<std::string> names;
    for (const BackendKind* const kind : kinds) {
      if (kind->name == profile_.backend_type) {
        return kind;
      }
      names.emplace_back(kind->name);
    }
    const std::string near = nearest_word(profile_.backend_type, names);
    std::string all;
    for (const std::string& name : names) {
      all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
    }
    problem(*layer_.find("backend.type"), fmt::format("there is no backend '{}'", profile_.backend_type),
            near.empty() ? fmt::format("backends are: {}", all) : fmt::format("did you mean '{}'?", near));
    return nullptr;
  }

  void settings() {
    SandboxSettings& settings = profile_.settings;
    settings.image = text("backend.image");
    settings.rootfs = text("backend.rootfs");
    settings.network = text("backend.network");
    for (const auto* const key : {"backend.rootfs", "backend.network"}) {
      if (text(key).empty()) {
        problem(*layer_.find(key), fmt::format("'{}' is empty", key));
      }
    }
    if (const std::string memory = text("backend.memory"); !memory.empty()) {
      settings.memory_bytes = parse_size(memory).value();
    }
    if (const LayerValue* const cpus = layer_.find("backend.cpus"); cpus != nullptr) {
      settings.cpus = cpus->value.get<double>();
    }
    if (const LayerValue* const pids = layer_.find("backend.pids"); pids != nullptr) {
      settings.pids = pids->value.get<std::uint64_t>();
    }
    settings.user = text("backend.user");
    settings.ports = list("backend.ports");
    settings.read_only_root = layer_.find("backend.read_only_root")->value.get<bool>();
    for (const auto& [name, value] : layer_.members("backend.labels")) {
      settings.labels[name] = value->value.get<std::string>();
    }
    options();
  }

  void options() {
    SandboxSettings& settings = profile_.settings;
    for (const auto& [name, value] : layer_.members("backend.options")) {
      settings.options[name] = expanded(*value, settings.secret_options, name);
    }
    for (const std::string_view word : {"template", "warm_pool"}) {
      const std::string key = fmt::format("backend.{}", word);
      const std::string written = text(key);
      if (!written.empty() && !settings.options.emplace(word, written).second) {
        problem(*layer_.find(key), fmt::format("'{0}' and 'backend.options.{1}' say the same", key, word),
                fmt::format("leave out 'backend.options.{}'", word));
      }
    }
  }

  // The value with its variables replaced; `secrets` gets `name` if there were any.
  std::string expanded(const LayerValue& value, std::vector<std::string>& secrets, const std::string& name) {
    const auto written = value.value.get<std::string>();
    if (has_variables(written)) {
      secrets.push_back(name);
    }
    auto result = expand_variables(written, environment_);
    if (!result) {
      problem(value, result.error().message, result.error().hint);
      return {};
    }
    return std::move(result).value();
  }

  void workspace(const BackendKind* kind) {
    root(kind);
    persist(kind);
    profile_.exclude = list("workspace.exclude");
    for (const auto& [name, value] : layer_.members("workspace.environment")) {
      profile_.environment[name] = expanded(*value, profile_.secret_environment, name);
    }
    profile_.settings.environment = profile_.environment;
    profile_.settings.workspace_root = profile_.workspace_root;
    build_entries(layer_, profile_, problems_);
  }

  void root(const BackendKind* kind) {
    const std::string written = text("workspace.root");
    if (written.empty()) {
      profile_.workspace_root = kind == nullptr ? "/workspace" : std::string(kind->default_workspace_root);
      return;
    }
    const LayerValue& value = *layer_.find("workspace.root");
    profile_.workspace_root = inside_path(value, written, "workspace.root");
    for (const std::string_view system : {"/proc", "/sys", "/dev"}) {
      if (profile_.workspace_root == system ||
          profile_.workspace_root.starts_with(fmt::format("{}/", system))) {
        problem(value, fmt::format("'workspace.root' is '{}', where no files can be kept", written));
      }
    }
  }

  // An absolute path inside the sandbox, normalised.
  std::string inside_path(const LayerValue& value, const std::string& written, std::string_view key) {
    const std::string path = absolute_path(written, "/");
    if (!written.starts_with('/') || written.find("/../") != std::string::npos || written.ends_with("/..")) {
      problem(value, fmt::format("'{}' is '{}' where an absolute path is needed", key, written),
              "write a path inside the sandbox, such as /workspace");
    } else if (path == "/") {
      problem(value, fmt::format("'{}' is the root folder itself", key));
    }
    return path;
  }

  void persist(const BackendKind* kind) {
    const LayerValue* const value = layer_.find("workspace.persist");
    if (value == nullptr) {
      profile_.persist_all = kind == nullptr || kind->holds_system;
      if (!profile_.persist_all) {
        profile_.persist = {profile_.workspace_root};
        if (!kind->home.empty() && kind->home != profile_.workspace_root) {
          profile_.persist.emplace_back(kind->home);
        }
      }
      return;
    }
    profile_.persist_all = !value->value.is_array();
    for (const std::string& written : list("workspace.persist")) {
      profile_.persist.push_back(inside_path(*value, written, "workspace.persist"));
    }
    if (value->value.is_array() && profile_.persist.empty()) {
      problem(*value, "'workspace.persist' is an empty list", "write all, or a list such as [/workspace]");
    }
  }

  void projection() {
    profile_.projection_enabled = layer_.find("workspace.projection.enabled")->value.get<bool>();
    profile_.on_conflict = text("workspace.projection.on_conflict");
    profile_.projection_include = list("workspace.projection.include");
    for (const std::string& path : profile_.projection_include) {
      const std::string wrong = path == "." ? std::string() : relative_path_problem(path);
      if (!wrong.empty()) {
        problem(*layer_.find("workspace.projection.include"),
                fmt::format("'{}' in 'workspace.projection.include' {}", path, wrong),
                "write paths below the source, such as skills");
      }
    }
    const LayerValue* const value = layer_.find("workspace.skills");
    if (value == nullptr) {
      return;
    }
    for (const Json& item : value->value) {
      const auto part = [&](const char* name) { return item.value(name, std::string()); };
      profile_.skills.push_back(
          SkillSource{part("git"), part("dir"), part("ref"), part("path"), part("name")});
    }
  }

  void times() {
    profile_.lock_ttl = duration("lock.ttl").value_or(profile_.lock_ttl);
    profile_.lock_wait = duration("lock.wait").value_or(profile_.lock_wait);
    profile_.lock_retry = duration("lock.retry").value_or(profile_.lock_retry);
    profile_.max_hold = duration("lock.max_hold");
    profile_.idle_timeout = duration("idle_timeout").value_or(profile_.idle_timeout);
    profile_.settings.idle_timeout = profile_.idle_timeout;
    // Renewed at a third of it, and lost at two thirds: below a second that is noise of the scheduler.
    at_least("lock.ttl", profile_.lock_ttl, Millis(1000));
    at_least("lock.retry", profile_.lock_retry, Millis(1));
    at_least("lock.max_hold", profile_.max_hold.value_or(Millis(1)), Millis(1));
    if (const LayerValue* const value = layer_.find("lock.agentscope"); value != nullptr) {
      profile_.lock_agentscope = value->value.get<bool>();
    }
    for (const auto& [name, value] : layer_.members("snapshots.keep")) {
      if (name == "within") {
        profile_.keep.within = parse_duration(value->value.get<std::string>()).value();
        continue;
      }
      const auto count = value->value.get<std::uint64_t>();
      auto& rule = name == "last"     ? profile_.keep.last
                   : name == "hourly" ? profile_.keep.hourly
                   : name == "daily"  ? profile_.keep.daily
                   : name == "weekly" ? profile_.keep.weekly
                                      : profile_.keep.monthly;
      rule = count;
    }
  }

  void at_least(std::string_view key, Millis value, Millis least) {
    if (value < least) {
      problem(*layer_.find(key),
              fmt::format("'{}' is {}, less than {}", key, format_duration(value), format_duration(least)));
    }
  }

  // Stores' URLs keep their ${VAR} until they are opened; that they can be replaced is known now.
  void variables_are_set() {
    for (const ProfileKey& key : profile_keys()) {
      const LayerValue* const value = expands_variables(key) ? layer_.find(key.name) : nullptr;
      if (value == nullptr || !value->value.is_string()) {
        continue;
      }
      if (auto replaced = expand_variables(value->value.get<std::string>(), environment_); !replaced) {
        problem(*value, replaced.error().message, replaced.error().hint);
      }
    }
  }

  const Layer& layer_;
  const std::map<std::string, std::string>& environment_;
  Profile& profile_;
  Problems& problems_;
};

// The value as it may be shown: no variable's value is in it yet, and references are covered up.
Json shown_value(const Json& value) {
  if (value.is_string()) {
    return bytes_json(mask_variables(value.get<std::string>()));
  }
  return value;
}

}  // namespace

std::string layer_text(const Layer& layer, std::string_view key) {
  const LayerValue* const value = layer.find(key);
  return value == nullptr || !value->value.is_string() ? std::string() : value->value.get<std::string>();
}

Error layer_error(const LayerValue& value, ErrorKind kind, std::string_view message, std::string hint) {
  return make_error(kind, fmt::format("{}: {}", value.origin.where, message), std::move(hint));
}

void build_profile(const Layer& layer, const std::map<std::string, std::string>& environment,
                   std::span<const BackendKind* const> backend_kinds, Profile& profile, Problems& problems) {
  Builder(layer, environment, profile, problems).build(backend_kinds);
  build_stores(layer, profile, problems);
  for (const auto& [key, value] : layer.values) {
    const ProfileKey* const known = find_profile_key(key.first);
    const bool masked = known != nullptr && expands_variables(*known);
    std::string name = key.second.empty() ? key.first : fmt::format("{}.{}", key.first, key.second);
    profile.values.emplace(
        std::move(name),
        std::make_pair(
            masked ? shown_value(value.value)
                   : (value.value.is_string() ? bytes_json(value.value.get<std::string>()) : value.value),
            value.origin));
  }
}

}  // namespace ascope
