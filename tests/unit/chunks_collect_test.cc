// SPDX-License-Identifier: Apache-2.0
// gc of a chunk store: what it removes and why, and what is left when a call fails. Races are in
// chunks_races_test.cc.
#include <cstdlib>

#include <doctest/doctest.h>

#include "core/repository/chunks/collect.h"
#include "core/repository/chunks/manifest_list.h"
#include "core/repository/chunks/markers.h"
#include "core/repository/chunks/pinned_source.h"
#include "fakes/chunk_store.h"
#include "fakes/faulty_blobs.h"
#include "fakes/memory_scan.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using chunks::CollectOptions;
using chunks::CollectOutcome;
using test::ChunkRig;
using test::tree_with;

namespace {

const OpContext kCtx;
constexpr CollectOptions kNow{std::chrono::seconds(0), false};

Result<CollectOutcome> gc(ChunkRig& rig, CollectOptions options = kNow) {
  rig.reopen();
  ASCOPE_TRY_ASSIGN(const chunks::Access access, rig.repository->access(kCtx));
  return chunks::collect(kCtx, access, options);
}

const chunks::CollectedObject* find(const CollectOutcome& outcome, std::string_view object) {
  for (const auto& one : outcome.objects) {
    if (one.object == object) {
      return &one;
    }
  }
  return nullptr;
}

chunks::PackName name_of(const std::string& key) {
  return chunks::pack_name_from_hex(key.substr(key.rfind('/') + 1)).value();
}

void put_list(ChunkRig& rig, const std::string& object, const std::vector<chunks::PackName>& packs) {
  const auto access = rig.repository->access(kCtx).value();
  const std::string bytes = chunks::encode_condemned(*access.key, packs).value();
  REQUIRE(access.store->put_bytes(kCtx, object, bytes).value().has_value());
}

// Two snapshots, of which the first is no more.
struct Halved {
  ChunkRig rig;
  HistoryItem kept;
  std::vector<std::string> dead_packs;

  explicit Halved(bool encrypted = false) : rig(test::small_packs(encrypted)) {
    const auto gone = rig.save(test::many_files(60, 900, 1)).value().item;
    dead_packs = rig.keys("packs/");
    kept = rig.save(test::many_files(60, 900, 5000)).value().item;
    REQUIRE(rig.repository->remove(kCtx, gone).has_value());
  }
  bool is_whole() {
    rig.reopen();
    return rig.repository->check(kCtx, kept, true).value() == SnapshotHealth::usable;
  }
};

}  // namespace

TEST_CASE("chunks collect: removes what no manifest needs, and says why") {
  for (const bool encrypted : {false, true}) {
    Halved store(encrypted);
    const auto before = store.rig.stored_bytes();
    const auto keys = store.rig.keys();
    const auto planned = gc(store.rig, {std::chrono::seconds(0), true}).value();
    CHECK(store.rig.keys() == keys);
    const auto done = gc(store.rig).value();
    CHECK(done.objects.size() == planned.objects.size());
    CHECK(done.removed_bytes == planned.removed_bytes);
    CHECK(done.removed_bytes == before - store.rig.stored_bytes());
    CHECK(store.dead_packs.size() > 1);
    for (const std::string& pack : store.dead_packs) {
      CHECK_FALSE(store.rig.blobs.objects.contains(pack));
      REQUIRE(find(done, pack) != nullptr);
      CHECK(find(done, pack)->removed);
      CHECK(find(done, pack)->reason == "no snapshot needs it");
    }
    CHECK(store.rig.keys("condemned/").empty());
    CHECK(store.rig.keys("index/").size() == 1);  // of two
    CHECK(store.is_whole());
    const auto again = gc(store.rig).value();
    CHECK(again.objects.empty());
    CHECK(again.removed_bytes == 0);
  }
}

TEST_CASE("chunks collect: what is young stays, by the store's clock") {
  Halved store;
  store.rig.blobs.now += std::chrono::hours(23);
  const auto young = gc(store.rig, CollectOptions{}).value();
  CHECK(young.removed_bytes == 0);
  CHECK(young.objects.size() == store.dead_packs.size());
  for (const std::string& pack : store.dead_packs) {
    CHECK(store.rig.blobs.objects.contains(pack));
    REQUIRE(find(young, pack) != nullptr);
    CHECK_FALSE(find(young, pack)->removed);
  }
  store.rig.blobs.now += std::chrono::hours(2);
  CHECK(gc(store.rig, CollectOptions{}).value().removed_bytes > 0);
  CHECK(store.is_whole());
}

TEST_CASE("chunks collect: manifests of every realm are roots") {
  Halved store;
  store.rig.origin.realm = "realm-2";
  const auto other = store.rig.save(test::many_files(30, 900, 9000)).value().item;
  REQUIRE(gc(store.rig).has_value());
  CHECK(store.is_whole());
  CHECK(store.rig.repository->check(kCtx, other, true).value() == SnapshotHealth::usable);
}

TEST_CASE("chunks collect: a pin holds packs for a day, though the manifest goes") {
  ChunkRig rig(test::small_packs(false));
  const auto tree = test::many_files(60, 900, 1);
  const auto item = rig.save(tree).value().item;
  const auto access = rig.repository->access(kCtx).value();
  const auto root = rig.repository->read_root(kCtx, item.object).value();
  const std::string pin = chunks::put_pin(kCtx, *access.store, *access.key, item.object, root.packs).value();
  CHECK(chunks::read_pin(kCtx, *access.store, *access.key, pin).value()->manifest == item.object);
  const auto source = rig.repository->open(kCtx, item, SnapshotPart::workspace).value();
  REQUIRE(rig.repository->remove(kCtx, item).has_value());
  CHECK(chunks::put_pin(kCtx, *access.store, *access.key, item.object, root.packs).error().kind ==
        ErrorKind::not_found);
  CHECK(rig.keys("pins/").size() == 1);
  CHECK(gc(rig).value().objects.empty());
  for (const chunks::PackUse& use : root.packs) {
    CHECK(rig.blobs.objects.contains(chunks::pack_key(use.name)));
  }
  rig.blobs.now += chunks::kPinLife + std::chrono::seconds(1);
  const auto done = gc(rig).value();
  REQUIRE(find(done, pin) != nullptr);
  CHECK(find(done, pin)->removed);
  CHECK(rig.keys() == std::vector<std::string>{"repo", "repo.copy"});
}

TEST_CASE("chunks collect: what is read for long is pinned, and is read to its end though it was removed") {
  class SetClock final : public Clock {
   public:
    [[nodiscard]] Millis boottime() const override { return now; }
    [[nodiscard]] std::chrono::system_clock::time_point wall() const override { return {}; }
    Millis now{1000};
  } clock;
  OpContext ctx;
  ctx.clock = &clock;
  ChunkRig rig(test::small_packs(false));
  auto tree = test::many_files(60, 900, 1);
  const auto item = rig.save(tree).value().item;
  {
    const auto source = rig.repository->open(ctx, item, SnapshotPart::workspace).value();
    TreeEntry entry;
    REQUIRE(source->next(entry).value());
    CHECK(rig.keys("pins/").empty());
    clock.now += chunks::kReadUnpinned;
    REQUIRE(source->next(entry).value());
    CHECK(rig.keys("pins/").size() == 1);
    REQUIRE(rig.repository->remove(kCtx, item).has_value());
    const auto access = rig.repository->access(kCtx).value();  // gc() would reopen what the source reads by
    CHECK(chunks::collect(kCtx, access, CollectOptions{std::chrono::seconds(0)}).value().objects.empty());
    const auto rest = collect(*source);
    REQUIRE_MESSAGE(rest.has_value(), (rest ? "" : rest.error().message));
    CHECK(rest->size() + 2 == tree.size());
  }
  CHECK(rig.keys("pins/").empty());

  tree = test::many_files(60, 900, 2);
  const auto other = rig.save(tree).value().item;
  const auto source = rig.repository->open(ctx, other, SnapshotPart::workspace).value();
  REQUIRE(rig.repository->remove(kCtx, other).has_value());
  clock.now += chunks::kReadUnpinned;
  TreeEntry entry;
  const auto late = source->next(entry);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().kind == ErrorKind::not_found);
  CHECK(rig.keys("pins/").empty());
}

TEST_CASE("chunks collect: forwarders, in chains too") {
  ChunkRig rig(test::small_packs(false));
  const auto tree = test::many_files(60, 900, 1);
  const auto item = rig.save(tree).value().item;
  const auto access = rig.repository->access(kCtx).value();
  std::vector<std::string> chain = {rig.keys("packs/")[0]};
  for (int i = 0; i < 3; ++i) {  // its bytes go on to other names
    const auto to = chunks::random_pack_name();
    rig.blobs.objects[chunks::pack_key(to)] = rig.blobs.objects.find(chain.back())->second;
    rig.blobs.objects.erase(chain.back());
    const std::string bytes = chunks::encode_moved(*access.key, {}).value();
    REQUIRE(access.store->put_bytes(kCtx, chunks::moved_key(name_of(chain.back()), to), bytes).has_value());
    chain.push_back(chunks::pack_key(to));
  }
  const auto stray = chunks::moved_key(chunks::random_pack_name(), chunks::random_pack_name());
  REQUIRE(access.store->put_bytes(kCtx, stray, chunks::encode_moved(*access.key, {}).value()).has_value());
  const auto done = gc(rig).value();
  CHECK(done.objects.size() == 1);
  REQUIRE(find(done, stray) != nullptr);
  CHECK(find(done, stray)->removed);
  CHECK(rig.keys("moved/").size() == 3);
  rig.reopen();
  CHECK(describe(rig.load(item).value()) == describe(tree));
  REQUIRE(rig.repository->remove(kCtx, item).has_value());
  REQUIRE(gc(rig).has_value());
  CHECK(rig.keys() == std::vector<std::string>{"repo", "repo.copy"});
}

TEST_CASE("chunks collect: lists whose gc died") {
  Halved store;
  ChunkRig& rig = store.rig;
  const auto live = rig.repository->read_root(kCtx, store.kept.object).value().packs.at(0).name;
  put_list(rig, "condemned/gone", {chunks::random_pack_name()});
  put_list(rig, "condemned/empty", {});
  put_list(rig, "condemned/dead", {name_of(store.dead_packs[0])});
  put_list(rig, "condemned/needed", {name_of(store.dead_packs[1]), live});
  // As long as they are young somebody may be at work by them.
  const auto young = gc(rig, CollectOptions{}).value();
  CHECK(rig.keys("condemned/").size() == 4);
  CHECK(young.to_repack.empty());
  rig.blobs.now += std::chrono::hours(25);
  // Their packs go whatever their age.
  rig.blobs.objects.find(store.dead_packs[0])->second.modified = rig.blobs.now;
  const auto done = gc(rig, CollectOptions{}).value();
  CHECK(rig.keys("condemned/") == std::vector<std::string>{"condemned/needed"});
  CHECK(done.to_repack == std::vector<chunks::PackName>{live});
  CHECK_FALSE(rig.blobs.objects.contains(store.dead_packs[0]));
  REQUIRE(find(done, "condemned/needed") != nullptr);
  CHECK_FALSE(find(done, "condemned/needed")->removed);
  CHECK(store.is_whole());
}

TEST_CASE("chunks collect: what cannot be read stops it before anything is removed") {
  for (const std::string what : {"manifest", "pin"}) {
    Halved store;
    std::string object = store.kept.object;
    if (what == "pin") {
      object = "pins/" + std::string(32, 'a');
      const auto access = store.rig.repository->access(kCtx).value();
      REQUIRE(access.store->put_bytes(kCtx, object, "no pin").value().has_value());
    } else {
      store.rig.blobs.objects.find(object)->second.bytes[70] ^= 1;
    }
    const auto keys = store.rig.keys();
    const auto done = gc(store.rig);
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().kind == ErrorKind::corrupt);
    CHECK(done.error().message.find(object) != std::string::npos);
    CHECK(store.rig.keys() == keys);
  }
}

TEST_CASE("chunks collect: a call fails, loses its reply or is the last before a kill") {
  using Fault = test::FaultyBlobs::Fault;
  for (const Fault fault : {Fault::fail, Fault::lose, Fault::die}) {
    for (std::size_t at = 0;; ++at) {
      CAPTURE(static_cast<int>(fault));
      CAPTURE(at);
      Halved store;
      test::FaultyBlobs faulty(store.rig.blobs);
      faulty.fault = fault;
      faulty.at = at;
      const auto repository = make_chunk_repository(faulty, store.rig.options);
      const auto access = repository->access(kCtx);
      const auto done =
          access ? chunks::collect(kCtx, *access, kNow) : Result<CollectOutcome>(access.error());
      if (faulty.calls <= at) {
        CHECK(done.has_value());
        CHECK(at > 20);
        break;
      }
      CHECK(store.is_whole());
      const auto list = store.rig.keys("condemned/");
      CHECK(list.size() <= 1);
      REQUIRE(gc(store.rig).has_value());
      CHECK(store.rig.keys("condemned/").empty());
      for (const std::string& pack : store.dead_packs) {
        CHECK_FALSE(store.rig.blobs.objects.contains(pack));
      }
      CHECK(store.is_whole());
    }
  }
}

TEST_CASE("chunks collect: a store that goes on showing what was removed keeps its list") {
  Halved store;
  store.rig.blobs.before = [&](std::string_view call, std::string_view key) -> Result<void> {
    if (call == "remove" && key.starts_with("packs/")) {
      return make_error(ErrorKind::timeout, "no answer");
    }
    return ok();
  };
  const auto done = gc(store.rig);
  REQUIRE_FALSE(done.has_value());
  CHECK(store.rig.keys("condemned/").size() == 1);  // the removals may still be on their way
  store.rig.blobs.before = nullptr;
  REQUIRE(gc(store.rig).has_value());
  CHECK(store.rig.keys("condemned/").empty());
  CHECK(store.is_whole());
}

TEST_CASE("chunks collect: manifests by realm and slot, with revision and fence") {
  ChunkRig rig;
  const auto first = rig.save(tree_with({{"a", "1"}})).value().item;
  rig.origin.fence = 9;
  const auto second = rig.save(tree_with({{"a", "2"}})).value().item;
  rig.origin.slot = "user/a/c";
  const auto third = rig.save(tree_with({{"a", "3"}})).value().item;
  rig.origin.realm = "realm-2";
  const auto fourth = rig.save(tree_with({{"a", "4"}})).value().item;
  const auto access = rig.repository->access(kCtx).value();
  const auto objects = [&](std::string_view folder) {
    std::vector<std::string> out;
    for (const auto& one : chunks::list_manifests(kCtx, *access.store, folder).value()) {
      out.push_back(one.info.key);
    }
    return out;
  };
  const std::string slot = chunks::manifest_folder(*access.key, "realm-1", "user/a/b");
  CHECK(objects(slot) == std::vector<std::string>{first.object, second.object});
  CHECK(objects(chunks::realm_folder(*access.key, "realm-1")).size() == 3);
  CHECK(objects(chunks::realm_folder(*access.key, "realm-2")) == std::vector<std::string>{fourth.object});
  CHECK(objects(chunks::kManifestsFolder).size() == 4);
  const auto listed = chunks::list_manifests(kCtx, *access.store, slot).value();
  CHECK(listed[0].name.fence == 7);
  CHECK(listed[1].name.fence == 9);
  CHECK(listed[1].name.rev == second.rev);
  CHECK(listed[1].name.id == second.snapshot);
  CHECK(listed[1].name.folder == slot);
}

TEST_CASE("chunks collect: thousands of manifests, one at a time") {
  ChunkRig rig;
  const auto item = rig.save(tree_with({{"a", test::prose(3000, 1)}})).value().item;
  const auto access = rig.repository->access(kCtx).value();
  const auto root = rig.repository->read_root(kCtx, item.object).value();
  const std::size_t count = std::getenv("ASCOPE_TEST_FULL") != nullptr ? 10'000 : 500;
  std::set<std::string> packs;
  for (std::size_t i = 0; i < count; ++i) {
    auto other = root;
    other.id = rig.new_id();
    other.packs[0].name = chunks::random_pack_name();
    const std::string object = chunks::manifest_key(
        chunks::manifest_folder(*access.key, "realm-1", "slot " + std::to_string(i)), 1, 1, other.id, 0);
    rig.blobs.objects[object] = {chunks::encode_root(*access.key, other).value(), 1};
    packs.insert(chunks::pack_key(other.packs[0].name));
    rig.blobs.objects[chunks::pack_key(other.packs[0].name)] = {"x", 1};
    rig.blobs.objects[chunks::pack_key(chunks::random_pack_name())] = {"x", 1};
  }
  rig.blobs.now += std::chrono::hours(30);
  std::size_t roots = 0;
  rig.blobs.before = [&](std::string_view call, std::string_view key) {
    roots += call == "get" && key.starts_with("snapshots/") ? 1 : 0;
    return ok();
  };
  const auto done = gc(rig, CollectOptions{}).value();
  CHECK(roots == count + 1);  // each once, though they are listed twice
  CHECK(done.objects.size() == count);
  CHECK(rig.keys("packs/").size() == count + 1);
  for (const std::string& pack : packs) {
    CHECK(rig.blobs.objects.contains(pack));
  }
}
