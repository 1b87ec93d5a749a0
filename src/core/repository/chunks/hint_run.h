// SPDX-License-Identifier: Apache-2.0
// "This chunk may lie in that pack": many such hints as one sorted file of the cache folder. Hints propose,
// the packs' own indexes decide, so a run is not checked beyond what a lookup needs.
//
// File, little endian: "ASHR" · u8 1 · u32 sources · sources × name[16] · u32 packs · packs × name[16]
//   · u32 filter bytes · filter · u64 records · records × ( id[32] · u32 pack ), sorted.
// The sources are the objects of hints (or packs) that it was made of. The filter is a Bloom filter: bit
// numbers are the id's 2nd to 5th u32 modulo its bits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/repository/chunks/types.h"

namespace ascope::chunks {

struct Hint {
  ChunkId id;
  std::uint32_t pack = 0;
};

class HintRun {
 public:
  // `corrupt` or `io` for what cannot be used.
  static Result<HintRun> open(const std::string& path);

  [[nodiscard]] const std::vector<PackName>& sources() const { return sources_; }
  [[nodiscard]] const std::vector<PackName>& packs() const { return packs_; }
  [[nodiscard]] std::uint64_t size() const { return records_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // The packs that may hold the chunk, appended.
  Result<void> find(const ChunkId& id, std::vector<PackName>& out) const;
  // Records [from, from + count), for merging.
  Result<std::vector<Hint>> read(std::uint64_t from, std::size_t count) const;

 private:
  [[nodiscard]] bool may_have(const ChunkId& id) const;

  std::string path_;
  UniqueFd fd_;
  std::vector<PackName> sources_;
  std::vector<PackName> packs_;
  std::string filter_;
  std::uint64_t begin_ = 0;  // of the records
  std::uint64_t records_ = 0;
};

// All or nothing, but not synced: what a power cut takes from a cache is no loss.
Result<void> write_cache_file(const std::string& path, ByteView data);
// Writes a run; `hints` are sorted by it. All or nothing.
Result<void> write_hint_run(const std::string& path, const std::vector<PackName>& sources,
                            const std::vector<PackName>& packs, std::vector<Hint> hints);
// One run of several, streaming.
Result<void> merge_hint_runs(const std::string& path, const std::vector<const HintRun*>& runs);

}  // namespace ascope::chunks
