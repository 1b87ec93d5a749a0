// SPDX-License-Identifier: Apache-2.0
#include "core/tree/applier.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/tree/apply_moves.h"
#include "core/tree/apply_stage.h"
#include "core/tree/beneath.h"
#include "core/tree/prune.h"

namespace ascope {

namespace {

constexpr mode_t kNewFolder = 0700;       // until its metadata is set, last of all
constexpr mode_t kImplicitFolder = 0755;  // of a folder that no entry names

class Applier {
 public:
  Applier(const OpContext& ctx, UniqueFd root, TreeSource& source, const ApplyOptions& options)
      : ctx_(ctx),
        root_(std::move(root)),
        source_(source),
        options_(options),
        state_(options),
        folders_(root_.get()) {
    state_.root = root_.get();
  }

  Result<ApplyReport> run();

 private:
  Result<void> run_fresh();
  Result<void> run_staged();
  Result<void> check_empty();
  Result<void> open_stage();
  Result<UniqueFd> open_plan(int dir, const std::string& name);
  void drop_stage();
  // Admits and hands on every entry of the source.
  Result<void> each_entry(const std::function<Result<void>(TreeEntry&)>& take);
  Result<void> write_fresh(TreeEntry& entry);
  Result<void> remove_unwanted(bool dry_run);
  [[nodiscard]] Verdict decide(const std::string& path, const struct stat& info) const;
  Result<void> change_tree();
  Result<void> carry_out(std::uint64_t place, const PlanRecord& record);
  Result<void> make_folder(const std::string& path);
  Result<int> folder_for(const std::string& path);
  Result<void> put_in_place(const std::string& stage_name, const std::string& path);
  Result<void> link_in_place(const PlanRecord& record);
  Result<void> set_in_place(const TreeEntry& entry);
  Result<void> finish_folders();
  // Gives the owner all rights on the folders down to `path`, where only modes kept us out.
  Result<void> lift(const std::string& path);
  // Runs `call` (0, or -1 with errno), once more after lifting where it is not allowed.
  Result<void> attempt(const std::string& path, std::string_view what, const std::function<int()>& call);

  const OpContext& ctx_;
  UniqueFd root_;
  TreeSource& source_;
  const ApplyOptions& options_;
  ApplyState state_;
  FolderCache folders_;
  FolderCache targets_{root_.get()};
  std::unique_ptr<ApplyPlan> plan_;
  std::vector<std::uint64_t> folder_places_;
  std::vector<std::pair<std::string, mode_t>> lifted_;
};

Result<void> Applier::each_entry(const std::function<Result<void>(TreeEntry&)>& take) {
  TreeEntry entry;
  while (true) {
    ASCOPE_TRY(ctx_.check("applying a tree"));
    ASCOPE_TRY_ASSIGN(const bool more, source_.next(entry));
    if (!more) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const bool makes, state_.admission.admit(entry));
    if (makes) {
      ASCOPE_TRY(take(entry));
    }
  }
}

Result<UniqueFd> Applier::open_plan(int dir, const std::string& name) {
  UniqueFd file(::openat(dir, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open() || ::unlinkat(dir, name.c_str(), 0) != 0) {
    return errno_error("making the plan of an apply", errno);
  }
  return file;
}

// ---- into an empty root

Result<void> Applier::check_empty() {
  UniqueFd dir(::openat(root_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.is_open()) {
    return errno_error("opening the target folder", errno);
  }
  NameList names;
  ASCOPE_TRY(names.read(dir.get()));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = names.at(i);
    if (!state_.admission.is_skipped(name) && !state_.admission.holds_skipped(name)) {
      return make_error(ErrorKind::conflict, "the target folder is not empty: it holds '" + name + "'");
    }
  }
  return ok();
}

Result<void> Applier::write_fresh(TreeEntry& entry) {
  if (entry.type == EntryType::directory) {
    ASCOPE_TRY(make_folder(entry.path));
    ASCOPE_TRY_ASSIGN(const std::uint64_t place, plan_->add(PlanAction::folder, 0, entry));
    folder_places_.push_back(place);
    return ok();
  }
  if (entry.type == EntryType::hardlink) {
    ++state_.report.written;
    return link_in_place({PlanAction::link, 0, entry});
  }
  ASCOPE_TRY_ASSIGN(const int parent, folder_for(entry.path));
  const std::string name = last_part(entry.path);
  if (entry.type != EntryType::file) {
    ASCOPE_TRY_ASSIGN(const bool made, make_special(parent, name, entry, state_.failures));
    if (!made) {
      state_.admission.set_mark(entry.path, mark::kLeftOut);
      state_.admission.notes().add(entry.path, "device skipped: not permitted");
      return ok();
    }
  } else {
    NewFile file;
    ASCOPE_TRY(file.create(parent, name, entry));
    while (true) {
      ASCOPE_TRY_ASSIGN(const std::optional<DataBlock> block, source_.read());
      if (!block) {
        break;
      }
      ASCOPE_TRY(file.write(*block));
    }
    ASCOPE_TRY(file.finish(entry, state_.failures));
    state_.report.bytes_written += entry.size_bytes;
  }
  state_.note_failures(entry.path);
  ++state_.report.written;
  return ok();
}

Result<void> Applier::run_fresh() {
  ASCOPE_TRY(check_empty());
  if (options_.dry_run) {
    Stager stager(state_);
    return each_entry([&](TreeEntry& entry) { return stager.take(entry, source_); });
  }
  ASCOPE_TRY_ASSIGN(UniqueFd file, open_plan(root_.get(), std::string(kStageName)));
  plan_ = std::make_unique<ApplyPlan>(std::move(file));
  ASCOPE_TRY(each_entry([&](TreeEntry& entry) { return write_fresh(entry); }));
  return finish_folders();
}

// ---- over what is there

Result<void> Applier::open_stage() {
  const std::string name(kStageName);
  ASCOPE_TRY(remove_whole(root_.get(), name));
  ASCOPE_TRY(
      attempt("", "making the stage in", [&] { return ::mkdirat(root_.get(), name.c_str(), kNewFolder); }));
  Opened opened = open_beneath(root_.get(), name, O_PATH | O_DIRECTORY);
  if (opened.error != 0) {
    return errno_error("opening the stage", opened.error);
  }
  state_.stage = std::move(opened.fd);
  ASCOPE_TRY_ASSIGN(UniqueFd file, open_plan(state_.stage.get(), "plan"));
  plan_ = std::make_unique<ApplyPlan>(std::move(file));
  state_.plan = plan_.get();
  return ok();
}

void Applier::drop_stage() {
  plan_.reset();
  state_.plan = nullptr;
  state_.stage.reset();
  // What cannot be removed now is removed by the next apply.
  static_cast<void>(remove_whole(root_.get(), std::string(kStageName)).has_value());
}

Verdict Applier::decide(const std::string& path, const struct stat& info) const {
  const Admission& admission = state_.admission;
  if (admission.is_skipped(path)) {
    return Verdict::keep_whole;
  }
  if (!admission.is_asked_for(path)) {
    return admission.leads_to_asked(path) ? Verdict::keep : Verdict::keep_whole;
  }
  const auto known = admission.mark_of(path);
  const bool wants_folder = known == mark::kFolder || known == mark::kImplicit;
  if (S_ISDIR(info.st_mode)) {
    return wants_folder || admission.holds_skipped(path) ? Verdict::keep : Verdict::remove;
  }
  return known == mark::kKept || known == mark::kPlaced ? Verdict::keep : Verdict::remove;
}

Result<void> Applier::remove_unwanted(bool dry_run) {
  PruneOptions prune;
  prune.dry_run = dry_run;
  prune.decide = [this](const std::string& path, const struct stat& info) { return decide(path, info); };
  prune.removed = [this](const std::string& path) {
    if (!state_.admission.mark_of(path) || state_.admission.mark_of(path) == mark::kLeftOut) {
      ++state_.report.removed;
      state_.change('D', path);
    }
  };
  return prune_tree(root_.get(), prune, state_.admission.notes());
}

Result<void> Applier::run_staged() {
  struct stat before{};
  if (::fstat(root_.get(), &before) != 0) {
    return errno_error("looking at the target folder", errno);
  }
  const bool exact = options_.mode == ApplyMode::exact;
  if (!options_.remove.empty() || !options_.rename.empty()) {
    if (exact) {
      return make_error(ErrorKind::internal, "removals and moves are for an overlay only");
    }
    const Attempt in_folder = [this](const std::string& folder, std::string_view what,
                                     const std::function<int()>& call) {
      return attempt(folder, what, call);
    };
    ASCOPE_TRY(apply_moves(options_, state_.admission, folders_, in_folder, state_.report));
  }
  Stager stager(state_);
  const auto take = [&](TreeEntry& entry) { return stager.take(entry, source_); };
  if (options_.dry_run) {
    ASCOPE_TRY(each_entry(take));
    return exact ? remove_unwanted(true) : ok();
  }
  Result<void> staged = open_stage();
  if (staged) {
    staged = each_entry(take);
  }
  if (staged) {
    staged = plan_->flush();
  }
  if (staged && options_.before_change) {
    staged = options_.before_change();
  }
  if (!staged) {
    drop_stage();
    for (auto at = lifted_.rbegin(); at != lifted_.rend(); ++at) {
      ::fchmodat(root_.get(), ".", at->second, 0);
    }
    const timespec times[2] = {{0, UTIME_OMIT}, before.st_mtim};
    ::utimensat(root_.get(), ".", times, 0);
    return staged;
  }
  Result<void> changed = exact ? remove_unwanted(false) : ok();
  if (changed) {
    changed = change_tree();
  }
  if (!changed) {
    drop_stage();
    Error error = std::move(changed).error();
    error.kind = ErrorKind::incomplete;
    return std::move(error).within("the tree was changed in part");
  }
  return ok();
}

Result<void> Applier::change_tree() {
  std::uint64_t place = 0;
  PlanRecord record;
  while (true) {
    const std::uint64_t at = place;
    ASCOPE_TRY_ASSIGN(const bool more, plan_->read(place, record));
    if (!more) {
      break;
    }
    ASCOPE_TRY(carry_out(at, record));
  }
  // The stage goes before the times of the folders are set; the plan is an open file without a name.
  state_.stage.reset();
  ASCOPE_TRY(remove_whole(root_.get(), std::string(kStageName)));
  return finish_folders();
}

Result<void> Applier::carry_out(std::uint64_t place, const PlanRecord& record) {
  switch (record.action) {
    case PlanAction::folder:
      folder_places_.push_back(place);
      return make_folder(record.entry.path);
    case PlanAction::rename:
      return put_in_place(stage_file(record.number), record.entry.path);
    case PlanAction::link:
      return link_in_place(record);
    case PlanAction::metadata:
      return set_in_place(record.entry);
  }
  return ok();
}

Result<void> Applier::attempt(const std::string& path, std::string_view what,
                              const std::function<int()>& call) {
  if (call() == 0) {
    return ok();
  }
  if (errno == EACCES && ::geteuid() != 0) {
    ASCOPE_TRY(lift(path));
    if (call() == 0) {
      return ok();
    }
  }
  return errno_error(std::string(what) + " '" + path + "'", errno);
}

Result<void> Applier::lift(const std::string& path) {
  folders_.clear();
  std::size_t end = 0;
  while (true) {
    const std::string part = path.substr(0, end);
    const Opened opened = open_beneath(root_.get(), part, O_PATH | O_DIRECTORY);
    struct stat info{};
    if (opened.error != 0 || ::fstat(opened.fd.get(), &info) != 0) {
      return errno_error("opening '" + part + "'", opened.error != 0 ? opened.error : errno);
    }
    if ((info.st_mode & 0700U) != 0700U) {
      if (::chmod(proc_path(opened.fd.get()).c_str(), (info.st_mode & 07777U) | 0700U) != 0) {
        return errno_error("opening up '" + part + "'", errno);
      }
      if (part.empty() || state_.admission.mark_of(part) != mark::kFolder) {
        lifted_.emplace_back(part, info.st_mode & 07777U);
      }
    }
    if (end == path.size()) {
      return ok();
    }
    end = std::min(path.find('/', end + 1), path.size());
  }
}

Result<int> Applier::folder_for(const std::string& path) {
  const std::string parent(parent_path(path));
  int fd = folders_.folder(parent);
  if (fd == -EACCES && ::geteuid() != 0) {
    ASCOPE_TRY(lift(std::string(parent_path(parent))));
    fd = folders_.folder(parent);
  }
  if (fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR) {
    ASCOPE_TRY(make_folder(parent));
    fd = folders_.folder(parent);
  }
  if (fd < 0) {
    return errno_error("opening '" + parent + "'", -fd);
  }
  return fd;
}

Result<void> Applier::make_folder(const std::string& path) {
  if (path.empty()) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(const int parent, folder_for(path));
  const std::string name = last_part(path);
  struct stat info{};
  if (::fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return ok();
    }
    ASCOPE_TRY(attempt(std::string(parent_path(path)), "replacing what is in",
                       [&] { return ::unlinkat(folders_.folder(parent_path(path)), name.c_str(), 0); }));
  }
  const bool named = state_.admission.mark_of(path) == mark::kFolder;
  ASCOPE_TRY(attempt(std::string(parent_path(path)), "making a folder in", [&] {
    return ::mkdirat(folders_.folder(parent_path(path)), name.c_str(), named ? kNewFolder : kImplicitFolder);
  }));
  if (!named && options_.set_owner && options_.id_base != 0 &&
      ::fchownat(folders_.folder(parent_path(path)), name.c_str(), options_.id_base, options_.id_base,
                 AT_SYMLINK_NOFOLLOW) != 0) {
    state_.admission.count_owner_not_set();
  }
  return ok();
}

Result<void> Applier::put_in_place(const std::string& stage_name, const std::string& path) {
  ASCOPE_TRY(folder_for(path));
  const std::string parent(parent_path(path));
  const std::string name = last_part(path);
  const auto rename = [&] {
    return ::renameat(state_.stage.get(), stage_name.c_str(), folders_.folder(parent), name.c_str());
  };
  if (rename() == 0) {
    return ok();
  }
  if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST) {
    ASCOPE_TRY(remove_whole(folders_.folder(parent), name));
  }
  return attempt(parent, "putting '" + name + "' in place in", rename);
}

Result<void> Applier::link_in_place(const PlanRecord& record) {
  const TreeEntry& entry = record.entry;
  const int from = targets_.folder(parent_path(entry.link_target));
  if (from < 0) {
    return errno_error("opening the folder of '" + entry.link_target + "'", -from);
  }
  const std::string target = last_part(entry.link_target);
  ASCOPE_TRY_ASSIGN(const int parent, folder_for(entry.path));
  const bool staged = state_.stage.is_open();
  const std::string name = staged ? stage_file(record.number) : last_part(entry.path);
  if (::linkat(from, target.c_str(), staged ? state_.stage.get() : parent, name.c_str(), 0) != 0) {
    return errno_error("linking '" + entry.path + "' to '" + entry.link_target + "'", errno);
  }
  return staged ? put_in_place(name, entry.path) : ok();
}

Result<void> Applier::set_in_place(const TreeEntry& entry) {
  ASCOPE_TRY_ASSIGN(const int parent, folder_for(entry.path));
  const std::string name = last_part(entry.path);
  if (entry.type != EntryType::file && entry.type != EntryType::directory) {
    ASCOPE_TRY(set_special_metadata(parent, name, entry, state_.failures));
  } else {
    const Opened opened = open_beneath(parent, entry.path.empty() ? "" : name, O_PATH);
    if (opened.error != 0) {
      return errno_error("opening '" + entry.path + "'", opened.error);
    }
    ASCOPE_TRY(set_metadata(opened.fd.get(), entry, state_.failures));
  }
  state_.note_failures(entry.path);
  return ok();
}

Result<void> Applier::finish_folders() {
  ASCOPE_TRY(plan_->flush());
  PlanRecord record;
  for (auto at = folder_places_.rbegin(); at != folder_places_.rend(); ++at) {
    std::uint64_t place = *at;
    ASCOPE_TRY(plan_->read(place, record));
    ASCOPE_TRY(set_in_place(record.entry));
  }
  for (auto at = lifted_.rbegin(); at != lifted_.rend(); ++at) {
    const Opened opened = open_beneath(root_.get(), at->first, O_PATH | O_DIRECTORY);
    const bool named = state_.admission.mark_of(at->first) == mark::kFolder;
    if (opened.error == 0 && !named) {
      ::chmod(proc_path(opened.fd.get()).c_str(), at->second);
    }
  }
  return ok();
}

Result<ApplyReport> Applier::run() {
  ASCOPE_TRY(options_.mode == ApplyMode::fresh ? run_fresh() : run_staged());
  ApplyReport report = std::move(state_.report);
  report.owners_not_set = state_.admission.owners_not_set();
  report.notes = state_.admission.notes().take();
  return report;
}

}  // namespace

Result<ApplyReport> apply_tree(const OpContext& ctx, UniqueFd root, TreeSource& source,
                               const ApplyOptions& options) {
  return Applier(ctx, std::move(root), source, options).run();
}

}  // namespace ascope
