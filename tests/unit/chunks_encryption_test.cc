// SPDX-License-Identifier: Apache-2.0
// A stolen store of an encrypted repository shows sizes and numbers of objects, and nothing else.
#include <doctest/doctest.h>

#include "core/repository/chunks/repo_object.h"
#include "fakes/chunk_store.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using test::ChunkRig;
using test::many_files;

namespace {

ChunkOptions with_key(char byte) {
  ChunkOptions out;
  out.key = Secret(std::string(32, byte));
  return out;
}

std::vector<MemoryEntry> telling_tree() {
  MemoryTree tree;
  tree.folder("");
  tree.add(EntryType::symlink, "secret-link", "secret-target");
  tree.file("secret-name.txt", "PLAINTEXT-CONTENT " + test::noise(2000, 1) + " PLAINTEXT-CONTENT");
  tree.file("z", "x").entry.xattrs = {{"user.secret-attribute", "secret-value"}};
  return std::move(tree.entries);
}

}  // namespace

TEST_CASE("chunks encryption: comes back with its key, and shows nothing without") {
  ChunkRig rig(with_key('k'));
  rig.origin = {"11111111-2222-4333-8444-555555555555",
                "user/secret-agent/alice",
                3,
                9,
                "2026-01-01T00:00:00.000Z",
                "secret-host"};
  const auto tree = telling_tree();
  const auto first = rig.save(tree);
  REQUIRE_MESSAGE(first.has_value(), (first ? "" : first.error().message));
  CHECK(describe(rig.load(first->item).value()) == describe(tree));
  CHECK_FALSE(rig.save(tree, &first->item)->changed);
  rig.origin.rev = 4;
  auto more = tree;
  more.pop_back();
  REQUIRE(rig.save(more, &first->item).has_value());

  for (const auto& [key, object] : rig.blobs.objects) {
    CAPTURE(key);
    for (const char* secret :
         {"secret", "PLAINTEXT", "alice", "agent", "11111111-2222", "workspace", "\x28\xb5\x2f\xfd"}) {
      CAPTURE(secret);
      CHECK(key.find(secret) == std::string::npos);
      CHECK(object.bytes.find(secret) == std::string::npos);
    }
    // Nor the plain digest of anything, by which a known file would be recognised.
    for (const MemoryEntry& one : tree) {
      const std::string digest(chunks::RepositoryKey().chunk_id(one.content()).view());
      CHECK(object.bytes.find(digest) == std::string::npos);
    }
  }
  CHECK(rig.repository->check(OpContext{}, first->item, true).value() == SnapshotHealth::usable);
}

TEST_CASE("chunks encryption: a wrong key, none, or one too many is denied, whatever is asked") {
  ChunkRig rig(with_key('k'));
  const auto item = rig.save(telling_tree()).value().item;
  const auto objects = rig.blobs.objects;
  ChunkRig plain;
  const auto plain_item = plain.save(telling_tree()).value().item;
  const auto plain_objects = plain.blobs.objects;

  struct Row {
    const char* name;
    ChunkRig* rig;
    const HistoryItem* item;
    Secret key;
  };
  const Row rows[] = {{"wrong", &rig, &item, Secret(std::string(32, 'x'))},
                      {"none", &rig, &item, Secret()},
                      {"not wanted", &plain, &plain_item, Secret(std::string(32, 'k'))}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    row.rig->options.key = row.key;
    row.rig->reopen();
    ChunkRepository& repository = *row.rig->repository;
    const auto denied = [](const Error& error) {
      CHECK(error.kind == ErrorKind::denied);
      CHECK_FALSE(error.hint.empty());
      CHECK(error.message.find(std::string(32, 'k')) == std::string::npos);
    };
    denied(row.rig->save(telling_tree()).error());
    denied(row.rig->load(*row.item).error());
    denied(repository.check(OpContext{}, *row.item, true).error());
    denied(repository.describe(OpContext{}, row.item->object).error());
    denied(repository.read_root(OpContext{}, row.item->object).error());
    CHECK(repository.list(OpContext{}).value().size() == 1);  // names need no key
  }
  CHECK(rig.blobs.objects.size() == objects.size());
  CHECK(plain.blobs.objects.size() == plain_objects.size());
}

TEST_CASE("chunks encryption: nothing is stored the same twice, yet what is there is found") {
  ChunkRig one(with_key('k'));
  ChunkRig two(with_key('k'));
  const auto tree = many_files(50, 2000, 1);
  REQUIRE(one.save(tree).has_value());
  REQUIRE(two.save(tree).has_value());
  std::set<std::string> seen;
  for (const ChunkRig* rig : {&one, &two}) {
    for (const auto& [key, object] : rig->blobs.objects) {
      CHECK((key == chunks::kRepoCopy || seen.insert(object.bytes.substr(object.bytes.size() - 40)).second));
    }
  }
  one.origin.slot = "user/another/slot";
  one.reopen();
  const auto again = one.save(tree);
  REQUIRE(again.has_value());
  CHECK(again->new_bytes == 0);
  REQUIRE(remove_tree_contents(one.cache.open(), {}).has_value());  // nor is the cache needed for it
  one.origin.slot = "user/third/slot";
  one.reopen();
  CHECK(one.save(tree)->new_bytes == 0);
}

TEST_CASE("chunks encryption: objects of another repository with the same key are not taken") {
  ChunkRig one(with_key('k'));
  ChunkRig two(with_key('k'));
  const auto item = one.save(many_files(20, 500, 1)).value().item;
  REQUIRE(two.save(many_files(20, 500, 2)).has_value());
  for (const std::string& key : one.keys("packs/")) {
    two.blobs.objects[key] = one.blobs.objects[key];
  }
  two.blobs.objects[item.object] = one.blobs.objects[item.object];
  CHECK(two.load(item).error().kind == ErrorKind::corrupt);
}
