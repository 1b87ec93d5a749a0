// SPDX-License-Identifier: Apache-2.0
#include "backends/docker/site.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/random.h"
#include "guest/embedded.h"

namespace ascope::docker {

namespace {

std::string option(const BackendContext& context, const char* name) {
  const auto found = context.options.find(name);
  return found == context.options.end() ? std::string() : found->second;
}

}  // namespace

Site::Site(const BackendContext& context)
    : dir_(context.state_dir + "/docker"),
      host_(context.host),
      owner_(sha256_hex(context.host + "\n" + absolute_path(context.state_dir, "/")).substr(0, 32)),
      engine_host_(option(context, "host")),
      engine_context_(option(context, "context")),
      progress_(context.progress) {
  around_.environment = context.environment;
}

Result<Engine*> Site::engine() {
  if (!engine_) {
    ASCOPE_TRY_ASSIGN(Endpoint endpoint, find_endpoint(around_, engine_host_, engine_context_));
    engine_ = std::make_unique<Engine>(std::move(endpoint));
  }
  return engine_.get();
}

std::string fact(const Meta& meta, const char* name) {
  const auto found = meta.facts.find(name);
  return found == meta.facts.end() ? std::string() : found->second;
}

std::string place_of(const Engine& engine) {
  std::error_code ignored;
  const auto path = engine.by_socket() ? std::filesystem::canonical(engine.socket(), ignored) : "";
  return path.empty() ? engine.address() : "unix://" + path.string();
}

Result<void> check_place(Site& site, const Meta& meta) {
  if (!meta.host.empty() && meta.host != site.host()) {
    return make_error(ErrorKind::backend_unavailable,
                      "sandbox '" + meta.id + "' belongs to another machine that shares this state folder",
                      "use it there, or give this machine a state folder of its own (XDG_STATE_HOME)");
  }
  ASCOPE_TRY_ASSIGN(const Engine* engine, site.engine());
  const std::string its = fact(meta, kEngine);
  if (!its.empty() && its != place_of(*engine)) {
    return make_error(
        ErrorKind::backend_unavailable,
        fmt::format("sandbox '{}' is in engine '{}', and '{}' is used now", meta.id, its, engine->address()),
        fmt::format("set DOCKER_HOST={}", its));
  }
  return ok();
}

bool is_made_here(const Site& site, const ContainerFacts& facts, const std::string& id) {
  const auto has = [](const auto& map, const char* key, const std::string& value) {
    const auto at = map.find(key);
    return at != map.end() && at->second == value;
  };
  if (!local::is_sandbox_id(id) || !has(facts.labels, kOwnerLabel, site.owner()) ||
      !has(facts.labels, kSandboxLabel, id)) {
    return false;
  }
  const auto guest = facts.binds.find(kGuestPath);
  return guest != facts.binds.end() &&
         absolute_path(guest->second, "/") == absolute_path(site.dir() + "/" + id + "/guest", "/");
}

Result<std::optional<ContainerFacts>> find_own(const OpContext& ctx, Site& site, const Meta& meta) {
  ASCOPE_TRY(check_place(site, meta));
  ASCOPE_TRY_ASSIGN(Engine * engine, site.engine());
  const std::string id = fact(meta, kContainer);
  ASCOPE_TRY_ASSIGN(auto found, engine->find_container(ctx, id.empty() ? meta.id : id));
  if (!found) {
    return found;
  }
  if (!is_made_here(site, *found, meta.id)) {
    return make_error(ErrorKind::conflict,
                      fmt::format("container '{}' is not the one of sandbox '{}'", found->name, meta.id),
                      "nothing was done to it; rename it if its name is in the way");
  }
  return found;
}

std::string guest_file(const Folder& folder) {
  return folder.path() + "/guest";
}

std::string door_folder(const Folder& folder) {
  return folder.path() + "/b";
}

Result<void> provide_guest(Site& site, const Folder& folder) {
  const ByteView program = guest::guest_program();
  const std::string shared = site.dir() + "/guest-" + sha256_hex(program).substr(0, 16);
  ASCOPE_TRY_ASSIGN(const bool there, path_exists(shared));
  if (!there) {
    ASCOPE_TRY(create_file(shared, program, 0555));
  }
  struct stat present{};
  struct stat wanted{};
  if (::stat(shared.c_str(), &wanted) != 0) {
    return errno_error("looking at '" + shared + "'", errno);
  }
  if (::stat(guest_file(folder).c_str(), &present) == 0 && present.st_ino == wanted.st_ino) {
    return ok();
  }
  const std::string fresh = guest_file(folder) + "." + random_hex(4);
  if (::link(shared.c_str(), fresh.c_str()) != 0) {
    ASCOPE_TRY(write_file_atomic(fresh, program, 0555));
  }
  if (::rename(fresh.c_str(), guest_file(folder).c_str()) != 0) {
    const int error = errno;
    ::unlink(fresh.c_str());
    return errno_error("putting the guest's program into '" + folder.path() + "'", error);
  }
  return ok();
}

Result<void> open_door(const Folder& folder) {
  close_door(folder);
  // Whoever the container's root is on this machine, it may write here; the folder above is closed to others.
  if (::mkdir(door_folder(folder).c_str(), 0777) != 0 || ::chmod(door_folder(folder).c_str(), 0777) != 0) {
    return errno_error("making '" + door_folder(folder) + "'", errno);
  }
  return ok();
}

void close_door(const Folder& folder) {
  const UniqueFd door(::openat(folder.fd(), "b", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (door.is_open()) {
    ::unlinkat(door.get(), "s", 0);
    ::unlinkat(folder.fd(), "b", AT_REMOVEDIR);
  }
}

}  // namespace ascope::docker
