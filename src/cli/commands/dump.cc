// SPDX-License-Identifier: Apache-2.0
// __dump man DIR, __dump completions DIR, __dump schema: writes what is checked in under man/, completions/
// and schema/ from the declarations. Not for users, and not in the help.
#include <array>

#include "cli/app.h"
#include "cli/completions.h"
#include "cli/manual.h"
#include "core/base/file.h"
#include "core/profile/profile_schema.h"

namespace ascope {

namespace {

constexpr std::array kPositionals{PositionalSpec{"man|completions|schema", true, false, "what to write"},
                                  PositionalSpec{"DIR", true, false, "the folder to write it into"}};

Result<int> run_dump(App&, const Args& args) {
  const std::string& what = args.positionals[0];
  std::vector<std::pair<std::string, std::string>> files;
  if (what == "man") {
    files = manual_pages();
  } else if (what == "completions") {
    files = {{"ascope-sandbox.bash", bash_completion()},
             {"_ascope-sandbox", zsh_completion()},
             {"ascope-sandbox.fish", fish_completion()}};
  } else if (what == "schema") {
    files = {{"ascope-profile.schema.json", dump_json(profile_json_schema(), 2) + "\n"}};
  } else {
    return make_error(ErrorKind::usage, "'" + what + "' cannot be written", "use man, completions or schema");
  }
  for (const auto& [name, content] : files) {
    ASCOPE_TRY(write_file_atomic(args.positionals[1] + "/" + name, content, 0644));
  }
  return 0;
}

}  // namespace

extern const Command kDumpCommand;
const Command kDumpCommand{
    .name = "__dump",
    .group = "hidden",
    .summary = "write the manual, the completions or the schema",
    .description = "Writes the files that are checked in beside the sources.",
    .options = {},
    .positionals = kPositionals,
    .takes_argv = false,
    .example = "ascope-sandbox __dump man man",
    .exit_codes = "0 2 11 15",
    .run = run_dump,
};

}  // namespace ascope
