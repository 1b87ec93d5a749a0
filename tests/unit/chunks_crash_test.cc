// SPDX-License-Identifier: Apache-2.0
// A save that fails, loses a reply or is killed at any call of the store: what was there stays whole, no
// manifest names something missing, and the next save uses what was put.
#include <doctest/doctest.h>

#include "fakes/chunk_store.h"
#include "fakes/faulty_blobs.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using test::ChunkRig;
using test::FaultyBlobs;
using test::many_files;
using test::small_packs;

namespace {

// Every manifest of the store reads well and has all its packs.
void check_store(ChunkRig& rig) {
  rig.reopen();
  for (const BlobInfo& one : rig.repository->list(OpContext{}).value()) {
    CAPTURE(one.key);
    const auto item = rig.repository->describe(OpContext{}, one.key);
    REQUIRE_MESSAGE(item.has_value(), (item ? "" : item.error().message));
    const auto problems = rig.repository->problems(OpContext{}, *item, true);
    REQUIRE(problems.has_value());
    CHECK(problems->empty());
  }
}

struct Crash {
  Crash(std::size_t at, FaultyBlobs::Fault fault, bool encrypted, bool with_parent)
      : rig(small_packs(encrypted)), old_tree(many_files(60, 900, 1)), new_tree(many_files(160, 900, 1)) {
    if (with_parent) {
      parent = rig.save(old_tree).value().item;
    }
    before = rig.keys();
    FaultyBlobs faulty(rig.blobs);
    faulty.fault = fault;
    faulty.at = at;
    const auto repository = make_chunk_repository(faulty, rig.options);
    MemoryTree tree(new_tree);
    request = rig.request(tree, with_parent ? &parent : nullptr);
    auto saved = repository->save(OpContext{}, request);
    calls = faulty.calls;
    if (saved) {
      outcome = std::move(*saved);
    } else {
      error = std::move(saved).error();
    }
  }
  [[nodiscard]] bool has_manifest() {
    const auto keys = rig.keys("snapshots/");
    return std::any_of(keys.begin(), keys.end(),
                       [&](const std::string& key) { return key.find(request.id) != std::string::npos; });
  }

  ChunkRig rig;
  std::vector<MemoryEntry> old_tree, new_tree;
  HistoryItem parent;
  std::vector<std::string> before;
  SaveRequest request;
  std::size_t calls = 0;
  std::optional<SaveOutcome> outcome;
  std::optional<Error> error;
};

std::size_t crash_everywhere(FaultyBlobs::Fault fault, bool encrypted, bool with_parent) {
  std::size_t failed = 0;
  std::uint64_t least_again = UINT64_MAX;
  for (std::size_t at = 0;; ++at) {
    CAPTURE(at);
    Crash crash(at, fault, encrypted, with_parent);
    if (at >= crash.calls) {
      CHECK(crash.outcome.has_value());
      break;
    }
    if (crash.error) {
      CHECK(crash.error->kind == ErrorKind::store_unavailable);
      CHECK((fault == FaultyBlobs::Fault::die || !crash.has_manifest()));
      ++failed;
    } else {
      CHECK(describe(crash.rig.load(crash.outcome->item).value()) == describe(crash.new_tree));
    }
    check_store(crash.rig);
    for (const std::string& key : crash.before) {
      CHECK(crash.rig.blobs.objects.contains(key));
    }
    if (with_parent) {
      CHECK(describe(crash.rig.load(crash.parent).value()) == describe(crash.old_tree));
    }
    crash.rig.reopen();
    const auto again = crash.rig.save(crash.new_tree, with_parent ? &crash.parent : nullptr);
    REQUIRE_MESSAGE(again.has_value(), (again ? "" : again.error().message));
    CHECK(describe(crash.rig.load(again->item).value()) == describe(crash.new_tree));
    least_again = std::min(least_again, again->new_bytes);
  }
  CHECK(least_again == 0);  // killed after the last pack: nothing is stored twice
  return failed;
}

}  // namespace

TEST_CASE("chunks crash: a store that fails at any one call") {
  CHECK(crash_everywhere(FaultyBlobs::Fault::fail, false, true) > 10);
  CHECK(crash_everywhere(FaultyBlobs::Fault::fail, true, false) > 10);
}

TEST_CASE("chunks crash: killed at any call") {
  CHECK(crash_everywhere(FaultyBlobs::Fault::die, false, true) > 10);
  CHECK(crash_everywhere(FaultyBlobs::Fault::die, true, false) > 10);
}

TEST_CASE("chunks crash: a lost reply of a put is no failure") {
  CHECK(crash_everywhere(FaultyBlobs::Fault::lose, false, true) > 2);
  for (std::size_t at = 0;; ++at) {
    CAPTURE(at);
    ChunkRig rig(small_packs(false));
    REQUIRE(rig.save(many_files(5, 10, 1)).has_value());
    FaultyBlobs faulty(rig.blobs);
    faulty.fault = FaultyBlobs::Fault::lose;
    faulty.puts_only = true;
    faulty.at = at;
    const auto tree = many_files(160, 900, 1);
    MemoryTree source(tree);
    const auto saved = make_chunk_repository(faulty, rig.options)->save(OpContext{}, rig.request(source));
    if (at >= faulty.calls) {
      break;
    }
    REQUIRE(saved.has_value());
    CHECK(describe(rig.load(saved->item).value()) == describe(tree));
    const bool is_hint = at + 1 == faulty.calls;  // put last; that it may be lost is noted, and no more
    CHECK(saved->item.notes.empty() == !is_hint);
  }
}

TEST_CASE("chunks crash: the same id twice is a conflict, and the first stays") {
  ChunkRig rig;
  const auto tree = many_files(5, 100, 1);
  MemoryTree one(tree);
  const SaveRequest request = rig.request(one);
  const auto first = rig.repository->save(OpContext{}, request);
  REQUIRE(first.has_value());
  MemoryTree two(many_files(6, 100, 1));
  SaveRequest again = request;
  again.workspace = &two;
  CHECK(rig.repository->save(OpContext{}, again).error().kind == ErrorKind::conflict);
  CHECK(describe(rig.load(first->item).value()) == describe(tree));
}

TEST_CASE("chunks crash: an interrupt ends a save and a load") {
  ChunkRig rig;
  const auto tree = many_files(50, 100, 1);
  const auto saved = rig.save(tree);
  REQUIRE(saved.has_value());
  OpContext late;
  late.deadline = late.clock->boottime() - Millis(1);
  MemoryTree source(many_files(60, 100, 1));
  CHECK(rig.repository->save(late, rig.request(source)).error().kind == ErrorKind::timeout);
  CHECK(rig.repository->open(late, saved->item, SnapshotPart::workspace).error().kind == ErrorKind::timeout);
}
