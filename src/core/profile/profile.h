// SPDX-License-Identifier: Apache-2.0
// The profile: a checked, immutable description of what to run, each value with its origin. Nothing else
// reads YAML, ASCOPE_* or --set. To add a key: one row in core/profile/profile_schema.cc.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend.h"
#include "core/base/json.h"
#include "core/base/secret.h"
#include "core/slot_key.h"

namespace ascope {

enum class OriginKind { builtin, user_file, project_file, named_file, environment, flag };

struct Origin {
  OriginKind kind = OriginKind::builtin;
  std::string where;  // "built in", "ascope.yaml:3:5", "ASCOPE_AGENT", "--set"
};

enum class EntryKind { file, dir, local_file, local_dir, git_repo, bind_mount };

// A declared workspace entry (reference 3.9 and 8). Paths are relative to the workspace root, checked.
struct WorkspaceEntry {
  std::string path;  // nested dir children are flattened: "src/run.cfg"
  EntryKind kind = EntryKind::file;
  bool ephemeral = false;
  std::string content;     // file, already in bytes of `encoding`
  std::string source;      // local_file, local_dir, bind_mount: absolute host path
  std::string url, ref;    // git_repo
  bool read_only = false;  // bind_mount
  std::optional<std::uint32_t> mode;
};

struct SkillSource {
  std::string git;   // URL, or
  std::string dir;   // absolute host folder
  std::string ref;   // branch, tag or commit; "" = the remote's HEAD
  std::string path;  // sub-folder; "" = "skills" if there, else the root
  std::string name;  // source namespace; "" = derived from the URL
};

struct KeepPolicy {
  std::optional<std::uint64_t> last, hourly, daily, weekly, monthly;
  std::optional<Millis> within;
  [[nodiscard]] bool empty() const { return !last && !hourly && !daily && !weekly && !monthly && !within; }
};

struct Profile {
  SlotIds ids;

  std::string backend_type;
  SandboxSettings settings;              // all of `backend:` and what of `workspace:` decides a sandbox
  std::string persistence = "snapshot";  // snapshot | volume | native

  std::string workspace_root;
  bool persist_all = true;
  std::vector<std::string> persist;  // absolute paths inside, if not all
  std::vector<std::string> exclude;
  std::vector<WorkspaceEntry> entries;
  std::map<std::string, std::string> environment;
  std::vector<std::string> secret_environment;  // names whose value came from ${VAR}

  bool projection_enabled = true;
  std::string projection_source;  // absolute host folder, or a store URL, "" = none
  std::vector<std::string> projection_include;
  std::string on_conflict = "host";  // host | agent
  std::vector<SkillSource> skills;

  std::string distributed;                 // as shown; "" = none
  std::string snapshot_store;              // resolved URL text, ${VAR} still in place
  std::string snapshot_format = "chunks";  // chunks, tar
  std::string snapshot_key;  // where the master key comes from (master_key.h); "": no encryption
  KeepPolicy keep;
  std::string freeze = "auto";  // auto | never
  std::string dedup = "store";
  std::string credentials = "warn";  // ignore | warn | exclude | refuse

  std::string state_store;
  std::string lock_store;
  Millis lock_ttl{60'000};
  Millis lock_wait{60'000};
  Millis lock_retry{500};
  std::optional<Millis> max_hold;
  std::optional<bool> lock_agentscope;  // nullopt: where the store and the slot's last writer ask for it
  std::string release = "keep";         // keep | stop | destroy
  Millis idle_timeout{15 * 60 * 1000};

  // Every key that is set or has a default, flattened: "backend.network" → value as JSON and where it came
  // from.
  std::map<std::string, std::pair<Json, Origin>> values;
  std::vector<std::string> files;  // profile files that were read, in order of rising precedence
  std::vector<std::string> warnings;
};

struct ProfileInputs {
  std::string cwd;  // absolute
  std::string home;
  std::string config_dir;                                  // $XDG_CONFIG_HOME/ascope-sandbox
  std::string state_dir;                                   // the trust list lives there
  std::optional<std::string> profile_file;                 // --profile
  std::map<std::string, std::string> environment;          // the process's own
  std::vector<std::pair<std::string, std::string>> set;    // --set KEY=VALUE, in order
  std::vector<std::pair<std::string, std::string>> flags;  // ("agent", "assistant"): named flags, over --set
};

// Loads and lays over one another: built in < user file < nearest ascope.yaml (or --profile) < ASCOPE_* <
// --set < flags. `config` errors carry "FILE:LINE:COLUMN:" and the nearest right spelling. `backend_kinds`
// says which types exist.
Result<Profile> load_profile(const ProfileInputs& inputs, std::span<const BackendKind* const> backend_kinds);

// The text with every ${VAR} replaced; `config` if one is unset. `$${` stands for a literal "${".
Result<std::string> expand_variables(std::string_view text,
                                     const std::map<std::string, std::string>& environment);
// The same for a store's URL: what stands for a password or in the query is percent-encoded, as
// parse_store_url() decodes it, so that no character of a secret can end its part of the URL.
Result<std::string> expand_store_url(std::string_view url,
                                     const std::map<std::string, std::string>& environment);

}  // namespace ascope
