// SPDX-License-Identifier: Apache-2.0
#include "backends/docker/endpoint.h"

#include <cerrno>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"

namespace ascope::docker {

namespace {

constexpr std::size_t kMaxConfigBytes = 4U << 20U;

class Finder {
 public:
  explicit Finder(const Surroundings& around) : around_(around) {}

  Result<Endpoint> find(const std::string& host, const std::string& context) {
    ASCOPE_TRY_ASSIGN(Endpoint found, choose(host, context));
    found.api_version = variable("DOCKER_API_VERSION");
    const std::string& version = found.api_version;
    const auto dot = version.find('.');
    if (!version.empty() &&
        (dot == std::string::npos || version.find_first_not_of("0123456789.") != std::string::npos ||
         version.find('.', dot + 1) != std::string::npos || dot == 0 || dot + 1 == version.size())) {
      return make_error(ErrorKind::config, fmt::format("DOCKER_API_VERSION is '{}'", version),
                        "write a version such as 1.41, or unset it");
    }
    return found;
  }

 private:
  [[nodiscard]] std::string variable(const char* name) const {
    const auto found = around_.environment.find(name);
    return found == around_.environment.end() ? std::string() : found->second;
  }

  [[nodiscard]] std::string config_dir() const {
    const std::string given = variable("DOCKER_CONFIG");
    return given.empty() ? variable("HOME") + "/.docker" : given;
  }

  Result<Endpoint> choose(const std::string& host, const std::string& context) {
    if (!host.empty()) {
      return from_address(host, "backend.options.host");
    }
    if (!context.empty()) {
      return from_context(context, "backend.options.context");
    }
    if (const std::string named = variable("DOCKER_HOST"); !named.empty()) {
      return from_address(named, "DOCKER_HOST");
    }
    if (const std::string named = variable("DOCKER_CONTEXT"); !named.empty()) {
      return from_context(named, "DOCKER_CONTEXT");
    }
    ASCOPE_TRY_ASSIGN(const std::string current, current_context());
    if (!current.empty()) {
      return from_context(current, config_dir() + "/config.json");
    }
    if (const std::string named = variable("CONTAINER_HOST"); !named.empty()) {
      return from_address(named, "CONTAINER_HOST");
    }
    return from_sockets();
  }

  Result<std::string> current_context() const {
    const std::string path = config_dir() + "/config.json";
    auto text = read_file(path, kMaxConfigBytes);
    if (!text) {
      // The docker program goes on without a configuration that it cannot read, too.
      return std::string();
    }
    auto json = parse_json(*text);
    auto name = json ? get_optional_string(*json, "currentContext") : std::move(json).error();
    if (!name) {
      Error error = std::move(name).error();
      error.kind = ErrorKind::config;
      return std::move(error).within("'" + path + "'").with_hint("mend the file, or set DOCKER_HOST");
    }
    return name->value_or("");
  }

  // A context's name becomes no path: its folder is named by the name's digest.
  Result<Endpoint> from_context(const std::string& name, const std::string& origin) {
    if (name == "default") {
      return from_sockets();
    }
    const std::string hash = sha256_hex(name);
    const std::string path = config_dir() + "/contexts/meta/" + hash + "/meta.json";
    const auto wrong = [&](Error error) {
      error.kind = ErrorKind::config;
      return std::move(error).within(fmt::format("docker context '{}', named by {}", name, origin));
    };
    auto text = read_file(path, kMaxConfigBytes);
    if (!text) {
      return wrong(
          make_error(ErrorKind::config, text.error().message, "'docker context ls' lists those there are"));
    }
    auto json = parse_json(*text);
    if (!json) {
      return wrong(std::move(json).error());
    }
    const Json* docker = nullptr;
    if (json->is_object() && json->contains("Endpoints") && json->at("Endpoints").is_object() &&
        json->at("Endpoints").contains("docker")) {
      docker = &json->at("Endpoints").at("docker");
    }
    if (docker == nullptr || !docker->is_object()) {
      return wrong(make_error(ErrorKind::config, "'" + path + "' names no docker endpoint"));
    }
    auto host = get_optional_string(*docker, "Host");
    if (!host) {
      return wrong(std::move(host).error());
    }
    if (!*host || (*host)->empty()) {
      return from_sockets();
    }
    const std::string tls = config_dir() + "/contexts/tls/" + hash + "/docker";
    const bool skip = docker->contains("SkipTLSVerify") && docker->at("SkipTLSVerify").is_boolean() &&
                      docker->at("SkipTLSVerify").get<bool>();
    auto found =
        address(**host, fmt::format("context '{}'", name), is_there(tls) ? tls : std::string(), !skip);
    return found ? std::move(found) : wrong(std::move(found).error());
  }

  Result<Endpoint> from_address(const std::string& text, const std::string& origin) {
    const bool verify = !variable("DOCKER_TLS_VERIFY").empty();
    std::string certificates = variable("DOCKER_CERT_PATH");
    if (certificates.empty() && verify) {
      certificates = config_dir();
    }
    auto found = address(text, origin, certificates, verify);
    return found ? std::move(found) : std::move(found).error().within(origin);
  }

  static bool is_there(const std::string& path) {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0;
  }

  static Result<Endpoint> address(const std::string& text, const std::string& origin,
                                  const std::string& certificates, bool verify) {
    Endpoint out;
    out.origin = origin;
    out.server.shown = text;
    const auto split = text.find("://");
    const std::string scheme = text.substr(0, split);
    std::string rest = split == std::string::npos ? std::string() : text.substr(split + 3);
    if (scheme == "unix" && rest.starts_with('/')) {
      out.server.unix_socket = rest;
      out.server.base_url = "http://localhost";
      return out;
    }
    if (scheme == "tcp" || scheme == "http" || scheme == "https") {
      while (rest.ends_with('/')) {
        rest.pop_back();
      }
      if (rest.empty() || rest.find_first_of("/?#@ \t\r\n") != std::string::npos) {
        return make_error(ErrorKind::config, fmt::format("'{}' is no address of an engine", text),
                          "write tcp://HOST:PORT or unix:///PATH");
      }
      const bool tls = scheme == "https" || !certificates.empty();
      const auto bracket = rest.rfind(']');
      const auto colon = rest.rfind(':');
      const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
      out.server.base_url = fmt::format("{}://{}{}", tls ? "https" : "http", rest,
                                        has_port ? ""
                                        : tls    ? ":2376"
                                                 : ":2375");
      out.server.verify = verify || scheme == "https";
      const std::pair<const char*, std::string*> files[] = {{"ca.pem", &out.server.ca_file},
                                                            {"cert.pem", &out.server.cert_file},
                                                            {"key.pem", &out.server.key_file}};
      for (const auto& [name, path] : files) {
        if (!certificates.empty() && is_there(certificates + "/" + name)) {
          *path = certificates + "/" + name;
        }
      }
      return out;
    }
    if (scheme == "ssh") {
      return make_error(ErrorKind::unsupported, fmt::format("'{}': an engine is not reached by ssh", text),
                        "forward its socket with 'ssh -L PATH:/var/run/docker.sock HOST' and name that path");
    }
    return make_error(ErrorKind::config, fmt::format("'{}' is no address of an engine", text),
                      "write unix:///PATH or tcp://HOST:PORT");
  }

  Result<Endpoint> from_sockets() const {
    std::vector<std::string> sockets = around_.sockets;
    const std::string runtime = variable("XDG_RUNTIME_DIR");
    const std::string home = variable("HOME");
    if (!runtime.empty()) {
      sockets.push_back(runtime + "/docker.sock");
    }
    if (!home.empty()) {
      sockets.push_back(home + "/.docker/run/docker.sock");
      sockets.push_back(home + "/.docker/desktop/docker.sock");
    }
    sockets.insert(sockets.end(), around_.podman_sockets.begin(), around_.podman_sockets.end());
    if (!runtime.empty()) {
      sockets.push_back(runtime + "/podman/podman.sock");
    }
    std::string closed;
    for (const std::string& path : sockets) {
      struct stat info{};
      if (::stat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) {
        continue;
      }
      if (::access(path.c_str(), R_OK | W_OK) == 0) {
        return address("unix://" + path, "default", {}, false);
      }
      closed = closed.empty() ? path : closed;
    }
    if (!closed.empty()) {
      return make_error(ErrorKind::denied, fmt::format("the engine's socket '{}' may not be opened", closed),
                        "join its group (often 'docker'), or run an engine of your own (rootless)");
    }
    return make_error(ErrorKind::backend_unavailable, "no container engine was found on this machine",
                      "start Docker or Podman (systemctl --user start podman.socket), or set DOCKER_HOST");
  }

  const Surroundings& around_;
};

}  // namespace

Result<Endpoint> find_endpoint(const Surroundings& around, const std::string& host,
                               const std::string& context) {
  return Finder(around).find(host, context);
}

}  // namespace ascope::docker
