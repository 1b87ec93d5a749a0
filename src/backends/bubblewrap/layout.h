// SPDX-License-Identifier: Apache-2.0
// What a sandbox sees at which place: folders of its own tree, system folders of the host, mounts of the
// profile.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/local/folder.h"

namespace ascope::bwrap {

using local::Folder;
using local::Meta;

struct Bind {
  std::string source;  // absolute, on the host
  std::string target;  // absolute, inside
  bool read_only = true;
  bool is_folder = true;
};

struct Layout {
  std::vector<Bind> system;                                // of the host or of `rootfs`
  std::vector<std::pair<std::string, std::string>> links;  // inside path, target text ("/bin" → "usr/bin")
  std::vector<std::string> generated;                      // files of the tree bound over those of a `rootfs`
  std::vector<Bind> mounts;                                // of the profile
};

// Looks at the host (and `rootfs`). `config` if a mount's source is missing or its place inside cannot be
// had.
Result<Layout> plan_layout(const SandboxSettings& settings);

// Makes the tree of a new sandbox: "/" with its usual folders, an empty workspace and home, generated /etc
// files.
Result<void> make_tree(const Folder& folder, const Meta& meta, const SandboxSettings& settings);
// Before each start: every place that something is bound to exists, as the type it must be, and no link of
// the sandbox's leads elsewhere. What is in the way of a system place is removed.
Result<void> prepare_places(const Folder& folder, const Meta& meta, const Layout& layout);

// Opens (and makes, where `make` says so) a folder of the tree without following any link. `not_found` if it
// is missing or lies below something that is no folder.
Result<UniqueFd> open_inside(int root, const std::string& path);
struct Owner {
  std::uint32_t uid = 0, gid = 0;
};
// The owner on the host of what `uid_inside` owns; nullopt: ours, nothing to change.
std::optional<Owner> host_owner(const Meta& meta, std::uint32_t id_inside);
Result<UniqueFd> make_inside(int root, const std::string& path, const std::optional<Owner>& owner);

// The paths of all places in the tree over which something else is mounted while it runs.
std::vector<std::string> covered_places(const Layout& layout);

}  // namespace ascope::bwrap
