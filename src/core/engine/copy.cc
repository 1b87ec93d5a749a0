// SPDX-License-Identifier: Apache-2.0
#include "core/engine/copy.h"

#include <algorithm>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <sys/stat.h>

#include <fmt/format.h>

#include "core/base/file.h"
#include "core/engine/finish.h"
#include "core/repository/tar.h"
#include "core/tree/walker.h"

namespace ascope {

namespace {

// A path as folder and name; the root of all is the folder "/" with an empty name.
struct Place {
  std::string folder;
  std::string name;
};

Place split(const std::string& absolute) {
  const auto slash = absolute.rfind('/');
  return {slash == 0 ? "/" : absolute.substr(0, slash), absolute.substr(slash + 1)};
}

std::string below(const std::string& folder, const std::string& name) {
  return folder == "/" ? "/" + name : folder + "/" + name;
}

// Passes entries on under another top name, and counts them.
class RenamedSource final : public TreeSource {
 public:
  RenamedSource(TreeSource& inner, std::string from, std::string to, CopyReport* report)
      : inner_(inner), from_(std::move(from)), to_(std::move(to)), report_(report) {}

  Result<bool> next(TreeEntry& entry) override {
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, inner_.next(entry));
      if (!more) {
        return false;
      }
      if (entry.path != from_ && !entry.path.starts_with(from_ + "/")) {
        continue;  // a folder above
      }
      seen_ = true;
      entry.path = to_ + entry.path.substr(from_.size());
      if (entry.type == EntryType::hardlink) {
        entry.link_target = to_ + entry.link_target.substr(from_.size());
      }
      if (report_ != nullptr && entry.type != EntryType::directory) {
        ++report_->files;
        report_->content_bytes += entry.type == EntryType::file ? entry.size_bytes : 0;
      }
      return true;
    }
  }
  Result<std::optional<DataBlock>> read() override { return inner_.read(); }
  [[nodiscard]] bool has_seen_any() const { return seen_; }

 private:
  TreeSource& inner_;
  std::string from_, to_;
  CopyReport* report_;
  bool seen_ = false;
};

// Several trees after one another.
class JoinedSource final : public TreeSource {
 public:
  explicit JoinedSource(std::vector<std::unique_ptr<TreeSource>>& parts) : parts_(parts) {}
  Result<bool> next(TreeEntry& entry) override {
    while (at_ < parts_.size()) {
      ASCOPE_TRY_ASSIGN(const bool more, parts_[at_]->next(entry));
      if (more) {
        return true;
      }
      ++at_;
    }
    return false;
  }
  Result<std::optional<DataBlock>> read() override { return parts_[at_]->read(); }

 private:
  std::vector<std::unique_ptr<TreeSource>>& parts_;
  std::size_t at_ = 0;
};

enum class Kind { missing, folder, other };

// A slot's sandbox for the time of one copy.
class CopySession {
 public:
  CopySession(EngineServices& services, const OpContext& ctx, const SlotKey& slot)
      : services_(services), ctx_(ctx), slot_(slot) {}

  // `into`: something will be written, so it must run and the record must say that there is unsaved work.
  Result<void> open(const LockOptions& lock, bool into) {
    SessionOptions options;
    options.local = LockMode::shared;
    options.lease = false;
    options.wait = lock.wait;
    options.lease_token = lock.lease_token;
    Receipt unused;
    ASCOPE_TRY_ASSIGN(session_, SlotSession::open(services_, ctx_, slot_, options, unused));
    ASCOPE_TRY_ASSIGN(const SlotView view, read_slot(services_, ctx_, slot_));
    ASCOPE_TRY_ASSIGN(attached_, attach_slot(services_, ctx_, slot_, view));
    if (!into) {
      return ok();
    }
    if (attached_.info.phase != SandboxPhase::running) {
      return make_error(
          ErrorKind::not_found,
          fmt::format("{}: its sandbox is {}", slot_.written(), to_string(attached_.info.phase)),
          fmt::format("'ascope-sandbox start {}' brings it up", slot_.written()));
    }
    return attached_.external ? ok() : mark_dirty(services_, ctx_, slot_, view);
  }

  Toolbox& files() { return attached_.sandbox->files(); }
  [[nodiscard]] std::string inside(const std::string& path) const {
    return absolute_path(path, services_.profile().workspace_root);
  }

  Result<std::unique_ptr<TreeReader>> read(const std::string& path) {
    TreeSelection selection;
    selection.roots = {path};
    selection.relative_to = split(path).folder;
    return files().read_tree(ctx_, selection);
  }

  Result<Kind> kind_of(const std::string& path) {
    if (path == "/") {
      return Kind::folder;
    }
    TreeSelection selection;
    selection.roots = {path};
    selection.relative_to = split(path).folder;
    selection.metadata_only = true;
    ASCOPE_TRY_ASSIGN(const auto reader, files().read_tree(ctx_, selection));
    TreeEntry entry;
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, reader->next(entry));
      if (!more) {
        return Kind::missing;
      }
      if (entry.path == split(path).name) {
        return entry.type == EntryType::directory ? Kind::folder : Kind::other;
      }
    }
  }

  Result<void> close() { return session_->close(ctx_); }

 private:
  EngineServices& services_;
  const OpContext& ctx_;
  const SlotKey& slot_;
  std::unique_ptr<SlotSession> session_;
  AttachedSlot attached_;
};

Result<Kind> host_kind(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? Result<Kind>(Kind::missing) : errno_error("looking at '" + path + "'", errno);
  }
  return S_ISDIR(info.st_mode) ? Kind::folder : Kind::other;
}

// Where a source called `name` goes.
Result<Place> target_place(const std::string& target, bool names_folder, Kind kind, const std::string& name,
                           bool several) {
  if (kind == Kind::folder || names_folder) {
    return Place{target, name};
  }
  if (several) {
    return make_error(ErrorKind::usage,
                      fmt::format("'{}' is no folder, and there are several sources", target),
                      "name an existing folder, or end the name with '/'");
  }
  return split(target);
}

using Apply = std::function<Result<ApplyReport>(TreeSource& source, const ApplyOptions& options)>;

struct OpenedTree {
  std::unique_ptr<TreeSource> source;
  const std::vector<TreeNote>* notes = nullptr;  // of `source`: what it could not take
};
using Open = std::function<Result<OpenedTree>()>;

ApplyOptions overlay() {
  ApplyOptions options;
  options.mode = ApplyMode::overlay;
  return options;
}

// Lays `from` over the target as `to`. Where something is there already, looks first whether a thing of
// another type would have to go: a copy never removes a folder to put a file there.
Result<void> lay(const Open& open, const std::string& from, const std::string& to, bool exists,
                 const Apply& apply, const std::string& shown, CopyReport& report) {
  if (exists) {
    ASCOPE_TRY_ASSIGN(const OpenedTree tree, open());
    RenamedSource renamed(*tree.source, from, to, nullptr);
    ApplyOptions options = overlay();
    options.dry_run = true;
    ASCOPE_TRY_ASSIGN(const ApplyReport preview, apply(renamed, options));
    for (const auto& [kind, path] : preview.changes) {
      if (kind == 'T') {
        return make_error(ErrorKind::conflict, fmt::format("'{}' is in the way and of another type", path),
                          "move it away, or copy to another name");
      }
    }
  }
  ASCOPE_TRY_ASSIGN(const OpenedTree tree, open());
  RenamedSource renamed(*tree.source, from, to, &report);
  ASCOPE_TRY_ASSIGN(const ApplyReport applied, apply(renamed, overlay()));
  if (!renamed.has_seen_any()) {
    return make_error(ErrorKind::not_found, fmt::format("'{}' does not exist", shown));
  }
  report.notes.insert(report.notes.end(), tree.notes->begin(), tree.notes->end());
  report.notes.insert(report.notes.end(), applied.notes.begin(), applied.notes.end());
  return ok();
}

Error root_error() {
  return make_error(ErrorKind::usage, "'/' cannot be copied as a whole", "name folders below it");
}

}  // namespace

Result<CopyReport> copy_out(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                            const LockOptions& lock, const std::vector<std::string>& paths,
                            const std::string& target) {
  CopySession session(services, ctx, slot);
  ASCOPE_TRY(session.open(lock, false));
  const std::string whole = absolute_path(target, "/");
  ASCOPE_TRY_ASSIGN(const Kind kind, host_kind(whole));
  CopyReport report;
  for (const auto& path : paths) {
    const std::string inside = session.inside(path);
    const std::string name = split(inside).name;
    if (name.empty()) {
      return root_error();
    }
    ASCOPE_TRY_ASSIGN(const Kind found, session.kind_of(inside));
    if (found == Kind::missing) {
      return make_error(ErrorKind::not_found, fmt::format("'{}' does not exist in the sandbox", inside));
    }
    ASCOPE_TRY_ASSIGN(const Place place,
                      target_place(whole, target.ends_with('/'), kind, name, paths.size() > 1));
    ASCOPE_TRY_ASSIGN(const bool exists, path_exists(below(place.folder, place.name)));
    const Apply apply = [&](TreeSource& source, const ApplyOptions& options) -> Result<ApplyReport> {
      auto folder = open_file(place.folder, O_RDONLY | O_DIRECTORY);
      if (!folder) {
        return make_error(folder.error().kind == ErrorKind::denied ? ErrorKind::denied : ErrorKind::io,
                          fmt::format("there is no folder '{}' to copy into", place.folder));
      }
      auto applied = apply_tree(ctx, std::move(folder).value(), source, options);
      return applied ? std::move(applied) : write_failure(std::move(applied).error());
    };
    const Open open = [&]() -> Result<OpenedTree> {
      ASCOPE_TRY_ASSIGN(auto reader, session.read(inside));
      const auto* notes = &reader->notes();
      return OpenedTree{std::move(reader), notes};
    };
    ASCOPE_TRY(lay(open, name, place.name, exists, apply, inside, report));
  }
  ASCOPE_TRY(session.close());
  return report;
}

Result<CopyReport> copy_out_tar(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                                const LockOptions& lock, const std::vector<std::string>& paths,
                                ByteSink& tar) {
  CopySession session(services, ctx, slot);
  ASCOPE_TRY(session.open(lock, false));
  std::vector<std::unique_ptr<TreeReader>> readers;
  std::vector<std::unique_ptr<TreeSource>> parts;
  CopyReport report;
  for (const auto& path : paths) {
    const std::string inside = session.inside(path);
    const std::string name = split(inside).name;
    if (name.empty()) {
      return root_error();
    }
    ASCOPE_TRY_ASSIGN(const Kind found, session.kind_of(inside));
    if (found == Kind::missing) {
      return make_error(ErrorKind::not_found, fmt::format("'{}' does not exist in the sandbox", inside));
    }
    ASCOPE_TRY_ASSIGN(auto reader, session.read(inside));
    parts.push_back(std::make_unique<RenamedSource>(*reader, name, name, &report));
    readers.push_back(std::move(reader));
  }
  JoinedSource joined(parts);
  ASCOPE_TRY_ASSIGN(const TarStats stats, write_tar(joined, tar, TarCompression::none));
  report.notes = stats.notes;
  for (const auto& reader : readers) {
    report.notes.insert(report.notes.end(), reader->notes().begin(), reader->notes().end());
  }
  ASCOPE_TRY(session.close());
  return report;
}

Result<CopyReport> copy_in(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                           const LockOptions& lock, const std::vector<std::string>& sources,
                           const std::string& target) {
  for (const auto& source : sources) {
    struct stat info{};
    if (::lstat(source.c_str(), &info) != 0) {
      return errno == ENOENT ? make_error(ErrorKind::io, fmt::format("'{}' does not exist", source))
                             : errno_error("looking at '" + source + "'", errno);
    }
  }
  CopySession session(services, ctx, slot);
  ASCOPE_TRY(session.open(lock, true));
  const std::string whole = session.inside(target);
  ASCOPE_TRY_ASSIGN(const Kind kind, session.kind_of(whole));
  CopyReport report;
  for (const auto& source : sources) {
    const Place from = split(absolute_path(source, "/"));
    if (from.name.empty()) {
      return root_error();
    }
    ASCOPE_TRY_ASSIGN(const Place place,
                      target_place(whole, target.ends_with('/'), kind, from.name, sources.size() > 1));
    ASCOPE_TRY_ASSIGN(const Kind there, session.kind_of(below(place.folder, place.name)));
    const Apply apply = [&](TreeSource& tree, const ApplyOptions& options) {
      return session.files().apply(ctx, place.folder, tree, options);
    };
    const Open open = [&]() -> Result<OpenedTree> {
      ASCOPE_TRY_ASSIGN(UniqueFd folder, open_file(from.folder, O_RDONLY | O_DIRECTORY));
      WalkOptions options;
      options.start = {from.name};
      options.include_root = false;
      ASCOPE_TRY_ASSIGN(auto walker, walk_tree(std::move(folder), std::move(options)));
      const auto* notes = &walker->notes();
      return OpenedTree{std::move(walker), notes};
    };
    ASCOPE_TRY(lay(open, from.name, place.name, there != Kind::missing, apply, source, report));
  }
  ASCOPE_TRY(session.close());
  return report;
}

Result<CopyReport> copy_in_tar(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                               const LockOptions& lock, ByteSource& tar, const std::string& target) {
  CopySession session(services, ctx, slot);
  ASCOPE_TRY(session.open(lock, true));
  const std::string whole = session.inside(target);
  ASCOPE_TRY_ASSIGN(const Kind kind, session.kind_of(whole));
  if (kind == Kind::other) {
    return make_error(ErrorKind::conflict, fmt::format("'{}' is no folder", whole),
                      "a tar is unpacked below a folder");
  }
  class Counted final : public TreeSource {
   public:
    Counted(TreeSource& inner, CopyReport& report) : inner_(inner), report_(report) {}
    Result<bool> next(TreeEntry& entry) override {
      ASCOPE_TRY_ASSIGN(const bool more, inner_.next(entry));
      if (more && entry.type != EntryType::directory) {
        ++report_.files;
        report_.content_bytes += entry.type == EntryType::file ? entry.size_bytes : 0;
      }
      return more;
    }
    Result<std::optional<DataBlock>> read() override { return inner_.read(); }

   private:
    TreeSource& inner_;
    CopyReport& report_;
  };
  ASCOPE_TRY_ASSIGN(const auto source, read_tar(tar));
  CopyReport report;
  Counted counted(*source, report);
  ASCOPE_TRY_ASSIGN(const ApplyReport applied, session.files().apply(ctx, whole, counted, overlay()));
  report.notes = applied.notes;
  ASCOPE_TRY(session.close());
  return report;
}

}  // namespace ascope
