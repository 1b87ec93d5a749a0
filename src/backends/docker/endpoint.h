// SPDX-License-Identifier: Apache-2.0
// Where the container engine is, as the docker program would find it, with Podman's sockets after its own.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/http.h"

namespace ascope::docker {

struct Surroundings {
  std::map<std::string, std::string> environment;
  // Looked at in this order where nothing names an engine; those of the user follow from the environment.
  std::vector<std::string> sockets{"/var/run/docker.sock"};
  std::vector<std::string> podman_sockets{"/run/podman/podman.sock"};
};

struct Endpoint {
  HttpServer server;
  std::string origin;       // what named it: "DOCKER_HOST", "context 'x'", "default"
  std::string api_version;  // DOCKER_API_VERSION: no negotiation
};

// `host` and `context`: of the profile, before everything of the environment. `config` where what names an
// engine is wrong, `unsupported` for a way to reach one that we do not have, `backend_unavailable` where
// there is none.
Result<Endpoint> find_endpoint(const Surroundings& around, const std::string& host,
                               const std::string& context);

}  // namespace ascope::docker
