// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/completions.h"

namespace ascope {

namespace {

constexpr std::string_view kHead = R"fish(# fish completion for ascope-sandbox
# Written from the program's declarations.

function __ascope_sandbox_slots
    ascope-sandbox ls -o name 2>/dev/null
end

function __ascope_sandbox_snapshots
    echo latest
    ascope-sandbox snapshot ls -o name 2>/dev/null
end

)fish";

constexpr std::string_view kTail = R"fish(
complete -c ascope-sandbox -f
)fish";

// Quoted for fish: inside single quotes only these two are special.
std::string quote(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out + "'";
}

std::string value_arguments(std::string_view name) {
  switch (word_kind(name)) {
    case WordKind::slot:
      return " -x -a '(__ascope_sandbox_slots)'";
    case WordKind::snapshot:
      return " -x -a '(__ascope_sandbox_snapshots)'";
    case WordKind::file:
      return " -r -F";
    case WordKind::dir:
      return " -x -a '(__fish_complete_directories)'";
    case WordKind::choice:
      return " -x -a " + quote(choice_words(name));
    case WordKind::none:
      break;
  }
  return " -x";
}

std::string option_line(std::string_view condition, const OptionSpec& spec) {
  std::string line = fmt::format("complete -c ascope-sandbox -n {} -l {}", quote(condition), spec.name);
  if (spec.letter != '\0') {
    line += fmt::format(" -s {}", spec.letter);
  }
  if (spec.kind != OptionKind::flag) {
    line += value_arguments(spec.value_name);
  }
  return line + fmt::format(" -d {}\n", quote(spec.help));
}

// The function that finds the command in what was typed so far: the first words that are no options and no
// values of global options; fails behind "--".
std::string command_function() {
  std::string with_value;
  for (const OptionSpec& spec : global_options()) {
    if (spec.kind != OptionKind::flag) {
      with_value += fmt::format(" --{}", spec.name);
      with_value += spec.letter == '\0' ? "" : fmt::format(" -{}", spec.letter);
    }
  }
  std::string families;
  for (const CommandWord& word : first_words()) {
    if (!second_words(word.word).empty()) {
      families += " " + word.word;
    }
  }
  std::string subs;
  for (const Command* command : completed_commands()) {
    if (command->name.find(' ') != std::string_view::npos) {
      subs += fmt::format(" {}", quote(command->name));
    }
  }
  return fmt::format(R"fish(# The command that was typed: "", "start", "snapshot ls".
function __ascope_sandbox_command
    set -l words (commandline -opc)
    set -l found
    set -e words[1]
    while set -q words[1]
        set -l word $words[1]
        set -e words[1]
        if test "$word" = --
            return 1
        else if contains -- $word{}
            set -e words[1]
        else if string match -q -- '-*' $word
            continue
        else if test (count $found) -eq 0
            set found $word
            contains -- $word{}; or break
        else
            contains -- "$found $word"{}; and set found "$found $word"
            break
        end
    end
    echo $found
end

function __ascope_sandbox_is
    set -l command (__ascope_sandbox_command); and test "$command" = "$argv[1]"
end

# Some command was typed, or none yet, and not the "--" that ends our own words.
function __ascope_sandbox_ours
    __ascope_sandbox_command >/dev/null
end

function __ascope_sandbox_beyond
    not __ascope_sandbox_command >/dev/null
end

)fish",
                     with_value, families, subs);
}

}  // namespace

std::string fish_completion() {
  std::string out = std::string(kHead) + command_function();
  for (const CommandWord& word : first_words()) {
    out += fmt::format("complete -c ascope-sandbox -n '__ascope_sandbox_is \"\"' -a {} -d {}\n", word.word,
                       quote(word.help));
    for (const CommandWord& sub : second_words(word.word)) {
      out += fmt::format("complete -c ascope-sandbox -n '__ascope_sandbox_is {}' -a {} -d {}\n", word.word,
                         sub.word, quote(sub.help));
    }
  }
  for (const OptionSpec& spec : global_options()) {
    out += option_line("__ascope_sandbox_ours", spec);
  }
  for (const Command* command : completed_commands()) {
    const std::string condition = fmt::format("__ascope_sandbox_is \"{}\"", command->name);
    for (const OptionSpec& spec : command->options) {
      out += option_line(condition, spec);
    }
    for (const PositionalSpec& spec : command->positionals) {
      if (word_kind(spec.name) == WordKind::file) {
        out += fmt::format("complete -c ascope-sandbox -n {} -F\n", quote(condition));
      } else if (word_kind(spec.name) != WordKind::none) {
        out +=
            fmt::format("complete -c ascope-sandbox -n {}{}\n", quote(condition), value_arguments(spec.name));
      }
    }
  }
  out += "complete -c ascope-sandbox -n __ascope_sandbox_beyond -F\n";
  return out + std::string(kTail);
}

}  // namespace ascope
