// SPDX-License-Identifier: Apache-2.0
// Whatever happens to the objects of a store: never a wrong byte, and the error names what is damaged.
#include <doctest/doctest.h>

#include "core/repository/chunks/repo_object.h"
#include "fakes/chunk_store.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using test::ChunkRig;
using test::many_files;
using test::small_packs;

namespace {

// Two snapshots of a slot, in packs of a few KiB, so that there are neighbours of every kind.
struct Damaged {
  explicit Damaged(bool encrypted) : rig(small_packs(encrypted)) {
    first_tree = many_files(150, 700, 1);
    second_tree = many_files(170, 700, 1);
    MemoryTree more;
    more.file("large", test::noise(200'000, 1));
    second_tree.push_back(more.entries[0]);
    first = rig.save(first_tree).value().item;
    second = rig.save(second_tree, &first).value().item;
    good = rig.blobs.objects;
    for (const HistoryItem* item : {&first, &second}) {
      const auto root = rig.repository->read_root(OpContext{}, item->object).value();
      auto& needed = needs.emplace_back();
      needed.insert("repo");
      needed.insert(item->object);
      for (const chunks::PackUse& use : root.packs) {
        needed.insert(chunks::pack_key(use.name));
      }
    }
  }
  void restore() { rig.blobs.objects = good; }

  ChunkRig rig;
  std::vector<MemoryEntry> first_tree, second_tree;
  HistoryItem first, second;
  std::vector<std::set<std::string>> needs;
  std::map<std::string, test::FakeBlobStore::Object, std::less<>> good;
};

// `key` (and `other`, if it was swapped with it) is damaged. Each snapshot is either as it was or an error
// that names the object; and whoever looks at the whole store finds it, unless `says_nothing`.
void expect_found(Damaged& store, const std::string& key, const std::string& other, bool says_nothing) {
  const std::vector<const HistoryItem*> items = {&store.first, &store.second};
  const std::vector<const std::vector<MemoryEntry>*> trees = {&store.first_tree, &store.second_tree};
  const auto names = [&](const std::string& message) {
    return message.find(key) != std::string::npos ||
           (!other.empty() && message.find(other) != std::string::npos);
  };
  store.rig.reopen();
  bool found = false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    CAPTURE(i);
    const bool needed = store.needs[i].contains(key) || store.needs[i].contains(other);
    const auto got = store.rig.load(*items[i]);
    if (got) {
      CHECK(describe(*got) == describe(*trees[i]));
    } else {
      CHECK(needed);
      CHECK((got.error().kind == ErrorKind::corrupt || got.error().kind == ErrorKind::not_found));
      CHECK_MESSAGE(names(got.error().message), got.error().message);
    }
    const auto problems = store.rig.repository->problems(OpContext{}, *items[i], true);
    REQUIRE_MESSAGE(problems.has_value(), (problems ? "" : problems.error().message));
    CHECK((got.has_value() || !problems->empty()));
    CHECK((problems->empty() || needed));
    for (const SnapshotProblem& one : *problems) {
      CHECK_MESSAGE(names(one.object), one.object);
    }
    found = found || !problems->empty();
  }
  for (const std::string& object : {key, other}) {
    if (object.starts_with("packs/") && store.rig.blobs.objects.contains("repo")) {
      const auto name = chunks::pack_name_from_hex(object.substr(object.rfind('/') + 1)).value();
      const auto problem = store.rig.repository->check_pack(OpContext{}, name, true);
      REQUIRE(problem.has_value());
      CHECK((!*problem || names((*problem)->object)));
      found = found || problem->has_value();
    }
  }
  const auto of_store = store.rig.repository->repo_problems(OpContext{});
  REQUIRE_MESSAGE(of_store.has_value(), (of_store ? "" : of_store.error().message));
  for (const SnapshotProblem& one : *of_store) {
    CHECK_MESSAGE(names(one.object), one.object);
  }
  found = found || !of_store->empty();
  const bool hint = key.starts_with("index/");  // proposes only
  CHECK(found != (hint || says_nothing));
}

std::vector<std::size_t> places(std::size_t size) {
  std::vector<std::size_t> out;
  for (std::size_t at = 0; at < size; at += at < 45 || at + 45 > size ? 9 : 1 + size / 8) {
    out.push_back(at);
  }
  return out;
}

void damage_each_object(bool encrypted) {
  Damaged store(encrypted);
  REQUIRE(store.rig.keys("packs/").size() > 4);
  std::string before;
  for (const auto& [key, object] : store.good) {
    CAPTURE(key);
    auto& bytes = store.rig.blobs.objects.find(key)->second.bytes;
    for (const std::size_t at : places(object.bytes.size())) {
      CAPTURE(at);
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
      const bool salt = key.starts_with("packs/") && at >= 8 && at < chunks::kPackHeaderBytes;
      expect_found(store, key, "", salt && !encrypted);
      bytes = object.bytes.substr(0, at);
      CAPTURE("cut");
      expect_found(store, key, "", false);
      bytes = object.bytes;
    }
    bytes = object.bytes + "more";
    expect_found(store, key, "", false);
    store.rig.blobs.objects.erase(key);
    expect_found(store, key, "", false);
    store.restore();
    if (!before.empty() && before.substr(0, 4) == key.substr(0, 4) && key != chunks::kRepoCopy) {
      CAPTURE(before);
      std::swap(store.rig.blobs.objects.find(key)->second, store.rig.blobs.objects.find(before)->second);
      expect_found(store, key, before, false);
      store.restore();
    }
    before = key;
  }
}

}  // namespace

TEST_CASE("chunks damage: every object cut, flipped, lengthened, deleted or swapped is found and named") {
  damage_each_object(false);
}

TEST_CASE("chunks damage: the same of an encrypted store") {
  damage_each_object(true);
}

TEST_CASE("chunks damage: one damaged pack leaves the rest within reach") {
  Damaged store(false);
  const auto root = store.rig.repository->read_root(OpContext{}, store.first.object).value();
  REQUIRE(root.packs.size() > 2);
  const auto holds_a_page = [&](std::size_t pack) {
    return std::any_of(root.workspace.begin(), root.workspace.end(),
                       [&](const chunks::PageRef& page) { return page.chunk.pack == pack; });
  };
  const std::size_t pack = holds_a_page(0) ? 1 : 0;
  REQUIRE_FALSE(holds_a_page(pack));
  store.rig.blobs.objects.erase(chunks::pack_key(root.packs[pack].name));
  std::size_t whole = 0;
  for (const MemoryEntry& one : store.first_tree) {
    if (one.entry.type == EntryType::file) {
      const auto got = store.rig.load(store.first, SnapshotPart::workspace, {one.entry.path});
      if (got) {
        CHECK(got->back().content() == one.content());
        ++whole;
      }
    }
  }
  CHECK(whole > 0);
  CHECK(whole < 150);
}

TEST_CASE("chunks damage: a save after it heals what it is told of") {
  for (const std::string damage : {"deleted", "flipped", "index cut"}) {
    CAPTURE(damage);
    Damaged store(false);
    const std::string object = store.rig.keys("packs/")[1];
    auto& bytes = store.rig.blobs.objects.find(object)->second.bytes;
    if (damage == "deleted") {
      store.rig.blobs.objects.erase(object);
    } else if (damage == "flipped") {
      bytes[100] = static_cast<char>(bytes[100] ^ 4);
    } else {
      bytes.resize(bytes.size() - 10);
    }
    store.rig.reopen();
    MemoryTree tree(store.second_tree);
    SaveRequest request = store.rig.request(tree, &store.second);
    for (const auto& problem : store.rig.repository->problems(OpContext{}, store.second, true).value()) {
      REQUIRE(problem.object == object);
      request.avoid_packs.insert(problem.object.substr(problem.object.rfind('/') + 1));
    }
    REQUIRE(request.avoid_packs.size() == 1);
    const auto healed = store.rig.repository->save(OpContext{}, request);
    REQUIRE_MESSAGE(healed.has_value(), (healed ? "" : healed.error().message));
    CHECK(healed->changed);
    CHECK(healed->stored_bytes > 0);
    CHECK(healed->new_bytes < 250'000);  // of 330 000
    CHECK(describe(store.rig.load(healed->item).value()) == describe(store.second_tree));
    CHECK(store.rig.repository->check(OpContext{}, healed->item, true).value() == SnapshotHealth::usable);
  }
}

TEST_CASE("chunks damage: a parent that cannot be read is stored anew and said") {
  for (const std::string what : {"root", "page"}) {
    CAPTURE(what);
    ChunkRig rig;
    const auto tree = many_files(1500, 300, 1);
    const auto first = rig.save(tree).value().item;
    const auto root = rig.repository->read_root(OpContext{}, first.object).value();
    const bool is_root = what == "root";
    const chunks::ChunkRef& page = root.workspace[1].chunk;
    const std::string object = is_root ? first.object : chunks::pack_key(root.packs[page.pack].name);
    auto& bytes = rig.blobs.objects.find(object)->second.bytes;
    const std::size_t at = is_root ? 60 : page.frame.offset + 5;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    rig.reopen();
    const auto second = rig.save(tree, &first);
    REQUIRE_MESSAGE(second.has_value(), (second ? "" : second.error().message));
    CHECK(second->changed == is_root);
    if (is_root) {
      CHECK(dump_json(second->item.notes).find("could not be compared with") != std::string::npos);
      CHECK(describe(rig.load(second->item).value()) == describe(tree));
      CHECK(second->new_bytes == 0);  // its packs are whole, and the hints know them
    }
  }
}

TEST_CASE("chunks damage: a store without its first object, or with another's") {
  ChunkRig rig;
  const auto tree = many_files(10, 300, 1);
  const auto first = rig.save(tree).value().item;
  rig.blobs.objects.erase("repo");
  rig.reopen();
  CHECK(rig.load(first).error().kind == ErrorKind::corrupt);
  CHECK(rig.load(first).error().hint.find("snapshot repair") != std::string::npos);
  const auto again = rig.save(tree);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().kind == ErrorKind::corrupt);
  CHECK(again.error().message.find("'repo'") != std::string::npos);
  ChunkRig empty;
  CHECK(empty.repository->check(OpContext{}, first, true).value() == SnapshotHealth::missing);
  CHECK(empty.blobs.objects.empty());
}
