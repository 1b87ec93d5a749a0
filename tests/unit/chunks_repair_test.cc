// SPDX-License-Identifier: Apache-2.0
// After a repair the store is whole, and of every snapshot all that could be read is there.
#include <cstdlib>

#include <doctest/doctest.h>

#include "core/repository/chunks/path_order.h"
#include "core/repository/chunks/repair.h"
#include "fakes/chunk_store.h"
#include "fakes/memory_scan.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using chunks::LostContent;
using chunks::RepairOptions;
using chunks::RepairOutcome;
using test::ChunkRig;

namespace {

const OpContext kCtx;
constexpr chunks::CollectOptions kNow{std::chrono::seconds(0), false};

struct Snapshot {
  HistoryItem item;
  std::vector<MemoryEntry> tree;
  RepairOutcome outcome;
  bool is_gone = false;
};

// A slot with two snapshots in many packs and several pages.
struct Slot {
  ChunkRig rig;
  std::vector<Snapshot> snapshots;

  explicit Slot(bool encrypted = false) : rig(options(encrypted)) {
    auto tree = test::many_files(700, 60, 1);
    MemoryTree more;
    more.add(EntryType::hardlink, "link", "d0000/000003");
    more.file("sparse", "").entry.size_bytes = 500'000;
    more.entries.back().entry.sparse = true;
    more.entries.back().entry.extents = {{4096, 3000}, {100'000, 2000}};
    more.entries.back().blocks = {{4096, test::noise(3000, 5)}, {100'000, test::noise(2000, 6)}};
    more.file("z large", test::noise(200'000, 9));
    tree.insert(tree.end(), more.entries.begin(), more.entries.end());
    snapshots.push_back({rig.save(tree).value().item, tree, {}, false});
    for (std::size_t i = 300; i < 320; ++i) {
      if (tree[i].entry.type == EntryType::file) {
        tree[i].blocks = {{0, test::noise(tree[i].entry.size_bytes, 100 + i)}};
      }
    }
    snapshots.push_back({rig.save(tree, &snapshots[0].item).value().item, tree, {}, false});
  }
  static ChunkOptions options(bool encrypted) {
    ChunkOptions out = test::small_packs(encrypted);
    out.pipeline.pack_bytes = 30'000;
    out.sizes = {1024, 4096, 16384};
    return out;
  }

  // What an engine does: all snapshots, then the record, then the old manifests, then gc.
  void repair() {
    rig.reopen();
    REQUIRE(rig.repository->mend_repo(kCtx).has_value());
    CHECK(rig.repository->repo_problems(kCtx).value().empty());
    std::vector<HistoryItem> old;
    for (Snapshot& one : snapshots) {
      RepairOptions wanted;
      wanted.id = rig.new_id();
      wanted.origin = rig.origin;
      wanted.origin.rev = 100 + static_cast<std::uint64_t>(rig.last_id);
      auto outcome = chunks::repair_snapshot(kCtx, *rig.repository, one.item, wanted);
      REQUIRE_MESSAGE(outcome.has_value(), (outcome ? "" : outcome.error().message));
      one.outcome = std::move(*outcome);
      if (!one.outcome.problems.empty()) {
        CHECK(one.outcome.item.has_value() != one.outcome.is_all_lost);
        old.push_back(one.item);
        one.is_gone = one.outcome.is_all_lost;
        one.item = one.outcome.item.value_or(HistoryItem());
      }
    }
    for (const HistoryItem& item : old) {
      REQUIRE(rig.repository->remove(kCtx, item).has_value());
    }
    rig.blobs.now += std::chrono::seconds(1);
    const auto access = rig.repository->access(kCtx).value();
    REQUIRE(chunks::repair_markers(kCtx, access, kNow).has_value());
    const auto done = chunks::collect(kCtx, access, kNow);
    REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().message));
  }
  // Every snapshot and every pack is what it should be.
  void check_all() {
    rig.reopen();
    for (const Snapshot& one : snapshots) {
      if (one.is_gone) {
        continue;
      }
      const auto problems = rig.repository->problems(kCtx, one.item, true);
      REQUIRE(problems.has_value());
      CHECK_MESSAGE(problems->empty(), (problems->empty() ? "" : problems->front().what));
      check_content(one);
    }
    for (const std::string& key : rig.keys("packs/")) {
      const auto name = chunks::pack_name_from_hex(key.substr(key.rfind('/') + 1)).value();
      CHECK_FALSE(rig.repository->check_pack(kCtx, name, true).value().has_value());
    }
    CHECK(rig.repository->list(kCtx).value().size() ==
          static_cast<std::size_t>(std::count_if(snapshots.begin(), snapshots.end(),
                                                 [](const Snapshot& one) { return !one.is_gone; })));
  }
  // What is there is as it was, and what is not there was said.
  void check_content(const Snapshot& snapshot) {
    const auto got = rig.load(snapshot.item);
    REQUIRE_MESSAGE(got.has_value(), (got ? "" : got.error().message));
    std::map<std::string, const MemoryEntry*> there;
    for (const MemoryEntry& one : *got) {
      there.emplace(one.entry.path, &one);
    }
    std::size_t lost = 0;
    for (const MemoryEntry& one : snapshot.tree) {
      const auto found = there.find(one.entry.path);
      if (found == there.end()) {
        ++lost;
        CHECK(is_said(snapshot.outcome, one.entry.path));
      } else if (one.entry.type == EntryType::file) {
        CHECK(found->second->content() == one.content());
      }
    }
    CHECK(got->size() + lost == snapshot.tree.size());
    CHECK((snapshot.outcome.lost.empty() || !snapshot.item.notes.empty()));
  }
  static bool is_said(const RepairOutcome& outcome, const std::string& path) {
    return std::any_of(outcome.lost.begin(), outcome.lost.end(), [&](const LostContent& one) {
      return one.entry.path == path ||
             (one.entry.is_range && !chunks::path_before(path, one.entry.path) &&
              (one.entry.until.empty() || chunks::path_before(path, one.entry.until)));
    });
  }
  [[nodiscard]] std::size_t lost() const {
    std::size_t sum = 0;
    for (const Snapshot& one : snapshots) {
      sum += one.outcome.lost.size();
    }
    return sum;
  }
};

bool damage(ChunkRig& rig, const std::string& object, const std::string& how) {
  auto& objects = rig.blobs.objects;
  auto& bytes = objects.find(object)->second.bytes;
  if (how == "deleted") {
    objects.erase(object);
  } else if (how == "emptied") {
    bytes.clear();
  } else if (how == "cut") {
    bytes.resize(bytes.size() / 2);
  } else if (how == "flipped") {
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 16);
  } else {
    if (object.starts_with("repo")) {
      return false;  // the two have the same bytes
    }
    const std::string folder = object.substr(0, object.find('/') + 1);
    const auto all = rig.keys(folder);
    if (all.size() < 2 || object == all.back()) {
      return false;
    }
    const auto next = std::find(all.begin(), all.end(), object) + 1;
    std::swap(bytes, objects.find(*next)->second.bytes);
  }
  return true;
}

}  // namespace

TEST_CASE("chunks repair: whatever happens to an object, the rest is kept") {
  std::size_t lost = 0;
  std::size_t gone = 0;
  std::size_t healed = 0;
  std::size_t ranges = 0;
  const bool is_full = std::getenv("ASCOPE_TEST_FULL") != nullptr;
  const std::size_t count = Slot().rig.keys().size();
  for (const bool encrypted : {false, true}) {
    for (const std::string how : {"deleted", "emptied", "cut", "flipped", "swapped"}) {
      for (std::size_t i = 0; i < count; ++i) {
        Slot slot(encrypted);
        const std::string object = slot.rig.keys()[std::min(i, slot.rig.keys().size() - 1)];
        const bool skipped = !is_full && i % (encrypted                              ? 8
                                              : how == "deleted" || how == "flipped" ? 1
                                                                                     : 3) !=
                                             0;
        const bool is_repo = object.starts_with("repo");
        if ((skipped && !is_repo) || !damage(slot.rig, object, how)) {
          continue;
        }
        CAPTURE(object);
        CAPTURE(how);
        if (is_repo) {
          const auto found = slot.rig.repository->repo_problems(kCtx).value();
          REQUIRE(found.size() == 1);
          CHECK(found[0].object == object);
          CHECK(found[0].missing == (how == "deleted"));
        }
        slot.repair();
        slot.check_all();
        lost += slot.lost() > 0 ? 1 : 0;
        for (const Snapshot& one : slot.snapshots) {
          gone += one.is_gone ? 1 : 0;
          ranges += std::any_of(one.outcome.lost.begin(), one.outcome.lost.end(),
                                [](const LostContent& part) { return part.entry.is_range; })
                        ? 1
                        : 0;
          healed += !one.outcome.problems.empty() && one.outcome.lost.empty() && !one.is_gone ? 1 : 0;
        }
        if (object.starts_with("snapshots/")) {
          CHECK(slot.lost() == 0);
        }
      }
    }
  }
  CHECK(lost > 0);
  CHECK(gone > 0);
  CHECK((healed > 0 || !is_full));  // the few of a short run may all take something with them
  CHECK(ranges > 0);
  MESSAGE(count << " objects; losses: " << lost << ", of pages: " << ranges << ", of all: " << gone
                << "; healed without loss: " << healed);
}

TEST_CASE("chunks repair: a store that has lost both of what it hangs on says so") {
  Slot slot;
  damage(slot.rig, "repo", "flipped");
  damage(slot.rig, "repo.copy", "deleted");
  slot.rig.reopen();
  const auto keys = slot.rig.keys();
  const auto mended = slot.rig.repository->mend_repo(kCtx);
  REQUIRE_FALSE(mended.has_value());
  CHECK(mended.error().kind == ErrorKind::corrupt);
  CHECK(mended.error().message.find("'repo'") != std::string::npos);
  CHECK(mended.error().message.find("'repo.copy'") != std::string::npos);
  CHECK(slot.rig.keys() == keys);
  CHECK(ChunkRig().repository->mend_repo(kCtx).value().empty());
}

TEST_CASE("chunks repair: a whole snapshot is left alone") {
  Slot slot;
  const auto keys = slot.rig.keys();
  RepairOptions wanted;
  wanted.id = slot.rig.new_id();
  const auto outcome = chunks::repair_snapshot(kCtx, *slot.rig.repository, slot.snapshots[0].item, wanted);
  REQUIRE(outcome.has_value());
  CHECK(outcome->problems.empty());
  CHECK_FALSE(outcome->item.has_value());
  CHECK(slot.rig.keys() == keys);
}

TEST_CASE("chunks repair: a dry run says the same and writes nothing") {
  Slot slot;
  damage(slot.rig, slot.rig.keys("packs/")[0], "flipped");
  const auto keys = slot.rig.keys();
  slot.rig.reopen();
  RepairOptions dry;
  dry.dry_run = true;
  const auto planned =
      chunks::repair_snapshot(kCtx, *slot.rig.repository, slot.snapshots[0].item, dry).value();
  CHECK(slot.rig.keys() == keys);
  CHECK_FALSE(planned.item.has_value());
  slot.repair();
  const auto& done = slot.snapshots[0].outcome;
  CHECK(done.problems.size() == planned.problems.size());
  CHECK(done.lost.size() == planned.lost.size());
}

TEST_CASE("chunks repair: another realm's manifest keeps what can be read of a damaged pack") {
  Slot slot;
  slot.rig.origin.realm = "realm-2";
  const auto other = slot.rig.save(slot.snapshots[0].tree).value().item;
  slot.rig.origin.realm = "realm-1";
  const auto root = slot.rig.repository->read_root(kCtx, other.object).value();
  const std::string pack = chunks::pack_key(root.packs.front().name);
  damage(slot.rig, pack, "flipped");
  slot.repair();
  CHECK(slot.rig.blobs.objects.contains(pack));
}

TEST_CASE("chunks repair: marks that nobody can read") {
  Slot slot;
  slot.rig.blobs.objects["condemned/x"] = {"damaged", 1, slot.rig.blobs.now};
  slot.rig.blobs.objects["pins/" + std::string(32, 'a')] = {"damaged", 1, slot.rig.blobs.now};
  slot.rig.blobs.objects["index/" + std::string(32, 'a')] = {"damaged", 1, slot.rig.blobs.now};
  // No save goes on with the first of them.
  CHECK(slot.rig.save(test::many_files(3, 50, 77)).error().kind == ErrorKind::corrupt);
  const auto access = slot.rig.repository->access(kCtx).value();
  const auto young = chunks::repair_markers(kCtx, access, chunks::CollectOptions{}).value();
  CHECK(young.size() == 3);
  CHECK(slot.rig.blobs.objects.contains("condemned/x"));
  CHECK_FALSE(slot.rig.blobs.objects.contains("index/" + std::string(32, 'a')));
  slot.rig.blobs.now += std::chrono::hours(25);
  CHECK(chunks::repair_markers(kCtx, access, chunks::CollectOptions{}).value().size() == 2);
  CHECK(slot.rig.keys("condemned/").empty());
  CHECK(slot.rig.keys("pins/").empty());
  CHECK(slot.rig.save(test::many_files(3, 50, 77)).has_value());
  CHECK(chunks::repair_markers(kCtx, access, chunks::CollectOptions{}).value().empty());
}
