// SPDX-License-Identifier: Apache-2.0
// Hints find what is there, and lies among them harm nobody.
#include <doctest/doctest.h>

#include "core/base/file.h"
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/hints.h"
#include "core/repository/chunks/sealed.h"
#include "fakes/chunk_store.h"

using namespace ascope;          // NOLINT(google-build-using-namespace)
using namespace ascope::chunks;  // NOLINT(google-build-using-namespace)
using test::ChunkRig;
using test::many_files;

namespace {

const OpContext kCtx;

ChunkId id_of(std::size_t number) {
  return RepositoryKey().chunk_id(std::to_string(number));
}

// `count` chunks from `first` on, spread over `packs`.
std::vector<Hint> hints(std::size_t first, std::size_t count, std::size_t packs) {
  std::vector<Hint> out;
  for (std::size_t i = first; i < first + count; ++i) {
    out.push_back({id_of(i), static_cast<std::uint32_t>(i % packs)});
  }
  return out;
}

}  // namespace

TEST_CASE("hints: a run finds each of its chunks and no other") {
  const TempFolder dir;
  const std::vector<PackName> packs = {random_pack_name(), random_pack_name(), random_pack_name()};
  for (const std::size_t count : {0U, 1U, 2U, 127U, 128U, 129U, 5000U}) {
    CAPTURE(count);
    REQUIRE(write_hint_run(dir / "run", {packs[0]}, packs, hints(0, count, 3)).has_value());
    const HintRun run = HintRun::open(dir / "run").value();
    CHECK(run.size() == count);
    CHECK(run.sources() == std::vector<PackName>{packs[0]});
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count + 500; ++i) {
      std::vector<PackName> found;
      REQUIRE(run.find(id_of(i), found).has_value());
      const bool right = i < count ? found == std::vector<PackName>{packs[i % 3]} : found.empty();
      wrong += right ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("hints: merged runs hold what each held") {
  const TempFolder dir;
  std::vector<PackName> packs;
  std::vector<HintRun> runs;
  for (std::size_t i = 0; i < 5; ++i) {
    packs.push_back(random_pack_name());
    const std::string path = dir / std::to_string(i);
    REQUIRE(write_hint_run(path, {packs[i]}, {packs[i]}, hints(i * 900, 1000, 1)).has_value());
    runs.push_back(HintRun::open(path).value());
  }
  std::vector<const HintRun*> pointers;
  for (const HintRun& run : runs) {
    pointers.push_back(&run);
  }
  REQUIRE(merge_hint_runs(dir / "merged", pointers).has_value());
  const HintRun merged = HintRun::open(dir / "merged").value();
  CHECK(merged.size() == 5000);
  CHECK(merged.sources() == packs);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 4600; ++i) {
    std::vector<PackName> found;
    REQUIRE(merged.find(id_of(i), found).has_value());
    std::size_t expected = 0;
    for (std::size_t run = 0; run < 5; ++run) {
      const bool has = i >= run * 900 && i < run * 900 + 1000;
      expected += has ? 1 : 0;
      wrong += has && std::find(found.begin(), found.end(), packs[run]) == found.end() ? 1 : 0;
    }
    wrong += found.size() == expected ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("hints: a damaged file of the cache is no error to those who look") {
  const TempFolder dir;
  const std::vector<PackName> packs = {random_pack_name()};
  REQUIRE(write_hint_run(dir / "run", packs, packs, hints(0, 300, 1)).has_value());
  const std::string good = read_file(dir / "run").value();
  for (std::size_t cut = 0; cut < good.size(); cut += 13) {
    REQUIRE(write_file_atomic(dir / "bad", good.substr(0, cut)).has_value());
    CHECK_FALSE(HintRun::open(dir / "bad").has_value());
  }
  for (std::size_t at = 0; at < good.size(); at += 11) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x81);
    REQUIRE(write_file_atomic(dir / "bad", bad).has_value());
    const auto run = HintRun::open(dir / "bad");
    for (std::size_t i = 0; run && i < 300; i += 7) {
      std::vector<PackName> found;
      REQUIRE(run->find(id_of(i), found).has_value());
    }
  }
}

TEST_CASE("hints: the cache follows the store") {
  ChunkRig rig;
  for (int i = 0; i < 12; ++i) {  // more than are kept as runs of their own
    rig.origin.slot = "user/a/" + std::to_string(i);
    REQUIRE(rig.save(many_files(5, 300, 100U * static_cast<unsigned>(i))).has_value());
  }
  CHECK(rig.keys("index/").size() == 12);
  const auto repo = list_dir(rig.cache.path()).value();
  REQUIRE(repo.size() == 1);
  const std::string folder = rig.cache / repo[0];
  const auto find_all = [&] {
    Hints cached(folder);
    const auto access = rig.repository->access(kCtx).value();
    REQUIRE(cached.load(kCtx, *access.store, *access.key).has_value());
    std::size_t found = 0;
    for (const std::string& key : rig.keys("packs/")) {
      const auto name = pack_name_from_hex(key.substr(key.rfind('/') + 1)).value();
      CHECK(cached.knows(name));
      const PackInfo pack = read_pack(kCtx, *access.store, *access.key, name).value();
      for (const auto& chunk : pack.index.chunks()) {
        const auto proposed = cached.find(chunk.id).value();
        found += std::find(proposed.begin(), proposed.end(), name) != proposed.end() ? 1 : 0;
      }
    }
    return found;
  };
  const std::size_t all = find_all();
  CHECK(all >= 60);
  CHECK(list_dir(folder + "/hints").value().size() < 8);
  CHECK(find_all() == all);
  for (const std::string& name : list_dir(folder + "/hints").value()) {
    REQUIRE(write_file_atomic(folder + "/hints/" + name, "torn").has_value());
  }
  CHECK(find_all() == all);
  // Another gathered them into one object: runs of the old ones go.
  const auto key = rig.repository->access(kCtx).value().key;
  std::vector<NamedIndex> gathered;
  for (const std::string& object : rig.keys("index/")) {
    for (NamedIndex& one : decode_hints(*key, rig.blobs.objects[object].bytes).value()) {
      gathered.push_back(std::move(one));
    }
    rig.blobs.objects.erase(object);
  }
  rig.blobs.objects["index/" + std::string(32, 'a')] = {encode_hints(*key, gathered).value(), 1};
  CHECK(find_all() == all);
  CHECK(list_dir(folder + "/hints").value().size() == 1);
}

TEST_CASE("hints: lies, strangers and left-overs in the store or the cache cost time only") {
  const auto tree = many_files(40, 700, 1);
  const ChunkId wanted = RepositoryKey().chunk_id(tree[2].content());
  struct Row {
    const char* name;
    std::function<void(ChunkRig&, const std::string& pack)> lie;
  };
  const auto put_hint = [](ChunkRig& rig, const NamedIndex& hint) {
    const auto key = rig.repository->access(kCtx).value().key;
    rig.blobs.objects["index/" + std::string(32, 'f')] = {encode_hints(*key, {hint}).value(), 1};
  };
  const auto index_with = [&](const ChunkId& id) {
    std::string index;
    put_fixed(index, 40, 4);
    put_fixed(index, 10, 4);
    put_fixed(index, 700, 4);
    put_fixed(index, 1, 1);
    put_fixed(index, 1, 4);
    index += id.view();
    put_fixed(index, 700, 4);
    return index;
  };
  const std::vector<Row> rows = {
      {"a pack that is not there",
       [&](ChunkRig& rig, const std::string&) { put_hint(rig, {random_pack_name(), index_with(wanted)}); }},
      {"a pack without the chunk",
       [&](ChunkRig& rig, const std::string& pack) {
         put_hint(rig, {pack_name_from_hex(pack.substr(pack.rfind('/') + 1)).value(), index_with(wanted)});
       }},
      {"a pack that is damaged",
       [&](ChunkRig& rig, const std::string& pack) {
         put_hint(rig, {pack_name_from_hex(pack.substr(pack.rfind('/') + 1)).value(), index_with(wanted)});
         rig.blobs.objects[pack].bytes.resize(50);
       }},
      {"no hint at all",
       [](ChunkRig& rig, const std::string&) {
         rig.blobs.objects["index/" + std::string(32, '0')] = {"nonsense", 1};
       }},
      {"a name of its own",
       [](ChunkRig& rig, const std::string&) { rig.blobs.objects["index/README"] = {"hello", 1}; }},
      {"half an index",
       [&](ChunkRig& rig, const std::string&) {
         put_hint(rig, {random_pack_name(), index_with(wanted).substr(0, 30)});
       }},
      {"an old journal",
       [&](ChunkRig& rig, const std::string&) {
         const std::string folder = rig.cache / list_dir(rig.cache.path()).value()[0] + "/journal";
         const std::string slot = folder + "/" + list_dir(folder).value()[0];
         REQUIRE(write_file_atomic(slot + "/" + std::string(32, '1'), index_with(wanted)).has_value());
         REQUIRE(write_file_atomic(slot + "/torn", "x").has_value());
       }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    ChunkRig rig;
    REQUIRE(rig.save(many_files(10, 100, 50)).has_value());
    row.lie(rig, rig.keys("packs/")[0]);
    rig.reopen();
    const auto saved = rig.save(tree);
    REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().message));
    CHECK(describe(rig.load(saved->item).value()) == describe(tree));
    CHECK(rig.repository->check(kCtx, saved->item, true).value() == SnapshotHealth::usable);
    CHECK(saved->new_bytes == saved->item.content_bytes);
  }
}

TEST_CASE("hints: a store that does not answer is no store without hints") {
  ChunkRig rig;
  REQUIRE(rig.save(many_files(10, 100, 50)).has_value());
  REQUIRE(remove_tree_contents(rig.cache.open(), {}).has_value());
  rig.reopen();
  rig.blobs.before = [](std::string_view call, std::string_view key) -> Result<void> {
    return call == "get" && key.starts_with("index/")
               ? Result<void>(make_error(ErrorKind::store_unavailable, "down"))
               : ok();
  };
  CHECK(rig.save(many_files(10, 100, 90)).error().kind == ErrorKind::store_unavailable);
}
