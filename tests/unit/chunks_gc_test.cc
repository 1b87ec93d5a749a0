// SPDX-License-Identifier: Apache-2.0
// A save beside a gc, in every order of their steps that matters (protocols 3.4, 3.5): a snapshot that was
// saved never lacks a pack. And packs that others took over from (3.7).
#include <array>

#include <doctest/doctest.h>

#include "core/repository/chunks/markers.h"
#include "fakes/chunk_store.h"
#include "fakes/faulty_blobs.h"
#include "fakes/memory_scan.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using test::ChunkRig;
using test::FaultyBlobs;
using test::scan_instead;
using test::tree_with;

namespace {

const OpContext kCtx;

// The steps of a gc over all packs that no manifest names when it begins.
class Gc {
 public:
  Gc(BlobStore& blobs, ChunkRepository& repository) : blobs_(blobs), repository_(repository) {}
  void condemn() {
    access_ = repository_.access(kCtx).value();
    const auto live = live_packs();
    for (const BlobInfo& one : access_.store->list(kCtx, "packs/").value()) {
      const auto name = chunks::pack_name_from_hex(one.key.substr(one.key.rfind('/') + 1)).value();
      if (!live.contains(name)) {
        doomed_.push_back(name);
      }
    }
    const std::string bytes = chunks::encode_condemned(*access_.key, doomed_).value();
    ViewSource source(bytes);
    REQUIRE(blobs_.put(kCtx, "condemned/gc-1", source).value().has_value());
  }
  void look_again() {
    const auto live = live_packs();
    std::erase_if(doomed_, [&](const chunks::PackName& name) { return live.contains(name); });
  }
  void remove_packs() {
    for (const chunks::PackName& name : doomed_) {
      REQUIRE(blobs_.remove(kCtx, chunks::pack_key(name)).has_value());
      ++removed;
    }
  }
  void lift() { REQUIRE(blobs_.remove(kCtx, "condemned/gc-1").has_value()); }
  std::size_t removed = 0;

 private:
  std::set<chunks::PackName> live_packs() {
    std::set<chunks::PackName> out;
    for (const BlobInfo& one : repository_.list(kCtx).value()) {
      const auto root = repository_.read_root(kCtx, one.key);
      if (!root) {
        REQUIRE(root.error().kind == ErrorKind::not_found);
        continue;
      }
      for (const chunks::PackUse& use : root->packs) {
        out.insert(use.name);
      }
    }
    return out;
  }
  BlobStore& blobs_;
  ChunkRepository& repository_;
  chunks::Access access_;
  std::vector<chunks::PackName> doomed_;
};

constexpr std::size_t kSteps = 4;
using Order = std::array<std::size_t, kSteps>;  // before which call of the save each step of the gc comes

struct Race {
  std::size_t calls = 0;
  bool saved = false;
  std::uint64_t new_bytes = 0;
  unsigned rewrites = 0;
  std::size_t removed = 0;
  bool whole = true;  // what was saved is there when all is over
};

// An old pack that nothing names and hints propose, a save that wants what it holds, and a gc.
Race race(const Order& order, bool scan, bool lifts_early) {
  ChunkRig rig;
  const std::string content = test::noise(30'000, 1);
  const auto old = rig.save(tree_with({{"old", content}})).value().item;
  REQUIRE(rig.repository->remove(kCtx, old).has_value());
  const auto wanted = tree_with({{"new", "of this save"}, {"wanted", content}});
  Gc gc(rig.blobs, *rig.repository);
  FaultyBlobs between(rig.blobs);
  std::size_t step = 0;
  const auto go_to = [&](std::size_t call) {
    while (step < kSteps && order[step] <= call) {
      switch (step++) {
        case 0:
          gc.condemn();
          break;
        case 1:
          gc.look_again();
          break;
        case 2:
          lifts_early ? gc.lift() : gc.remove_packs();
          break;
        default:
          lifts_early ? gc.remove_packs() : gc.lift();
          break;
      }
    }
  };
  Race out;
  // Threads take turns on a store, so this is never called twice at once.
  between.before = [&](std::string_view, std::string_view) { go_to(out.calls++); };
  MemoryTree tree(wanted);
  SaveRequest request = rig.request(tree);
  if (scan) {
    scan_instead(request, wanted);
  }
  const auto saved = make_chunk_repository(between, rig.options)->save(kCtx, request);
  out.saved = saved.has_value();
  go_to(SIZE_MAX);  // the gc sleeps as long as it likes
  out.removed = gc.removed;
  rig.reopen();
  if (saved) {
    out.new_bytes = saved->new_bytes;
    out.rewrites = saved->condemned_rewrites;
    const auto got = rig.load(saved->item);
    out.whole = got.has_value() && describe(*got) == describe(wanted) &&
                rig.repository->check(kCtx, saved->item, true).value() == SnapshotHealth::usable;
  } else {
    CHECK(saved.error().kind == ErrorKind::conflict);
    CHECK(rig.keys("snapshots/").empty());
  }
  return out;
}

template <typename Each>
void each_order(std::size_t calls, Each each) {
  for (std::size_t a = 0; a <= calls; ++a) {
    for (std::size_t b = a; b <= calls; ++b) {
      for (std::size_t c = b; c <= calls; ++c) {
        for (std::size_t d = c; d <= calls; ++d) {
          each(Order{a, b, c, d});
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("chunks gc: a save and a gc in every order") {
  constexpr Order kAfter = {SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
  const std::size_t calls = race(kAfter, true, false).calls;
  REQUIRE(calls > 8);
  std::size_t rewritten = 0;
  std::size_t reused = 0;
  std::size_t removed = 0;
  each_order(calls, [&](const Order& order) {
    CAPTURE(order[0]);
    CAPTURE(order[1]);
    CAPTURE(order[2]);
    CAPTURE(order[3]);
    const Race one = race(order, true, false);
    CHECK(one.saved);
    CHECK(one.whole);
    rewritten += one.rewrites > 0 ? 1 : 0;
    reused += one.new_bytes < 30'000 ? 1 : 0;
    removed += one.removed > 0 ? 1 : 0;
  });
  CHECK(rewritten > 0);
  CHECK(reused > 0);
  CHECK(removed > 0);
}

TEST_CASE("chunks gc: a source that can be read once fails rather than commit") {
  const std::size_t calls = race({SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX}, false, false).calls;
  std::size_t refused = 0;
  each_order(calls, [&](const Order& order) {
    const Race one = race(order, false, false);
    CHECK(one.whole);
    refused += one.saved ? 0 : 1;
  });
  CHECK(refused > 0);
}

TEST_CASE("chunks gc: this test sees what a gc that lifts too early would do") {
  const std::size_t calls = race({SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX}, true, false).calls;
  std::size_t lost = 0;
  each_order(calls, [&](const Order& order) {
    lost += lost == 0 && !race(order, true, true).whole ? 1 : 0;  // one is enough
  });
  CHECK(lost > 0);
}

namespace {

// Moves all chunks of the packs that `item` needs into a new pack each; the old ones go.
void repack(ChunkRig& rig, const HistoryItem& item, bool keep_old) {
  const auto access = rig.repository->access(kCtx).value();
  const auto root = rig.repository->read_root(kCtx, item.object).value();
  chunks::FrameDecompressor decompressor;
  for (const chunks::PackUse& use : root.packs) {
    const auto info = chunks::read_pack(kCtx, *access.store, *access.key, use.name);
    if (!info) {
      continue;  // moved already
    }
    chunks::PackBuilder builder(*access.key);
    std::vector<chunks::ChunkId> ids;
    for (const auto& chunk : info->index.chunks()) {
      const chunks::ChunkRef ref{chunk.id, 0, info->index.frames()[chunk.frame], chunk.at, chunk.raw};
      const auto loaded = access.reader->load(kCtx, use.name, std::span(&ref, 1), decompressor).value();
      REQUIRE(
          builder.add(chunks::Codec::raw, std::string(loaded.chunks[0]), chunk.raw, {{chunk.id, chunk.raw}})
              .has_value());
      ids.push_back(chunk.id);
    }
    const chunks::PackName to = builder.name();
    REQUIRE(chunks::put_pack(kCtx, *access.store, builder.finish().value()).has_value());
    const std::string forwarder = chunks::encode_moved(*access.key, ids).value();
    CHECK(chunks::decode_moved(*access.key, forwarder).value() == ids);
    ViewSource source(forwarder);
    REQUIRE(rig.blobs.put(kCtx, chunks::moved_key(use.name, to), source).value().has_value());
    if (!keep_old) {
      REQUIRE(rig.blobs.remove(kCtx, chunks::pack_key(use.name)).has_value());
    }
  }
}

}  // namespace

TEST_CASE("chunks gc: a snapshot whose packs were repacked, once or again, reads on") {
  for (const bool encrypted : {false, true}) {
    ChunkOptions options;
    options.pipeline.pack_bytes = 20'000;
    options.pipeline.frame_bytes = 10'000;
    options.key = encrypted ? Secret(std::string(32, 'k')) : Secret();
    ChunkRig rig(options);
    const auto tree = test::many_files(300, 400, 1);
    const auto saved = rig.save(tree).value().item;
    const auto packs = rig.keys("packs/");
    REQUIRE(packs.size() > 2);
    repack(rig, saved, false);
    for (const std::string& gone : packs) {
      CHECK_FALSE(rig.blobs.objects.contains(gone));
    }
    rig.reopen();
    CHECK(describe(rig.load(saved).value()) == describe(tree));
    CHECK(rig.repository->check(kCtx, saved, true).value() == SnapshotHealth::usable);
    // The packs that took over are repacked too.
    const auto access = rig.repository->access(kCtx).value();
    for (const std::string& key : rig.keys("packs/")) {
      const auto from = chunks::pack_name_from_hex(key.substr(key.rfind('/') + 1)).value();
      const auto to = chunks::random_pack_name();
      auto object = rig.blobs.objects.find(key)->second;
      rig.blobs.objects[chunks::pack_key(to)] = object;  // its key comes from its salt, not from its name
      rig.blobs.objects.erase(key);
      const std::string forwarder = chunks::encode_moved(*access.key, {}).value();
      rig.blobs.objects[chunks::moved_key(from, to)] = {forwarder, 1};
    }
    rig.reopen();
    CHECK(describe(rig.load(saved).value()) == describe(tree));
    CHECK(rig.repository->check(kCtx, saved, true).value() == SnapshotHealth::usable);
    // Without the last of them it is said which pack is missing.
    rig.blobs.objects.erase(rig.keys("packs/").front());
    rig.reopen();
    CHECK(rig.load(saved).error().kind == ErrorKind::not_found);
    CHECK(rig.repository->check(kCtx, saved, true).value() == SnapshotHealth::missing);
  }
}

TEST_CASE("chunks gc: a save that relies on a pack that was repacked takes its heir") {
  ChunkRig rig;
  const std::string content = test::noise(50'000, 1);
  const auto old = rig.save(tree_with({{"old", content}})).value().item;
  repack(rig, old, true);
  REQUIRE(rig.repository->remove(kCtx, old).has_value());
  const auto root_pack = rig.keys("moved/")[0].substr(6, 32);
  const std::string list = chunks::encode_condemned(*rig.repository->access(kCtx).value().key,
                                                    {chunks::pack_name_from_hex(root_pack).value()})
                               .value();
  rig.blobs.objects["condemned/gc-1"] = {list, 1};
  const auto wanted = tree_with({{"again", content}});
  SaveRequest request;
  MemoryTree unused;
  request = rig.request(unused);
  scan_instead(request, wanted);
  const auto saved = rig.repository->save(kCtx, request);
  REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().message));
  CHECK(saved->condemned_rewrites == 1);
  CHECK(saved->new_bytes == 0);
  const auto root = rig.repository->read_root(kCtx, saved->item.object).value();
  for (const auto& use : root.packs) {
    CHECK(to_hex(use.name.view()) != root_pack);
  }
  rig.blobs.objects.erase(chunks::pack_key(chunks::pack_name_from_hex(root_pack).value()));
  CHECK(describe(rig.load(saved->item).value()) == describe(wanted));
}
