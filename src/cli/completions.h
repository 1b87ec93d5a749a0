// SPDX-License-Identifier: Apache-2.0
// Completion scripts, written from the declarations of commands and options. They ask the program for the
// names of slots and snapshots at the time of completing. completions/ holds the result; a test compares the
// two.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace ascope {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

// What stands at a place of the command line.
enum class WordKind { none, slot, snapshot, file, dir, choice };
// From the name that a declaration gives a value or an argument: "SLOT", "SNAPSHOT", "FILE", "a|b|c", …
WordKind word_kind(std::string_view name);
// "a|b|c" → "a b c".
std::string choice_words(std::string_view name);

// Commands that completion offers, and the first words of families ("snapshot", "lock"), each once, in order.
std::vector<const Command*> completed_commands();
struct CommandWord {
  std::string word;
  std::string_view help;  // "" where no command bears that very word
};
std::vector<CommandWord> first_words();
// Second words of `family`: "ls", "show", … for "snapshot".
std::vector<CommandWord> second_words(std::string_view family);

}  // namespace ascope
