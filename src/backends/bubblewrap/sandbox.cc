// SPDX-License-Identifier: Apache-2.0
#include "backends/bubblewrap/sandbox.h"

#include <cerrno>
#include <unistd.h>

#include <fmt/format.h>

#include "backends/bubblewrap/cgroup.h"
#include "backends/bubblewrap/starter.h"
#include "guest/client.h"

namespace ascope::bwrap {

namespace {

constexpr Millis kStatusLimit{20000};  // it may be busy freezing for a quarter of that

// What the resource's own files say of it; `phase` as of a stopped one.
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
  info.details["root"] = folder.path() + "/root";
  info.details["ids"] = meta.id_base ? "range" : "single";
  if (meta.id_base) {
    info.details["id_range"] = fmt::format("{}-{}", *meta.id_base, *meta.id_base + local::kRangeIds - 1);
  }
  return info;
}

class BwrapSandbox final : public Sandbox {
 public:
  BwrapSandbox(const Site& site, Folder folder, Meta meta, UniqueFd presence)
      : site_(site),
        folder_(std::move(folder)),
        meta_(std::move(meta)),
        files_(make_toolbox(folder_, meta_)),
        presence_(std::move(presence)) {}

  Result<ResourceInfo> info(const OpContext& ctx) override;
  Result<ResourceInfo> peek(const OpContext& ctx) override;
  Result<void> start(const OpContext& ctx, const SandboxSettings& settings, std::uint64_t fence) override;
  Result<void> stop(const OpContext& ctx, std::uint64_t fence) override;
  Result<void> destroy(const OpContext& ctx, std::uint64_t fence) override;
  Result<ExecOutcome> exec(const OpContext& ctx, const ExecRequest& request,
                           const ExecStreams& streams) override;
  Result<void> set_ready(const OpContext& ctx, bool ready, std::uint64_t fence) override;
  Toolbox& files() override { return *files_; }

 private:
  // Reads meta.json anew under the lock, checks host and fence, and keeps a higher fence.
  Result<void> refresh(std::uint64_t fence);
  Result<void> end_processes(const OpContext& ctx, std::uint64_t fence);

  Site site_;
  Folder folder_;
  Meta meta_;
  std::unique_ptr<Toolbox> files_;
  // A connection of the last look: what was seen running does not end by its idle timeout before the command
  // that follows.
  UniqueFd presence_;
};

Result<ResourceInfo> BwrapSandbox::info(const OpContext& ctx) {
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
  auto info = describe(ctx, site_, folder_, meta_, &seen);
  presence_ = std::move(seen);  // the former one only now: somebody is there all the time
  return info;
}

Result<ResourceInfo> BwrapSandbox::peek(const OpContext& ctx) {
  ASCOPE_TRY_ASSIGN(const auto run, folder_.read_run());
  if (!run || !run->not_enforced.empty()) {
    return info(ctx);
  }
  ASCOPE_TRY(check_host(site_, meta_));
  auto connection = connect_guest(folder_);
  if (!connection) {
    return info(ctx);  // gone, stopped, or not to be told from here
  }
  presence_ = std::move(connection).value();
  ResourceInfo out = label(folder_, meta_);
  out.phase = SandboxPhase::running;
  return out;
}

Result<void> BwrapSandbox::refresh(std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(meta_, folder_.read_meta());
  ASCOPE_TRY(check_host(site_, meta_));
  ASCOPE_TRY(local::check_fence(meta_, fence));
  if (fence > meta_.fence_seen) {
    meta_.fence_seen = fence;
    ASCOPE_TRY(folder_.write_fence(fence));
  }
  return ok();
}

Result<void> BwrapSandbox::start(const OpContext& ctx, const SandboxSettings& settings, std::uint64_t fence) {
  ASCOPE_TRY(check_settings(settings));
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder_.lock(ctx));
  ASCOPE_TRY(refresh(fence));
  const auto connection = connect_guest(folder_);
  if (connection) {
    return send_config(ctx, folder_, meta_, settings, fence);
  }
  if (connection.error().kind != ErrorKind::not_found) {
    return connection.error();
  }
  ASCOPE_TRY(end_unrecorded(ctx, folder_));
  if (meta_.settings_digest != settings.digest()) {
    meta_.settings = settings.describe();
    meta_.settings_digest = settings.digest();
    meta_.mounts = settings.mounts;
    meta_.workspace_root = settings.workspace_root;
    ASCOPE_TRY(folder_.write_meta(meta_));
  }
  ASCOPE_TRY_ASSIGN(presence_, start_processes(ctx, folder_, meta_, settings, fence));
  return ok();
}

Result<void> BwrapSandbox::end_processes(const OpContext& ctx, std::uint64_t fence) {
  presence_.reset();
  ASCOPE_TRY_ASSIGN(const auto run, folder_.read_run());
  auto connection = connect_guest(folder_);
  if (!connection && connection.error().kind != ErrorKind::not_found) {
    return connection.error();
  }
  if (!connection) {
    ASCOPE_TRY(end_unrecorded(ctx, folder_));
  } else {
    ASCOPE_TRY_ASSIGN(const bool ended, local::ask_to_end(ctx, connection->get(), fence, *run));
    if (!ended) {
      ASCOPE_TRY(kill_process(ctx, run->pid, run->start_time));
    }
  }
  ::unlinkat(folder_.fd(), "s", 0);
  ASCOPE_TRY(folder_.remove_run());
  if (run) {
    remove_cgroup(run->cgroups);
  }
  return ok();
}

Result<void> BwrapSandbox::stop(const OpContext& ctx, std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder_.lock(ctx));
  ASCOPE_TRY(refresh(fence));
  return end_processes(ctx, fence);
}

Result<void> BwrapSandbox::destroy(const OpContext& ctx, std::uint64_t fence) {
  auto lock = folder_.lock(ctx);
  if (!lock) {
    return lock.error().kind == ErrorKind::not_found ? ok() : Result<void>(lock.error());
  }
  ASCOPE_TRY(refresh(fence));
  ASCOPE_TRY(end_processes(ctx, fence));
  return folder_.remove();
}

Result<ExecOutcome> BwrapSandbox::exec(const OpContext& ctx, const ExecRequest& request,
                                       const ExecStreams& streams) {
  UniqueFd connection = std::move(presence_);
  if (!connection.is_open()) {
    ASCOPE_TRY_ASSIGN(connection, connect_guest(folder_));
  }
  return guest::exec(ctx, std::move(connection), request, streams, {});
}

Result<void> BwrapSandbox::set_ready(const OpContext& ctx, bool ready, std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder_.lock(ctx));
  ASCOPE_TRY(refresh(fence));
  if (meta_.ready != ready) {
    meta_.ready = ready;
    ASCOPE_TRY(folder_.write_meta(meta_));
  }
  return ok();
}

}  // namespace

std::unique_ptr<Sandbox> make_sandbox(const Site& site, Folder folder, Meta meta, UniqueFd presence) {
  return std::make_unique<BwrapSandbox>(site, std::move(folder), std::move(meta), std::move(presence));
}

Result<void> check_host(const Site& site, const Meta& meta) {
  if (!meta.host.empty() && meta.host != site.host) {
    return make_error(ErrorKind::backend_unavailable,
                      "sandbox '" + meta.id + "' belongs to another machine that shares this state folder",
                      "use it there, or give this machine a state folder of its own (XDG_STATE_HOME)");
  }
  return ok();
}

Result<ResourceInfo> describe(const OpContext& ctx, const Site& site, const Folder& folder, const Meta& meta,
                              UniqueFd* presence) {
  ASCOPE_TRY(check_host(site, meta));
  ResourceInfo info = label(folder, meta);
  auto connection = connect_guest(folder);
  if (!connection) {
    return connection.error().kind == ErrorKind::not_found ? Result<ResourceInfo>(info)
                                                           : std::move(connection).error();
  }
  auto jobs = local::running_jobs(ctx.with_timeout(kStatusLimit), connection->get());
  if (!jobs && jobs.error().kind == ErrorKind::timeout) {
    return make_error(ErrorKind::backend_unavailable,
                      "the guest of sandbox '" + info.id + "' does not answer",
                      "'ascope-sandbox stop' ends it; its disk stays");
  }
  if (!jobs) {
    // It ended while we asked, or does not answer; only the first is an answer.
    return jobs.error().kind == ErrorKind::not_found ? Result<ResourceInfo>(info) : std::move(jobs).error();
  }
  info.phase = SandboxPhase::running;
  info.jobs = std::move(jobs).value();
  ASCOPE_TRY_ASSIGN(const auto run, folder.read_run());
  if (run) {
    info.details["pid"] = std::to_string(run->pid);
    if (!run->not_enforced.empty()) {
      info.details["not_enforced"] = run->not_enforced;
    }
  }
  if (presence != nullptr) {
    *presence = std::move(connection).value();
  }
  return info;
}

Result<void> check_settings(const SandboxSettings& settings) {
  const auto cannot = [](const std::string& what, const std::string& hint) {
    return Result<void>(make_error(ErrorKind::unsupported, "bubblewrap cannot do " + what, hint));
  };
  if (!settings.image.empty()) {
    return cannot("'backend.image'", "use 'backend.rootfs: DIR', or another backend");
  }
  if (!settings.ports.empty()) {
    return cannot("'backend.ports'", "use 'backend.network: host', or another backend");
  }
  if (!settings.options.empty()) {
    return cannot("'backend.options." + settings.options.begin()->first + "'", "take it out of the profile");
  }
  if (settings.network != "none" && settings.network != "host") {
    return cannot("'backend.network: " + settings.network + "'", "'none' and 'host' can be had");
  }
  if (!settings.user.empty() && settings.user != "agent" && settings.user != "root") {
    return cannot("'backend.user: " + settings.user + "'",
                  "'agent' can be had, and 'root' where we run as root");
  }
  if (settings.user == "root" && (::geteuid() != 0 || settings.allow_host_root)) {
    return cannot("'backend.user: root' without an id range of its own",
                  "run as root without --allow-host-root");
  }
  const std::string& root = settings.workspace_root;
  if (root.size() < 2 || root.front() != '/') {
    return cannot("'workspace.root: " + root + "'", "it must be a folder below '/'");
  }
  if (settings.rootfs != "host" && settings.rootfs.front() != '/') {
    return cannot("'backend.rootfs: " + settings.rootfs + "'", "it is 'host' or an absolute path");
  }
  return ok();
}

}  // namespace ascope::bwrap
