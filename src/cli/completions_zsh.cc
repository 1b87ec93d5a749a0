// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/completions.h"

namespace ascope {

namespace {

constexpr std::string_view kHead = R"zsh(#compdef ascope-sandbox
# zsh completion for ascope-sandbox
# Written from the program's declarations.

_ascope_sandbox_slots() {
  local -a names
  names=(${(f)"$(ascope-sandbox ls -o name 2>/dev/null)"})
  compadd -a names
}

_ascope_sandbox_snapshots() {
  local -a names
  names=(latest ${(f)"$(ascope-sandbox snapshot ls -o name 2>/dev/null)"})
  compadd -a names
}

)zsh";

// The dispatch: the command is the first word that is no option, with the next where it has sub-commands.
constexpr std::string_view kTail = R"zsh(
_ascope-sandbox() {
  local curcontext=$curcontext state line ret=1
  typeset -A opt_args
  _arguments -C -S $_ascope_sandbox_globals '1: :->command' '*:: :->rest' && ret=0
  case $state in
    command)
      _describe -t commands command _ascope_sandbox_first && ret=0
      ;;
    rest)
      local command=$line[1]
      if (( $+functions[_ascope_sandbox_second_$command] )); then
        _ascope_sandbox_second_$command && ret=0
      else
        _ascope_sandbox_of_$command && ret=0
      fi
      ;;
  esac
  return ret
}

_ascope-sandbox "$@"
)zsh";

// Inside single quotes of zsh, in a spec of _arguments: brackets and colons end its parts.
std::string quote(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (special.find(c) != std::string_view::npos) {
      out += fmt::format("\\{}", c);
    } else {
      out += c;
    }
  }
  return out;
}

std::string action(std::string_view name) {
  switch (word_kind(name)) {
    case WordKind::slot:
      return "_ascope_sandbox_slots";
    case WordKind::snapshot:
      return "_ascope_sandbox_snapshots";
    case WordKind::file:
      return "_files";
    case WordKind::dir:
      return "_files -/";
    case WordKind::choice:
      return fmt::format("({})", choice_words(name));
    case WordKind::none:
      break;
  }
  return " ";
}

std::string option_specs(std::span<const OptionSpec> options) {
  std::string out;
  for (const OptionSpec& spec : options) {
    const std::string help = quote(spec.help, "[]:\\");
    std::string value;
    if (spec.kind != OptionKind::flag) {
      const bool choice = word_kind(spec.value_name) == WordKind::choice;
      value = fmt::format(":{}:{}", choice ? std::string(spec.name) : quote(spec.value_name, ":\\"),
                          action(spec.value_name));
    }
    const std::string_view repeat = spec.kind == OptionKind::repeated ? "*" : "";
    const std::string_view equals = spec.kind == OptionKind::flag ? "" : "=";
    out += fmt::format("    '{}--{}{}[{}]{}'\n", repeat, spec.name, equals, help, value);
    if (spec.letter != '\0') {
      out += fmt::format("    '{}-{}{}[{}]{}'\n", repeat, spec.letter,
                         spec.kind == OptionKind::flag ? "" : "+", help, value);
    }
  }
  return out;
}

std::string function_name(std::string_view command) {
  std::string name(command);
  for (char& c : name) {
    c = c == ' ' ? '_' : c;
  }
  return name;
}

std::string described(const std::vector<CommandWord>& words) {
  std::string out;
  for (const CommandWord& word : words) {
    out += fmt::format("    '{}:{}'\n", word.word, quote(word.help, ":"));
  }
  return out;
}

std::string command_function(const Command& command) {
  std::string out = fmt::format("_ascope_sandbox_of_{}() {{\n  _arguments -S $_ascope_sandbox_globals \\\n",
                                function_name(command.name));
  std::string specs = option_specs(command.options);
  for (const PositionalSpec& spec : command.positionals) {
    specs += fmt::format("    '{}:{}:{}'\n", spec.repeated ? "*" : ":", quote(spec.name, ":\\"),
                         action(spec.name));
  }
  if (command.takes_argv) {
    specs += "    '*:::command:_normal'\n";
  }
  // Each line but the last goes on.
  std::string lines;
  for (std::size_t at = 0; at < specs.size();) {
    const auto end = specs.find('\n', at);
    lines += specs.substr(at, end - at) + (end + 1 < specs.size() ? " \\\n" : "\n");
    at = end + 1;
  }
  if (lines.empty()) {
    out = out.substr(0, out.size() - 3) + "\n";
  }
  return out + lines + "}\n\n";
}

// Words of a family, its own command's arguments beside them, and the way on to the sub-command.
std::string family_function(std::string_view family) {
  bool has_own = false;
  for (const Command* command : completed_commands()) {
    has_own = has_own || command->name == family;
  }
  std::string cases;
  for (const CommandWord& sub : second_words(family)) {
    cases += fmt::format("    {}) shift words; (( CURRENT-- )); _ascope_sandbox_of_{}_{}; return ;;\n",
                         sub.word, family, sub.word);
  }
  std::string out = fmt::format("_ascope_sandbox_second_{}() {{\n  local -a subs=(\n{}  )\n", family,
                                described(second_words(family)));
  out += fmt::format("  (( CURRENT > 2 )) && case $words[2] in\n{}  esac\n", cases);
  out += "  (( CURRENT == 2 )) && _describe -t commands command subs\n";
  if (has_own) {
    out += fmt::format("  _ascope_sandbox_of_{}\n", family);
  }
  return out + "}\n\n";
}

}  // namespace

std::string zsh_completion() {
  std::string out(kHead);
  out += fmt::format("_ascope_sandbox_first=(\n{})\n\n", described(first_words()));
  out += fmt::format("_ascope_sandbox_globals=(\n{})\n\n", option_specs(global_options()));
  for (const Command* command : completed_commands()) {
    out += command_function(*command);
  }
  for (const CommandWord& word : first_words()) {
    if (!second_words(word.word).empty()) {
      out += family_function(word.word);
    }
  }
  out.pop_back();
  return out + std::string(kTail);
}

}  // namespace ascope
