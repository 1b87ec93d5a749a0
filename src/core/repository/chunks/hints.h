// SPDX-License-Identifier: Apache-2.0
// What the store, this machine's cache and a save that was cut off know of chunks that exist: proposals only.
//
// Objects index/<32 hex>, sealed ("ASIX"): packs, one behind the other, as name[16] · u32 bytes · index in
// the form of pack.h. Each save leaves those of its new packs, at most some MiB an object. Cache folder:
// hints/<hex>.run (hint_run.h), journal/<slot>/<pack hex> (the index of a pack that a save put).
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/repository/chunks/hint_run.h"
#include "core/repository/chunks/key.h"
#include "core/repository/chunks/store_access.h"

namespace ascope::chunks {

inline constexpr std::string_view kHintsFolder = "index/";

// The chunks that an index in the form of pack.h names, for hints: cut or strange ones give what can be read.
std::vector<ChunkId> ids_of_index(ByteView index);

struct NamedIndex {
  PackName pack;
  std::string index;
};
Result<std::string> encode_hints(const RepositoryKey& key, const std::vector<NamedIndex>& packs);
Result<std::vector<NamedIndex>> decode_hints(const RepositoryKey& key, const std::string& object);

// Puts them as a new object; its bytes.
Result<std::uint64_t> put_hint(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                               const std::vector<NamedIndex>& packs);

class Hints {
 public:
  // `folder` is the cache folder of this store.
  explicit Hints(std::string folder) : folder_(std::move(folder)) {}

  // Brings the cache up to what the store has under index/ and opens it. What is damaged there is left out.
  Result<void> load(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key);
  // Adds chunks of this save's own, in a file without a name.
  Result<void> add(const std::vector<PackName>& packs, std::vector<Hint> hints);
  Result<std::vector<PackName>> find(const ChunkId& id) const;
  [[nodiscard]] bool knows(const PackName& pack) const { return packs_.contains(pack); }

 private:
  Result<std::set<PackName>> open_cached(const std::set<PackName>& present);
  Result<void> fetch(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                     const PackName& source);
  Result<void> merge();
  Result<void> open_run(const std::string& path, std::vector<HintRun>& into);
  Result<void> open_shared(const std::string& path);
  Result<void> open_nameless(const std::string& path);

  std::string folder_;
  std::vector<HintRun> shared_;
  std::vector<HintRun> own_;
  std::set<PackName> packs_;
};

// The journal of the packs that saves of one slot have put; for a save that goes on after a kill. Not synced.
class PackJournal {
 public:
  explicit PackJournal(std::string folder) : folder_(std::move(folder)) {}
  Result<void> add(const PackName& pack, const std::string& index) const;
  Result<void> remove(const PackName& pack) const;
  // Gives each note that is there, but for packs in `settled` and for those older than a week, which are
  // removed.
  Result<void> each(const OpContext& ctx, const std::set<PackName>& settled,
                    const std::function<Result<void>(const NamedIndex&)>& take) const;

 private:
  std::string folder_;
};

}  // namespace ascope::chunks
