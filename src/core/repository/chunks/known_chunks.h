// SPDX-License-Identifier: Apache-2.0
// Is a chunk stored already, and where? Asked, in this order: what this save has stored itself, then what
// hints propose and the proposed pack's own index confirms.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/repository/chunks/entry_reader.h"
#include "core/repository/chunks/hints.h"
#include "core/repository/chunks/pack_directory.h"
#include "core/repository/chunks/session_packs.h"

namespace ascope::chunks {

enum class Dedup { store, slot };  // across slots of the store, or only with the slot's own parent

// A chunk whose frame has no place yet: `pack` is this, and frame.offset is the frame's label.
inline constexpr std::uint32_t kUnplaced = UINT32_MAX;

struct KnownContext {
  StoreAccess* store = nullptr;
  const RepositoryKey* key = nullptr;
  ChunkReader* reader = nullptr;
  const Manifest* parent = nullptr;  // may be null
  Dedup dedup = Dedup::store;
  std::string cache_dir;          // of this store
  std::string journal_dir;        // of this slot
  std::vector<PackName> offered;  // packs to be asked too
};

class KnownChunks {
 public:
  KnownChunks(KnownContext context, SessionPacks& packs, const std::set<PackName>& avoid);

  // The chunk's place; its pack is not one to avoid. A chunk of this save may be without a place yet.
  Result<std::optional<ChunkRef>> find(const OpContext& ctx, const ChunkId& id, std::uint32_t raw);
  // A label for a frame to come.
  std::uint32_t new_label();
  // Remembers a chunk that frame `label` will hold.
  void add(const ChunkId& id, std::uint32_t label, std::uint32_t at, std::uint32_t raw);
  // The frame has its place.
  void place(std::uint32_t label, std::uint32_t pack, const FrameRef& frame);
  // References to frames with a place get it; false: to some that have none.
  bool resolve(ChunkRef& ref) const;
  // `pack` can be read from the store from now on.
  void pack_is_put(std::uint32_t pack) { put_.insert(pack); }
  // Keeps memory bounded; call now and then.
  Result<void> shrink();
  [[nodiscard]] const PackJournal& journal() const { return journal_; }

 private:
  struct Place {
    std::uint32_t label = 0;
    std::uint32_t at = 0;
    std::uint32_t raw = 0;
  };
  struct Frame {
    std::uint32_t pack = kUnplaced;
    FrameRef frame;
  };
  Result<void> load(const OpContext& ctx);
  Result<void> load_journal(const OpContext& ctx);
  Result<void> load_offered(const OpContext& ctx);
  Result<void> load_parent(const OpContext& ctx, const std::vector<PageRef>& pages);
  [[nodiscard]] bool hints_cover_parent() const;

  KnownContext context_;
  SessionPacks& packs_;
  const std::set<PackName>& avoid_;
  Hints hints_;
  PackJournal journal_;
  PackDirectory directory_;
  bool loaded_ = false;
  std::unordered_map<ChunkId, Place, ChunkId::Hash> own_;
  std::vector<Frame> frames_;  // by label
  std::set<std::uint32_t> put_;
};

}  // namespace ascope::chunks
