// SPDX-License-Identifier: Apache-2.0
#include "core/engine/start.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/engine/entries.h"
#include "core/engine/migrate.h"
#include "core/engine/save.h"
#include "core/engine/tree_scan.h"
#include "core/projection/projection.h"
#include "core/projection/skills.h"

namespace ascope {

namespace {

// What of the settings holds only in part, and whose the files inside are, as the backend tells.
void note_limits(const ResourceInfo& info, Receipt& receipt) {
  if (const auto ids = info.details.find("ids"); ids != info.details.end()) {
    receipt.ids = ids->second;
  }
  const auto listed = info.details.find("not_enforced");
  std::string_view rest = listed == info.details.end() ? std::string_view() : listed->second;
  while (!rest.empty()) {
    const auto end = std::min(rest.find("; "), rest.size());
    receipt.not_enforced.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
}

class Starter {
 public:
  Starter(EngineServices& services, const OpContext& ctx, const SlotKey& slot, SlotSession& session,
          Gathered& found, bool will_exec, Receipt& receipt)
      : services_(services),
        ctx_(ctx),
        slot_(slot),
        session_(session),
        found_(found),
        will_exec_(will_exec),
        receipt_(receipt) {}

  Result<StartedSlot> run() {
    auto acted = act();
    if (acted) {
      acted = commit();
    }
    if (!acted) {
      undo_creation();
      return std::move(acted).error();
    }
    destroy_replaced();
    // Committed: what follows only tidies up, and the next start does it if we die here.
    ASCOPE_TRY(sandbox_->set_ready(ctx_, true, session_.fence()));
    ASCOPE_TRY(services_.step("after-ready"));
    if (restored_) {
      ASCOPE_TRY(clear_marks(services_, ctx_, *sandbox_));
    }
    return StartedSlot{std::move(sandbox_), std::move(info_), false};
  }

 private:
  Result<void> act() {
    ASCOPE_TRY(destroy_leftovers());
    const StartDecision& decision = found_.decision;
    head_ = found_.head;
    if (decision.adopt_foreign_head && head_) {
      adopt_foreign();
    }
    if (decision.strand_first) {
      ASCOPE_TRY(strand());
    }
    if (decision.lost_since) {
      receipt_.lost_since = found_.lost_since;
    }
    if (decision.lost_snapshot && head_) {
      receipt_.lost_snapshot = head_->snapshot;
      head_.reset();
    }
    EntryPass pass = EntryPass::ephemeral;
    if (*decision.branch == Branch::a) {
      ASCOPE_TRY(go_on());
    } else if (decision.restore) {
      pass = found_.sandbox ? EntryPass::ephemeral : EntryPass::missing;
      ASCOPE_TRY(put_back());
    } else {
      pass = EntryPass::all;
      ASCOPE_TRY(make_new());
    }
    ASCOPE_TRY(services_.step("before-entries"));
    {
      PhaseTimer timer(receipt_, "entries", *ctx_.clock);
      auto actions = apply_entries(ctx_, services_.profile(), services_.cache_dir(), pass,
                                   session_.aux().entries, sandbox_->files());
      if (!actions) {
        return std::move(actions).error().within("writing the workspace entries");
      }
      receipt_.entries = std::move(*actions);
    }
    ASCOPE_TRY_ASSIGN(projection_hash_, project_into(services_, ctx_, *sandbox_, session_.aux(), receipt_));
    ASCOPE_TRY_ASSIGN(info_, sandbox_->info(ctx_));
    return services_.step("before-start-commit");
  }

  // Sandboxes of starts that died half-way: nothing of the user's ever ran in them.
  Result<void> destroy_leftovers() {
    if (found_.leftovers.empty()) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(Backend * backend, services_.backend());
    for (const auto& info : found_.leftovers) {
      auto sandbox = backend->attach(ctx_, info.id);
      if (!sandbox) {
        if (sandbox.error().kind == ErrorKind::not_found) {
          continue;
        }
        return std::move(sandbox).error();
      }
      ASCOPE_TRY((*sandbox)->destroy(ctx_, session_.fence()));
      receipt_.warnings.push_back(
          fmt::format("removed sandbox '{}' of a start that was never finished", info.id));
    }
    return ok();
  }

  void adopt_foreign() {
    head_->kind = "foreign";
    head_->time = head_->time.empty() ? format_time(ctx_.clock->wall()) : head_->time;
    head_->fence = session_.fence();
    auto& history = session_.aux().history;
    history.insert(history.begin(), *head_);
    receipt_.foreign_writer = "another program";
  }

  // Saves the present tree beside the history and commits that before the tree is touched.
  Result<void> strand() {
    ASCOPE_TRY_ASSIGN(SavedTree saved,
                      save_tree(services_, ctx_, session_, *found_.sandbox, *found_.info,
                                head_ ? &*head_ : nullptr, "stranded", ParentCheck::look, receipt_));
    if (!saved.changed) {
      return ok();
    }
    receipt_.stranded = saved.item.snapshot;
    auto& history = session_.aux().history;
    history.push_back(saved.item);
    const SlotRecord& record = session_.record();
    if (record.kind == RecordClass::absent || record.kind == RecordClass::tombstone) {
      return ok();  // the first commit writes it; the tree is not touched on these rows
    }
    SlotSession::Change change{record.document_text, false, record.meta->head, record.meta->live};
    ASCOPE_TRY(session_.commit(ctx_, change, receipt_));
    return services_.step("after-strand");
  }

  // Branch A: the tree is head plus what was done in it since.
  Result<void> go_on() {
    sandbox_ = std::move(found_.sandbox);
    info_ = *found_.info;
    clean_ = session_.record().meta && session_.record().meta->live && session_.record().meta->live->clean &&
             !found_.decision.mark_tree;
    since_ =
        session_.record().meta && session_.record().meta->live ? session_.record().meta->live->since : "";
    if (!found_.replaced_settings.empty()) {
      const bool anew = !sandbox_->fits(services_.profile().settings);
      if (anew && !services_.has_snapshots()) {
        return make_error(
            ErrorKind::refused,
            fmt::format("the sandbox cannot have the present settings ({}), and the profile has no "
                        "snapshot store to bring its files over",
                        found_.replaced_settings.front()),
            "set snapshots.store, or give its files up with 'rm --allow-loss'");
      }
      if ((!clean_ || (anew && !head_)) && services_.has_snapshots()) {
        ASCOPE_TRY_ASSIGN(SavedTree saved,
                          save_tree(services_, ctx_, session_, *sandbox_, info_, head_ ? &*head_ : nullptr,
                                    "replaced", ParentCheck::look, receipt_));
        if (saved.changed) {
          session_.aux().history.insert(session_.aux().history.begin(), saved.item);
          receipt_.changed = true;
        }
        head_ = std::move(saved.item);
        clean_ = true;
      }
      if (anew) {
        return move_over();
      }
      ASCOPE_TRY(sandbox_->stop(ctx_, session_.fence()));
      info_.phase = SandboxPhase::stopped;
    }
    if (info_.phase != SandboxPhase::running) {
      PhaseTimer timer(receipt_, "sandbox", *ctx_.clock);
      ASCOPE_TRY(sandbox_->start(ctx_, services_.profile().settings, session_.fence()));
    }
    return ok();
  }

  // Still branch A, in a new sandbox: head, which is all that was in the old one, is committed first, and the
  // old one goes once the record names the new.
  Result<void> move_over() {
    ASCOPE_TRY(sandbox_->stop(ctx_, session_.fence()));
    SlotSession::Change change{session_.record().document_text, false, head_ref(services_, *head_),
                               session_.record().meta->live};
    if (change.live) {
      change.live->clean = true;
    }
    ASCOPE_TRY(session_.commit(ctx_, change, receipt_));
    ASCOPE_TRY(services_.step("before-move"));
    replaced_ = std::move(sandbox_);
    return put_back();
  }

  void destroy_replaced() {
    if (!replaced_) {
      return;
    }
    if (auto gone = replaced_->destroy(ctx_, session_.fence()); !gone) {
      receipt_.warnings.push_back(
          "the sandbox with the former settings could not be removed ('ascope-sandbox gc' "
          "will): " +
          gone.error().message);
    }
  }

  // Branches B and C: head into the tree that is there, or into a new sandbox.
  Result<void> put_back() {
    if (!head_) {
      return make_error(ErrorKind::internal, "a restore was decided without a snapshot");
    }
    restored_ = true;
    clean_ = true;
    const bool fresh = !found_.sandbox;
    if (fresh) {
      ASCOPE_TRY(make_new());
    } else {
      sandbox_ = std::move(found_.sandbox);
    }
    ASCOPE_TRY(sandbox_->quiesce(ctx_, session_.fence()));
    ASCOPE_TRY(restore_tree(services_, ctx_, *sandbox_, *head_, fresh, session_.fence(), receipt_));
    receipt_.restored = head_->snapshot;
    PhaseTimer timer(receipt_, "sandbox", *ctx_.clock);
    return sandbox_->start(ctx_, services_.profile().settings, session_.fence());
  }

  Result<void> make_new() {
    PhaseTimer timer(receipt_, "sandbox", *ctx_.clock);
    ASCOPE_TRY(services_.step("before-create"));
    ASCOPE_TRY_ASSIGN(Backend * backend, services_.backend());
    auto made = backend->create(ctx_, slot_, receipt_.id, services_.profile().settings, session_.fence());
    if (!made) {
      return std::move(made).error().within("making a sandbox for " + slot_.written());
    }
    sandbox_ = std::move(*made);
    created_ = true;
    clean_ = true;
    return services_.step("after-create");
  }

  Result<void> commit() {
    receipt_.sandbox = info_.id;
    receipt_.tree = info_.tree;
    note_limits(info_, receipt_);
    ASCOPE_TRY_ASSIGN(LiveMark live, live_mark(services_, ctx_, info_, clean_ && !will_exec_));
    if (!clean_ && !since_.empty()) {
      live.since = since_;
    }
    SlotSession::Change change;
    ASCOPE_TRY_ASSIGN(change.document, slot_document(services_, session_.record(), &info_,
                                                     head_ ? head_->snapshot : "", true, projection_hash_));
    if (head_) {
      change.head = head_ref(services_, *head_);
      receipt_.snapshot = head_->snapshot;
    }
    change.live = std::move(live);
    return session_.commit(ctx_, change, receipt_);
  }

  void undo_creation() {
    if (!created_ || !sandbox_) {
      return;
    }
    if (auto gone = sandbox_->destroy(OpContext{}, session_.fence()); !gone) {
      receipt_.warnings.push_back("the unfinished sandbox could not be removed ('ascope-sandbox gc' will): " +
                                  gone.error().message);
    }
  }

  EngineServices& services_;
  const OpContext& ctx_;
  const SlotKey& slot_;
  SlotSession& session_;
  Gathered& found_;
  bool will_exec_;
  Receipt& receipt_;
  std::optional<HistoryItem> head_;
  std::unique_ptr<Sandbox> sandbox_;
  std::unique_ptr<Sandbox> replaced_;  // by one with other settings
  ResourceInfo info_;
  std::string projection_hash_;
  std::string since_;
  bool created_ = false;
  bool restored_ = false;
  bool clean_ = false;
};

// Priority 1: no restore, no entries, but the projection; the state says that it is not ours.
Result<StartedSlot> start_external(EngineServices& services, const OpContext& ctx, SlotSession& session,
                                   Gathered& found, Receipt& receipt) {
  StartedSlot out{std::move(found.sandbox), std::move(*found.info), true};
  ASCOPE_TRY(session.share_sandbox(ctx, out.info.id, receipt));
  ASCOPE_TRY(session.claim(ctx, receipt));
  ASCOPE_TRY_ASSIGN(const std::string hash,
                    project_into(services, ctx, *out.sandbox, session.aux(), receipt));
  SlotSession::Change change;
  const auto& meta = session.record().meta;
  change.head = meta ? meta->head : std::nullopt;
  ASCOPE_TRY_ASSIGN(change.document, slot_document(services, session.record(), &out.info,
                                                   change.head ? change.head->snapshot : "", false, hash));
  session.aux().extra["external"] = out.info.id;
  ASCOPE_TRY(session.commit(ctx, change, receipt));
  return out;
}

}  // namespace

Result<StartedSlot> start_under_session(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                                        SlotSession& session, const StartOptions& options, bool will_exec,
                                        Receipt& receipt) {
  if (!options.from_state.empty()) {
    ASCOPE_TRY_ASSIGN(SlotView view, view_from_state(services, ctx, session.view(), options.from_state));
    session.use_view(std::move(view));
  }
  if (const std::string place = moved_to(session.aux());
      session.record().kind == RecordClass::tombstone && !place.empty()) {
    receipt.warnings.push_back(fmt::format(
        "{} was moved to {}; what starts here is another slot of that name", slot.written(), place));
    forget_move(session.aux());
  }
  ASCOPE_TRY_ASSIGN(Gathered found, gather_start(services, ctx, slot, session.view(), options, receipt));
  if (found.priority == 1) {
    return start_external(services, ctx, session, found, receipt);
  }
  const StartDecision& decision = found.decision;
  if (!decision.branch) {
    return make_error(decision.refusal, fmt::format("{}: {}", slot.written(), decision.why), decision.hint);
  }
  if (auto refused = check_expectation(decision, options.expect, options.no_cold)) {
    return std::move(*refused).within(slot.written());
  }
  if (*decision.branch != Branch::a) {
    ASCOPE_TRY(session.relock(ctx, LockMode::exclusive));
  }
  ASCOPE_TRY(session.claim(ctx, receipt));
  return Starter(services, ctx, slot, session, found, will_exec, receipt).run();
}

Result<void> restore_tree(EngineServices& services, const OpContext& ctx, Sandbox& sandbox,
                          const HistoryItem& item, bool fresh, std::uint64_t fence, Receipt& receipt) {
  PhaseTimer timer(receipt, "restore", *ctx.clock);
  const Profile& profile = services.profile();
  ASCOPE_TRY_ASSIGN(Repository * repository, services.repository());
  Toolbox& files = sandbox.files();
  const std::string mark = dump_json(Json{{"target", item.snapshot}, {"fence", std::to_string(fence)}});
  bool marked = false;
  const std::size_t notes_before = receipt.notes.size();
  const auto set_mark = [&]() -> Result<void> {
    if (!marked) {
      ASCOPE_TRY(services.step("before-mark"));
      ASCOPE_TRY(files.set_mark(ctx, profile.workspace_root, mark));
      marked = true;
      return services.step("after-mark");
    }
    return ok();
  };
  const auto apply_part = [&](SnapshotPart part, const std::string& root,
                              const std::vector<std::string>& skip, const std::vector<std::string>& spare,
                              const std::vector<std::string>& only) -> Result<void> {
    ASCOPE_TRY_ASSIGN(auto source, repository->open(ctx, item, part));
    ApplyOptions options;
    options.only = only;
    options.mode = ApplyMode::exact;
    options.set_owner = true;
    options.allow_setid = true;
    options.skip_paths = skip;
    options.spare = spare;
    options.before_change = set_mark;
    ASCOPE_TRY_ASSIGN(const ApplyReport report, files.apply(ctx, root, *source, options));
    receipt.notes.insert(receipt.notes.end(), report.notes.begin(), report.notes.end());
    if (report.owners_not_set > 0) {
      receipt.warnings.push_back(
          fmt::format("the owner of {} files could not be set", report.owners_not_set));
    }
    return ok();
  };
  if (fresh) {
    ASCOPE_TRY(set_mark());
  }
  const TreeSelection others = other_selection(profile);
  if (!item.roots_object.empty() && !others.roots.empty()) {
    const std::string workspace = profile.workspace_root.substr(1);
    std::vector<std::string> kept;  // `exact` takes away only there: the rest is the image's
    kept.reserve(others.roots.size());
    for (const std::string& path : others.roots) {
      kept.push_back(path.substr(1));
    }
    ASCOPE_TRY(apply_part(SnapshotPart::roots, "/", {workspace}, profile.exclude, kept));
  }
  ASCOPE_TRY_ASSIGN(const auto spare, excluded_patterns(ctx, files, profile));
  ASCOPE_TRY(
      apply_part(SnapshotPart::workspace, profile.workspace_root, excluded_entry_paths(profile), spare, {}));
  if (item.format == "chunks") {
    ASCOPE_TRY_ASSIGN(const ResourceInfo info, sandbox.info(ctx));
    std::set<std::string> noted;
    for (std::size_t i = notes_before; i < receipt.notes.size(); ++i) {
      noted.insert(receipt.notes[i].path);
    }
    for (const Json& note : item.notes) {
      ASCOPE_TRY_ASSIGN(TreeNote one, note_of_json(note));
      noted.insert(std::move(one.path));
    }
    ASCOPE_TRY(remember_tree(services, ctx, files, info.tree, item.snapshot, noted));
  }
  return services.step("after-restore");
}

Result<void> clear_marks(EngineServices& services, const OpContext& ctx, Sandbox& sandbox) {
  return sandbox.files().set_mark(ctx, services.profile().workspace_root, std::nullopt);
}

Result<std::string> project_into(EngineServices& services, const OpContext& ctx, Sandbox& sandbox, Aux& aux,
                                 Receipt& receipt) {
  const Profile& profile = services.profile();
  StagedSkills skills;
  if (!profile.skills.empty()) {
    PhaseTimer timer(receipt, "skills", *ctx.clock);
    ASCOPE_TRY_ASSIGN(skills, stage_skills(ctx, profile.skills, services.cache_dir() + "/skills"));
    receipt.warnings.insert(receipt.warnings.end(), skills.warnings.begin(), skills.warnings.end());
  }
  const bool has_source = profile.projection_enabled && !profile.projection_source.empty();
  ASCOPE_TRY_ASSIGN(const ProjectionManifest last, parse_manifest(aux.projection));
  if (!has_source && skills.folder.empty() && last.empty()) {
    return std::string();
  }
  PhaseTimer timer(receipt, "projection", *ctx.clock);
  ASCOPE_TRY(services.step("before-projection"));
  const ProjectionRequest request = projection_request(services, skills, receipt.slot);
  auto plan = plan_projection(ctx, request, last, sandbox.files());
  if (!plan) {
    return std::move(plan).error().within("projecting into the workspace");
  }
  if (plan->changes()) {
    if (auto applied = apply_projection(ctx, request, *plan, sandbox.files()); !applied) {
      return std::move(applied).error().within("projecting into the workspace");
    }
  }
  receipt.projection = plan->summary();
  aux.projection = manifest_json(plan->next);
  return plan->source_hash;
}

ProjectionRequest projection_request(EngineServices& services, const StagedSkills& skills,
                                     const std::string& slot) {
  const Profile& profile = services.profile();
  ProjectionRequest request;
  request.source = profile.projection_enabled ? profile.projection_source : "";
  request.include = profile.projection_include;
  request.skills_cache = skills.folder;
  request.on_conflict = profile.on_conflict;
  request.workspace_root = profile.workspace_root;
  request.excluded = excluded_entry_paths(profile);
  request.stat_cache = services.cache_dir() + "/projection/" + sha256_hex(slot).substr(0, 32) + ".json";
  return request;
}

Result<void> start_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                        const StartOptions& options, Receipt& receipt) {
  SessionOptions session_options;
  session_options.wait = options.lock.wait;
  session_options.lease_token = options.lock.lease_token;
  ASCOPE_TRY_ASSIGN(auto session, SlotSession::open(services, ctx, slot, session_options, receipt));
  ASCOPE_TRY_ASSIGN(const StartedSlot started,
                    start_under_session(services, ctx, slot, *session, options, false, receipt));
  static_cast<void>(started);
  return session->close(ctx);
}

Result<void> explain_start(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                           const StartOptions& options, Receipt& receipt) {
  receipt.predicted = true;
  auto read = read_slot(services, ctx, slot);
  SlotView view;
  if (read) {
    view = std::move(*read);
  } else if (read.error().kind == ErrorKind::store_unavailable) {
    StartFacts facts;
    facts.state = StateFact::unreadable;
    const StartDecision decision = plan_start(facts);
    receipt.rule = decision.rule;
    receipt.why = decision.why;
    receipt.evidence.push_back({"record", std::string(to_string(facts.state)), read.error().message});
    receipt.outcome = "refused";
    receipt.error_kind = to_string(decision.refusal);
    receipt.error_message = read.error().message;
    return ok();
  } else {
    return std::move(read).error();
  }
  if (!options.from_state.empty()) {
    ASCOPE_TRY_ASSIGN(view, view_from_state(services, ctx, view, options.from_state));
  }
  ASCOPE_TRY_ASSIGN(const Gathered found, gather_start(services, ctx, slot, view, options, receipt));
  if (found.priority == 1) {
    return ok();
  }
  const auto refuse = [&](ErrorKind kind, std::string message) {
    receipt.outcome = "refused";
    receipt.error_kind = to_string(kind);
    receipt.error_message = std::move(message);
  };
  if (!found.decision.branch) {
    refuse(found.decision.refusal, found.decision.why);
  } else if (auto refused = check_expectation(found.decision, options.expect, options.no_cold)) {
    refuse(refused->kind, refused->message);
  }
  if (found.decision.lost_since) {
    receipt.lost_since = found.lost_since;
  }
  return ok();
}

}  // namespace ascope
