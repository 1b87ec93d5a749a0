// SPDX-License-Identifier: Apache-2.0
#include "cli/completions.h"

#include <algorithm>

#include <fmt/format.h>

namespace ascope {

WordKind word_kind(std::string_view name) {
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("|")) {
    return WordKind::choice;
  }
  if (has("SNAP")) {
    return WordKind::snapshot;
  }
  if (has("SLOT")) {
    return WordKind::slot;
  }
  if (has("DIR")) {
    return WordKind::dir;
  }
  return has("FILE") || has("PATH") || has("SOURCE") || has("TARGET") ? WordKind::file : WordKind::none;
}

std::string choice_words(std::string_view name) {
  std::string words(name);
  std::replace(words.begin(), words.end(), '|', ' ');
  return words;
}

std::vector<const Command*> completed_commands() {
  std::vector<const Command*> out;
  std::copy_if(commands().begin(), commands().end(), std::back_inserter(out),
               [](const Command* command) { return command->group != "hidden"; });
  return out;
}

std::vector<CommandWord> first_words() {
  std::vector<CommandWord> words;
  for (const Command* command : completed_commands()) {
    const auto blank = command->name.find(' ');
    const std::string word(command->name.substr(0, blank));
    auto known =
        std::find_if(words.begin(), words.end(), [&](const CommandWord& w) { return w.word == word; });
    if (known == words.end()) {
      known = words.insert(known, {word, {}});
    }
    if (blank == std::string_view::npos) {
      known->help = command->summary;
    }
  }
  return words;
}

std::vector<CommandWord> second_words(std::string_view family) {
  std::vector<CommandWord> words;
  for (const Command* command : completed_commands()) {
    if (command->name.size() > family.size() && command->name.starts_with(family) &&
        command->name[family.size()] == ' ') {
      words.push_back({std::string(command->name.substr(family.size() + 1)), command->summary});
    }
  }
  return words;
}

}  // namespace ascope
