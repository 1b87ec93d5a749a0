// SPDX-License-Identifier: Apache-2.0
#include "core/engine/project.h"

#include <fmt/format.h>

#include "core/engine/finish.h"
#include "core/engine/save.h"
#include "core/engine/start.h"

namespace ascope {

namespace {

Result<void> require_projection(const Profile& profile, const ProjectionManifest& last) {
  const bool has_source = profile.projection_enabled && !profile.projection_source.empty();
  if (!has_source && profile.skills.empty() && last.empty()) {
    return make_error(ErrorKind::unsupported, "the profile has nothing to project",
                      "set workspace.projection.source, for example to ./workspace");
  }
  return ok();
}

Result<ProjectionPlan> make_plan(EngineServices& services, const OpContext& ctx, const Aux& aux,
                                 Toolbox& files, Receipt& receipt, ProjectionRequest& request) {
  const Profile& profile = services.profile();
  ASCOPE_TRY_ASSIGN(const ProjectionManifest last, parse_manifest(aux.projection));
  ASCOPE_TRY(require_projection(profile, last));
  StagedSkills skills;
  if (!profile.skills.empty()) {
    PhaseTimer timer(receipt, "skills", *ctx.clock);
    ASCOPE_TRY_ASSIGN(skills, stage_skills(ctx, profile.skills, services.cache_dir() + "/skills"));
    receipt.warnings.insert(receipt.warnings.end(), skills.warnings.begin(), skills.warnings.end());
  }
  PhaseTimer timer(receipt, "projection", *ctx.clock);
  request = projection_request(services, skills, receipt.slot);
  auto plan = plan_projection(ctx, request, last, files);
  if (!plan) {
    return std::move(plan).error().within("projecting into the workspace");
  }
  receipt.projection = plan->summary();
  return plan;
}

// The record as it is, but for the projection and a mark that says the tree may differ from head.
Result<SlotSession::Change> changed_record(EngineServices& services, const OpContext& ctx,
                                           const SlotSession& session, const AttachedSlot& attached,
                                           const std::string& hash) {
  SlotSession::Change change;
  const auto& meta = session.record().meta;
  change.head = meta ? meta->head : std::nullopt;
  ASCOPE_TRY_ASSIGN(change.document,
                    slot_document(services, session.record(), &attached.info,
                                  change.head ? change.head->snapshot : "", !attached.external, hash));
  if (!attached.external) {
    const bool was_dirty = meta && meta->live && !meta->live->clean;
    ASCOPE_TRY_ASSIGN(change.live, live_mark(services, ctx, attached.info, false));
    if (was_dirty) {
      change.live->since = meta->live->since;
    }
  }
  return change;
}

std::string present_hash(const SlotRecord& record) {
  if (record.document.is_object()) {
    if (auto hash = get_optional_string(record.document, "workspaceProjectionHash"); hash && *hash) {
      return **hash;
    }
  }
  return "";
}

}  // namespace

Result<ProjectionPlan> plan_slot_projection(EngineServices& services, const OpContext& ctx,
                                            const SlotKey& slot, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(const SlotView view, read_slot(services, ctx, slot));
  ASCOPE_TRY_ASSIGN(const AttachedSlot attached, attach_slot(services, ctx, slot, view));
  receipt.sandbox = attached.info.id;
  receipt.tree = attached.info.tree;
  ProjectionRequest request;
  return make_plan(services, ctx, view.aux, attached.sandbox->files(), receipt, request);
}

Result<ProjectionPlan> apply_slot_projection(EngineServices& services, const OpContext& ctx,
                                             const SlotKey& slot, const LockOptions& lock, Receipt& receipt) {
  SessionOptions options;
  options.wait = lock.wait;
  options.lease_token = lock.lease_token;
  ASCOPE_TRY_ASSIGN(auto session, SlotSession::open(services, ctx, slot, options, receipt));
  ASCOPE_TRY_ASSIGN(const AttachedSlot attached, attach_slot(services, ctx, slot, session->view()));
  receipt.sandbox = attached.info.id;
  receipt.tree = attached.info.tree;
  if (attached.info.phase != SandboxPhase::running) {
    return make_error(ErrorKind::not_found,
                      fmt::format("{}: its sandbox is {}", slot.written(), to_string(attached.info.phase)),
                      fmt::format("'ascope-sandbox start {}' brings it up, and projects", slot.written()));
  }
  ASCOPE_TRY(session->claim(ctx, receipt));
  ProjectionRequest request;
  ASCOPE_TRY_ASSIGN(ProjectionPlan plan,
                    make_plan(services, ctx, session->aux(), attached.sandbox->files(), receipt, request));
  if (plan.changes()) {
    // First the mark that there is unsaved work, then the work: a crash in between is on the safe side.
    ASCOPE_TRY_ASSIGN(const auto marked,
                      changed_record(services, ctx, *session, attached, present_hash(session->record())));
    ASCOPE_TRY(session->commit(ctx, marked, receipt));
    ASCOPE_TRY(session->check());
    auto applied = apply_projection(ctx, request, plan, attached.sandbox->files());
    if (!applied) {
      return std::move(applied).error().within("projecting into the workspace");
    }
    for (const auto& note : applied->notes) {
      receipt.notes.push_back(note);
    }
    receipt.changed = true;
  }
  Json manifest = manifest_json(plan.next);
  if (plan.changes() || manifest != session->aux().projection) {
    session->aux().projection = std::move(manifest);
    ASCOPE_TRY_ASSIGN(const auto done, changed_record(services, ctx, *session, attached, plan.source_hash));
    ASCOPE_TRY(session->commit(ctx, done, receipt));
  }
  ASCOPE_TRY(session->close(ctx));
  return plan;
}

}  // namespace ascope
