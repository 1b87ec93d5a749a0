// SPDX-License-Identifier: Apache-2.0
// What a chunk store says of how much it holds.
#include <doctest/doctest.h>

#include "core/repository/chunks/stats.h"
#include "fakes/chunk_store.h"
#include "fakes/memory_scan.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using test::ChunkRig;
using test::tree_with;

namespace {

const OpContext kCtx;

chunks::StoreStats stats_of(ChunkRig& rig) {
  rig.reopen();
  return chunks::count_store(kCtx, rig.repository->access(kCtx).value()).value();
}

std::uint64_t bytes_of(ChunkRig& rig, std::string_view prefix) {
  std::uint64_t sum = 0;
  for (const std::string& key : rig.keys(prefix)) {
    sum += rig.blobs.objects.find(key)->second.bytes.size();
  }
  return sum;
}

}  // namespace

TEST_CASE("chunks stats: what is shared counts once, in a slot and in the store") {
  for (const bool encrypted : {false, true}) {
    ChunkOptions options;
    options.key = encrypted ? Secret(std::string(32, 'k')) : Secret();
    ChunkRig rig(options);
    const std::string a = test::noise(5000, 1);
    const std::string b = test::noise(7000, 2);
    const std::string c = test::noise(9000, 3);
    REQUIRE(rig.save(tree_with({{"a", a}, {"b", b}})).has_value());
    REQUIRE(rig.save(tree_with({{"a", a}, {"a again", a}, {"b", b}})).has_value());
    rig.origin.slot = "user/a/other";
    REQUIRE(rig.save(tree_with({{"b", b}, {"c", c}})).has_value());
    const auto stats = stats_of(rig);
    REQUIRE(stats.slots.size() == 2);
    const bool first = stats.slots[0].slot == "user/a/b";
    const auto& one = stats.slots[first ? 0 : 1];
    const auto& other = stats.slots[first ? 1 : 0];
    CHECK(one.realm == "realm-1");
    CHECK(one.content.snapshots == 2);
    CHECK(one.content.files == 5);
    CHECK(one.content.logical_bytes == 3 * a.size() + 2 * b.size());
    CHECK(one.content.chunks == 2);
    CHECK(one.content.unique_bytes == a.size() + b.size());
    CHECK(other.slot == "user/a/other");
    CHECK(other.content.snapshots == 1);
    CHECK(other.content.logical_bytes == b.size() + c.size());
    CHECK(other.content.unique_bytes == b.size() + c.size());
    CHECK(stats.content.snapshots == 3);
    CHECK(stats.content.logical_bytes == 3 * a.size() + 3 * b.size() + c.size());
    CHECK(stats.content.chunks == 3);
    CHECK(stats.content.unique_bytes == a.size() + b.size() + c.size());
    CHECK(stats.content.page_bytes == one.content.page_bytes + other.content.page_bytes);
    CHECK(stats.content.needed_bytes < one.content.needed_bytes + other.content.needed_bytes);
    CHECK(stats.content.needed_bytes <= stats.pack_bytes);
    CHECK(stats.content.needed_bytes > stats.content.unique_bytes);
    CHECK(stats.packs == rig.keys("packs/").size());
    CHECK(stats.pack_bytes == bytes_of(rig, "packs/"));
    CHECK(stats.manifest_bytes == bytes_of(rig, "snapshots/"));
    CHECK(stats.pack_bytes + stats.manifest_bytes + stats.other_bytes == rig.stored_bytes());
    const auto access = rig.repository->access(kCtx).value();
    const auto alone =
        chunks::count_store(kCtx, access, chunks::manifest_folder(*access.key, "realm-1", "user/a/other"))
            .value();
    CHECK(alone.slots.size() == 1);
    CHECK(alone.content.unique_bytes == other.content.unique_bytes);
  }
}

TEST_CASE("chunks stats: shared pages are read once a slot, whatever the number of snapshots") {
  ChunkRig rig;
  auto tree = test::many_files(600, 60, 1);
  REQUIRE(rig.save(tree).has_value());
  std::size_t gets = 0;
  const auto count = [&] {
    gets = 0;
    rig.blobs.before = [&](std::string_view call, std::string_view key) {
      gets += call == "get" && key.starts_with("packs/") ? 1 : 0;
      return ok();
    };
    const auto stats = stats_of(rig);
    rig.blobs.before = nullptr;
    return stats;
  };
  const auto before = count();
  const std::size_t once = gets;
  for (int i = 0; i < 5; ++i) {
    rig.origin.rev += 10;
    REQUIRE(rig.save(tree).has_value());
  }
  const auto after = count();
  CHECK(gets == once);
  CHECK(after.content.snapshots == 6);
  CHECK(after.content.logical_bytes == 6 * before.content.logical_bytes);
  CHECK(after.content.unique_bytes == before.content.unique_bytes);
}

TEST_CASE("chunks stats: a damaged manifest is named") {
  ChunkRig rig;
  const auto item = rig.save(tree_with({{"a", "1"}})).value().item;
  rig.blobs.objects.find(item.object)->second.bytes[60] ^= 1;
  const auto stats = chunks::count_store(kCtx, rig.repository->access(kCtx).value());
  REQUIRE_FALSE(stats.has_value());
  CHECK(stats.error().kind == ErrorKind::corrupt);
  CHECK(stats.error().message.find(item.object) != std::string::npos);
}
