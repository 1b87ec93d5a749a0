// SPDX-License-Identifier: Apache-2.0
// What a chunk store holds: how much its snapshots mean, how much of that is different, and what it takes.
#pragma once

#include <string>
#include <vector>

#include "core/repository/chunks/chunk_reader.h"
#include "core/repository/chunks/root.h"

namespace ascope::chunks {

struct ContentStats {
  std::uint64_t snapshots = 0;      // manifests, committed or not
  std::uint64_t files = 0;          // of all snapshots
  std::uint64_t logical_bytes = 0;  // sum of the files' sizes, of all snapshots
  std::uint64_t chunks = 0;         // different ones, without pages
  std::uint64_t unique_bytes = 0;   // their bytes
  std::uint64_t page_bytes = 0;     // of different pages, before compression
  std::uint64_t needed_bytes = 0;   // stored, of the places that manifests name for these chunks and pages
};

struct SlotStats {
  std::string realm;
  std::string slot;  // written form
  ContentStats content;
};

struct StoreStats {
  std::vector<SlotStats> slots;  // by folder of their manifests
  ContentStats content;          // of all; what slots share counts once
  std::uint64_t packs = 0;
  std::uint64_t pack_bytes = 0;      // all of them, needed or not
  std::uint64_t manifest_bytes = 0;  // roots
  std::uint64_t other_bytes = 0;     // hints, forwarders, lists, pins, "repo"
};

// Reads every root, and each different page once for each slot. `corrupt` or `not_found` with the object's
// name where a root or a page cannot be read. Memory: at most 48 bytes for each different chunk of the store
// and as much for each of the slot at hand, 60 for each page, and the names of all manifests.
Result<StoreStats> count_store(const OpContext& ctx, const Access& access,
                               std::string_view folder = kManifestsFolder);

}  // namespace ascope::chunks
