// SPDX-License-Identifier: Apache-2.0
// The calls of the Docker Engine API that a backend needs, over any engine that speaks it (Podman too). Every
// error names the engine's address, what it was asked for, and what to do next.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/docker/endpoint.h"
#include "core/base/http.h"
#include "core/base/json.h"

namespace ascope::docker {

struct ApiVersion {
  int major = 0, minor = 0;
  auto operator<=>(const ApiVersion&) const = default;
};
std::string to_string(const ApiVersion& version);
// nullopt unless `text` is "N.M".
std::optional<ApiVersion> parse_version(std::string_view text);

constexpr ApiVersion kNewestApi{1, 47};  // what the calls here were written for
constexpr ApiVersion kOldestApi{1, 40};

struct ImageFacts {
  std::string id;  // "sha256:…"
  std::string user;
  std::string platform;                  // "linux/amd64"
  std::vector<std::string> environment;  // "K=V"
};

struct ContainerFacts {
  std::string id;
  std::string name;  // without the slash in front
  std::string image_id;
  std::string status;  // created, running, paused, restarting, removing, exited, dead
  bool running = false;
  bool paused = false;
  bool ever_started = false;
  std::int64_t pid = 0;  // as the engine's own machine numbers it
  std::int64_t exit_code = 0;
  std::string error;
  std::string created;
  bool oom_killed = false;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> binds;  // folders and files of the machine, by their place inside
};

struct ContainerSummary {
  std::string id;
  std::string name;
  std::string state;
  std::map<std::string, std::string> labels;
};

class Engine {
 public:
  explicit Engine(Endpoint endpoint);

  [[nodiscard]] const std::string& address() const { return client_.server().shown; }
  [[nodiscard]] const std::string& socket() const { return client_.server().unix_socket; }
  [[nodiscard]] bool by_socket() const { return !client_.server().unix_socket.empty(); }
  // Asks the engine which versions it speaks, once; all other calls do so first.
  Result<ApiVersion> version(const OpContext& ctx);
  [[nodiscard]] bool is_podman() const { return podman_; }
  [[nodiscard]] const std::string& software() const { return software_; }  // "Docker/20.10.24 (linux)"

  // What tells the engine's own data from another's at the same address; empty where it does not say
  // (Podman).
  Result<std::string> identity(const OpContext& ctx);
  // nullopt: the engine has none of that name.
  Result<std::optional<ImageFacts>> find_image(const OpContext& ctx, const std::string& reference);
  using PullProgress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;
  // The engine answers 200 before it begins; what goes wrong stands in the stream.
  Result<void> pull_image(const OpContext& ctx, const std::string& reference, const std::string& platform,
                          const PullProgress& progress);

  struct Created {
    std::string id;
    std::vector<std::string> warnings;  // what of the settings does not hold
  };
  // The new container. `not_found`: the image is not there (any more); `conflict`: the name is taken;
  // `config`: the engine refuses the settings.
  Result<Created> create_container(const OpContext& ctx, const std::string& name, const std::string& platform,
                                   const Json& body);
  Result<void> start_container(const OpContext& ctx, const std::string& id);
  // Nothing to do if it does not run (any more).
  Result<void> kill_container(const OpContext& ctx, const std::string& id);
  Result<void> wait_container(const OpContext& ctx, const std::string& id);
  // With its anonymous volumes. Of what is gone it succeeds; `conflict` while it runs.
  Result<void> remove_container(const OpContext& ctx, const std::string& id);
  Result<std::optional<ContainerFacts>> find_container(const OpContext& ctx, const std::string& name_or_id);
  // Those that carry all of `labels`, running or not.
  Result<std::vector<ContainerSummary>> list_containers(const OpContext& ctx,
                                                        const std::map<std::string, std::string>& labels);
  // Whether `path` is a folder of the container, running or not; nullopt: there is nothing, or something
  // else.
  Result<bool> has_folder(const OpContext& ctx, const std::string& id, const std::string& path);

 private:
  struct Call {
    std::string_view what;  // "creating container 'x'"
    std::string method = "GET";
    std::string target;  // without the version
    std::optional<Json> body{};
    std::size_t max_body_bytes = 8U << 20U;
    std::function<Result<void>(ByteView)> on_body{};
    Millis limit{60000};
  };
  // The reply of any status.
  Result<HttpReply> ask(const OpContext& ctx, const Call& call);
  // The JSON of a 2xx reply, else an error.
  Result<Json> ask_json(const OpContext& ctx, const Call& call);
  Error refusal(const Call& call, const HttpReply& reply) const;
  Error failure(std::string_view what, Error error) const;
  Result<void> negotiate(const OpContext& ctx);

  Endpoint endpoint_;
  HttpClient client_;
  std::optional<ApiVersion> version_;
  bool podman_ = false;
  std::string software_;
};

// Engine texts, made fit to be shown: one line, no control characters, cut.
std::string shown_text(std::string_view text);

}  // namespace ascope::docker
