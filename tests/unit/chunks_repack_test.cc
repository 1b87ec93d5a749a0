// SPDX-License-Identifier: Apache-2.0
// Packs of which too little is needed give way; every snapshot reads on, whatever happens meanwhile. Races
// are in chunks_races_test.cc.
#include <doctest/doctest.h>

#include "core/repository/chunks/collect.h"
#include "core/repository/chunks/markers.h"
#include "core/repository/chunks/repack.h"
#include "fakes/chunk_store.h"
#include "fakes/faulty_blobs.h"
#include "fakes/memory_scan.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using chunks::RepackOptions;
using chunks::RepackOutcome;
using test::ChunkRig;
using test::FaultyBlobs;

namespace {

const OpContext kCtx;
constexpr chunks::CollectOptions kNow{std::chrono::seconds(0), false};

// A store whose packs are needed by a part only: of 120 files a third is left.
struct Wasteful {
  ChunkRig rig;
  std::vector<MemoryEntry> tree;
  HistoryItem kept;

  explicit Wasteful(bool encrypted = false) : rig(options(encrypted)) {
    auto all = test::many_files(120, 900, 1);
    const auto gone = rig.save(all).value().item;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].entry.type != EntryType::file || i % 3 == 0) {
        tree.push_back(all[i]);
      }
    }
    kept = rig.save(tree).value().item;
    REQUIRE(rig.repository->remove(kCtx, gone).has_value());
  }
  static ChunkOptions options(bool encrypted) {
    ChunkOptions out = test::small_packs(encrypted);
    out.pipeline.pack_bytes = 30'000;
    return out;
  }
  [[nodiscard]] bool is_whole() {
    rig.reopen();
    const auto got = rig.load(kept);
    return got && describe(*got) == describe(tree) &&
           rig.repository->check(kCtx, kept, true).value() == SnapshotHealth::usable;
  }
  Result<RepackOutcome> repack(RepackOptions wanted = {}) {
    rig.reopen();
    ASCOPE_TRY_ASSIGN(const chunks::Access access, rig.repository->access(kCtx));
    return chunks::repack(kCtx, access, wanted);
  }
  Result<chunks::CollectOutcome> collect() {
    rig.reopen();
    rig.blobs.now += std::chrono::seconds(1);
    ASCOPE_TRY_ASSIGN(const chunks::Access access, rig.repository->access(kCtx));
    return chunks::collect(kCtx, access, kNow);
  }
};

chunks::PackName name_of(const std::string& key) {
  return chunks::pack_name_from_hex(key.substr(key.rfind('/') + 1)).value();
}

std::vector<chunks::PackName> all_packs(ChunkRig& rig) {
  std::vector<chunks::PackName> out;
  for (const std::string& key : rig.keys("packs/")) {
    out.push_back(name_of(key));
  }
  return out;
}

}  // namespace

TEST_CASE("chunks repack: what is needed moves, the rest goes") {
  for (const bool encrypted : {false, true}) {
    CAPTURE(encrypted);
    Wasteful store(encrypted);
    const auto before = store.rig.stored_bytes();
    RepackOptions dry;
    dry.dry_run = true;
    const auto keys = store.rig.keys();
    const auto planned = store.repack(dry).value();
    CHECK(store.rig.keys() == keys);
    const auto done = store.repack().value();
    CHECK(planned.packs.size() == done.packs.size());
    CHECK(planned.removed_bytes == done.removed_bytes);
    CHECK(done.packs.size() > 1);
    CHECK(before - done.removed_bytes + done.written_bytes == store.rig.stored_bytes());
    CHECK(store.rig.stored_bytes() < before * 7 / 10);
    CHECK(store.is_whole());
    CHECK(store.rig.keys("condemned/").empty());
    CHECK(store.rig.keys("moved/").size() == done.packs.size());
    for (const auto& one : done.packs) {
      CHECK(one.repacked);
      CHECK(one.reason == "too little of it is needed");
      CHECK_FALSE(store.rig.blobs.objects.contains(chunks::pack_key(one.pack)));
      CHECK(one.needed_bytes < one.size_bytes * 7 / 10);
    }
    CHECK(store.repack().value().packs.empty());  // once is enough
    REQUIRE(store.collect().has_value());
    CHECK(store.is_whole());
    CHECK(store.rig.keys("moved/").size() == done.packs.size());
    // A save uses what was moved.
    const auto again = store.rig.save(store.tree).value();
    CHECK(again.new_bytes == 0);
    REQUIRE(store.rig.repository->remove(kCtx, store.kept).has_value());
    store.kept = again.item;
    REQUIRE(store.collect().has_value());
    CHECK(store.rig.keys("moved/").empty());
    CHECK(store.is_whole());
  }
}

TEST_CASE("chunks repack: an index of tiny chunks is no waste") {
  ChunkRig rig(test::small_packs(false));
  MemoryTree tree;
  tree.folder("");
  for (int i = 0; i < 300; ++i) {
    tree.file("f" + std::to_string(1000 + i), "content " + std::to_string(i));
  }
  REQUIRE(rig.save(tree.entries).has_value());
  const auto access = rig.repository->access(kCtx).value();
  CHECK(chunks::repack(kCtx, access, {}).value().packs.empty());
}

TEST_CASE("chunks repack: again and again, and the chain does not grow") {
  Wasteful store;
  for (int round = 0; round < 12; ++round) {
    RepackOptions all;
    all.also = all_packs(store.rig);
    const auto done = store.repack(all).value();
    CHECK(done.packs.size() >= 1);
    for (const auto& one : done.packs) {
      CHECK(one.repacked);
    }
    CHECK(store.is_whole());
  }
}

TEST_CASE("chunks repack: packs that a dead gc condemned") {
  Wasteful store;
  const auto access = store.rig.repository->access(kCtx).value();
  const auto root = store.rig.repository->read_root(kCtx, store.kept.object).value();
  const std::string list = chunks::encode_condemned(*access.key, {root.packs.back().name}).value();
  REQUIRE(access.store->put_bytes(kCtx, "condemned/dead", list).value().has_value());
  RepackOptions options;
  options.waste = 1.0;
  options.also = store.collect().value().to_repack;
  CHECK(options.also == std::vector<chunks::PackName>{root.packs.back().name});
  const auto done = store.repack(options).value();
  REQUIRE(done.packs.size() == 1);
  CHECK(done.packs[0].reason == "a gc that died has condemned it");
  REQUIRE(store.collect().has_value());
  CHECK(store.rig.keys("condemned/").empty());
  CHECK(store.is_whole());
}

TEST_CASE("chunks repack: what a pin holds stays as it is") {
  Wasteful store;
  const auto access = store.rig.repository->access(kCtx).value();
  const auto root = store.rig.repository->read_root(kCtx, store.kept.object).value();
  const std::string pin =
      chunks::put_pin(kCtx, *access.store, *access.key, store.kept.object, root.packs).value();
  const auto done = store.repack().value();
  CHECK_FALSE(done.packs.empty());
  for (const auto& one : done.packs) {
    CHECK_FALSE(one.repacked);
    CHECK(one.reason == "somebody reads a snapshot of it");
    CHECK(store.rig.blobs.objects.contains(chunks::pack_key(one.pack)));
  }
  CHECK(store.rig.keys("moved/").empty());
  REQUIRE(store.rig.blobs.remove(kCtx, pin).has_value());
  CHECK(store.repack().value().removed_bytes > 0);
}

TEST_CASE("chunks repack: a pack that is damaged stays, and is named") {
  for (const std::string what : {"frame", "index"}) {
    CAPTURE(what);
    Wasteful store;
    const auto planned = store
                             .repack([] {
                               RepackOptions dry;
                               dry.dry_run = true;
                               return dry;
                             }())
                             .value();
    REQUIRE(planned.packs.size() > 1);
    const auto damaged = planned.packs[0].pack;
    auto& bytes = store.rig.blobs.objects.find(chunks::pack_key(damaged))->second.bytes;
    if (what == "index") {
      bytes[bytes.size() - 60] = static_cast<char>(bytes[bytes.size() - 60] ^ 1);
    } else {
      for (std::size_t at = chunks::kPackHeaderBytes; at < bytes.size() / 2; at += 40) {
        bytes[at] = static_cast<char>(bytes[at] ^ 1);
      }
    }
    const auto done = store.repack();
    if (!done) {  // a page was hit, so what is needed is not known
      CHECK(done.error().kind == ErrorKind::corrupt);
      CHECK(store.rig.keys("moved/").empty());
      continue;
    }
    CHECK(store.rig.blobs.objects.contains(chunks::pack_key(damaged)));
    for (const auto& one : done->packs) {
      CHECK(one.repacked == (one.pack != damaged));
      if (one.pack == damaged) {
        CHECK(one.reason.find(to_hex(damaged.view())) != std::string::npos);
      }
    }
    CHECK(store.rig.keys("condemned/").empty());
  }
}

TEST_CASE("chunks repack: a call fails, loses its reply or is the last before a kill") {
  using Fault = FaultyBlobs::Fault;
  for (const Fault fault : {Fault::fail, Fault::lose, Fault::die}) {
    for (std::size_t at = 0;; ++at) {
      CAPTURE(static_cast<int>(fault));
      CAPTURE(at);
      Wasteful store;
      FaultyBlobs faulty(store.rig.blobs);
      faulty.fault = fault;
      faulty.at = at;
      const auto repository = make_chunk_repository(faulty, store.rig.options);
      const auto access = repository->access(kCtx);
      const auto done = access ? chunks::repack(kCtx, *access, {}) : Result<RepackOutcome>(access.error());
      if (faulty.calls <= at) {
        CHECK(done.has_value());
        CHECK(at > 30);
        break;
      }
      REQUIRE(store.is_whole());
      // Repeated, with what gc says: the store becomes what it would have.
      RepackOptions again;
      again.also = store.collect().value().to_repack;
      REQUIRE(store.is_whole());
      REQUIRE(store.repack(again).has_value());
      REQUIRE(store.is_whole());
      const auto last = store.collect();
      REQUIRE(last.has_value());
      CHECK(last->to_repack.empty());
      CHECK(store.rig.keys("condemned/").empty());
      CHECK(store.repack().value().packs.empty());
      REQUIRE(store.is_whole());
    }
  }
}
