// SPDX-License-Identifier: Apache-2.0
// What all sandboxes of one backend share, and one of them as it lies on this machine and in the engine.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/docker/engine.h"
#include "backends/docker/settings.h"
#include "backends/local/guest_link.h"

namespace ascope::docker {

using local::Folder;
using local::Meta;

class Site {
 public:
  explicit Site(const BackendContext& context);

  [[nodiscard]] const std::string& dir() const { return dir_; }  // of the sandboxes' folders
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] const std::string& owner() const { return owner_; }
  // Found when it is first needed: a running sandbox is reached without it.
  Result<Engine*> engine();
  void progress(std::string_view what, std::uint64_t done, std::uint64_t total) const {
    if (progress_) {
      progress_(what, done, total);
    }
  }

 private:
  std::string dir_, host_, owner_;
  Surroundings around_;
  std::string engine_host_, engine_context_;
  std::function<void(std::string_view, std::uint64_t, std::uint64_t)> progress_;
  std::unique_ptr<Engine> engine_;
};

// Names of Meta::facts.
constexpr const char* kContainer = "container";  // the engine's id; empty: it was never made
constexpr const char* kImage = "image";          // as the profile names it
constexpr const char* kImageId = "image_id";
constexpr const char* kEngine = "engine";           // address of the engine that has it
constexpr const char* kEngineId = "engine_id";      // Engine::identity()
constexpr const char* kImageEnv = "image_env";      // JSON list
constexpr const char* kWantedUser = "wanted_user";  // of commands
constexpr const char* kUser = "user";               // as the container knows it; with uid, gid, home
constexpr const char* kWarnings = "warnings";       // of the engine, at its making
constexpr const char* kFlags = "flags";             // "no_capabilities", "shares_folders"

std::string fact(const Meta& meta, const char* name);
// An engine's address, the same by whichever link its socket is named.
std::string place_of(const Engine& engine);
// `backend_unavailable` if it belongs to another machine or another engine than the one that is named now.
Result<void> check_place(Site& site, const Meta& meta);

// Whether the container was made by this program for this state folder and the sandbox `id`. Labels alone are
// no proof, for a container inherits those of its image: it has the sandbox's guest mounted too, which no
// image can bring about.
bool is_made_here(const Site& site, const ContainerFacts& facts, const std::string& id);

// The container of a sandbox, nullopt if the engine has none; one of that name that is not the sandbox's is
// `conflict`.
Result<std::optional<ContainerFacts>> find_own(const OpContext& ctx, Site& site, const Meta& meta);

// Before a container is made or started: the guest's program beside it, as this version has it.
Result<void> provide_guest(Site& site, const Folder& folder);
// Makes the folder for the handing over; empty.
Result<void> open_door(const Folder& folder);
void close_door(const Folder& folder);
std::string guest_file(const Folder& folder);
std::string door_folder(const Folder& folder);

// Brings the container up with nothing but the guest in it, hands it its socket and gives it its settings.
// Meta gets who the user of commands is, if it was not known. `settings`: none: for work on files alone, and
// it ends soon after. REQUIRES: the folder's lock is held and no guest answers. On failure it does not run.
Result<UniqueFd> bring_up(const OpContext& ctx, Site& site, const Folder& folder, Meta& meta,
                          const SandboxSettings* settings, std::uint64_t fence);
Result<void> send_config(const OpContext& ctx, const Folder& folder, const Meta& meta,
                         const SandboxSettings* settings, std::uint64_t fence);
// Ends it, guest or not, and waits until the engine knows.
Result<void> bring_down(const OpContext& ctx, Site& site, const Folder& folder, const Meta& meta,
                        std::uint64_t fence);

}  // namespace ascope::docker
