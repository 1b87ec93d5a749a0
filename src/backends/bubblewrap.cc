// SPDX-License-Identifier: Apache-2.0
// The embedded default: sandboxes that bwrap starts and our guest helper runs, on this host's own disk.
#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "backends/bubblewrap/id_range.h"
#include "backends/bubblewrap/layout.h"
#include "backends/bubblewrap/sandbox.h"
#include "backends/bubblewrap/starter.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/process.h"
#include "core/base/random.h"

namespace ascope {

namespace {

using local::Folder;
using local::Meta;

class BubblewrapBackend final : public Backend {
 public:
  explicit BubblewrapBackend(bwrap::Site site) : site_(std::move(site)) {}

  Result<std::unique_ptr<Sandbox>> create(const OpContext& ctx, const SlotKey& slot,
                                          const std::string& operation, const SandboxSettings& settings,
                                          std::uint64_t fence) override;
  Result<std::unique_ptr<Sandbox>> attach(const OpContext& ctx, const std::string& id) override;
  Result<std::vector<ResourceInfo>> list(const OpContext& ctx, const SlotKey* slot) override;
  Result<std::vector<Error>> diagnose(const OpContext& ctx) override;

 private:
  [[nodiscard]] std::string sandboxes_dir() const { return site_.state_dir + "/sandboxes"; }
  [[nodiscard]] Result<std::vector<std::string>> ids() const;
  // A folder with its meta.json; for root with an id range that no other sandbox here has.
  Result<Folder> reserve(const OpContext& ctx, Meta& meta, bool own_range);
  // A connection to the new guest.
  static Result<UniqueFd> build(const OpContext& ctx, const Folder& folder, const Meta& meta,
                                const SandboxSettings& settings, std::uint64_t fence);

  bwrap::Site site_;
};

Result<std::vector<std::string>> BubblewrapBackend::ids() const {
  auto names = list_dir(sandboxes_dir());
  if (!names) {
    if (names.error().kind == ErrorKind::not_found) {
      return std::vector<std::string>();
    }
    Error error = std::move(names).error();
    error.kind = ErrorKind::backend_unavailable;
    return error;
  }
  std::erase_if(*names, [](const std::string& name) { return !local::is_sandbox_id(name); });
  return names;
}

Result<Folder> BubblewrapBackend::reserve(const OpContext& ctx, Meta& meta, bool own_range) {
  const std::string dir = sandboxes_dir();
  ASCOPE_TRY(make_dirs(dir, 0700));
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, local::lock_file(ctx, dir + "/.lock"));
  if (own_range) {
    std::vector<std::uint32_t> taken;
    ASCOPE_TRY_ASSIGN(const auto others, ids());
    for (const std::string& id : others) {
      const auto other = Folder::open(sandboxes_dir(), id);
      if (!other && other.error().kind == ErrorKind::not_found) {
        continue;  // removed while we look
      }
      if (!other) {
        return other.error();
      }
      ASCOPE_TRY_ASSIGN(const Meta other_meta, other->read_meta());
      if (other_meta.id_base) {
        taken.push_back(*other_meta.id_base);
      }
    }
    ASCOPE_TRY_ASSIGN(meta.id_base, bwrap::choose_id_base(site_.state_dir, taken));
  }
  ASCOPE_TRY_ASSIGN(Folder folder, Folder::make(sandboxes_dir(), meta.id));
  auto written = folder.write_meta(meta);
  if (written) {
    written = folder.write_fence(meta.fence_seen);
  }
  if (!written) {
    static_cast<void>(folder.remove());
    return std::move(written).error();
  }
  return folder;
}

Result<UniqueFd> BubblewrapBackend::build(const OpContext& ctx, const Folder& folder, const Meta& meta,
                                          const SandboxSettings& settings, std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder.lock(ctx));
  ASCOPE_TRY(bwrap::make_tree(folder, meta, settings));
  return bwrap::start_processes(ctx, folder, meta, settings, fence);
}

Result<std::unique_ptr<Sandbox>> BubblewrapBackend::create(const OpContext& ctx, const SlotKey& slot,
                                                           const std::string& operation,
                                                           const SandboxSettings& settings,
                                                           std::uint64_t fence) {
  ASCOPE_TRY(bwrap::check_settings(settings));
  ASCOPE_TRY(find_program("bwrap"));
  ASCOPE_TRY(bwrap::plan_layout(settings));
  Meta meta;
  meta.id = "sb-" + random_hex(8);
  meta.slot = slot.store_name();
  meta.operation = operation;
  meta.created = format_time(ctx.clock->wall());
  meta.host = site_.host;
  meta.fence_seen = fence;
  meta.settings = settings.describe();
  meta.settings_digest = settings.digest();
  meta.workspace_root = absolute_path(settings.workspace_root, "/");
  meta.mounts = settings.mounts;
  auto reserved = reserve(ctx, meta, ::geteuid() == 0 && !settings.allow_host_root);
  if (!reserved) {
    return write_failure(std::move(reserved).error());
  }
  Folder folder = std::move(reserved).value();
  auto built = build(ctx, folder, meta, settings, fence);
  if (!built) {
    auto removed = folder.remove();
    Error error = write_failure(std::move(built).error());
    if (error.kind == ErrorKind::io) {
      error = std::move(error).within("in '" + folder.path() + "'");
    }
    if (!removed) {
      error.message += "; and that folder is left: " + removed.error().message;
    }
    return error;
  }
  return bwrap::make_sandbox(site_, std::move(folder), std::move(meta), std::move(built).value());
}

Result<std::unique_ptr<Sandbox>> BubblewrapBackend::attach(const OpContext& ctx, const std::string& id) {
  ASCOPE_TRY(ctx.check("looking for the sandbox"));
  ASCOPE_TRY_ASSIGN(Folder folder, Folder::open(sandboxes_dir(), id));
  ASCOPE_TRY_ASSIGN(Meta meta, folder.read_meta());
  ASCOPE_TRY(bwrap::check_host(site_, meta));
  return bwrap::make_sandbox(site_, std::move(folder), std::move(meta));
}

Result<std::vector<ResourceInfo>> BubblewrapBackend::list(const OpContext& ctx, const SlotKey* slot) {
  std::vector<ResourceInfo> out;
  const std::string wanted = slot == nullptr ? std::string() : slot->store_name();
  ASCOPE_TRY_ASSIGN(const auto names, ids());
  for (const std::string& id : names) {
    auto folder = Folder::open(sandboxes_dir(), id);
    if (!folder && folder.error().kind == ErrorKind::not_found) {
      continue;  // removed while we list
    }
    if (!folder) {
      return std::move(folder).error();
    }
    ASCOPE_TRY_ASSIGN(const Meta meta, folder->read_meta());
    if ((slot != nullptr && meta.slot != wanted) || (!meta.host.empty() && meta.host != site_.host)) {
      continue;
    }
    ASCOPE_TRY_ASSIGN(ResourceInfo info, bwrap::describe(ctx, site_, *folder, meta));
    out.push_back(std::move(info));
  }
  return out;
}

Result<std::vector<Error>> BubblewrapBackend::diagnose(const OpContext& ctx) {
  std::vector<Error> problems;
  const auto program = find_program("bwrap");
  if (!program) {
    problems.push_back(program.error());
    return problems;
  }
  if (auto problem = bwrap::user_namespace_problem()) {
    problems.push_back(std::move(*problem));
  }
  ProgramCall call;
  call.argv = {*program,
               "--unshare-user",
               "--disable-userns",
               "--unshare-pid",
               "--unshare-net",
               "--ro-bind",
               "/",
               "/",
               "--size",
               "4096",
               "--tmpfs",
               "/tmp",
               "--proc",
               "/proc",
               "--dev",
               "/dev",
               "/bin/true"};
  ASCOPE_TRY_ASSIGN(const ProgramOutcome outcome, run_program(ctx.with_timeout(Millis(20000)), call));
  if (!outcome.succeeded() && problems.empty()) {
    problems.push_back(make_error(
        ErrorKind::io, "bwrap cannot make a sandbox here: " + outcome.err.substr(0, outcome.err.find('\n')),
        "bubblewrap 0.8 or newer and user namespaces are needed"));
  }
  if (::geteuid() == 0) {
    const auto base = bwrap::choose_id_base(site_.state_dir, {});
    if (!base) {
      problems.push_back(base.error());
    }
  }
  return problems;
}

Result<std::unique_ptr<Backend>> open_bubblewrap(const OpContext& ctx, const BackendContext& context) {
  static_cast<void>(ctx);
  bwrap::Site site;
  site.state_dir = context.state_dir;
  ASCOPE_TRY_ASSIGN(site.host, host_id(context.state_dir));
  return std::unique_ptr<Backend>(std::make_unique<BubblewrapBackend>(std::move(site)));
}

Json bubblewrap_document(const DocumentFacts& facts) {
  Json fields = Json::object();
  fields["sandboxId"] = facts.info == nullptr ? Json(nullptr) : Json(facts.info->id);
  fields["workspaceRoot"] = facts.settings->workspace_root;
  fields["sandboxOwned"] = facts.owned;
  fields["rootfs"] = facts.settings->rootfs;
  fields["network"] = facts.settings->network;
  return fields;
}

}  // namespace

extern const BackendKind kBubblewrapBackend;
const BackendKind kBubblewrapBackend{
    .name = "bubblewrap",
    .summary = "Linux namespaces on this host, by bwrap; no daemon and no root needed",
    .host_bound = true,
    .holds_system = true,
    .default_workspace_root = "/workspace",
    .home = "/home/agent",
    .open = open_bubblewrap,
    .document_fields = bubblewrap_document,
};

}  // namespace ascope
