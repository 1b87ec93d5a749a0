// SPDX-License-Identifier: Apache-2.0
#include "core/tree/applier.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/tree/apply_moves.h"
#include "core/tree/apply_place.h"
#include "core/tree/apply_stage.h"
#include "core/tree/beneath.h"
#include "core/tree/prune.h"
#include "core/tree/walker.h"

namespace ascope {

namespace {

constexpr mode_t kNewFolder = 0700;  // until its metadata is set, last of all

class Applier {
 public:
  Applier(const OpContext& ctx, UniqueFd root, TreeSource& source, const ApplyOptions& options)
      : ctx_(ctx),
        root_(std::move(root)),
        source_(source),
        options_(options),
        state_(root_.get(), options),
        placer_(state_) {}

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

  const OpContext& ctx_;
  UniqueFd root_;
  TreeSource& source_;
  const ApplyOptions& options_;
  ApplyState state_;
  Placer placer_;
  std::unique_ptr<ApplyPlan> plan_;
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
    ASCOPE_TRY(placer_.make_folder(entry.path));
    ASCOPE_TRY_ASSIGN(const std::uint64_t place, plan_->add(PlanAction::folder, 0, entry));
    placer_.finish_later(place);
    return ok();
  }
  if (entry.type == EntryType::hardlink) {
    ++state_.report.written;
    return placer_.link_in_place({PlanAction::link, 0, entry});
  }
  ASCOPE_TRY_ASSIGN(const int parent, placer_.folder_for(entry.path));
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
  return placer_.finish_folders(*plan_);
}

// ---- over what is there

Result<void> Applier::open_stage() {
  const std::string name(kStageName);
  ASCOPE_TRY(remove_whole(root_.get(), name));
  ASCOPE_TRY(placer_.attempt("", "making the stage in",
                             [&] { return ::mkdirat(root_.get(), name.c_str(), kNewFolder); }));
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
  if (!known && exclude_matches(options_.spare, path, S_ISDIR(info.st_mode))) {
    return Verdict::keep_whole;
  }
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
      return placer_.attempt(folder, what, call);
    };
    ASCOPE_TRY(apply_moves(options_, state_.admission, placer_.folders(), in_folder, state_.report));
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
    placer_.give_up();
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
  return placer_.finish_folders(*plan_);
}

Result<void> Applier::carry_out(std::uint64_t place, const PlanRecord& record) {
  switch (record.action) {
    case PlanAction::folder:
      placer_.finish_later(place);
      return placer_.make_folder(record.entry.path);
    case PlanAction::rename:
      return placer_.put_in_place(stage_file(record.number), record.entry.path);
    case PlanAction::link:
      return placer_.link_in_place(record);
    case PlanAction::metadata:
      return placer_.set_in_place(record.entry);
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
