// SPDX-License-Identifier: Apache-2.0
#include "core/repository/repository.h"

#include <doctest/doctest.h>

#include "core/base/hash.h"
#include "core/repository/compare_trees.h"
#include "core/repository/tar.h"
#include "core/tree/check.h"
#include "fakes/chunk_store.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

namespace {

MemoryTree tree_of(const std::string& content) {
  MemoryTree tree;
  tree.folder("");
  tree.file("a", content);
  tree.file("b", std::string(2000, 'b'));
  return tree;
}

Result<SaveOutcome> save(test::FakeBlobStore& blobs, const std::string& id, const std::string& content,
                         const HistoryItem* parent = nullptr, const char* roots = nullptr) {
  const auto repository = make_tar_repository(blobs);
  MemoryTree workspace = tree_of(content);
  MemoryTree other = tree_of(roots == nullptr ? "" : roots);
  return repository->save(OpContext{}, {id, &workspace, roots == nullptr ? nullptr : &other, parent});
}

Result<std::vector<MemoryEntry>> load(test::FakeBlobStore& blobs, const HistoryItem& item,
                                      SnapshotPart part = SnapshotPart::workspace) {
  ASCOPE_TRY_ASSIGN(const auto tree, make_tar_repository(blobs)->open(OpContext{}, item, part));
  return collect(*tree);
}

SnapshotHealth health(test::FakeBlobStore& blobs, const HistoryItem& item, bool read_data) {
  return make_tar_repository(blobs)->check(OpContext{}, item, read_data).value();
}

}  // namespace

TEST_CASE("repository: save and open both parts") {
  test::FakeBlobStore blobs;
  const auto saved = save(blobs, "id1", "one", nullptr, "rooted");
  REQUIRE(saved.has_value());
  CHECK(saved->changed);
  CHECK(saved->item.object == "id1.tar");
  CHECK(saved->item.roots_object == "id1.roots.tar");
  CHECK(saved->item.size_bytes == blobs.objects["id1.tar"].bytes.size());
  CHECK(saved->item.sha256 == sha256_hex(blobs.objects["id1.tar"].bytes));
  CHECK(saved->item.roots_sha256 == sha256_hex(blobs.objects["id1.roots.tar"].bytes));
  CHECK(saved->item.files == 4);
  CHECK(saved->item.content_bytes == 4009);
  CHECK(load(blobs, saved->item).value()[1].content() == "one");
  CHECK(load(blobs, saved->item, SnapshotPart::roots).value()[1].content() == "rooted");
  CHECK(save(blobs, "id1", "other").error().kind == ErrorKind::conflict);

  const auto plain = save(blobs, "id2", "two");
  REQUIRE(plain.has_value());
  CHECK(plain->item.roots_object.empty());
  CHECK(load(blobs, plain->item, SnapshotPart::roots).value().empty());
}

namespace {

// A repository of each format over a store of its own.
struct EachFormat {
  explicit EachFormat(bool chunked) : chunks(chunked) {
    if (chunked) {
      ChunkOptions options;
      options.cache_dir = cache.path();
      repository = make_chunk_repository(blobs, options);
    } else {
      repository = make_tar_repository(blobs);
    }
  }
  Result<SaveOutcome> save(const std::string& id, const std::string& content,
                           const HistoryItem* parent = nullptr, const char* roots = nullptr) {
    MemoryTree workspace = tree_of(content);
    MemoryTree other = tree_of(roots == nullptr ? "" : roots);
    return repository->save(OpContext{}, {id, &workspace, roots == nullptr ? nullptr : &other, parent});
  }
  Result<std::vector<MemoryEntry>> load(const HistoryItem& item,
                                        SnapshotPart part = SnapshotPart::workspace) {
    ASCOPE_TRY_ASSIGN(const auto tree, repository->open(OpContext{}, item, part));
    return collect(*tree);
  }

  bool chunks;
  test::FakeBlobStore blobs;
  TempFolder cache;
  std::unique_ptr<Repository> repository;
};

}  // namespace

TEST_CASE(
    "repository: each format gives back both parts, refuses an id that exists, and forgets what it is told") {
  for (const bool chunked : {false, true}) {
    CAPTURE(chunked);
    EachFormat with(chunked);
    const auto saved = with.save("id1", "one", nullptr, "rooted");
    REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().message));
    CHECK(saved->changed);
    CHECK(saved->item.snapshot == "id1");
    CHECK(saved->item.format == (chunked ? "chunks" : "tar"));
    CHECK_FALSE(saved->item.roots_object.empty());
    const std::string& object = with.blobs.objects[saved->item.object].bytes;
    CHECK(saved->item.size_bytes == object.size());
    CHECK(saved->item.sha256 == sha256_hex(object));
    CHECK(saved->item.files == 4);
    CHECK(saved->item.content_bytes == 4009);
    MemoryTree workspace = tree_of("one");
    CHECK(describe(with.load(saved->item).value()) == describe(workspace.entries));
    CHECK(with.load(saved->item, SnapshotPart::roots).value()[1].content() == "rooted");
    CHECK(with.save("id1", "other").error().kind == ErrorKind::conflict);
    CHECK(with.repository->check(OpContext{}, saved->item, true).value() == SnapshotHealth::usable);
    const std::size_t parts = chunked ? 1 : 2;
    CHECK(with.repository->list(OpContext{}).value().size() == parts);

    const auto plain = with.save("id2", "two");
    REQUIRE(plain.has_value());
    CHECK(plain->item.roots_object.empty());
    CHECK(with.load(plain->item, SnapshotPart::roots).value().empty());
    CHECK(with.repository->list(OpContext{}).value().size() == parts + 1);
    REQUIRE(with.repository->remove(OpContext{}, plain->item).has_value());
    REQUIRE(with.repository->remove(OpContext{}, plain->item).has_value());
    CHECK(with.load(plain->item).error().kind == ErrorKind::not_found);
    CHECK(with.repository->check(OpContext{}, plain->item, true).value() == SnapshotHealth::missing);
    CHECK(with.load(saved->item).has_value());
    HistoryItem other = saved->item;
    other.format = chunked ? "tar" : "chunks";
    CHECK(with.load(other).error().kind == ErrorKind::unsupported);
  }
}

TEST_CASE("repository: an unchanged workspace keeps nothing new") {
  struct Row {
    const char* name;
    const char* parent_roots;
    const char* content;
    const char* roots;
    bool changed;
  };
  const std::vector<Row> rows = {
      {"same", nullptr, "one", nullptr, false},      {"other", nullptr, "two", nullptr, true},
      {"same with roots", "r", "one", "r", false},   {"roots differ", "r", "one", "s", true},
      {"workspace differs", "r", "two", "r", true},  {"roots are new", nullptr, "one", "r", true},
      {"roots are gone", "r", "one", nullptr, true},
  };
  for (const Row& row : rows) {
    for (const bool chunked : {false, true}) {
      CAPTURE(row.name);
      CAPTURE(chunked);
      EachFormat with(chunked);
      const auto first = with.save("id1", "one", nullptr, row.parent_roots);
      REQUIRE(first.has_value());
      const std::size_t before = with.blobs.objects.size();
      const auto second = with.save("id2", row.content, &first->item, row.roots);
      REQUIRE(second.has_value());
      CHECK(second->changed == row.changed);
      CHECK(second->item.snapshot == (row.changed ? "id2" : "id1"));
      if (!row.changed) {
        CHECK(with.blobs.objects.size() == before);
      }
    }
  }
}

TEST_CASE("repository: a history may hold both formats; a parent of the other one is no parent") {
  EachFormat chunks(true);
  const auto tar = make_tar_repository(chunks.blobs);
  MemoryTree tree = tree_of("one");
  const auto first = tar->save(OpContext{}, {"id1", &tree, nullptr, nullptr});
  REQUIRE(first.has_value());
  const auto second = chunks.save("id2", "one", &first->item);
  REQUIRE(second.has_value());
  CHECK(second->changed);
  MemoryTree again = tree_of("one");
  const auto third = tar->save(OpContext{}, {"id3", &again, nullptr, &second->item});
  REQUIRE(third.has_value());
  CHECK(third->changed);
  CHECK(tar->list(OpContext{}).value().size() == 2);
  CHECK(chunks.repository->list(OpContext{}).value().size() == 1);
}

TEST_CASE("repository: a failure leaves nothing of the new id") {
  for (const char* failing : {"id1.tar", "id1.roots.tar"}) {
    CAPTURE(failing);
    test::FakeBlobStore blobs;
    blobs.before = [&](std::string_view call, std::string_view key) -> Result<void> {
      return call == "put" && key == failing ? Result<void>(make_error(ErrorKind::store_unavailable, "down"))
                                             : ok();
    };
    const auto outcome = save(blobs, "id1", "one", nullptr, "r");
    REQUIRE_FALSE(outcome.has_value());
    CHECK(outcome.error().kind == ErrorKind::store_unavailable);
    CHECK(blobs.objects.empty());
  }
  test::FakeBlobStore blobs;
  MemoryTree broken = tree_of("x");
  broken.fail_at = 2;
  const auto outcome = make_tar_repository(blobs)->save(OpContext{}, {"id1", &broken, nullptr, nullptr});
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().kind == ErrorKind::corrupt);
  CHECK(blobs.objects.empty());
}

TEST_CASE("repository: any altered, cut or missing object is found") {
  test::FakeBlobStore good;
  const auto saved = save(good, "id1", "one");
  REQUIRE(saved.has_value());
  const HistoryItem& item = saved->item;
  CHECK(health(good, item, false) == SnapshotHealth::usable);
  CHECK(health(good, item, true) == SnapshotHealth::usable);
  const std::string bytes = good.objects["id1.tar"].bytes;
  for (std::size_t at = 0; at < bytes.size(); at += 37) {
    CAPTURE(at);
    test::FakeBlobStore bad;
    bad.objects["id1.tar"] = {bytes, 99};
    bad.objects["id1.tar"].bytes[at] = static_cast<char>(bytes[at] ^ 1);
    const auto got = load(bad, item);
    REQUIRE_FALSE(got.has_value());
    CHECK(got.error().kind == ErrorKind::corrupt);
    HistoryItem unversioned = item;
    unversioned.version.clear();
    CHECK(health(bad, unversioned, true) == SnapshotHealth::corrupt);
    CHECK(health(bad, item, false) == SnapshotHealth::overwritten);
  }
  for (std::size_t cut = 0; cut < bytes.size(); cut += 512) {
    test::FakeBlobStore bad;
    bad.objects["id1.tar"] = {bytes.substr(0, cut), 99};
    CHECK(load(bad, item).error().kind == ErrorKind::corrupt);
    CHECK(health(bad, item, false) == SnapshotHealth::overwritten);
  }
  test::FakeBlobStore longer;
  longer.objects["id1.tar"] = {bytes + std::string(512, '\0'), 99};
  CHECK(load(longer, item).error().kind == ErrorKind::corrupt);
  test::FakeBlobStore empty;
  CHECK(load(empty, item).error().kind == ErrorKind::not_found);
  CHECK(health(empty, item, false) == SnapshotHealth::missing);
  HistoryItem moved = item;
  moved.version = "of another place";
  CHECK(health(good, moved, false) == SnapshotHealth::usable);
}

TEST_CASE("repository: objects of others are listed and described") {
  test::FakeBlobStore blobs;
  const auto saved = save(blobs, "id1", "one", nullptr, "r");
  REQUIRE(saved.has_value());
  blobs.objects["notes.txt"] = {"no snapshot", 1};
  const auto repository = make_tar_repository(blobs);
  CHECK(repository->list(OpContext{}).value().size() == 2);
  const auto described = describe_object(OpContext{}, blobs, "id1");
  REQUIRE(described.has_value());
  CHECK(described->sha256 == saved->item.sha256);
  CHECK(described->roots_sha256 == saved->item.roots_sha256);
  CHECK(described->files == saved->item.files);
  CHECK(described->content_bytes == saved->item.content_bytes);
  CHECK(described->version == saved->item.version);
  CHECK(describe_object(OpContext{}, blobs, "none").error().kind == ErrorKind::not_found);
  REQUIRE(repository->remove(OpContext{}, saved->item).has_value());
  REQUIRE(repository->remove(OpContext{}, saved->item).has_value());
  CHECK(blobs.objects.size() == 1);
}

TEST_CASE("compare trees: each kind of change, holes equal zeros") {
  const auto base = [] {
    MemoryTree tree;
    tree.folder("");
    tree.folder("d");
    tree.file("d/same", "same");
    tree.file("content", "one");
    tree.file("size", "abc");
    tree.file("mode", "m");
    tree.file("time", "t");
    tree.file("type", "t");
    tree.add(EntryType::symlink, "link", "a");
    tree.file("gone", "g");
    tree.file("zeros", std::string(20'000, '\0') + "x");
    return tree;
  };
  MemoryTree one = base();
  MemoryTree two;
  two.folder("").entry.mtime_ns = 1;
  two.folder("d").entry.mtime_ns = 2;
  two.file("d/same", "same");
  two.file("content", "two");
  two.file("size", std::string("abc\0", 4));
  two.file("mode", "m").entry.mode = 0600;
  two.file("time", "t").entry.mtime_ns = 3;
  two.folder("type");
  two.add(EntryType::symlink, "link", "b");
  two.file("new", "n");
  MemoryEntry& sparse = two.file("zeros", "");
  sparse.entry.size_bytes = 20'001;
  sparse.entry.sparse = true;
  sparse.entry.extents = {{20'000, 1}};
  sparse.blocks.emplace_back(20'000, "x");
  const auto changes = compare_trees(OpContext{}, one, two);
  REQUIRE(changes.has_value());
  CHECK(*changes == std::vector<TreeChange>{{'M', "content"},
                                            {'D', "gone"},
                                            {'M', "link"},
                                            {'P', "mode"},
                                            {'A', "new"},
                                            {'M', "size"},
                                            {'P', "time"},
                                            {'T', "type"}});
  MemoryTree three = base();
  MemoryTree four = base();
  CHECK(compare_trees(OpContext{}, three, four).value().empty());
}

TEST_CASE("check tree: counts what is good, refuses what an apply would") {
  MemoryTree good = tree_of("one");
  const auto totals = check_tree(OpContext{}, good);
  REQUIRE(totals.has_value());
  CHECK(totals->entries == 3);
  CHECK(totals->content_bytes == 2003);
  MemoryTree through;
  through.add(EntryType::symlink, "l", "/etc");
  through.file("l/passwd", "x");
  CHECK(check_tree(OpContext{}, through).error().kind == ErrorKind::corrupt);
  MemoryTree beyond;
  beyond.file("a", "abc").entry.size_bytes = 1;
  CHECK(check_tree(OpContext{}, beyond).error().kind == ErrorKind::corrupt);
}
