// SPDX-License-Identifier: Apache-2.0
// What this machine keeps of a sandbox of its own: a folder DIR/ID/ with meta.json (what it is), run.json
// (who runs it now), mark (while a restore into it is not finished), lock, s (the guest's socket) and, where
// its tree lies on our own disk, root/ (what is "/" inside).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/base/fd.h"
#include "core/tree/agent.h"

namespace ascope::local {

constexpr std::uint32_t kRangeIds = 65536;  // ids a sandbox of root has for its own

struct Meta {
  std::string id;
  std::string slot;
  std::string operation;
  std::string created;
  std::string host;  // host_id() of the machine it lives on
  bool ready = false;
  std::uint64_t fence_seen = 0;
  std::optional<std::uint32_t> id_base;  // first host id of its range; none: it runs as one user
  std::map<std::string, std::string> settings;
  std::string settings_digest;
  std::string workspace_root = "/workspace";
  std::vector<MountSpec> mounts;
  std::map<std::string, std::string> facts;  // a backend's own
};

struct Run {
  pid_t pid = 0;
  std::uint64_t start_time = 0;
  std::string not_enforced;          // limits that hold in part or not at all, for people
  std::vector<std::string> cgroups;  // made for it, to be removed
};

bool is_sandbox_id(std::string_view id);

// An open sandbox folder. All paths go through its descriptor.
class Folder {
 public:
  // `not_found` if it is not there; `backend_unavailable` if that cannot be told.
  static Result<Folder> open(const std::string& dir, const std::string& id);
  // Makes it, empty, private to us.
  static Result<Folder> make(const std::string& dir, const std::string& id);

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // False once it was removed.
  [[nodiscard]] Result<bool> exists() const;
  [[nodiscard]] Result<UniqueFd> open_root() const;

  // A folder whose making was cut short has no meta.json: it reads as not ready, of no slot.
  [[nodiscard]] Result<Meta> read_meta() const;
  [[nodiscard]] Result<void> write_meta(const Meta& meta) const;
  // Notes the highest fence that the sandbox was given. In place, so that it needs no room on a full disk;
  // not synced: after a crash of the machine the slot's record has it.
  [[nodiscard]] Result<void> write_fence(std::uint64_t fence) const;
  [[nodiscard]] Result<std::optional<Run>> read_run() const;
  // Not synced: after a crash of the machine nothing runs, whatever it says.
  [[nodiscard]] Result<void> write_run(const Run& run) const;
  [[nodiscard]] Result<void> remove_run() const;
  // The mark of a restore lies beside the tree, not in it: what runs inside can neither forge nor remove it.
  [[nodiscard]] Result<std::optional<std::string>> read_mark() const;
  // Durably; nullopt removes it, and a repeat of that is harmless.
  [[nodiscard]] Result<void> write_mark(const std::optional<std::string>& mark) const;

  // Excludes other processes until the descriptor is closed. Waits; `timeout` or `cancelled` as ctx says.
  [[nodiscard]] Result<UniqueFd> lock(const OpContext& ctx) const;
  // Removes all of it. Its meta.json says "not ready" before anything goes.
  [[nodiscard]] Result<void> remove() const;

 private:
  std::string id_;
  std::string path_;
  UniqueFd fd_;
};

// flock with waiting as ctx allows.
Result<UniqueFd> lock_file(const OpContext& ctx, const std::string& path);

}  // namespace ascope::local
