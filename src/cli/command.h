// SPDX-License-Identifier: Apache-2.0
// What a command declares. Parsing, help, man page, completions and their tests follow from these constants.
// To add a command: one file src/cli/commands/NAME.cc that defines one `extern const Command`, and one line
// in src/cli/commands/commands.cc.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace ascope {

class App;

enum class OptionKind { flag, value, repeated };

struct OptionSpec {
  std::string_view name;  // "dry-run", written --dry-run
  char letter = '\0';     // 'o', written -o
  OptionKind kind = OptionKind::flag;
  std::string_view value_name =
      {};  // "DURATION", "SLOT" (completes slots), "SNAPSHOT", "FILE", "DIR", or "a|b|c": a closed choice
  std::string_view help = {};  // imperative or noun, lower case, no period
};

struct PositionalSpec {
  std::string_view name;  // "SLOT", "SNAPSHOT", "PATH"
  bool required = false;
  bool repeated = false;
  std::string_view help = {};
};

class Args {
 public:
  [[nodiscard]] bool flag(std::string_view name) const { return flags.contains(std::string(name)); }
  [[nodiscard]] std::optional<std::string> value(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> all(std::string_view name) const;

  std::map<std::string, int> flags;  // how often each was given
  std::map<std::string, std::vector<std::string>> values;
  std::vector<std::string> positionals;
  std::vector<std::string> argv;  // what stands after "--", untouched
  bool has_separator = false;
};

struct Command {
  std::string_view name;         // "start", "snapshot ls"
  std::string_view group;        // heading in --help: "Core", "Snapshots", "Looking", "Locks", "Setup"
  std::string_view summary;      // imperative, no period
  std::string_view description;  // paragraphs separated by an empty line, plain text
  std::span<const OptionSpec> options;
  std::span<const PositionalSpec> positionals;
  bool takes_argv = false;      // ends with "-- ARGV…"
  std::string_view example;     // lines, each a whole command
  std::string_view exit_codes;  // "0 4 5 10": those it uses beyond 0, 2 and 70; texts are in exit_code.h
  // Does it. The value is the exit code; an Error is rendered and mapped by `main`.
  Result<int> (*run)(App& app, const Args& args);
  bool frees_space = false;  // may use all the room that is kept back for a full disk
};

// Every command, in the order of the manual. A name with a blank is a sub-command ("snapshot ls").
std::span<const Command* const> commands();
// Options that every command takes, before or after its name.
std::span<const OptionSpec> global_options();

struct Invocation {
  const Command* command = nullptr;  // nullptr: --help or --version or nothing was given
  Args args;
  bool help = false;
  bool version = false;
};
// `usage` errors name the nearest right word. Nothing after the first "--" is touched.
Result<Invocation> parse_command_line(const std::vector<std::string>& words);
// The command that the words name, whatever is wrong with the rest; nullptr if they name none.
const Command* named_command(const std::vector<std::string>& words);

// The help text of one command (80 columns), or of the program (nullptr).
std::string help_text(const Command* command);

}  // namespace ascope
