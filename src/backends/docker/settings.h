// SPDX-License-Identifier: Apache-2.0
// What the profile wants of a container, as the engine is told it.
#pragma once

#include <string>
#include <vector>

#include "backends/docker/engine.h"
#include "core/backend.h"

namespace ascope::docker {

constexpr const char* kDefaultImage = "ubuntu:22.04";  // AgentScope's
constexpr const char* kGuestPath = "/run/ascope/guest";
constexpr const char* kDoorPath = "/run/ascope/b";  // where the guest's socket is handed over

// Labels of our containers.
constexpr const char* kOwnerLabel = "ascope.owner";          // which state folder of which machine
constexpr const char* kSandboxLabel = "ascope.sandbox";      // its id
constexpr const char* kSlotLabel = "ascope.slot";            // as written
constexpr const char* kOperationLabel = "ascope.operation";  // that made it
constexpr const char* kUserLabel = "ascope.user";            // of its commands
constexpr const char* kRootLabel = "ascope.root";            // its workspace

enum class PullPolicy { missing, always, never };

// What is decided before the image is known.
struct ContainerPlan {
  std::string image;
  std::string platform;
  std::string user;  // empty: the image's
  PullPolicy pull = PullPolicy::missing;
  bool no_capabilities = false;  // of commands; the guest needs some
  bool shares_folders = false;   // writable ones, with the host
  Json body;                     // but Image, Entrypoint, Labels and the mounts that the guest needs
};

// `config` for what is no value, `unsupported` for what no container can have or we do not offer.
Result<ContainerPlan> plan_container(const SandboxSettings& settings);

// A folder of the image that the user of commands probably has as HOME: for read_only_root, which must keep
// it writable. Empty where it cannot be told.
std::string likely_home(const ImageFacts& image, const std::string& user);

}  // namespace ascope::docker
