// SPDX-License-Identifier: Apache-2.0
// project plan, apply, status, push.
#include "core/engine/project.h"

#include <array>

#include <fmt/format.h>

#include "cli/exit_code.h"
#include "cli/start_args.h"

namespace ascope {

namespace {

constexpr std::array kSlotOnly{kSlotPositional};
constexpr std::array kApplyOptions{kDryRunOption};
constexpr std::array kPushPositionals{
    PositionalSpec{"DIR", true, false, "host folder to fill the source from"}};

// One letter a step: what a reader looks for in a long list.
std::string step_line(const ProjectionStep& step) {
  const std::string path = printable(step.path);
  const std::string aside =
      step.aside.empty() ? "" : fmt::format(" (the agent's to {})", printable(step.aside));
  switch (step.action) {
    case ProjectionAction::copy:
      return fmt::format("copy    {}\n", path);
    case ProjectionAction::keep:
      return "";
    case ProjectionAction::replace_conflict:
      return fmt::format("replace {}: {}{}\n", path, step.reason, aside);
    case ProjectionAction::keep_conflict:
      return fmt::format("keep    {}: {}\n", path, step.reason);
    case ProjectionAction::remove:
      return fmt::format("remove  {}\n", path);
    case ProjectionAction::keep_removed:
      return fmt::format("keep    {}: {}{}\n", path, step.reason, aside);
    case ProjectionAction::refuse:
      return fmt::format("refuse  {}: {}\n", path, step.reason);
  }
  return "";
}

std::string plan_text(const ProjectionPlan& plan) {
  std::string text;
  for (const auto& step : plan.steps) {
    text += step_line(step);
  }
  for (const auto& note : plan.notes) {
    text += fmt::format("note    {}: {}\n", printable(note.path), note.what);
  }
  return text;
}

Json plan_json(const SlotKey& slot, const ProjectionPlan& plan, const Receipt& receipt) {
  Json steps = Json::array();
  for (const auto& step : plan.steps) {
    if (step.action != ProjectionAction::keep) {
      steps.push_back(Json{{"action", std::string(to_string(step.action))},
                           {"path", bytes_json(step.path)},
                           {"aside", step.aside.empty() ? Json(nullptr) : bytes_json(step.aside)},
                           {"reason", step.reason}});
    }
  }
  Json warnings = Json::array();
  for (const auto& warning : receipt.warnings) {
    warnings.push_back(warning);
  }
  return Json{{"schema", "ascope.projection/1"}, {"slot", slot.written()},
              {"differs", plan.changes()},       {"steps", std::move(steps)},
              {"summary", plan.summary()},       {"warnings", std::move(warnings)}};
}

Result<ProjectionPlan> look(App& app, const SlotKey& slot, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  auto plan = plan_slot_projection(*services, app.ctx(), slot, receipt);
  for (const auto& warning : receipt.warnings) {
    app.out().warn(warning);
  }
  return plan;
}

Result<int> run_plan(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("project plan", slot));
  ASCOPE_TRY_ASSIGN(const ProjectionPlan plan, look(app, slot, receipt));
  const std::string text = plan_text(plan);
  app.out().result(plan_json(slot, plan, receipt), text.empty() ? "Nothing to project.\n" : text);
  return kExitDone;
}

Result<int> run_status(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("project status", slot));
  ASCOPE_TRY_ASSIGN(const ProjectionPlan plan, look(app, slot, receipt));
  const std::string text =
      plan.changes() ? plan_text(plan) : plan_text(plan) + "The workspace is up to date.\n";
  app.out().result(plan_json(slot, plan, receipt), text);
  return plan.changes() ? kExitDiffers : kExitDone;
}

Result<int> run_apply(App& app, const Args& args) {
  if (args.flag("dry-run")) {
    return run_plan(app, args);
  }
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const LockOptions lock, app.lock_options(args));
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("project apply", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  auto plan = apply_slot_projection(*services, app.ctx(), slot, lock, receipt);
  std::string text;
  Result<void> done;
  if (plan) {
    text = plan_text(*plan);
    text = text.empty() ? "Nothing to project.\n" : text;
  } else {
    done = std::move(plan).error();
  }
  return app.finish(slot, receipt, done, text);
}

Result<int> run_push(App& /*app*/, const Args& /*args*/) {
  return make_error(ErrorKind::unsupported, "this version projects from folders of the host only",
                    "name the folder itself: workspace.projection.source: DIR");
}

}  // namespace

extern const Command kProjectPlanCommand;
const Command kProjectPlanCommand{"project plan",
                                  "Core",
                                  "show what a projection would change in the workspace",
                                  "Compares the host's projected files, what was last projected, and the "
                                  "workspace, and lists what 'project apply' "
                                  "would do. Changes nothing.",
                                  {},
                                  kSlotOnly,
                                  false,
                                  "ascope-sandbox project plan user/default/alice",
                                  "4 8 9 10 11 13 14 15",
                                  run_plan};

extern const Command kProjectApplyCommand;
const Command kProjectApplyCommand{
    "project apply",
    "Core",
    "copy what changed on the host into the running sandbox",
    "Copies new and changed files of the profile's projection source into the workspace, removes those that "
    "are gone "
    "from the host if nobody touched them, and moves what both sides changed aside as NAME.agent "
    "(workspace.projection.on_conflict: host) or leaves it (agent). 'start' and 'run' do the same.",
    kApplyOptions,
    kSlotOnly,
    false,
    "ascope-sandbox project apply",
    "4 5 6 8 9 10 11 13 14 15",
    run_apply};

extern const Command kProjectStatusCommand;
const Command kProjectStatusCommand{"project status",
                                    "Core",
                                    "say whether the workspace has what the host projects",
                                    "Exits with 1 if 'project apply' would change something.",
                                    {},
                                    kSlotOnly,
                                    false,
                                    "ascope-sandbox project status || ascope-sandbox project apply",
                                    "1 4 8 9 10 11 13 14 15",
                                    run_status};

extern const Command kProjectPushCommand;
const Command kProjectPushCommand{"project push",
                                  "Core",
                                  "fill a distributed projection source",
                                  "Not available in this version: projection.source is a folder of the host.",
                                  {},
                                  kPushPositionals,
                                  false,
                                  "ascope-sandbox project push ./workspace",
                                  "13",
                                  run_push};

}  // namespace ascope
