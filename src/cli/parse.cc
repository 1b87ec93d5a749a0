// SPDX-License-Identifier: Apache-2.0
// From words to a command and its arguments. CLI11 does the parsing proper; finding the command, "--" and
// spelling suggestions are here, for CLI11 2.1 has none.
#include <algorithm>
#include <list>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "core/base/spelling.h"
#include "core/base/units.h"

namespace ascope {

namespace {

// What CLI11 fills for one declared option.
struct Slot {
  const OptionSpec* spec;
  bool flag = false;
  int count = 0;
  std::vector<std::string> values;
};

std::string option_names(const OptionSpec& spec) {
  std::string names = "--" + std::string(spec.name);
  if (spec.letter != '\0') {
    names = std::string("-") + spec.letter + "," + names;
  }
  return names;
}

const OptionSpec* find_global(std::string_view word) {
  for (const auto& spec : global_options()) {
    const bool is_long = word.starts_with("--") && word.substr(2, word.find('=') - 2) == spec.name;
    const bool is_short = word.size() >= 2 && word[0] == '-' && spec.letter != '\0' && word[1] == spec.letter;
    if (is_long || is_short) {
      return &spec;
    }
  }
  return nullptr;
}

// True if the value of a global option stands in the next word.
bool takes_next_word(std::string_view word) {
  const OptionSpec* spec = find_global(word);
  if (spec == nullptr || spec->kind == OptionKind::flag) {
    return false;
  }
  return word.starts_with("--") ? word.find('=') == std::string_view::npos : word.size() == 2;
}

const Command* find_command(std::string_view name) {
  for (const Command* command : commands()) {
    if (command->name == name) {
      return command;
    }
  }
  return nullptr;
}

bool is_family(std::string_view word) {
  return std::any_of(commands().begin(), commands().end(), [&](const Command* command) {
    return command->name.size() > word.size() && command->name.starts_with(word) &&
           command->name[word.size()] == ' ';
  });
}

Error unknown_command(std::string_view word) {
  std::vector<std::string> names;
  for (const Command* command : commands()) {
    names.emplace_back(command->name);
    names.emplace_back(command->name.substr(0, command->name.find(' ')));
  }
  Error error = make_error(ErrorKind::usage, "'" + std::string(word) + "' is not a command");
  const std::string near = nearest_word(word, names);
  error.hint = near.empty() ? "'ascope-sandbox --help' lists the commands" : "did you mean '" + near + "'?";
  return error;
}

struct Found {
  const Command* command = nullptr;
  std::vector<std::string> rest;  // all words but the command's own
};

// The command is the first word that is neither a global option nor its value; a second word that completes a
// sub-command belongs to it.
Result<Found> locate(const std::vector<std::string>& words) {
  Found found;
  std::size_t i = 0;
  while (i < words.size() && words[i].starts_with("-") && words[i] != "-") {
    const bool pair = takes_next_word(words[i]);
    found.rest.push_back(words[i++]);
    if (pair && i < words.size()) {
      found.rest.push_back(words[i++]);
    }
  }
  if (i == words.size()) {
    return found;
  }
  const std::string& first = words[i++];
  // Options may stand between the words of a sub-command: "lock --wait 5s wait" is not looked for, "lock
  // wait" is.
  if (i < words.size() && is_family(first)) {
    found.command = find_command(first + " " + words[i]);
    if (found.command != nullptr) {
      ++i;
    }
  }
  if (found.command == nullptr) {
    found.command = find_command(first);
  }
  if (found.command == nullptr) {
    if (is_family(first)) {
      std::vector<std::string> names;
      for (const Command* command : commands()) {
        if (command->name.starts_with(first + " ")) {
          names.emplace_back(command->name.substr(first.size() + 1));
        }
      }
      std::string list;
      for (const auto& name : names) {
        list += (list.empty() ? "" : ", ") + name;
      }
      return make_error(ErrorKind::usage, "'" + first + "' needs one of its sub-commands: " + list,
                        "'ascope-sandbox " + first + " " + names.front() + " --help' shows one");
    }
    return unknown_command(first);
  }
  found.rest.insert(found.rest.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  return found;
}

Error unknown_option(const Command& command, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& spec : command.options) {
    names.push_back("--" + std::string(spec.name));
  }
  for (const auto& spec : global_options()) {
    names.push_back("--" + std::string(spec.name));
  }
  Error error = make_error(ErrorKind::usage, "'" + std::string(command.name) + "' has no option '" +
                                                 word.substr(0, word.find('=')) + "'");
  const std::string near = nearest_word(word.substr(0, word.find('=')), names);
  error.hint = near.empty() ? "'ascope-sandbox " + std::string(command.name) + " --help' lists its options"
                            : "did you mean '" + near + "'?";
  return error;
}

// A word before "--" that may be a slot or a command is never guessed at: the hint shows the line with "--"
// put in.
Error missing_separator(const Command& command, const std::vector<std::string>& words) {
  std::string line = "ascope-sandbox " + std::string(command.name) + " --";
  for (const auto& word : words) {
    line += " " + word;
  }
  return make_error(ErrorKind::usage, "'" + std::string(command.name) + "' needs '--' and a command after it",
                    "put '--' before the command: " + line + (words.empty() ? " COMMAND" : ""));
}

Result<void> check_choice(const OptionSpec& spec, const std::string& value) {
  std::string_view rest = spec.value_name;
  std::vector<std::string> choices;
  while (true) {
    const auto bar = std::min(rest.find('|'), rest.size());
    choices.emplace_back(rest.substr(0, bar));
    if (bar == rest.size()) {
      break;
    }
    rest.remove_prefix(bar + 1);
  }
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
    return ok();
  }
  const std::string near = nearest_word(value, choices);
  return make_error(
      ErrorKind::usage, "'" + value + "' is not a value of --" + std::string(spec.name),
      near.empty() ? "use one of " + std::string(spec.value_name) : "did you mean '" + near + "'?");
}

template <typename T>
Result<void> only_check(Result<T> parsed) {
  return parsed ? ok() : Result<void>(std::move(parsed).error());
}

// What the declaration says of the value; the command reads it again, and cannot fail there.
Result<void> check_value(const OptionSpec& spec, const std::string& value) {
  const std::string name = "--" + std::string(spec.name);
  if (value.empty()) {
    return make_error(ErrorKind::usage, name + " has an empty value",
                      "give it " + std::string(spec.value_name) + ", or leave the option out");
  }
  if (spec.value_name.find('|') != std::string_view::npos) {
    return check_choice(spec, value);
  }
  Result<void> checked = spec.value_name == "DURATION" ? only_check(parse_duration(value))
                         : spec.value_name == "SIZE"   ? only_check(parse_size(value, true))
                         : spec.value_name == "N"      ? only_check(parse_count(value))
                                                       : ok();
  return checked ? ok() : Result<void>(std::move(checked).error().within(name));
}

// CLI11 takes "--flag=false" for a flag that is not given, and other words for numbers.
Result<void> check_flag_values(const Command& command, const std::vector<std::string>& words) {
  const auto check = [&](std::span<const OptionSpec> specs) -> Result<void> {
    for (const auto& word : words) {
      for (const auto& spec : specs) {
        if (spec.kind == OptionKind::flag && word.starts_with("--" + std::string(spec.name) + "=")) {
          return make_error(ErrorKind::usage, "--" + std::string(spec.name) + " takes no value",
                            "write --" + std::string(spec.name) + " alone, or leave it out");
        }
      }
    }
    return ok();
  };
  ASCOPE_TRY(check(command.options));
  return check(global_options());
}

Result<void> check_positionals(const Command& command, const Args& args) {
  std::size_t required = 0;
  bool open_ended = false;
  for (const auto& spec : command.positionals) {
    required += spec.required ? 1 : 0;
    open_ended = open_ended || spec.repeated;
  }
  if (args.positionals.size() < required) {
    return make_error(ErrorKind::usage,
                      "'" + std::string(command.name) + "' needs " +
                          std::string(command.positionals[args.positionals.size()].name),
                      "'ascope-sandbox " + std::string(command.name) + " --help' shows how it is used");
  }
  if (!open_ended && args.positionals.size() > command.positionals.size()) {
    const std::string extra = args.positionals[command.positionals.size()];
    Error error =
        make_error(ErrorKind::usage, "'" + std::string(command.name) + "' takes no argument '" + extra + "'");
    error.hint = "'ascope-sandbox " + std::string(command.name) + " --help' shows how it is used";
    return error;
  }
  if (command.takes_argv && args.argv.empty()) {
    return make_error(ErrorKind::usage, "there is no command after '--'",
                      "for example: ascope-sandbox " + std::string(command.name) + " -- ls -l");
  }
  if (!command.takes_argv && args.has_separator) {
    return make_error(ErrorKind::usage, "'" + std::string(command.name) + "' takes no '--' COMMAND",
                      "'ascope-sandbox " + std::string(command.name) + " --help' shows how it is used");
  }
  return ok();
}

// Runs CLI11 over `words` (without "--" and what follows it).
Result<Args> parse_words(const Command& command, const std::vector<std::string>& words) {
  ASCOPE_TRY(check_flag_values(command, words));
  CLI::App cli;
  cli.set_help_flag();
  cli.allow_extras();
  cli.prefix_command(false);
  std::list<Slot> slots;
  const auto declare = [&](const OptionSpec& spec) {
    Slot& slot = slots.emplace_back(Slot{&spec, false, 0, {}});
    if (spec.kind == OptionKind::flag) {
      cli.add_flag(option_names(spec), slot.count);
    } else {
      auto* option = cli.add_option(option_names(spec), slot.values);
      option->expected(1);
      option->allow_extra_args(false);
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  };
  for (const auto& spec : command.options) {
    declare(spec);
  }
  for (const auto& spec : global_options()) {
    const bool shadowed =
        std::any_of(command.options.begin(), command.options.end(), [&](const OptionSpec& own) {
          return own.name == spec.name || (own.letter != '\0' && own.letter == spec.letter);
        });
    if (!shadowed) {
      declare(spec);
    }
  }
  Args args;
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    cli.parse(reversed);
  } catch (const CLI::ParseError& e) {
    std::string message = e.what();
    while (!message.empty() && (message.back() == '\n' || message.back() == '.')) {
      message.pop_back();
    }
    return make_error(ErrorKind::usage, message,
                      "'ascope-sandbox " + std::string(command.name) + " --help' lists its options");
  }
  for (const auto& word : cli.remaining()) {
    if (word.size() > 1 && word[0] == '-') {
      return unknown_option(command, word);
    }
    args.positionals.push_back(word);
  }
  for (auto& slot : slots) {
    if (slot.count > 0) {
      args.flags[std::string(slot.spec->name)] = slot.count;
    }
    for (const auto& value : slot.values) {
      ASCOPE_TRY(check_value(*slot.spec, value));
    }
    if (!slot.values.empty()) {
      args.values[std::string(slot.spec->name)] = std::move(slot.values);
    }
  }
  return args;
}

}  // namespace

std::optional<std::string> Args::value(std::string_view name) const {
  const auto it = values.find(std::string(name));
  return it == values.end() ? std::nullopt : std::optional<std::string>(it->second.back());
}

std::vector<std::string> Args::all(std::string_view name) const {
  const auto it = values.find(std::string(name));
  return it == values.end() ? std::vector<std::string>{} : it->second;
}

const Command* named_command(const std::vector<std::string>& words) {
  const auto found = locate({words.begin(), std::find(words.begin(), words.end(), "--")});
  return found ? found->command : nullptr;
}

Result<Invocation> parse_command_line(const std::vector<std::string>& words) {
  Invocation invocation;
  const auto separator = std::find(words.begin(), words.end(), "--");
  const std::vector<std::string> ours(words.begin(), separator);
  const auto has = [&](std::string_view a, std::string_view b) {
    return std::any_of(ours.begin(), ours.end(), [&](const std::string& w) { return w == a || w == b; });
  };
  if (has("--help", "-h")) {
    invocation.help = true;
    std::vector<std::string> rest;
    std::copy_if(ours.begin(), ours.end(), std::back_inserter(rest),
                 [](const std::string& w) { return w != "--help" && w != "-h"; });
    if (auto found = locate(rest)) {
      invocation.command = found->command;
    }
    return invocation;
  }
  if (has("--version", "--version")) {
    invocation.version = true;
    return invocation;
  }
  ASCOPE_TRY_ASSIGN(const Found found, locate(ours));
  if (found.command == nullptr) {
    if (!found.rest.empty()) {
      for (const auto& word : found.rest) {
        if (word.starts_with("-") && find_global(word) == nullptr) {
          return make_error(ErrorKind::usage, "there is no option '" + word + "'",
                            "'ascope-sandbox --help' lists commands and options");
        }
      }
    }
    return make_error(ErrorKind::usage, "no command was given", "'ascope-sandbox --help' lists the commands");
  }
  if (found.command->takes_argv && separator == words.end()) {
    return missing_separator(*found.command, found.rest);
  }
  ASCOPE_TRY_ASSIGN(invocation.args, parse_words(*found.command, found.rest));
  invocation.command = found.command;
  if (separator != words.end()) {
    invocation.args.has_separator = true;
    invocation.args.argv.assign(separator + 1, words.end());
  }
  ASCOPE_TRY(check_positionals(*found.command, invocation.args));
  return invocation;
}

}  // namespace ascope
