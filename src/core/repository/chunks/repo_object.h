// SPDX-License-Identifier: Apache-2.0
// The object "repo", written once, put if absent: what all of a store's objects follow.
//
//   "ASRP" · u8 version (1) · u8 flags (1 = encrypted) · u16 0 · JSON · SHA-256 of all before
//   JSON = {"id": 32 hex digits, "chunker": {"min", "avg", "max"}, "check": key check (key.h) or ""}
//
// The repo id, as its 32 digits, is part of every encrypted object's additional data.
#pragma once

#include <optional>
#include <string>

#include "core/repository/chunks/chunker.h"
#include "core/repository/chunks/key.h"
#include "core/repository/chunks/store_access.h"

namespace ascope::chunks {

inline constexpr std::string_view kRepoObject = "repo";

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
// missing or not wanted. With `create` it is written first where the store has none; `corrupt` if it has
// snapshots though. Without, `not_found`.
Result<OpenedRepo> open_repo(const OpContext& ctx, StoreAccess& store, const Secret& master, bool create,
                             const ChunkSizes& sizes = kDefaultSizes);

}  // namespace ascope::chunks
