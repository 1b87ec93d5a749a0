// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/completions.h"

namespace ascope {

namespace {

constexpr std::string_view kHead =
    "# bash completion for ascope-sandbox\n# Written from the program's declarations.\n\n";

// clang-format off
constexpr std::string_view kTail = R"bash(
# The words that fit, one a line: the program's own names, or files where none are asked for.
_ascope_sandbox_offer() {
  local kind=$1 current=$2
  case $kind in
    @slot) compgen -W "$(ascope-sandbox ls -o name 2>/dev/null)" -- "$current" ;;
    @snapshot) compgen -W "latest $(ascope-sandbox snapshot ls -o name 2>/dev/null)" -- "$current" ;;
    @file) compgen -f -- "$current" ;;
    @dir) compgen -d -- "$current" ;;
    @none) ;;
    *) compgen -W "$kind" -- "$current" ;;
  esac
}

_ascope_sandbox() {
  local current=${COMP_WORDS[COMP_CWORD]} option='' first='' command='' kind='' words='' word i
  local -i arguments=0
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    # An option and its value, also as "--option = value", which is how the shell splits "--option=value".
    if [[ -n $option ]]; then
      [[ $word == '=' ]] || option=''
      continue
    fi
    case $word in
      --)
        # Behind it stands the user's own command.
        compopt -o default 2>/dev/null
        return ;;
      -*)
        [[ -z $(_ascope_sandbox_value "$command" "$word") ]] || option=$word
        continue ;;
    esac
    if [[ -z $first ]]; then
      first=$word
      command=$word
    elif [[ $command == "$first" && $arguments -eq 0 && " $(_ascope_sandbox_second "$first") " == *" $word "* ]]; then
      command="$first $word"
    else
      arguments+=1
    fi
  done
  if [[ -n $option ]]; then
    kind=$(_ascope_sandbox_value "$command" "$option")
    [[ $current != '=' ]] || current=''
  elif [[ $current == -* ]]; then
    words="$(_ascope_sandbox_options "$command") $(_ascope_sandbox_options '')"
  elif [[ -z $first ]]; then
    words=$(_ascope_sandbox_first)
  else
    [[ $command != "$first" || $arguments -gt 0 ]] || words=$(_ascope_sandbox_second "$first")
    kind=$(_ascope_sandbox_argument "$command" "$arguments")
  fi
  mapfile -t COMPREPLY < <(
    [[ -z $words ]] || compgen -W "$words" -- "$current"
    [[ -z $kind ]] || _ascope_sandbox_offer "$kind" "$current"
  )
  [[ $kind != @file && $kind != @dir ]] || compopt -o filenames 2>/dev/null
}

complete -F _ascope_sandbox ascope-sandbox
)bash";
// clang-format on

// What _ascope_sandbox_offer takes for a declared name; "@none" completes nothing but is a value all the
// same.
std::string bash_kind(std::string_view name) {
  switch (word_kind(name)) {
    case WordKind::slot:
      return "@slot";
    case WordKind::snapshot:
      return "@snapshot";
    case WordKind::file:
      return "@file";
    case WordKind::dir:
      return "@dir";
    case WordKind::choice:
      return choice_words(name);
    case WordKind::none:
      break;
  }
  return "@none";
}

std::string option_words(std::span<const OptionSpec> options) {
  std::string words;
  for (const OptionSpec& spec : options) {
    words += fmt::format("{}--{}", words.empty() ? "" : " ", spec.name);
  }
  return words;
}

// Lines of a case over "COMMAND OPTION" for the options that take a value.
std::string bash_value_lines(std::string_view command, std::span<const OptionSpec> options) {
  std::string lines;
  for (const OptionSpec& spec : options) {
    if (spec.kind == OptionKind::flag) {
      continue;
    }
    std::string pattern = fmt::format("{}--{}", command, spec.name);
    if (spec.letter != '\0') {
      pattern += fmt::format("\"|\"{}-{}", command, spec.letter);
    }
    lines += fmt::format("    \"{}\") echo '{}' ;;\n", pattern, bash_kind(spec.value_name));
  }
  return lines;
}

}  // namespace

std::string bash_completion() {
  std::string first, second, options, values, arguments;
  for (const CommandWord& word : first_words()) {
    first += fmt::format("{}{}", first.empty() ? "" : " ", word.word);
    std::string words;
    for (const CommandWord& sub : second_words(word.word)) {
      words += fmt::format("{}{}", words.empty() ? "" : " ", sub.word);
    }
    if (!words.empty()) {
      second += fmt::format("    {}) echo '{}' ;;\n", word.word, words);
    }
  }
  for (const Command* command : completed_commands()) {
    if (!command->options.empty()) {
      options += fmt::format("    '{}') echo '{}' ;;\n", command->name, option_words(command->options));
    }
    values += bash_value_lines(fmt::format("{} ", command->name), command->options);
    std::size_t index = 0;
    for (const PositionalSpec& spec : command->positionals) {
      if (word_kind(spec.name) != WordKind::none) {
        arguments += fmt::format("    '{} '{}) echo '{}' ;;\n", command->name,
                                 spec.repeated ? "*" : std::to_string(index), bash_kind(spec.name));
      }
      ++index;
    }
  }
  std::string out(kHead);
  out += fmt::format("_ascope_sandbox_first() {{\n  echo '{}'\n}}\n\n", first);
  out += fmt::format("_ascope_sandbox_second() {{\n  case $1 in\n{}  esac\n}}\n\n", second);
  out += fmt::format("_ascope_sandbox_options() {{\n  case $1 in\n    '') echo '{}' ;;\n{}  esac\n}}\n\n",
                     option_words(global_options()), options);
  out += "# What an option's value is: words, or @slot, @snapshot, @file, @dir, @none; nothing for a flag.\n";
  out += fmt::format("_ascope_sandbox_value() {{\n  case \"$1 $2\" in\n{}  *)\n    case \"$2\" in\n", values);
  std::string globals = bash_value_lines("", global_options());
  out += globals + "    esac ;;\n  esac\n}\n\n";
  out += fmt::format("_ascope_sandbox_argument() {{\n  case \"$1 $2\" in\n{}  esac\n}}\n", arguments);
  return out + std::string(kTail);
}

}  // namespace ascope
