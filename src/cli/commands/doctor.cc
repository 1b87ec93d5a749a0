// SPDX-License-Identifier: Apache-2.0
#include "core/engine/doctor.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/exit_code.h"

namespace ascope {

namespace {

constexpr std::array kOptions{
    OptionSpec{"image", '\0', OptionKind::value, "REF", "check an image against the image contract"}};

std::string_view verdict(const DoctorCheck& check) {
  return check.skipped ? "skipped" : check.problem ? "failed" : "ok";
}

Result<int> run(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  const auto image = args.value("image");
  const auto checks = image ? check_image(*services, app.ctx(), *image) : run_doctor(*services, app.ctx());
  std::vector<Json> rows;
  std::vector<std::string> names;
  std::string text;
  for (const auto& check : checks) {
    rows.push_back(Json{{"name", check.name},
                        {"verdict", std::string(verdict(check))},
                        {"detail", bytes_json(check.detail)},
                        {"error", check.problem ? bytes_json(check.problem->message) : Json(nullptr)},
                        {"hint", check.problem ? bytes_json(check.problem->hint) : Json(nullptr)},
                        {"duration_ms", check.duration.count()}});
    names.push_back(check.name);
    std::string line = fmt::format("{:<8} {:<16} {}", verdict(check), check.name,
                                   printable(check.problem ? check.problem->message : check.detail));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (check.problem && !check.problem->hint.empty()) {
      text += fmt::format("{:<8} {:<16} hint: {}\n", "", "", printable(check.problem->hint));
    }
  }
  app.out().list("ascope.doctor/1", "checks", rows, names, text);
  const bool healthy =
      std::none_of(checks.begin(), checks.end(), [](const auto& check) { return check.problem.has_value(); });
  return healthy ? kExitDone : kExitDiffers;
}

}  // namespace

extern const Command kDoctorCommand;
const Command kDoctorCommand{
    "doctor",
    "Setup",
    "try the whole profile in small and say how to mend what fails",
    "Performs a create–write–snapshot–restore–lock round on the profile with a slot of its own, removes all "
    "it made, and says "
    "for each step whether it worked and how to mend what did not. With --image it makes a sandbox of that "
    "image "
    "instead and tries in it what AgentScope's tools need; this program itself needs none of it. Exit code 1 "
    "if "
    "anything is unhealthy.",
    kOptions,
    {},
    false,
    "ascope-sandbox doctor",
    "1 2 13",
    run};

}  // namespace ascope
