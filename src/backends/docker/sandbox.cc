// SPDX-License-Identifier: Apache-2.0
#include "backends/docker/sandbox.h"

#include <fmt/format.h>

#include "guest/client.h"

namespace ascope::docker {

namespace {

constexpr Millis kStatusLimit{20000};  // it may be busy freezing for a quarter of that
constexpr Millis kLetGoLimit{10000};

// What the resource's own notes say of it; `phase` as of a stopped one.
ResourceInfo label(const Folder& folder, const Meta& meta) {
  ResourceInfo info;
  info.id = folder.id();
  info.tree = folder.id();
  info.slot = meta.slot;
  info.operation = meta.operation;
  info.phase = SandboxPhase::stopped;
  info.settings = meta.settings;
  info.settings_digest = meta.settings_digest;
  info.created = meta.created;
  info.ready = meta.ready;
  info.fence_seen = meta.fence_seen;
  info.details["ids"] = "container";
  info.details["container"] = fact(meta, kContainer);
  info.details["image"] = fact(meta, kImage);
  info.details["image_id"] = fact(meta, kImageId);
  info.details["engine"] = fact(meta, kEngine);
  if (const std::string warnings = fact(meta, kWarnings); !warnings.empty()) {
    info.details["not_enforced"] = warnings;
  }
  return info;
}

// Keys that a container has for good; the rest is the guest's to set.
bool is_fixed(const std::string& key) {
  return !key.starts_with("environment.") && key != "options.pull" && key != "options.host" &&
         key != "options.context";
}

class DockerSandbox final : public Sandbox, private GuestSource {
 public:
  DockerSandbox(std::shared_ptr<Site> site, Folder folder, Meta meta, UniqueFd presence)
      : site_(std::move(site)),
        folder_(std::move(folder)),
        meta_(std::move(meta)),
        files_(make_toolbox(*site_, folder_, meta_, *this)),
        presence_(std::move(presence)) {}
  ~DockerSandbox() override { let_go(); }
  DockerSandbox(const DockerSandbox&) = delete;
  DockerSandbox& operator=(const DockerSandbox&) = delete;

  Result<ResourceInfo> info(const OpContext& ctx) override;
  Result<ResourceInfo> peek(const OpContext& ctx) override;
  Result<void> start(const OpContext& ctx, const SandboxSettings& settings, std::uint64_t fence) override;
  [[nodiscard]] bool fits(const SandboxSettings& settings) const override;
  Result<void> quiesce(const OpContext& ctx, std::uint64_t fence) override;
  Result<void> stop(const OpContext& ctx, std::uint64_t fence) override;
  Result<void> destroy(const OpContext& ctx, std::uint64_t fence) override;
  Result<ExecOutcome> exec(const OpContext& ctx, const ExecRequest& request,
                           const ExecStreams& streams) override;
  Result<void> set_ready(const OpContext& ctx, bool ready, std::uint64_t fence) override;
  Toolbox& files() override { return *files_; }

 private:
  Result<UniqueFd> guest(const OpContext& ctx) override;
  // Reads meta.json anew under the lock, checks the fence, and keeps a higher one.
  Result<void> refresh(std::uint64_t fence);
  // Stops what was brought up for work on files alone.
  void let_go();

  std::shared_ptr<Site> site_;
  Folder folder_;
  Meta meta_;
  std::unique_ptr<Toolbox> files_;
  bool borrowed_ = false;
  // A connection of the last look: what was seen running does not end by its idle timeout before the command
  // that follows.
  UniqueFd presence_;
};

Result<ResourceInfo> DockerSandbox::info(const OpContext& ctx) {
  ASCOPE_TRY_ASSIGN(const bool there, folder_.exists());
  if (!there) {
    ResourceInfo gone;
    gone.id = folder_.id();
    gone.tree = folder_.id();
    gone.phase = SandboxPhase::gone;
    return gone;
  }
  ASCOPE_TRY_ASSIGN(meta_, folder_.read_meta());
  UniqueFd seen;
  auto info = describe(ctx, *site_, folder_, meta_, &seen);
  presence_ = std::move(seen);  // the former one only now: somebody is there all the time
  return info;
}

Result<ResourceInfo> DockerSandbox::peek(const OpContext& ctx) {
  auto connection = local::connect_guest(folder_);
  if (!connection) {
    return info(ctx);  // gone, stopped, or not to be told from here
  }
  presence_ = std::move(connection).value();
  ResourceInfo out = label(folder_, meta_);
  out.phase = SandboxPhase::running;
  return out;
}

Result<void> DockerSandbox::refresh(std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(meta_, folder_.read_meta());
  ASCOPE_TRY(local::check_fence(meta_, fence));
  if (fence > meta_.fence_seen) {
    meta_.fence_seen = fence;
    ASCOPE_TRY(folder_.write_fence(fence));
  }
  return ok();
}

bool DockerSandbox::fits(const SandboxSettings& settings) const {
  std::map<std::string, std::string> now = settings.describe();
  std::map<std::string, std::string> before = meta_.settings;
  std::erase_if(now, [](const auto& item) { return !is_fixed(item.first); });
  std::erase_if(before, [](const auto& item) { return !is_fixed(item.first); });
  return now == before;
}

Result<void> DockerSandbox::start(const OpContext& ctx, const SandboxSettings& settings,
                                  std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder_.lock(ctx));
  ASCOPE_TRY(refresh(fence));
  if (!fits(settings)) {
    return make_error(ErrorKind::internal, "a container was to be started with settings that it cannot have");
  }
  if (meta_.settings_digest != settings.digest()) {
    meta_.settings = settings.describe();
    meta_.settings_digest = settings.digest();
    ASCOPE_TRY(folder_.write_meta(meta_));
  }
  auto connection = local::connect_guest(folder_);
  if (connection) {
    ASCOPE_TRY(send_config(ctx, folder_, meta_, &settings, fence));
  } else if (connection.error().kind == ErrorKind::not_found) {
    connection = bring_up(ctx, *site_, folder_, meta_, &settings, fence);
  }
  if (!connection) {
    return std::move(connection).error();
  }
  borrowed_ = false;
  presence_ = std::move(connection).value();
  return ok();
}

Result<void> DockerSandbox::quiesce(const OpContext& ctx, std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder_.lock(ctx));
  ASCOPE_TRY(refresh(fence));
  const auto connection = local::connect_guest(folder_);
  if (!connection) {
    return connection.error().kind == ErrorKind::not_found ? ok() : Result<void>(connection.error());
  }
  const auto cleared =
      guest::call(ctx, connection->get(), fence, guest::FrameType::clear, {}, guest::FrameType::done);
  if (!cleared && cleared.error().kind == ErrorKind::not_found) {
    return bring_down(ctx, *site_, folder_, meta_, fence);  // it could not, or it ended: then nothing runs
  }
  return cleared ? ok() : Result<void>(cleared.error());
}

Result<void> DockerSandbox::stop(const OpContext& ctx, std::uint64_t fence) {
  presence_.reset();
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder_.lock(ctx));
  ASCOPE_TRY(refresh(fence));
  ASCOPE_TRY(bring_down(ctx, *site_, folder_, meta_, fence));
  borrowed_ = false;
  return ok();
}

Result<void> DockerSandbox::destroy(const OpContext& ctx, std::uint64_t fence) {
  presence_.reset();
  auto lock = folder_.lock(ctx);
  if (!lock) {
    return lock.error().kind == ErrorKind::not_found ? ok() : Result<void>(lock.error());
  }
  ASCOPE_TRY(refresh(fence));
  ASCOPE_TRY(bring_down(ctx, *site_, folder_, meta_, fence));
  borrowed_ = false;
  ASCOPE_TRY_ASSIGN(const auto found, find_own(ctx, *site_, meta_));
  if (found) {
    if (meta_.ready) {
      meta_.ready = false;  // if we die in between it must not count as one that holds work
      ASCOPE_TRY(folder_.write_meta(meta_));
    }
    ASCOPE_TRY_ASSIGN(Engine * engine, site_->engine());
    ASCOPE_TRY(engine->remove_container(ctx, found->id));
  }
  return folder_.remove();
}

Result<ExecOutcome> DockerSandbox::exec(const OpContext& ctx, const ExecRequest& request,
                                        const ExecStreams& streams) {
  UniqueFd connection = std::move(presence_);
  if (!connection.is_open()) {
    ASCOPE_TRY_ASSIGN(connection, local::connect_guest(folder_));
  }
  return guest::exec(ctx, std::move(connection), request, streams, {});
}

Result<void> DockerSandbox::set_ready(const OpContext& ctx, bool ready, std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder_.lock(ctx));
  ASCOPE_TRY(refresh(fence));
  if (meta_.ready != ready) {
    meta_.ready = ready;
    ASCOPE_TRY(folder_.write_meta(meta_));
  }
  return ok();
}

Result<UniqueFd> DockerSandbox::guest(const OpContext& ctx) {
  auto connection = local::connect_guest(folder_);
  if (connection || connection.error().kind != ErrorKind::not_found) {
    return connection;
  }
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder_.lock(ctx));
  connection = local::connect_guest(folder_);
  if (connection || connection.error().kind != ErrorKind::not_found) {
    return connection;  // started meanwhile
  }
  ASCOPE_TRY_ASSIGN(meta_, folder_.read_meta());
  connection = bring_up(ctx, *site_, folder_, meta_, nullptr, meta_.fence_seen);
  borrowed_ = connection.has_value();
  return connection;
}

void DockerSandbox::let_go() {
  if (!borrowed_) {
    return;
  }
  OpContext ctx;
  ctx.uninterruptible = true;
  const OpContext limited = ctx.with_timeout(kLetGoLimit);
  presence_.reset();
  // What goes wrong here its idle timeout makes good: it is short for work on files.
  if (const auto lock = folder_.lock(limited); lock) {
    static_cast<void>(bring_down(limited, *site_, folder_, meta_, meta_.fence_seen));
  }
}

}  // namespace

std::unique_ptr<Sandbox> make_sandbox(std::shared_ptr<Site> site, Folder folder, Meta meta,
                                      UniqueFd presence) {
  return std::make_unique<DockerSandbox>(std::move(site), std::move(folder), std::move(meta),
                                         std::move(presence));
}

Result<ResourceInfo> describe(const OpContext& ctx, Site& site, const Folder& folder, const Meta& meta,
                              UniqueFd* presence) {
  ResourceInfo info = label(folder, meta);
  auto connection = local::connect_guest(folder);
  if (!connection && connection.error().kind != ErrorKind::not_found) {
    return std::move(connection).error();
  }
  if (!connection) {
    ASCOPE_TRY_ASSIGN(const auto found, find_own(ctx, site, meta));
    if (!found) {
      info.phase = SandboxPhase::gone;
    } else if (found->paused) {
      return make_error(ErrorKind::backend_unavailable, fmt::format("container '{}' is paused", found->name),
                        fmt::format("docker unpause {}", found->name));
    } else if (found->status == "removing" || found->status == "restarting") {
      info.phase = SandboxPhase::moving;
    } else if (found->oom_killed) {
      info.details["ended"] = "out of memory";
    }
    return info;
  }
  auto jobs = local::running_jobs(ctx.with_timeout(kStatusLimit), connection->get());
  if (!jobs && jobs.error().kind == ErrorKind::not_found) {
    return info;  // it ended while we asked
  }
  if (!jobs) {
    // One that is paused does not answer, and the engine knows.
    const auto found = find_own(ctx, site, meta);
    if (found && *found && (*found)->paused) {
      return make_error(ErrorKind::backend_unavailable,
                        fmt::format("container '{}' is paused", (*found)->name),
                        fmt::format("docker unpause {}", (*found)->name));
    }
    return jobs.error().kind == ErrorKind::timeout
               ? make_error(ErrorKind::backend_unavailable,
                            "the guest of sandbox '" + info.id + "' does not answer",
                            "'ascope-sandbox stop' ends it; its disk stays")
               : std::move(jobs).error();
  }
  info.phase = SandboxPhase::running;
  info.jobs = std::move(jobs).value();
  ASCOPE_TRY_ASSIGN(const auto run, folder.read_run());
  if (run) {
    info.details["pid"] = std::to_string(run->pid);
  }
  if (presence != nullptr) {
    *presence = std::move(connection).value();
  }
  return info;
}

}  // namespace ascope::docker
