// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "backends/bubblewrap/layout.h"
#include "backends/bubblewrap/sandbox.h"
#include "backends/bubblewrap/starter.h"
#include "backends/local/guest_files.h"
#include "backends/local/mapped_files.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/tree/beneath.h"
#include "core/tree/stream.h"
#include "core/tree/walker.h"
#include "guest/applets.h"
#include "guest/client.h"

namespace ascope::bwrap {

namespace {

// `path` as seen from the folder `base`, both absolute; nullopt if it lies elsewhere.
std::optional<std::string> relative_path(const std::string& path, const std::string& base) {
  const std::string whole = absolute_path(path, "/");
  const std::string folder = absolute_path(base, "/");
  if (whole == folder) {
    return std::string();
  }
  const std::string prefix = folder == "/" ? "/" : folder + "/";
  if (whole.rfind(prefix, 0) != 0) {
    return std::nullopt;
  }
  return whole.substr(prefix.size());
}

// An empty tree: none of the asked roots is there.
class NoTree final : public TreeReader {
 public:
  Result<bool> next(TreeEntry&) override { return false; }
  Result<std::optional<DataBlock>> read() override { return std::optional<DataBlock>(); }
  [[nodiscard]] const std::vector<TreeNote>& notes() const override { return notes_; }

 private:
  std::vector<TreeNote> notes_;
};

class WalkedTree final : public TreeReader {
 public:
  explicit WalkedTree(std::unique_ptr<TreeWalker> walker) : walker_(std::move(walker)) {}
  Result<bool> next(TreeEntry& entry) override { return walker_->next(entry); }
  Result<std::optional<DataBlock>> read() override { return walker_->read(); }
  [[nodiscard]] const std::vector<TreeNote>& notes() const override { return walker_->notes(); }

 private:
  std::unique_ptr<TreeWalker> walker_;
};

// Gives every entry to the sandbox's user, where the caller does not restore owners.
class OwnedSource final : public TreeSource {
 public:
  explicit OwnedSource(TreeSource& inner) : inner_(inner) {}
  Result<bool> next(TreeEntry& entry) override {
    ASCOPE_TRY_ASSIGN(const bool more, inner_.next(entry));
    entry.uid = kAgentId;
    entry.gid = kAgentId;
    return more;
  }
  Result<std::optional<DataBlock>> read() override { return inner_.read(); }

 private:
  TreeSource& inner_;
};

class BwrapFiles final : public Toolbox {
 public:
  BwrapFiles(const Folder& folder, const Meta& meta) : folder_(folder), meta_(meta) {}

  Result<TreeProbe> probe(const OpContext& ctx, const std::string& root) override;
  Result<std::unique_ptr<TreeReader>> read_tree(const OpContext& ctx,
                                                const TreeSelection& selection) override;
  Result<ApplyReport> apply(const OpContext& ctx, const std::string& root, TreeSource& source,
                            const ApplyOptions& options) override;
  Result<void> set_mark(const OpContext& ctx, const std::string& root,
                        const std::optional<std::string>& mark) override;
  Result<std::unique_ptr<Freeze>> freeze(const OpContext& ctx) override;
  Result<std::optional<std::set<std::uint64_t>>> mapped_files(const OpContext& ctx) override;

 private:
  Result<ApplyReport> apply_entries(const OpContext& ctx, const std::string& root, TreeSource& source,
                                    const ApplyOptions& options);
  // The host folder that holds `path` inside, as an open folder and the path below it: the tree, or a mount.
  Result<UniqueFd> base_of(const std::string& path, std::string& below) const;
  [[nodiscard]] Result<std::vector<std::string>> covered() const;
  Result<ApplyReport> apply_stopped(const OpContext& ctx, const std::string& root, TreeSource& source,
                                    ApplyOptions options);

  // The sandbox's lock for as long as the result lives. Taken once: the mark of a restore is set from within
  // apply().
  class Held {
   public:
    Held(bool& flag, UniqueFd fd) : flag_(&flag), fd_(std::move(fd)) { *flag_ = true; }
    Held(Held&& other) noexcept : flag_(std::exchange(other.flag_, nullptr)), fd_(std::move(other.fd_)) {}
    Held& operator=(Held&&) = delete;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      if (flag_ != nullptr && fd_.is_open()) {
        *flag_ = false;
      }
    }

   private:
    bool* flag_;
    UniqueFd fd_;  // not open: an outer call holds the lock
  };
  Result<Held> hold(const OpContext& ctx) {
    if (holding_) {
      return Held(holding_, UniqueFd());
    }
    ASCOPE_TRY_ASSIGN(UniqueFd fd, folder_.lock(ctx));
    return Held(holding_, std::move(fd));
  }

  const Folder& folder_;
  const Meta& meta_;
  bool holding_ = false;
};

Result<UniqueFd> BwrapFiles::base_of(const std::string& path, std::string& below) const {
  for (const MountSpec& mount : meta_.mounts) {
    if (const auto rest = relative_path(path, mount.path)) {
      below = "/" + *rest;
      return open_file(mount.host_path, O_RDONLY | O_DIRECTORY);
    }
  }
  below = absolute_path(path, "/");
  return folder_.open_root();
}

Result<TreeProbe> BwrapFiles::probe(const OpContext& ctx, const std::string& root) {
  ASCOPE_TRY(ctx.check("looking at the sandbox's files"));
  TreeProbe out;
  std::string below;
  auto base = base_of(root, below);
  auto folder = base ? open_inside(base->get(), below) : std::move(base);
  if (!folder) {
    if (folder.error().kind == ErrorKind::not_found) {
      return out;
    }
    return std::move(folder).error();
  }
  out.exists = true;
  ASCOPE_TRY_ASSIGN(const auto names, list_dir("/proc/self/fd/" + std::to_string(folder->get())));
  out.empty = names.empty();
  ASCOPE_TRY_ASSIGN(const auto mark, folder_.read_mark());
  out.marked = mark.has_value();
  out.mark = mark.value_or("");
  return out;
}

Result<std::vector<std::string>> BwrapFiles::covered() const {
  SandboxSettings settings;
  const auto value = [this](const char* key, std::string& out) {
    if (const auto found = meta_.settings.find(key); found != meta_.settings.end()) {
      out = found->second;
    }
  };
  value("rootfs", settings.rootfs);
  value("network", settings.network);
  ASCOPE_TRY_ASSIGN(const Layout layout, plan_layout(settings));
  std::vector<std::string> out = covered_places(layout);
  for (const MountSpec& mount : meta_.mounts) {
    out.push_back(absolute_path(mount.path, "/"));
  }
  return out;
}

Result<std::unique_ptr<TreeReader>> BwrapFiles::read_tree(const OpContext& ctx,
                                                          const TreeSelection& selection) {
  ASCOPE_TRY(ctx.check("reading the sandbox's files"));
  const std::string base = selection.relative_to.empty() ? "/" : selection.relative_to;
  ASCOPE_TRY_ASSIGN(const UniqueFd tree, folder_.open_root());
  auto root = open_inside(tree.get(), absolute_path(base, "/"));
  if (!root && root.error().kind == ErrorKind::not_found) {
    return std::unique_ptr<TreeReader>(std::make_unique<NoTree>());
  }
  if (!root) {
    return std::move(root).error();
  }
  WalkOptions options;
  options.exclude = selection.exclude;
  options.start_may_vanish = true;
  options.metadata_only = selection.metadata_only;
  options.file_xattrs = selection.file_xattrs || !selection.metadata_only;
  for (const std::string& path : selection.roots) {
    const auto relative = relative_path(path, base);
    if (!relative) {
      return make_error(ErrorKind::internal, fmt::format("'{}' is not below '{}'", path, base));
    }
    // Any type will do, a link itself too. A folder of mode 000 is the walker's to open: it may have the
    // right.
    const Opened there = open_beneath(root->get(), *relative, O_PATH);
    if (there.error == ENOENT || there.error == ENOTDIR || there.error == ELOOP || there.error == EXDEV) {
      continue;
    }
    if (there.error != 0 && there.error != EACCES) {
      return errno_error("opening '" + path + "' of the sandbox", there.error);
    }
    options.start.push_back(*relative);
  }
  if (options.start.empty() && !selection.roots.empty()) {
    return std::unique_ptr<TreeReader>(std::make_unique<NoTree>());
  }
  ASCOPE_TRY_ASSIGN(std::vector<std::string> skip, covered());
  skip.insert(skip.end(), selection.skip.begin(), selection.skip.end());
  for (const std::string& path : skip) {
    if (const auto relative = relative_path(path, base); relative && !relative->empty()) {
      options.skip_paths.push_back(*relative);
    }
  }
  if (meta_.id_base) {
    options.id_base = *meta_.id_base;
  } else {
    options.map_from_uid = ::geteuid();
    options.map_to_uid = kAgentId;
    options.map_from_gid = ::getegid();
    options.map_to_gid = kAgentId;
  }
  ASCOPE_TRY_ASSIGN(std::unique_ptr<TreeWalker> walker,
                    walk_tree(std::move(root).value(), std::move(options)));
  return std::unique_ptr<TreeReader>(std::make_unique<WalkedTree>(std::move(walker)));
}

Result<ApplyReport> BwrapFiles::apply(const OpContext& ctx, const std::string& root, TreeSource& source,
                                      const ApplyOptions& options) {
  auto report = apply_entries(ctx, root, source, options);
  if (!report && report.error().kind == ErrorKind::io) {
    return std::move(report).error().within("in '" + folder_.path() + "'");
  }
  return report;
}

Result<ApplyReport> BwrapFiles::apply_entries(const OpContext& ctx, const std::string& root,
                                              TreeSource& source, const ApplyOptions& options) {
  ApplyOptions own = options;
  own.allow_devices = false;
  const bool shares_folders = std::any_of(meta_.mounts.begin(), meta_.mounts.end(),
                                          [](const MountSpec& mount) { return !mount.read_only; });
  if (!meta_.id_base) {
    own.set_owner = false;
    own.own_uid = kAgentId;
    own.own_gid = kAgentId;
  }
  own.allow_setid = options.allow_setid && meta_.id_base && !shares_folders;
  auto connection = connect_guest(folder_);
  if (connection) {
    if (options.dry_run) {
      return apply_stopped(ctx, root, source, std::move(own));  // only looks
    }
    if (options.mode == ApplyMode::exact) {
      return make_error(ErrorKind::unsupported, "files of a running sandbox cannot be replaced as a whole",
                        "stop the sandbox first");
    }
    return local::unpack_inside(ctx, std::move(connection).value(), absolute_path(root, "/"), source, own,
                                own.set_owner && meta_.id_base.has_value());
  }
  if (connection.error().kind != ErrorKind::not_found) {
    return std::move(connection).error();
  }
  // Nobody may start it while we write.
  ASCOPE_TRY_ASSIGN(const Held held, hold(ctx));
  auto started = connect_guest(folder_);
  if (started) {
    return make_error(ErrorKind::conflict, "the sandbox was started by another command meanwhile");
  }
  return apply_stopped(ctx, root, source, std::move(own));
}

Result<ApplyReport> BwrapFiles::apply_stopped(const OpContext& ctx, const std::string& root,
                                              TreeSource& source, ApplyOptions options) {
  std::string below;
  ASCOPE_TRY_ASSIGN(const UniqueFd base, base_of(root, below));
  const auto owner = host_owner(meta_, kAgentId);
  ASCOPE_TRY_ASSIGN(UniqueFd folder,
                    options.dry_run ? open_inside(base.get(), below) : make_inside(base.get(), below, owner));
  OwnedSource owned(source);
  const bool restore_owners = options.set_owner;
  options.set_owner = meta_.id_base.has_value();
  options.id_base = meta_.id_base.value_or(0);
  return apply_tree(ctx, std::move(folder), restore_owners ? source : owned, options);
}

Result<void> BwrapFiles::set_mark(const OpContext& ctx, const std::string& root,
                                  const std::optional<std::string>& mark) {
  ASCOPE_TRY(ctx.check("marking a restore"));
  if (!mark) {
    // What the restore has written is on the disk before the mark goes.
    std::string below;
    ASCOPE_TRY_ASSIGN(const UniqueFd base, base_of(root, below));
    if (::syncfs(base.get()) != 0) {
      return errno_error("syncing what was restored", errno);
    }
  }
  return folder_.write_mark(mark);
}

Result<std::unique_ptr<Toolbox::Freeze>> BwrapFiles::freeze(const OpContext& ctx) {
  return local::freeze_inside(ctx, folder_);
}

Result<std::optional<std::set<std::uint64_t>>> BwrapFiles::mapped_files(const OpContext& ctx) {
  ASCOPE_TRY(ctx.check("looking at the sandbox's processes"));
  const auto connection = connect_guest(folder_);
  if (!connection) {
    return connection.error().kind == ErrorKind::not_found
               ? Result<std::optional<std::set<std::uint64_t>>>(std::set<std::uint64_t>())
               : connection.error();
  }
  ASCOPE_TRY_ASSIGN(const pid_t guest, guest::peer_pid(connection->get()));
  return local::mapped_files_below(guest);
}

}  // namespace

std::unique_ptr<Toolbox> make_toolbox(const Folder& folder, const Meta& meta) {
  return std::make_unique<BwrapFiles>(folder, meta);
}

}  // namespace ascope::bwrap
