// SPDX-License-Identifier: Apache-2.0
#include "cli/manual.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/manual_profile.h"
#include "cli/roff.h"

namespace ascope {

namespace {

constexpr std::string_view kIntroduction =
    "ascope-sandbox gives an AI agent a place to work. Commands and files live in a sandbox: of the host it "
    "sees "
    "system programs and libraries, read-only, and nothing else. At the end of a call the workspace is "
    "saved, and at "
    "the next it comes back by the cheapest of four ways. Where stores are shared, any machine picks the "
    "same "
    "workspace up, one at a time.\n\n"
    "Without any profile it works on a fresh machine: sandboxes by bubblewrap(1), state and leases in "
    "SQLite, "
    "snapshots in the state folder. ascope-profile(5) says how to choose otherwise.";

constexpr std::string_view kSlots =
    "A slot is the identity of a sandbox across calls. The scope decides who shares it, and the ids come "
    "from "
    "--agent, --user, --session and --scope, from the environment or from the profile; or the slot is "
    "written out as "
    "an argument:\n\n"
    "    user/AGENT/USER    session/SESSION    agent/AGENT    global\n\n"
    "Ids are data: any bytes, never interpreted. In the written form '/', '%', control bytes, bytes that are "
    "not "
    "UTF-8 and the whole ids '.' and '..' are percent-encoded. The scope user falls back to session where no "
    "user id "
    "is given, and says so.\n\n"
    "A snapshot is written [SLOT@]SNAPSHOT: an id, a prefix of one that is unique, 'latest', 'latest~2', a "
    "tag, or, "
    "for looking, 'live'. A place in a sandbox is [SLOT]:PATH; a folder of the host begins with '/' or './'.";

constexpr std::string_view kOutput =
    "Results go to standard output, everything else to standard error. The output of exec and run is the "
    "command's "
    "own, byte for byte; what was done stands in the receipt: --status-file, history and why show it. With "
    "-o json "
    "there is exactly one object, with a \"schema\" member, and a failure is an object on standard error: "
    "{\"error\": {\"kind\", \"message\", \"hint\", \"exit_code\"}}. Times are RFC 3339 in UTC, sizes are "
    "bytes, "
    "durations are milliseconds; bytes that are not UTF-8 stand as {\"base64\": …}.\n\n"
    "What deletes or ends running commands asks on a terminal and needs --yes elsewhere.";

struct BranchText {
  std::string_view letter;
  std::string_view text;
};
constexpr BranchText kBranches[] = {
    {"A",
     "warm: the workspace is there and is the one that the state names; the sandbox is alive, or is made "
     "anew "
     "round the workspace"},
    {"B",
     "workspace lost: the sandbox lives, its workspace is lost, stale or half restored; the snapshot is put "
     "back"},
    {"C", "sandbox lost: a new sandbox gets the workspace from the snapshot"},
    {"D", "cold: there never was a snapshot, so the workspace begins empty; needs proof, or --allow-loss"},
};

std::string page_name(std::string_view command) {
  std::string name = "ascope-sandbox-" + std::string(command);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string option_tag(const OptionSpec& spec) {
  std::string tag = spec.letter == '\0' ? "" : fmt::format("\\fB\\-{}\\fR, ", spec.letter);
  tag += fmt::format("\\fB\\-\\-{}\\fR", roff_literal(spec.name));
  if (spec.kind != OptionKind::flag) {
    tag += fmt::format(" \\fI{}\\fR", roff_escape(spec.value_name));
  }
  return tag;
}

// Help texts are clauses; a page has sentences.
std::string sentence(std::string_view clause, std::string_view more = {}) {
  std::string text(clause);
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text + "." + std::string(more);
}

void add_options(RoffPage& page, std::span<const OptionSpec> options) {
  for (const OptionSpec& spec : options) {
    page.item(option_tag(spec),
              sentence(spec.help, spec.kind == OptionKind::repeated ? " May be repeated." : ""));
  }
}

std::string synopsis(const Command& command) {
  std::string line = fmt::format("\\fBascope\\-sandbox {}\\fR", roff_literal(command.name));
  if (!command.options.empty()) {
    line += " [\\fIoptions\\fR]";
  }
  for (const PositionalSpec& spec : command.positionals) {
    const std::string name = fmt::format("\\fI{}\\fR{}", roff_escape(spec.name), spec.repeated ? " ..." : "");
    line += spec.required ? " " + name : " [" + name + "]";
  }
  return line + (command.takes_argv ? " \\fB\\-\\-\\fR \\fIARGV\\fR ..." : "");
}

void add_exit_codes(RoffPage& page, const Command* command) {
  page.section("EXIT STATUS");
  for (const ExitCodeText& row : exit_code_texts()) {
    const std::string padded = command == nullptr ? "" : fmt::format(" 0 2 70 {} ", command->exit_codes);
    if (command == nullptr || padded.find(fmt::format(" {} ", row.code)) != std::string::npos) {
      const bool of_commands = row.meaning.starts_with("exec,");  // names of commands keep their case
      page.item(fmt::format("\\fB{}\\fR", row.code),
                of_commands ? std::string(row.meaning) + "." : sentence(row.meaning));
    }
  }
  page.text("Any other code means failure too.");
}

std::string command_page(const Command& command) {
  RoffPage page(page_name(command.name), 1, command.summary);
  page.section("SYNOPSIS").raw(synopsis(command));
  page.section("DESCRIPTION").text(command.description);
  if (!command.positionals.empty()) {
    page.section("ARGUMENTS");
    for (const PositionalSpec& spec : command.positionals) {
      page.item(fmt::format("\\fI{}\\fR", roff_escape(spec.name)), sentence(spec.help));
    }
  }
  page.section("OPTIONS");
  add_options(page, command.options);
  page.text("Options that every command takes stand in ascope-sandbox(1).");
  add_exit_codes(page, &command);
  page.section("EXAMPLES").example(command.example);
  std::string others = "ascope-sandbox(1)";
  const std::string_view family = command.name.substr(0, command.name.find(' '));
  for (const Command* other : commands()) {
    const bool same_family = other->name == family || other->name.starts_with(fmt::format("{} ", family));
    if (other != &command && same_family && other->group != "hidden") {
      others += fmt::format(" {}(1)", page_name(other->name));
    }
  }
  page.see_also(others + " ascope-profile(5)");
  return page.source();
}

void add_commands(RoffPage& page) {
  page.section("COMMANDS").text("Each has a page of its own.");
  std::vector<std::string_view> groups;
  for (const Command* command : commands()) {
    if (command->group != "hidden" &&
        std::find(groups.begin(), groups.end(), command->group) == groups.end()) {
      groups.push_back(command->group);
    }
  }
  for (const std::string_view group : groups) {
    page.subsection(sentence(group).substr(0, group.size()));
    for (const Command* command : commands()) {
      if (command->group == group) {
        page.item(fmt::format("\\fB{}\\fR", roff_literal(command->name)), sentence(command->summary));
      }
    }
  }
}

void add_surroundings(RoffPage& page) {
  page.section("ENVIRONMENT");
  page.item("\\fBASCOPE_\\fR...", "Every key of the profile, and the slot's ids: see ascope-profile(5).");
  page.item("\\fBASCOPE_LEASE\\fR", "A lease to work under, as --lease gives it.");
  page.item("\\fBASCOPE_LOG\\fR",
            "Categories and levels to log to standard error: 'engine=debug,store=info'.");
  page.item(
      "\\fBXDG_STATE_HOME\\fR, \\fBXDG_CONFIG_HOME\\fR, \\fBXDG_CACHE_HOME\\fR, \\fBXDG_RUNTIME_DIR\\fR",
      "Where the folders below lie.");
  page.item("\\fBNO_COLOR\\fR", "No colour, whatever the terminal.");
  page.section("FILES");
  page.item("\\fI$XDG_STATE_HOME/ascope\\-sandbox\\fR",
            "State, leases, snapshots and sandboxes of the built-in profile; readable by its owner alone.");
  page.item("\\fI$XDG_CONFIG_HOME/ascope\\-sandbox/profile.yaml\\fR", "The user's profile.");
  page.item("\\fIascope.yaml\\fR",
            "The profile of a project, found by walking up from the working directory.");
  page.item("\\fI$XDG_CACHE_HOME/ascope\\-sandbox\\fR", "What can be had again.");
}

std::string program_page() {
  RoffPage page("ascope-sandbox", 1, "sandboxes for AI agents that are isolated, saved and shared");
  page.section("SYNOPSIS")
      .raw(
          "\\fBascope\\-sandbox\\fR [\\fIoptions\\fR] \\fICOMMAND\\fR [\\fIoptions\\fR] [\\fISLOT\\fR] "
          "[\\fB\\-\\-\\fR \\fIARGV\\fR ...]");
  page.section("DESCRIPTION").text(kIntroduction);
  page.subsection("Slots and snapshots").text(kSlots);
  page.subsection("How a start gets the workspace");
  for (const BranchText& branch : kBranches) {
    page.item(fmt::format("\\fB{}\\fR", branch.letter), sentence(branch.text));
  }
  page.text("explain predicts the branch without doing anything; why shows what decided the last one.");
  page.subsection("Output").text(kOutput);
  add_commands(page);
  page.section("OPTIONS").text("Every command takes these, before or after its name.");
  add_options(page, global_options());
  add_exit_codes(page, nullptr);
  add_surroundings(page);
  page.section("EXAMPLES")
      .example(
          "ascope-sandbox run -- sh -c 'date > f; cat f'\n"
          "ascope-sandbox start --expect A,B\n"
          "ascope-sandbox exec -- make test\n"
          "ascope-sandbox snapshot --tag before-upgrade\n"
          "ascope-sandbox restore before-upgrade");
  std::string others;
  for (const Command* command : commands()) {
    if (command->group != "hidden") {
      others += fmt::format("{}(1) ", page_name(command->name));
    }
  }
  page.see_also(others + "bwrap(1) ascope-docker(5) ascope-profile(5) ascope-snapshot(5)");
  return page.source();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> manual_pages() {
  std::vector<std::pair<std::string, std::string>> pages;
  pages.emplace_back("ascope-sandbox.1", program_page());
  for (const Command* command : commands()) {
    if (command->group != "hidden") {
      pages.emplace_back(page_name(command->name) + ".1", command_page(*command));
    }
  }
  pages.emplace_back("ascope-profile.5", profile_page());
  return pages;
}

}  // namespace ascope
