// SPDX-License-Identifier: Apache-2.0
#include "core/repository/formats.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "fakes/chunk_store.h"

namespace ascope::test {

namespace {

MemoryTree tree_of(const std::string& content) {
  MemoryTree tree;
  tree.folder("");
  tree.file("a", content);
  tree.file("b", prose(60'000, 7));
  return tree;
}

struct Rig {
  FakeBlobStore blobs;
  TempFolder cache;

  std::unique_ptr<Repository> open(const std::string& format) {
    ChunkOptions options = small_packs(false);
    options.cache_dir = cache.path();
    return make_repository(blobs, format, options);
  }
  Result<SaveOutcome> save(const std::string& format, const std::string& id, const std::string& content,
                           const HistoryItem* parent = nullptr) {
    MemoryTree tree = tree_of(content);
    SaveRequest request;
    request.id = id;
    request.workspace = &tree;
    request.parent = parent;
    request.ordered = true;
    request.origin = {"realm", "user/a/b", 3, 4, "2026-01-02T03:04:05Z", "host"};
    return open(format)->save(OpContext{}, request);
  }
  [[nodiscard]] std::string key_of(std::string_view part) const {
    const auto found = std::find_if(blobs.objects.begin(), blobs.objects.end(), [&](const auto& one) {
      return one.first.find(part) != std::string::npos;
    });
    return found == blobs.objects.end() ? "" : found->first;
  }
};

}  // namespace

TEST_CASE("formats: a history may mix both, and each item is read by its own") {
  Rig rig;
  const auto tar = rig.save("tar", "id-tar", "one");
  REQUIRE(tar.has_value());
  const auto chunks = rig.save("chunks", "id-chunks", "two", &tar->item);
  REQUIRE(chunks.has_value());
  CHECK(chunks->changed);
  CHECK(chunks->item.format == "chunks");
  const auto again = rig.save("tar", "id-again", "two", &chunks->item);
  REQUIRE(again.has_value());
  CHECK(again->changed);

  for (const std::string format : {"tar", "chunks"}) {
    const auto repository = rig.open(format);
    for (const auto& [item, content] : {std::pair(tar->item, "one"), std::pair(chunks->item, "two")}) {
      const auto source = repository->open(OpContext{}, item, SnapshotPart::workspace);
      REQUIRE(source.has_value());
      CHECK(collect(**source).value()[1].content() == content);
      CHECK(repository->check(OpContext{}, item, false).value() == SnapshotHealth::usable);
      CHECK(repository->check(OpContext{}, item, true).value() == SnapshotHealth::usable);
      CHECK(repository->problems(OpContext{}, item, true).value().empty());
      CHECK(repository->find(OpContext{}, item.snapshot).value().object == item.object);
    }
    std::vector<std::string> ids;
    for (const BlobInfo& one : repository->list(OpContext{}).value()) {
      ids.push_back(snapshot_of_object(one.key));
    }
    std::sort(ids.begin(), ids.end());
    CHECK(ids == std::vector<std::string>{"id-again", "id-chunks", "id-tar"});
    CHECK(repository->find(OpContext{}, "id-none").error().kind == ErrorKind::not_found);
  }
}

TEST_CASE("formats: a start's look at a chunks snapshot sees packs that are gone or cut") {
  Rig rig;
  const auto saved = rig.save("chunks", "id", "one");
  REQUIRE(saved.has_value());
  const auto health = [&] { return rig.open("chunks")->check(OpContext{}, saved->item, false).value(); };
  CHECK(health() == SnapshotHealth::usable);
  const std::string pack = rig.key_of("packs/");
  const std::string whole = rig.blobs.objects[pack].bytes;
  rig.blobs.objects[pack].bytes.resize(whole.size() - 1);
  CHECK(health() == SnapshotHealth::corrupt);
  rig.blobs.objects.erase(pack);
  CHECK(health() == SnapshotHealth::missing);
  const auto problems = rig.open("chunks")->problems(OpContext{}, saved->item, false).value();
  REQUIRE_FALSE(problems.empty());
  CHECK(problems[0].missing);
  CHECK(problems[0].object == pack);
}

TEST_CASE("formats: a damaged manifest is told, a missing one too") {
  Rig rig;
  const auto saved = rig.save("chunks", "id", "one");
  REQUIRE(saved.has_value());
  std::string& bytes = rig.blobs.objects[saved->item.object].bytes;
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  CHECK(rig.open("chunks")->check(OpContext{}, saved->item, false).value() == SnapshotHealth::corrupt);
  rig.blobs.objects.erase(saved->item.object);
  CHECK(rig.open("chunks")->check(OpContext{}, saved->item, false).value() == SnapshotHealth::missing);
}

TEST_CASE("formats: what a save left that nobody committed is removed by its id, and nothing else") {
  Rig rig;
  const SnapshotOrigin origin{"realm", "user/a/b", 9, 9, "", ""};
  // A store that never had a snapshot of format chunks.
  CHECK(rig.open("chunks")->remove_uncommitted(OpContext{}, origin, "id-none").has_value());
  for (const std::string format : {"tar", "chunks"}) {
    const auto kept = rig.save(format, "id-kept-" + format, "one");
    const auto lost = rig.save(format, "id-lost-" + format, "two");
    REQUIRE(kept.has_value());
    REQUIRE(lost.has_value());
    CHECK(rig.open(format)->remove_uncommitted(OpContext{}, origin, lost->item.snapshot).has_value());
    CHECK_FALSE(rig.blobs.objects.contains(lost->item.object));
    CHECK(rig.blobs.objects.contains(kept->item.object));
    CHECK(rig.open(format)->remove_uncommitted(OpContext{}, origin, lost->item.snapshot).has_value());
    CHECK(rig.open(format)->check(OpContext{}, kept->item, true).value() == SnapshotHealth::usable);
  }
}

}  // namespace ascope::test
