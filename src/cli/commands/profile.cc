// SPDX-License-Identifier: Apache-2.0
// profile init, validate, show, trust.
#include <fmt/format.h>

#include "backends/backends.h"
#include "cli/app.h"
#include "cli/exit_code.h"
#include "core/base/file.h"
#include "core/profile/check.h"
#include "core/profile/show.h"
#include "core/profile/trust.h"

namespace ascope {
namespace {

constexpr std::string_view kFileName = "ascope.yaml";

// Every line that is commented out shows the default, so the file says what it does not change.
std::string template_text(const ProfileInputs& inputs) {
  std::string agent = "# agent: default";
  std::string scope = "# scope: user";
  for (const auto& [name, value] : inputs.flags) {
    if (name == "agent") {
      agent = fmt::format("agent: {}", yaml_value(Json(value)));
    } else if (name == "scope") {
      scope = fmt::format("scope: {}", yaml_value(Json(value)));
    }
  }
  return fmt::format(
      "# Profile of ascope-sandbox. Lines with '#' show the defaults; ascope-profile(5) has every key.\n"
      "version: 1\n"
      "{}\n"
      "{}            # who shares a sandbox: user, session, agent, global\n"
      "\n"
      "backend:\n"
      "  type: bubblewrap\n"
      "  # network: none         # host opens it\n"
      "  # memory: 2GiB          # no limit unless set\n"
      "\n"
      "# workspace:\n"
      "#   exclude: [\"*.sock\"]   # what snapshots leave out\n"
      "#   environment: {{LANG: C.UTF-8}}\n"
      "#   projection:\n"
      "#     source: ./workspace # host files to copy in at each start\n"
      "\n"
      "# snapshots:\n"
      "#   keep: {{last: 10, daily: 7}}  # for gc; without it every snapshot stays\n"
      "\n"
      "# release: keep           # after a run: keep, stop, destroy\n"
      "# idle_timeout: 15m\n",
      agent, scope);
}

Json trust_object(const TrustedProfile& trusted, bool is_trusted) {
  Json object = Json::object();
  object["schema"] = "ascope.profile_trust/1";
  object["path"] = bytes_json(trusted.path);
  object["sha256"] = trusted.sha256.empty() ? Json() : Json(trusted.sha256);
  object["trusted"] = is_trusted;
  object["changed"] = trusted.changed;
  return object;
}

// The file named on the command line, else the nearest ascope.yaml. `not_found` if there is neither.
Result<std::string> chosen_file(const App& app, const Args& args) {
  if (!args.positionals.empty()) {
    return absolute_path(args.positionals.front(), app.cwd());
  }
  ASCOPE_TRY_ASSIGN(const std::optional<std::string> nearest, find_project_profile(app.cwd()));
  if (!nearest) {
    return make_error(ErrorKind::not_found, fmt::format("there is no {} here or above", kFileName),
                      "'ascope-sandbox profile init' writes one");
  }
  return *nearest;
}

Result<int> run_init(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const ProfileInputs inputs, app.profile_inputs());
  const std::string name = args.positionals.empty() ? std::string(kFileName) : args.positionals.front();
  const std::string path = absolute_path(name, app.cwd());
  ASCOPE_TRY_ASSIGN(const bool made, create_file(path, template_text(inputs), 0644));
  if (!made) {
    return make_error(ErrorKind::conflict, fmt::format("'{}' exists already; it was not changed", name),
                      "edit it, or remove it first");
  }
  auto trusted = trust_profile(app.state_dir(), path);
  if (!trusted) {
    return std::move(trusted).error().within(fmt::format("'{}' was written, but not trusted", name));
  }
  app.out().result(trust_object(*trusted, true), fmt::format("{}\n", name));
  app.out().status(fmt::format("Wrote '{}'. Try: ascope-sandbox profile show --origin", name));
  return kExitDone;
}

Json problem_json(const Error& problem) {
  return Json{{"kind", std::string(to_string(problem.kind))},
              {"message", bytes_json(problem.message)},
              {"hint", bytes_json(problem.hint)},
              {"exit_code", exit_code(problem)}};
}

Result<int> run_validate(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(ProfileInputs inputs, app.profile_inputs());
  if (!args.positionals.empty()) {
    if (inputs.profile_file) {
      return make_error(ErrorKind::usage, "the profile is given twice: as FILE and by --profile",
                        "give one of the two");
    }
    inputs.profile_file = args.positionals.front();
  }
  ProfileCheck check = check_profile(inputs, backend_kinds());
  Json object{{"schema", "ascope.profile_check/1"}, {"valid", check.problems.empty()}};
  object["files"] = Json::array();
  std::string text;
  for (const std::string& file : check.profile.files) {
    object["files"].push_back(bytes_json(file));
    text += fmt::format("{}: ok\n", printable(file));
  }
  object["problems"] = Json::array();
  for (const Error& problem : check.problems) {
    object["problems"].push_back(problem_json(problem));
  }
  object["warnings"] = Json::array();
  for (const std::string& warning : check.profile.warnings) {
    object["warnings"].push_back(warning);
    app.out().warn(warning);
  }
  if (check.problems.empty()) {
    app.out().result(object, text.empty() ? "built-in profile: ok\n" : text);
    return kExitDone;
  }
  app.out().result(object, "");
  // The last one is shown by `main`, which knows how an error ends a command; as JSON all stand in the
  // object.
  const bool is_text = app.out().format == OutputFormat::text || app.out().format == OutputFormat::name;
  for (std::size_t i = 0; is_text && i + 1 < check.problems.size(); ++i) {
    app.out().error(check.problems[i], exit_code(check.problems[i]));
  }
  return is_text ? std::move(check.problems.back()) : std::move(check.problems.front());
}

Result<int> run_show(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const Profile* profile, app.profile());
  std::vector<Json> rows;
  std::vector<std::string> names;
  for (const auto& [key, item] : profile->values) {
    const auto& [value, origin] = item;
    rows.push_back(Json{{"key", bytes_json(key)},
                        {"value", value},
                        {"origin", std::string(to_string(origin.kind))},
                        {"where", bytes_json(origin.where)}});
    names.push_back(key);
  }
  app.out().list("ascope.profile/1", "values", rows, names, profile_yaml(*profile, args.flag("origin")));
  return kExitDone;
}

Result<int> run_trust(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const std::string path, chosen_file(app, args));
  if (args.flag("revoke")) {
    TrustedProfile revoked;
    revoked.path = path;
    ASCOPE_TRY_ASSIGN(revoked.changed, distrust_profile(app.state_dir(), path));
    app.out().result(trust_object(revoked, false), fmt::format("{}\n", printable(path)));
    app.out().status(revoked.changed ? fmt::format("'{}' is trusted no longer.", path)
                                     : fmt::format("'{}' was not trusted.", path));
    return kExitDone;
  }
  ASCOPE_TRY_ASSIGN(const TrustedProfile trusted, trust_profile(app.state_dir(), path));
  app.out().result(trust_object(trusted, true), fmt::format("{}\n", printable(trusted.path)));
  app.out().status(fmt::format("'{}' is trusted until its content changes.", trusted.path));
  return kExitDone;
}

constexpr PositionalSpec kInitFile[] = {{"FILE", false, false, "file to write (default: ascope.yaml here)"}};
constexpr PositionalSpec kValidateFile[] = {{"FILE", false, false, "profile to look at, as --profile"}};
constexpr PositionalSpec kTrustFile[] = {
    {"FILE", false, false, "profile to trust (default: the nearest ascope.yaml)"}};
constexpr OptionSpec kShowOptions[] = {
    {"origin", '\0', OptionKind::flag, {}, "say where each value comes from"}};
constexpr OptionSpec kTrustOptions[] = {{"revoke", '\0', OptionKind::flag, {}, "trust the file no longer"}};

}  // namespace

extern const Command kProfileInitCommand;
const Command kProfileInitCommand{"profile init",
                                  "Setup",
                                  "write a commented ascope.yaml here",
                                  "Writes a small profile in which comments show the defaults, and trusts "
                                  "it. --agent and --scope are written "
                                  "into it. A file that exists is never changed.",
                                  {},
                                  kInitFile,
                                  false,
                                  "ascope-sandbox profile init --agent assistant",
                                  "0 2 6 15",
                                  run_init};

extern const Command kProfileValidateCommand;
const Command kProfileValidateCommand{
    "profile validate",
    "Setup",
    "check the profile and name all that is wrong",
    "Checks what would be used here (files, ASCOPE_*, --set, flags), or FILE in place of the nearest "
    "ascope.yaml. "
    "Each error names file, line and column, and the nearest right spelling.",
    {},
    kValidateFile,
    false,
    "ascope-sandbox profile validate ascope.yaml",
    "0 2 13 15",
    run_validate};

extern const Command kProfileShowCommand;
const Command kProfileShowCommand{"profile show",
                                  "Setup",
                                  "print the effective profile",
                                  "Prints every value that is set or has a default, as a profile. What came "
                                  "from the environment by ${VAR} is "
                                  "shown as ********.",
                                  kShowOptions,
                                  {},
                                  false,
                                  "ascope-sandbox profile show --origin",
                                  "0 2 13 15",
                                  run_show};

extern const Command kProfileTrustCommand;
const Command kProfileTrustCommand{
    "profile trust",
    "Setup",
    "let a found profile name host paths, commands and stores",
    "An ascope.yaml found in the working directory or above came with somebody's repository. Until it is "
    "trusted it "
    "may not name host paths outside its own folder, commands, endpoints or secrets. Trust is for the path "
    "and the "
    "content: a changed file asks again. A file named with --profile needs no trust.",
    kTrustOptions,
    kTrustFile,
    false,
    "ascope-sandbox profile trust ascope.yaml",
    "0 2 4 15",
    run_trust};

}  // namespace ascope
