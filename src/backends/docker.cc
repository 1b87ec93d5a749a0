// SPDX-License-Identifier: Apache-2.0
// Containers of an engine on this machine (Docker, Podman), by its API; no docker program is needed. Our
// guest is their first process, and commands and files go through its socket, not through the engine.
#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include <fmt/format.h>

#include "backends/docker/sandbox.h"
#include "core/base/file.h"
#include "core/base/random.h"

namespace ascope {

namespace {

using docker::ContainerSummary;
using docker::Engine;
using docker::ImageFacts;
using local::Folder;
using local::Meta;

std::string label_of(const std::map<std::string, std::string>& labels, const char* name) {
  const auto found = labels.find(name);
  return found == labels.end() ? std::string() : found->second;
}

class DockerBackend final : public Backend {
 public:
  explicit DockerBackend(const BackendContext& context) : site_(std::make_shared<docker::Site>(context)) {}

  Result<std::unique_ptr<Sandbox>> create(const OpContext& ctx, const SlotKey& slot,
                                          const std::string& operation, const SandboxSettings& settings,
                                          std::uint64_t fence) override;
  Result<std::unique_ptr<Sandbox>> attach(const OpContext& ctx, const std::string& id) override;
  Result<std::vector<ResourceInfo>> list(const OpContext& ctx, const SlotKey* slot) override;
  Result<std::vector<Error>> diagnose(const OpContext& ctx) override;

 private:
  Result<ImageFacts> provide_image(const OpContext& ctx, const docker::ContainerPlan& plan);
  Result<void> make_container(const OpContext& ctx, const Folder& folder, Meta& meta, const SlotKey& slot,
                              docker::ContainerPlan& plan, const ImageFacts& image);
  Result<UniqueFd> build(const OpContext& ctx, const Folder& folder, Meta& meta, const SlotKey& slot,
                         const SandboxSettings& settings, docker::ContainerPlan& plan, std::uint64_t fence);
  // For a container of ours whose folder is gone: one again, from its labels.
  Result<Folder> make_folder_again(const OpContext& ctx, const std::string& id);
  // Of folders here; those whose container is gone are removed.
  Result<void> list_folders(const OpContext& ctx, const std::string& wanted,
                            const std::vector<ContainerSummary>& containers, std::vector<ResourceInfo>& out);
  Result<bool> forget_if_gone(const OpContext& ctx, const Folder& folder, const Meta& meta);

  std::shared_ptr<docker::Site> site_;
};

Result<ImageFacts> DockerBackend::provide_image(const OpContext& ctx, const docker::ContainerPlan& plan) {
  ASCOPE_TRY_ASSIGN(Engine * engine, site_->engine());
  ASCOPE_TRY_ASSIGN(auto image, engine->find_image(ctx, plan.image));
  if (plan.pull == docker::PullPolicy::always || (!image && plan.pull == docker::PullPolicy::missing)) {
    const std::string what = "Pulling " + plan.image;
    ASCOPE_TRY(engine->pull_image(
        ctx, plan.image, plan.platform,
        [&](std::uint64_t done, std::uint64_t total) { site_->progress(what, done, total); }));
    ASCOPE_TRY_ASSIGN(image, engine->find_image(ctx, plan.image));
  }
  if (!image) {
    return make_error(ErrorKind::not_found,
                      fmt::format("engine '{}' has no image '{}'", engine->address(), plan.image),
                      "pull or load it there, or leave out 'backend.options.pull: never'");
  }
  return *image;
}

Result<void> DockerBackend::make_container(const OpContext& ctx, const Folder& folder, Meta& meta,
                                           const SlotKey& slot, docker::ContainerPlan& plan,
                                           const ImageFacts& image) {
  ASCOPE_TRY_ASSIGN(Engine * engine, site_->engine());
  ASCOPE_TRY_ASSIGN(const std::string engine_id, engine->identity(ctx));
  Json environment = Json::array();
  for (const std::string& item : image.environment) {
    environment.push_back(bytes_json(item));
  }
  meta.facts = {{docker::kImage, plan.image},
                {docker::kImageId, image.id},
                {docker::kEngine, docker::place_of(*engine)},
                {docker::kEngineId, engine_id},
                {docker::kImageEnv, dump_json(environment)},
                {docker::kWantedUser, !plan.user.empty()    ? plan.user
                                      : !image.user.empty() ? image.user
                                                            : "0"},
                {docker::kFlags, fmt::format("{} {}", plan.no_capabilities ? "no_capabilities" : "",
                                             plan.shares_folders ? "shares_folders" : "")}};
  ASCOPE_TRY(folder.write_meta(meta));
  Json& body = plan.body;
  body["Image"] = plan.image;
  body["Entrypoint"] = Json::array({docker::kGuestPath, "handover", docker::kDoorPath, meta.id});
  body["Labels"][docker::kOwnerLabel] = site_->owner();
  body["Labels"][docker::kSandboxLabel] = meta.id;
  body["Labels"][docker::kSlotLabel] = slot.written();
  body["Labels"][docker::kOperationLabel] = meta.operation;
  body["Labels"][docker::kUserLabel] = meta.facts[docker::kWantedUser];
  body["Labels"][docker::kRootLabel] = meta.workspace_root;
  Json& mounts = body["HostConfig"]["Mounts"];
  mounts.push_back(Json{{"Type", "bind"},
                        {"Source", docker::guest_file(folder)},
                        {"Target", docker::kGuestPath},
                        {"ReadOnly", true}});
  mounts.push_back(
      Json{{"Type", "bind"}, {"Source", docker::door_folder(folder)}, {"Target", docker::kDoorPath}});
  if (body["HostConfig"]["ReadonlyRootfs"] == true) {
    // What stays writable lies on volumes that go with the container.
    mounts.push_back(Json{{"Type", "volume"}, {"Target", meta.workspace_root}});
    if (const std::string home = docker::likely_home(image, plan.user);
        !home.empty() && home != meta.workspace_root) {
      mounts.push_back(Json{{"Type", "volume"}, {"Target", home}});
    }
    for (const char* place : {"/tmp", "/var/tmp"}) {
      if (!body["HostConfig"]["Tmpfs"].contains(place)) {
        body["HostConfig"]["Tmpfs"][place] = "";
      }
    }
  }
  ASCOPE_TRY_ASSIGN(const Engine::Created created,
                    engine->create_container(ctx, meta.id, plan.platform, body));
  meta.facts[docker::kContainer] = created.id;
  std::string warnings;
  for (const std::string& warning : created.warnings) {
    warnings += fmt::format("{}{}", warnings.empty() ? "" : "; ", warning);
  }
  meta.facts[docker::kWarnings] = warnings;
  return folder.write_meta(meta);
}

Result<UniqueFd> DockerBackend::build(const OpContext& ctx, const Folder& folder, Meta& meta,
                                      const SlotKey& slot, const SandboxSettings& settings,
                                      docker::ContainerPlan& plan, std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder.lock(ctx));
  ASCOPE_TRY(folder.write_fence(fence));
  ASCOPE_TRY_ASSIGN(const ImageFacts image, provide_image(ctx, plan));
  ASCOPE_TRY(docker::provide_guest(*site_, folder));
  ASCOPE_TRY(docker::open_door(folder));
  ASCOPE_TRY(make_container(ctx, folder, meta, slot, plan, image));
  return docker::bring_up(ctx, *site_, folder, meta, &settings, fence);
}

Result<std::unique_ptr<Sandbox>> DockerBackend::create(const OpContext& ctx, const SlotKey& slot,
                                                       const std::string& operation,
                                                       const SandboxSettings& settings, std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(docker::ContainerPlan plan, docker::plan_container(settings));
  Meta meta;
  meta.id = "sb-" + random_hex(8);
  meta.slot = slot.store_name();
  meta.operation = operation;
  meta.created = format_time(ctx.clock->wall());
  meta.host = site_->host();
  meta.fence_seen = fence;
  meta.settings = settings.describe();
  meta.settings_digest = settings.digest();
  meta.workspace_root = absolute_path(settings.workspace_root, "/");
  meta.mounts = settings.mounts;
  auto made = Folder::make(site_->dir(), meta.id);
  if (!made) {
    return write_failure(std::move(made).error());
  }
  Folder folder = std::move(made).value();
  auto built = build(ctx, folder, meta, slot, settings, plan, fence);
  if (!built) {
    Error error = write_failure(std::move(built).error());
    // Also where the deadline passed or the user gave up: what was begun is ended.
    OpContext after;
    after.uninterruptible = true;
    auto undone = docker::make_sandbox(site_, std::move(folder), meta)
                      ->destroy(after.with_timeout(Millis(60000)), fence);
    if (!undone) {
      error.message += "; and what was begun is left for 'ascope-sandbox gc': " + undone.error().message;
    }
    return error;
  }
  return docker::make_sandbox(site_, std::move(folder), std::move(meta), std::move(built).value());
}

Result<Folder> DockerBackend::make_folder_again(const OpContext& ctx, const std::string& id) {
  ASCOPE_TRY_ASSIGN(Engine * engine, site_->engine());
  ASCOPE_TRY_ASSIGN(const auto found, engine->find_container(ctx, id));
  if (!found) {
    return make_error(ErrorKind::not_found, "no sandbox '" + id + "'");
  }
  Meta meta;
  meta.id = label_of(found->labels, docker::kSandboxLabel);
  if (!docker::is_made_here(*site_, *found, meta.id)) {
    return make_error(ErrorKind::unsupported,
                      fmt::format("container '{}' was not made by this program for this state folder", id),
                      "containers of others cannot be used yet");
  }
  if (auto present = Folder::open(site_->dir(), meta.id);
      present || present.error().kind != ErrorKind::not_found) {
    return present;  // it was named by the engine's id
  }
  auto slot = SlotKey::parse(label_of(found->labels, docker::kSlotLabel));
  ASCOPE_TRY_ASSIGN(const auto image, engine->find_image(ctx, found->image_id));
  Json environment = Json::array();
  for (const std::string& item : image ? image->environment : std::vector<std::string>()) {
    environment.push_back(bytes_json(item));
  }
  meta.slot = slot ? slot->store_name() : std::string();
  meta.operation = label_of(found->labels, docker::kOperationLabel);
  meta.created = found->created;
  meta.host = site_->host();
  meta.workspace_root = label_of(found->labels, docker::kRootLabel);
  meta.ready = found->ever_started;  // else nothing ran in it
  meta.facts = {{docker::kContainer, found->id},
                {docker::kImage, found->image_id},
                {docker::kImageId, found->image_id},
                {docker::kEngine, docker::place_of(*engine)},
                {docker::kImageEnv, dump_json(environment)},
                {docker::kWantedUser, label_of(found->labels, docker::kUserLabel)}};
  ASCOPE_TRY_ASSIGN(Folder folder, Folder::make(site_->dir(), meta.id));
  ASCOPE_TRY(folder.write_meta(meta));
  return folder;
}

Result<std::unique_ptr<Sandbox>> DockerBackend::attach(const OpContext& ctx, const std::string& id) {
  ASCOPE_TRY(ctx.check("looking for the sandbox"));
  auto folder = Folder::open(site_->dir(), id);
  if (!folder && folder.error().kind == ErrorKind::not_found) {
    folder = make_folder_again(ctx, id);
  }
  if (!folder) {
    return std::move(folder).error();
  }
  ASCOPE_TRY_ASSIGN(Meta meta, folder->read_meta());
  if (!meta.host.empty() && meta.host != site_->host()) {
    ASCOPE_TRY(docker::check_place(*site_, meta));
  }
  return docker::make_sandbox(site_, std::move(*folder), std::move(meta));
}

// True if the engine was asked, has no container of it, and nobody is at work on it: then the folder goes.
Result<bool> DockerBackend::forget_if_gone(const OpContext& ctx, const Folder& folder, const Meta& meta) {
  ASCOPE_TRY_ASSIGN(const auto found, docker::find_own(ctx, *site_, meta));
  if (found) {
    return false;
  }
  // Other data at the same address: then it was not asked about this one.
  ASCOPE_TRY_ASSIGN(Engine * engine, site_->engine());
  ASCOPE_TRY_ASSIGN(const std::string engine_id, engine->identity(ctx));
  const std::string its = docker::fact(meta, docker::kEngineId);
  if (!its.empty() && its != engine_id) {
    return false;
  }
  const auto lock = folder.lock(ctx.with_timeout(Millis(0)));
  if (!lock) {
    return lock.error().kind == ErrorKind::not_found;
  }
  ASCOPE_TRY_ASSIGN(const auto again, docker::find_own(ctx, *site_, meta));
  if (again) {
    return false;
  }
  docker::close_door(folder);
  ASCOPE_TRY(folder.remove());
  return true;
}

Result<void> DockerBackend::list_folders(const OpContext& ctx, const std::string& wanted,
                                         const std::vector<ContainerSummary>& containers,
                                         std::vector<ResourceInfo>& out) {
  auto names = list_dir(site_->dir());
  if (!names) {
    return names.error().kind == ErrorKind::not_found ? ok() : Result<void>(std::move(names).error());
  }
  ASCOPE_TRY_ASSIGN(const Engine* engine, site_->engine());
  for (const std::string& id : *names) {
    auto folder = local::is_sandbox_id(id) ? Folder::open(site_->dir(), id)
                                           : make_error(ErrorKind::not_found, "another file");
    if (!folder && folder.error().kind == ErrorKind::not_found) {
      continue;
    }
    if (!folder) {
      return std::move(folder).error();
    }
    ASCOPE_TRY_ASSIGN(const Meta meta, folder->read_meta());
    const std::string its = docker::fact(meta, docker::kEngine);
    if ((!wanted.empty() && meta.slot != wanted) || (!meta.host.empty() && meta.host != site_->host()) ||
        (!its.empty() && its != docker::place_of(*engine))) {
      continue;  // not of this machine, or in another engine
    }
    const bool listed = std::any_of(containers.begin(), containers.end(), [&](const ContainerSummary& one) {
      return label_of(one.labels, docker::kSandboxLabel) == id;
    });
    if (!listed) {
      ASCOPE_TRY_ASSIGN(const bool gone, forget_if_gone(ctx, *folder, meta));
      if (gone) {
        continue;
      }
    }
    ASCOPE_TRY_ASSIGN(ResourceInfo info, docker::describe(ctx, *site_, *folder, meta, nullptr));
    if (info.phase != SandboxPhase::gone) {
      out.push_back(std::move(info));
    }
  }
  return ok();
}

Result<std::vector<ResourceInfo>> DockerBackend::list(const OpContext& ctx, const SlotKey* slot) {
  std::vector<ResourceInfo> out;
  ASCOPE_TRY_ASSIGN(Engine * engine, site_->engine());
  std::map<std::string, std::string> labels{{docker::kOwnerLabel, site_->owner()}};
  if (slot != nullptr) {
    labels.emplace(docker::kSlotLabel, slot->written());
  }
  ASCOPE_TRY_ASSIGN(const auto containers, engine->list_containers(ctx, labels));
  ASCOPE_TRY(list_folders(ctx, slot == nullptr ? "" : slot->store_name(), containers, out));
  for (const ContainerSummary& one : containers) {
    const std::string id = label_of(one.labels, docker::kSandboxLabel);
    const bool known =
        std::any_of(out.begin(), out.end(), [&](const ResourceInfo& info) { return info.id == id; });
    if (known || !local::is_sandbox_id(id)) {
      continue;
    }
    auto sandbox = attach(ctx, id);
    if (!sandbox &&
        (sandbox.error().kind == ErrorKind::not_found || sandbox.error().kind == ErrorKind::unsupported)) {
      continue;  // removed while we list, or another's that carries our labels
    }
    if (!sandbox) {
      return std::move(sandbox).error();
    }
    ASCOPE_TRY_ASSIGN(ResourceInfo info, (*sandbox)->info(ctx));
    if (info.phase != SandboxPhase::gone) {
      out.push_back(std::move(info));
    }
  }
  return out;
}

Result<std::vector<Error>> DockerBackend::diagnose(const OpContext& ctx) {
  std::vector<Error> problems;
  auto engine = site_->engine();
  if (!engine) {
    problems.push_back(std::move(engine).error());
    return problems;
  }
  if (auto version = (*engine)->version(ctx); !version) {
    problems.push_back(std::move(version).error());
  } else if (!(*engine)->by_socket()) {
    problems.push_back(
        make_error(ErrorKind::unsupported,
                   fmt::format("engine '{}' is reached over the network, and commands need its machine",
                               (*engine)->address()),
                   "run this program on the engine's machine, with its socket in DOCKER_HOST"));
  }
  return problems;
}

Json docker_document(const DocumentFacts& facts) {
  const SandboxSettings& settings = *facts.settings;
  const auto detail = [&](const char* name) {
    if (facts.info == nullptr || !facts.info->details.contains(name)) {
      return Json(nullptr);
    }
    return Json(facts.info->details.at(name));
  };
  Json ports = Json::array();
  for (const std::string& port : settings.ports) {
    const auto colon = port.rfind(':');
    const std::string inside = port.substr(colon == std::string::npos ? 0 : colon + 1);
    ports.push_back(std::strtol(inside.c_str(), nullptr, 10));
  }
  Json fields = Json::object();
  fields["containerId"] = detail("container");
  fields["containerName"] = facts.info == nullptr ? Json(nullptr) : Json(facts.info->id);
  fields["image"] = settings.image.empty() ? docker::kDefaultImage : settings.image;
  fields["workspaceRoot"] = settings.workspace_root;
  fields["containerOwned"] = facts.owned;
  fields["memorySizeBytes"] = settings.memory_bytes ? Json(*settings.memory_bytes) : Json(nullptr);
  fields["cpuCount"] =
      settings.cpus && *settings.cpus >= 1 ? Json(static_cast<std::int64_t>(*settings.cpus)) : Json(nullptr);
  fields["exposedPorts"] = std::move(ports);
  fields["network"] = settings.network;
  fields["additionalRunArgs"] = Json::array();
  return fields;
}

Result<std::unique_ptr<Backend>> open_docker(const OpContext& ctx, const BackendContext& context) {
  static_cast<void>(ctx);
  return std::unique_ptr<Backend>(std::make_unique<DockerBackend>(context));
}

}  // namespace

extern const BackendKind kDockerBackend;
const BackendKind kDockerBackend{
    .name = "docker",
    .summary = "containers of Docker or Podman on this machine, by the engine's socket",
    .host_bound = true,
    .holds_system = false,
    .default_workspace_root = "/workspace",
    .home = "",
    .open = open_docker,
    .id_field = "containerName",
    .document_fields = docker_document,
};

}  // namespace ascope
