// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>

#include "cli/command.h"
#include "cli/exit_code.h"

namespace ascope {

namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kIndent = 28;

// Breaks `text` into lines of at most `width` columns; existing line breaks stay.
std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  std::size_t at = 0;
  while (at <= text.size()) {
    const auto end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    line += (line.empty() || word.empty() ? "" : " ") + std::string(word);
    if (end < text.size() && text[end] == '\n') {
      lines.push_back(std::move(line));
      line.clear();
    }
    at = end + 1;
  }
  lines.push_back(std::move(line));
  return lines;
}

void add_row(std::string& out, const std::string& left, std::string_view right) {
  const auto lines = wrap(right, kWidth - kIndent);
  std::string first = "  " + left;
  if (first.size() + 2 > kIndent) {
    out += first + "\n";
    first.clear();
  }
  for (const auto& line : lines) {
    first.resize(kIndent, ' ');
    out += first + line + "\n";
    first.clear();
  }
}

std::string option_text(const OptionSpec& spec) {
  std::string text = spec.letter == '\0' ? "    --" : std::string("-") + spec.letter + ", --";
  text += spec.name;
  if (spec.kind != OptionKind::flag) {
    text += " " + std::string(spec.value_name);
  }
  return text;
}

std::string usage_line(const Command& command) {
  std::string line = "ascope-sandbox " + std::string(command.name);
  if (!command.options.empty()) {
    line += " [options]";
  }
  for (const auto& spec : command.positionals) {
    const std::string name = std::string(spec.name) + (spec.repeated ? "…" : "");
    line += spec.required ? " " + name : " [" + name + "]";
  }
  return line + (command.takes_argv ? " -- ARGV…" : "");
}

std::string_view meaning_of(std::string_view code) {
  for (const auto& row : exit_code_texts()) {
    if (row.code == code) {
      return row.meaning;
    }
  }
  return "";
}

std::string program_help() {
  std::string out =
      "ascope-sandbox gives an AI agent a place to work: isolated, saved, shared.\n\n"
      "Usage: ascope-sandbox [options] COMMAND [options] [SLOT] [-- ARGV…]\n";
  std::vector<std::string_view> groups;
  for (const Command* command : commands()) {
    if (std::find(groups.begin(), groups.end(), command->group) == groups.end()) {
      groups.push_back(command->group);
    }
  }
  for (const auto group : groups) {
    if (group == "hidden") {
      continue;
    }
    out += "\n" + std::string(group) + ":\n";
    for (const Command* command : commands()) {
      if (command->group == group) {
        add_row(out, std::string(command->name), command->summary);
      }
    }
  }
  out += "\nOptions of every command:\n";
  for (const auto& spec : global_options()) {
    add_row(out, option_text(spec), spec.help);
  }
  out += "\n'ascope-sandbox COMMAND --help' shows one command; 'man ascope-sandbox' the whole.\n";
  return out;
}

}  // namespace

std::string help_text(const Command* command) {
  if (command == nullptr) {
    return program_help();
  }
  std::string out = "Usage: " + usage_line(*command) + "\n\n";
  for (const auto& line : wrap(command->description, kWidth)) {
    out += line + "\n";
  }
  if (!command->positionals.empty()) {
    out += "\nArguments:\n";
    for (const auto& spec : command->positionals) {
      add_row(out, std::string(spec.name), spec.help);
    }
  }
  if (!command->options.empty()) {
    out += "\nOptions:\n";
    for (const auto& spec : command->options) {
      add_row(out, option_text(spec), spec.help);
    }
  }
  out += "\nOptions of every command stand in 'ascope-sandbox --help'.\n\nExample:\n";
  for (const auto& line : wrap(command->example, 1000)) {
    out += "  " + line + "\n";
  }
  out += "\nExit codes:\n";
  std::string_view rest = command->exit_codes;
  add_row(out, "0", meaning_of("0"));
  while (!rest.empty()) {
    const auto blank = std::min(rest.find(' '), rest.size());
    const std::string_view code = rest.substr(0, blank);
    if (code != "0") {
      add_row(out, std::string(code), meaning_of(code));
    }
    rest.remove_prefix(std::min(blank + 1, rest.size()));
  }
  return out;
}

}  // namespace ascope
