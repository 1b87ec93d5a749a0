// SPDX-License-Identifier: Apache-2.0
// completion bash|zsh|fish: prints the script that the shell sources.
#include <array>

#include "cli/app.h"
#include "cli/completions.h"

namespace ascope {

namespace {

constexpr std::array kPositionals{PositionalSpec{"bash|zsh|fish", true, false, "the shell to complete for"}};

Result<int> run_completion(App& app, const Args& args) {
  const std::string& shell = args.positionals[0];
  if (shell == "bash") {
    app.out().write(bash_completion());
  } else if (shell == "zsh") {
    app.out().write(zsh_completion());
  } else if (shell == "fish") {
    app.out().write(fish_completion());
  } else {
    return make_error(ErrorKind::usage, "no completion for the shell '" + shell + "'",
                      "use bash, zsh or fish");
  }
  return 0;
}

}  // namespace

extern const Command kCompletionCommand;
const Command kCompletionCommand{
    .name = "completion",
    .group = "Setup",
    .summary = "print a completion script for a shell",
    .description =
        "Prints a script that completes commands, options, and the names of slots and snapshots as they "
        "are at that moment. An installed package brings the scripts along; this is for a shell that does "
        "not find them.",
    .options = {},
    .positionals = kPositionals,
    .takes_argv = false,
    .example = "source <(ascope-sandbox completion bash)",
    .exit_codes = "0 2",
    .run = run_completion,
};

}  // namespace ascope
