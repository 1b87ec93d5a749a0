// SPDX-License-Identifier: Apache-2.0
#include "cli/manual_profile.h"

#include <fmt/format.h>

#include "cli/roff.h"
#include "core/profile/profile_schema.h"

namespace ascope {

namespace {

constexpr std::string_view kIntroduction =
    "A profile says where sandboxes run, who shares them, where their state and snapshots are kept, and what "
    "is put "
    "into a workspace. Commands stay the same whatever it says. Without any profile the defaults below "
    "hold.\n\n"
    "A value is taken from the first of these that sets it:\n\n"
    "    1. --set KEY=VALUE and the options of the command\n"
    "    2. the environment: ASCOPE_ and the key in capitals, dots as underscores\n"
    "    3. the file of --profile, or else the nearest ascope.yaml at or above the\n"
    "       working directory\n"
    "    4. $XDG_CONFIG_HOME/ascope-sandbox/profile.yaml\n"
    "    5. the default\n\n"
    "Files are laid over one another key by key. A list replaces a list; another backend.type replaces the "
    "whole "
    "backend block. 'ascope-sandbox profile show --origin' shows each value and where it comes from, and "
    "'ascope-sandbox profile validate' checks a file.\n\n"
    "The file is YAML. An unknown key, a key given twice or a value of the wrong type is an error that names "
    "file, "
    "line and column, and the nearest right spelling. Sizes take B, KiB, MiB, GiB, TiB; durations take ms, "
    "s, m, "
    "h, d; a "
    "bare number is an error where a unit is needed.";

constexpr std::string_view kTrust =
    "An ascope.yaml that was found by walking up may have come with somebody else's files. Until it is "
    "trusted it "
    "may not set the keys that are marked 'user only' below: they name paths of the host, programs, servers "
    "or "
    "secrets (a path inside the file's own folder is allowed). 'ascope-sandbox profile trust' trusts a file "
    "at its "
    "path with its present content; after a change it asks again. --profile FILE trusts FILE for that call, "
    "and "
    "'profile init' trusts what it wrote.";

constexpr std::string_view kSecrets =
    "${NAME} in a value is replaced by the environment variable NAME, and is an error if that is not set; "
    "$${ is a "
    "plain ${. A password written out in a profile is an error. Values that came from a variable are kept "
    "out of "
    "states, receipts and logs.";

constexpr std::string_view kStores = "A store is a URL. Which of the three services it can give:";

struct StoreRow {
  std::string_view url;
  std::string_view text;
};
constexpr StoreRow kStoreRows[] = {
    {"none", "Snapshots: nothing is saved. Leases: no mutual exclusion; the receipt says so."},
    {"local:DIR", "Snapshots, as files. Without DIR in the state folder."},
    {"json:DIR", "State, as files in the layout of AgentScope."},
    {"sqlite:FILE", "State and leases. Without FILE in the state folder. Never on a network file system."},
};

constexpr std::string_view kExample =
    "version: 1\n"
    "agent: assistant\n"
    "scope: user\n"
    "backend:\n"
    "  network: none\n"
    "  memory: 2GiB\n"
    "workspace:\n"
    "  exclude: [\"*.sock\"]\n"
    "  entries:\n"
    "    README.md: {type: file, content: \"hello\\n\"}\n"
    "  environment: {LANG: C.UTF-8}\n"
    "  projection:\n"
    "    source: ./workspace\n"
    "snapshots:\n"
    "  keep: {last: 10, daily: 7}\n"
    "lock: {ttl: 60s, wait: 2m}\n"
    "release: keep\n"
    "idle_timeout: 15m";

// Type of a key in words.
std::string type_text(const ProfileKey& key) {
  if (!key.choices.empty() && key.type == KeyType::choice) {
    return "one of " + std::string(key.choices);
  }
  switch (key.type) {
    case KeyType::text:
    case KeyType::choice:
      return "text";
    case KeyType::host_path:
      return "path of the host; a relative one counts from the file's folder";
    case KeyType::boolean:
      return "true or false";
    case KeyType::number:
      return "whole number";
    case KeyType::decimal:
      return "number";
    case KeyType::duration:
      return "duration";
    case KeyType::size:
      return "size";
    case KeyType::url:
      return "store URL";
    case KeyType::text_list:
      return "list of text";
    case KeyType::text_map:
      return "map of text to text";
    case KeyType::entries:
      return "map of a path inside to an entry";
    case KeyType::skills:
      return "list of sources";
    case KeyType::keep:
      return "map of last, hourly, daily, weekly, monthly to a number, within to a duration";
  }
  return {};
}

std::string describe(const ProfileKey& key) {
  std::string text(key.help);
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  text += ". Type: " + type_text(key) + ".";
  if (key.type != KeyType::choice && !key.choices.empty()) {
    text += fmt::format(" Special: {}.", key.choices);
  }
  if (!key.default_text.empty()) {
    text += fmt::format(" Default: {}.", key.default_text);
  }
  if (key.policy == KeyPolicy::user_only) {
    text += " User only.";
  }
  return text + fmt::format(" Environment: {}.", environment_name(key.name));
}

void add_entries(RoffPage& page) {
  page.section("ENTRIES").text(
      "workspace.entries maps a path relative to the workspace root to what is put there when a workspace is "
      "new. "
      "'type' says what, 'mode' gives permissions in octal, and an entry with 'ephemeral: true' is kept out "
      "of "
      "snapshots and written at each start. A declared file whose content changes later is written again "
      "where "
      "nobody inside has touched it.");
  page.item("\\fBfile\\fR", "A file with 'content', written in 'encoding': UTF-8, ISO-8859-1 or US-ASCII.");
  page.item("\\fBdir\\fR", "A folder; 'children' holds entries by name.");
  page.item("\\fBlocal_file\\fR, \\fBlocal_dir\\fR", "A copy of the host's 'source_path'. User only.");
  page.item("\\fBgit_repo\\fR", "A checkout of 'url' at 'ref', made by the host's git. User only.");
  page.item("\\fBbind_mount\\fR",
            "The host's own 'host_path', with 'read_only: true' or not; never in a snapshot. User only.");
}

}  // namespace

std::string profile_page() {
  RoffPage page("ascope-profile", 5, "what a sandbox is made of and where its work is kept");
  page.section("DESCRIPTION").text(kIntroduction);
  page.section("TRUST").text(kTrust);
  page.section("SECRETS").text(kSecrets);
  page.section("KEYS");
  for (const ProfileKey& key : profile_keys()) {
    page.item(fmt::format("\\fB{}\\fR", roff_literal(key.name)), describe(key));
  }
  add_entries(page);
  page.section("STORES").text(kStores);
  for (const StoreRow& row : kStoreRows) {
    page.item(fmt::format("\\fB{}\\fR", roff_literal(row.url)), row.text);
  }
  page.section("EXAMPLES").example(kExample);
  page.see_also("ascope-sandbox(1) ascope-sandbox-profile-init(1) ascope-docker(5) ascope-snapshot(5)");
  return page.source();
}

}  // namespace ascope
