// SPDX-License-Identifier: Apache-2.0
// Saves of a chunk store beside those who collect and repack it, one store call at a time; and stores that
// make one of them behave worse than it does, to see that the loss is found.
#pragma once

#include <set>

#include "fakes/chunk_store.h"
#include "fakes/memory_scan.h"
#include "fakes/turns.h"

namespace ascope::test {

// Passes every call on.
class PassingBlobs : public BlobStore {
 public:
  explicit PassingBlobs(BlobStore& inner) : inner_(inner) {}
  Result<std::optional<BlobInfo>> put(const OpContext& ctx, std::string_view key, ByteSource& data) override {
    return inner_.put(ctx, key, data);
  }
  Result<std::unique_ptr<ByteSource>> get(const OpContext& ctx, std::string_view key, std::uint64_t offset,
                                          std::uint64_t length) override {
    return inner_.get(ctx, key, offset, length);
  }
  Result<std::optional<BlobInfo>> stat(const OpContext& ctx, std::string_view key) override {
    return inner_.stat(ctx, key);
  }
  Result<std::vector<BlobInfo>> list(const OpContext& ctx, std::string_view prefix) override {
    return inner_.list(ctx, prefix);
  }
  Result<void> remove(const OpContext& ctx, std::string_view key) override { return inner_.remove(ctx, key); }

 protected:
  BlobStore& inner_;
};

// Packs are asked for when the condemned lists are about to be read; later the answer of then is given.
class AskingTooEarly final : public PassingBlobs {
 public:
  using PassingBlobs::PassingBlobs;
  Result<std::vector<BlobInfo>> list(const OpContext& ctx, std::string_view prefix) override {
    if (prefix == "condemned/") {
      there_.clear();
      ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> packs, inner_.list(ctx, "packs/"));
      for (const BlobInfo& one : packs) {
        there_.emplace(one.key, one);
      }
    }
    return inner_.list(ctx, prefix);
  }
  Result<std::optional<BlobInfo>> stat(const OpContext& ctx, std::string_view key) override {
    const auto found = there_.find(key);
    return found != there_.end() ? Result<std::optional<BlobInfo>>(std::optional(found->second))
                                 : inner_.stat(ctx, key);
  }

 private:
  std::map<std::string, BlobInfo, std::less<>> there_;
};

// The list is lifted before the first pack is removed.
class LiftingTooEarly final : public PassingBlobs {
 public:
  using PassingBlobs::PassingBlobs;
  Result<std::optional<BlobInfo>> put(const OpContext& ctx, std::string_view key, ByteSource& data) override {
    if (key.starts_with("condemned/")) {
      list_ = key;
    }
    return inner_.put(ctx, key, data);
  }
  Result<void> remove(const OpContext& ctx, std::string_view key) override {
    if (key.starts_with("packs/") && !list_.empty()) {
      ASCOPE_TRY(inner_.remove(ctx, std::exchange(list_, "")));
    }
    return inner_.remove(ctx, key);
  }

 private:
  std::string list_;
};

// What was listed once is not listed again.
class LookingOnce final : public PassingBlobs {
 public:
  using PassingBlobs::PassingBlobs;
  Result<std::vector<BlobInfo>> list(const OpContext& ctx, std::string_view prefix) override {
    if (const auto found = lists_.find(prefix); found != lists_.end()) {
      return found->second;
    }
    ASCOPE_TRY_ASSIGN(std::vector<BlobInfo> all, inner_.list(ctx, prefix));
    return lists_.emplace(std::string(prefix), std::move(all)).first->second;
  }

 private:
  std::map<std::string, std::vector<BlobInfo>, std::less<>> lists_;
};

// Lists of condemned packs vanish as soon as they are put.
class CondemningNothing final : public PassingBlobs {
 public:
  using PassingBlobs::PassingBlobs;
  Result<std::optional<BlobInfo>> put(const OpContext& ctx, std::string_view key, ByteSource& data) override {
    ASCOPE_TRY_ASSIGN(std::optional<BlobInfo> info, inner_.put(ctx, key, data));
    if (key.starts_with("condemned/")) {
      ASCOPE_TRY(inner_.remove(ctx, key));
    }
    return info;
  }
};

// What begins with a prefix is not there for those who list it.
class Blind final : public PassingBlobs {
 public:
  Blind(BlobStore& inner, std::string prefix) : PassingBlobs(inner), prefix_(std::move(prefix)) {}
  Result<std::vector<BlobInfo>> list(const OpContext& ctx, std::string_view prefix) override {
    return prefix.starts_with(prefix_) ? Result<std::vector<BlobInfo>>(std::vector<BlobInfo>())
                                       : inner_.list(ctx, prefix);
  }

 private:
  std::string prefix_;
};

using Wrapped = std::unique_ptr<BlobStore>;
inline Wrapped asks_too_early(BlobStore& inner) {
  return std::make_unique<AskingTooEarly>(inner);
}
inline Wrapped lifts_too_early(BlobStore& inner) {
  return std::make_unique<LiftingTooEarly>(inner);
}
inline Wrapped looks_once(BlobStore& inner) {
  return std::make_unique<LookingOnce>(inner);
}
inline Wrapped condemns_nothing(BlobStore& inner) {
  return std::make_unique<CondemningNothing>(inner);
}
inline Wrapped sees_nothing_condemned(BlobStore& inner) {
  return std::make_unique<Blind>(inner, "condemned/");
}
inline Wrapped sees_no_forwarders(BlobStore& inner) {
  return std::make_unique<Blind>(inner, "moved/");
}

class ChunkRace {
 public:
  using Wrap = std::function<std::unique_ptr<BlobStore>(BlobStore&)>;
  struct Counts {
    std::size_t saved = 0;
    std::size_t rewritten = 0;
    std::size_t reused = 0;
  };

  explicit ChunkRace(ChunkOptions options = {}) : rig(std::move(options)) {}

  ChunkRig rig;

  // A snapshot that stays.
  HistoryItem save(const std::vector<std::pair<std::string, std::string>>& files) {
    auto tree = tree_with(files);
    HistoryItem item = rig.save(tree).value().item;
    saved_.push_back({item, std::move(tree)});
    return item;
  }
  // A pack that no manifest names, though hints tell of it.
  void leave_unnamed(const std::vector<std::pair<std::string, std::string>>& files) {
    const auto old = rig.save(tree_with(files)).value().item;
    static_cast<void>(rig.repository->remove(OpContext{}, old).has_value());
  }
  void add_save(const std::vector<std::pair<std::string, std::string>>& files, const Wrap& wrap = nullptr,
                const HistoryItem* parent = nullptr) {
    saves_.push_back(std::make_unique<Save>());
    Save& save = *saves_.back();
    save.tree = tree_with(files);
    save.parent = parent == nullptr ? HistoryItem() : *parent;
    MemoryTree unused;
    save.request = rig.request(unused, parent == nullptr ? nullptr : &save.parent);
    save.request.origin.slot += parent == nullptr ? std::to_string(saves_.size()) : "";
    scan_instead(save.request, save.tree);
    add_actor(
        [&save](ChunkRepository& repository) {
          auto done = repository.save(OpContext{}, save.request);
          if (done) {
            save.outcome = std::move(*done);
          }
        },
        wrap);
  }
  void add(std::function<void(const chunks::Access&)> act, const Wrap& wrap = nullptr) {
    add_actor(
        [act = std::move(act)](ChunkRepository& repository) {
          if (const auto access = repository.access(OpContext{})) {
            act(*access);
          }
        },
        wrap);
  }
  void kill(std::size_t actor, std::size_t at) { actors_[actor].dies_at = at; }
  void run(Schedule& schedule, std::vector<std::string>* trace = nullptr) {
    Turns::run(rig.blobs, actors_, schedule, trace);
  }
  // True if every snapshot that was saved is all there.
  bool is_whole(Counts& counts) {
    rig.reopen();
    for (const auto& [item, tree] : saved_) {
      if (!is_whole(item, tree)) {
        return false;
      }
    }
    for (const auto& save : saves_) {
      if (save->outcome) {
        ++counts.saved;
        counts.rewritten += save->outcome->condemned_rewrites > 0 ? 1 : 0;
        counts.reused += save->outcome->reused_bytes > 0 ? 1 : 0;
        if (!is_whole(save->outcome->item, save->tree)) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  struct Save {
    std::vector<MemoryEntry> tree;
    HistoryItem parent;
    SaveRequest request;
    std::optional<SaveOutcome> outcome;
  };
  void add_actor(std::function<void(ChunkRepository&)> act, const Wrap& wrap) {
    caches_.push_back(std::make_unique<TempFolder>());
    ChunkOptions options = rig.options;
    options.cache_dir = caches_.back()->path();
    actors_.push_back({[act = std::move(act), options, wrap](BlobStore& seat) {
                         const std::unique_ptr<BlobStore> worse = wrap ? wrap(seat) : nullptr;
                         const auto repository = make_chunk_repository(worse ? *worse : seat, options);
                         act(*repository);
                       },
                       Turns::kNever});
  }
  bool is_whole(const HistoryItem& item, const std::vector<MemoryEntry>& tree) {
    const auto got = rig.load(item);
    const auto health = rig.repository->check(OpContext{}, item, true);
    return got && describe(*got) == describe(tree) && health && *health == SnapshotHealth::usable;
  }

  std::vector<std::pair<HistoryItem, std::vector<MemoryEntry>>> saved_;
  std::vector<std::unique_ptr<Save>> saves_;
  std::vector<std::unique_ptr<TempFolder>> caches_;
  std::vector<Turns::Actor> actors_;
};

}  // namespace ascope::test
