// SPDX-License-Identifier: Apache-2.0
// The object "repo": what all of a store's objects follow. Written once, put if absent, and before it
// "repo.copy", which has the same bytes: a store that has lost one of the two is mended with the other.
//
//   "ASRP" · u8 version (1) · u8 flags (1 = encrypted) · u16 0 · JSON · SHA-256 of all before
//   JSON = {"id": 32 hex digits, "chunker": {"min", "avg", "max"}, "check": key check (key.h) or ""}
//
// The repo id, as its 32 digits, is part of every encrypted object's additional data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/repository/chunks/chunker.h"
#include "core/repository/chunks/key.h"
#include "core/repository/chunks/store_access.h"
#include "core/repository/repository.h"

namespace ascope::chunks {

inline constexpr std::string_view kRepoObject = "repo";
inline constexpr std::string_view kRepoCopy = "repo.copy";

struct RepoObject {
  std::string id;
  ChunkSizes sizes;
  bool encrypted = false;
  std::string check;
};
std::string encode_repo(const RepoObject& repo);
// `corrupt` without a name.
Result<RepoObject> decode_repo(const std::string& object);

struct OpenedRepo {
  RepositoryKey key;
  std::string id;
  ChunkSizes sizes;
};
// Reads "repo" and checks `master` (empty: none) against it; `denied` if it is the wrong one, or one is
// missing or not wanted. Where the store has none: `corrupt` if it has snapshots; else it is written with
// `create`, and `not_found` without.
Result<OpenedRepo> open_repo(const OpContext& ctx, StoreAccess& store, const Secret& master, bool create,
                             const ChunkSizes& sizes = kDefaultSizes);

// Of "repo" and its copy, what is missing, damaged or not the same. None where the store has neither and no
// snapshots.
Result<std::vector<SnapshotProblem>> repo_problems(const OpContext& ctx, StoreAccess& store);
// Puts back what repo_problems() names, and gives it. Killed in between it can be repeated. `corrupt` if
// neither of the two can be read.
Result<std::vector<SnapshotProblem>> mend_repo(const OpContext& ctx, StoreAccess& store);

}  // namespace ascope::chunks
