// SPDX-License-Identifier: Apache-2.0
// The root of a snapshot's manifest: "snapshots/<realm>/<slot>/<rev>-<fence>-<id>", a sealed object ("ASMF",
// sealed.h) whose content is JSON:
//
//   {"id", "slot" (written form, bytes), "realm", "rev", "fence" (decimal text), "parent", "time", "host",
//    "totals": {"files", "content"}, "notes": […],
//    "packs": [{"name" (hex), "size", "used"}, …],   every pack that its pages and their entries use
//    "workspace": [page, …],                         entries relative to the workspace root
//    "roots": [page, …] | null}                      what else is persisted, relative to "/"
//   page = [first path (bytes), pack, frame offset, frame stored, frame raw, codec, at, raw, chunk id (hex)]
//
// Bytes are a string where they are UTF-8, else {"base64"}. A page is a chunk; `pack` counts in "packs". A
// page's first path is that of its first entry, or of the file that it continues. "used" counts stored bytes:
// for each reference to a chunk, stored · chunk's raw ÷ frame's raw rounded down, in all at most the pack's
// size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/repository/chunks/key.h"
#include "core/repository/chunks/types.h"

namespace ascope::chunks {

struct PageRef {
  std::string first;
  ChunkRef chunk;
  bool operator==(const PageRef&) const = default;
};

struct PackUse {
  PackName name;
  std::uint64_t size_bytes = 0;
  std::uint64_t used_bytes = 0;
  bool operator==(const PackUse&) const = default;
};

struct ManifestRoot {
  std::string id;
  std::string slot;
  std::string realm;
  std::uint64_t rev = 0;
  std::uint64_t fence = 0;
  std::string parent;
  std::string time;
  std::string host;
  std::uint64_t files = 0;
  std::uint64_t content_bytes = 0;
  Json notes = Json::array();
  std::vector<PackUse> packs;
  std::vector<PageRef> workspace;
  std::optional<std::vector<PageRef>> roots;
};

// The object's bytes.
Result<std::string> encode_root(const RepositoryKey& key, const ManifestRoot& root);
// Strict: every page lies in a pack of the list and within it, first paths ascend, no pack is named twice.
// `corrupt` without a name.
Result<ManifestRoot> decode_root(const RepositoryKey& key, const std::string& object);
// The JSON inside, for decode_root and for those who have it already.
Result<ManifestRoot> parse_root(std::string_view json);

// "snapshots/<realm>/<slot>/…": realm and slot as they stand in names (key.h), rev and fence as 16 hex
// digits.
inline constexpr std::string_view kManifestsFolder = "snapshots/";
std::string realm_folder(const RepositoryKey& key, std::string_view realm);
std::string manifest_folder(const RepositoryKey& key, std::string_view realm, std::string_view slot);
std::string manifest_key(const std::string& folder, std::uint64_t rev, std::uint64_t fence,
                         std::string_view id, unsigned rewrite);
// What a manifest's name says; nullopt: it is no such name.
struct ManifestName {
  std::string folder;
  std::uint64_t rev = 0;
  std::uint64_t fence = 0;
  std::string id;
};
std::optional<ManifestName> parse_manifest_key(std::string_view key);

}  // namespace ascope::chunks
