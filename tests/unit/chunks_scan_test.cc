// SPDX-License-Identifier: Apache-2.0
// Saving from a scan: only what the caller does not know to be unchanged is read.
#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/tree/walker.h"
#include "fakes/chunk_store.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using test::ChunkRig;
using test::many_files;

namespace {

const OpContext kCtx;

// A tree whose files in `changed` are not known to be as they were.
class KnownScan final : public TreeScan {
 public:
  KnownScan(const std::vector<MemoryEntry>& entries, std::set<std::string> changed,
            std::vector<std::vector<std::string>>& asked)
      : entries_(entries), changed_(std::move(changed)), asked_(asked), source_(entries) {}
  std::function<void(std::vector<MemoryEntry>&)> meanwhile;  // what happens between scan and read

  Result<bool> next(TreeEntry& entry, bool& unchanged) override {
    ASCOPE_TRY_ASSIGN(const bool more, source_.next(entry));
    unchanged = !changed_.contains(entry.path);
    if (entry.type == EntryType::file) {  // a scan of metadata knows no holes
      entry.sparse = false;
      entry.extents.clear();
    }
    return more;
  }
  Result<std::unique_ptr<TreeSource>> read(const std::vector<std::string>& paths) override {
    asked_.push_back(paths);
    CHECK(std::is_sorted(paths.begin(), paths.end()));
    std::vector<MemoryEntry> found;
    const std::set<std::string> wanted(paths.begin(), paths.end());
    for (const MemoryEntry& one : entries_) {
      if (one.entry.type == EntryType::directory || wanted.contains(one.entry.path)) {
        found.push_back(one);  // folders on the way come along
      }
    }
    if (meanwhile) {
      meanwhile(found);
    }
    return std::unique_ptr<TreeSource>(std::make_unique<MemoryTree>(std::move(found)));
  }

 private:
  const std::vector<MemoryEntry>& entries_;
  std::set<std::string> changed_;
  std::vector<std::vector<std::string>>& asked_;
  MemoryTree source_;
};

struct Scanned {
  ChunkRig rig;
  std::vector<std::vector<std::string>> asked;
  std::function<void(std::vector<MemoryEntry>&)> meanwhile;

  Result<SaveOutcome> save(const std::vector<MemoryEntry>& entries, std::set<std::string> changed,
                           const HistoryItem* parent) {
    MemoryTree unused;
    SaveRequest request = rig.request(unused, parent);
    request.workspace = nullptr;
    request.scan = [&](SnapshotPart part) -> Result<std::unique_ptr<TreeScan>> {
      if (part == SnapshotPart::roots) {
        return std::unique_ptr<TreeScan>();
      }
      auto scan = std::make_unique<KnownScan>(entries, changed, asked);
      scan->meanwhile = meanwhile;
      return std::unique_ptr<TreeScan>(std::move(scan));
    };
    asked.clear();
    return rig.repository->save(kCtx, request);
  }
  [[nodiscard]] std::size_t asked_for() const {
    std::size_t sum = 0;
    for (const auto& paths : asked) {
      sum += paths.size();
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("chunks scan: without a parent all is read, with one only what changed") {
  Scanned with;
  auto tree = many_files(9000, 30, 1);
  const auto first = with.save(tree, {}, nullptr);
  REQUIRE_MESSAGE(first.has_value(), (first ? "" : first.error().message));
  CHECK(with.asked_for() == 9000);
  CHECK(with.asked.size() == 2);
  for (const auto& paths : with.asked) {
    CHECK(paths.size() <= 8192);
  }
  CHECK(describe(with.rig.load(first->item).value()) == describe(tree));

  CHECK_FALSE(with.save(tree, {}, &first->item)->changed);
  CHECK(with.asked.empty());

  tree[500].blocks[0].second[0] = '!';
  tree[700].entry.mode = 0600;
  tree.erase(tree.begin() + 800);
  const std::string path = tree[500].entry.path;
  const auto second = with.save(tree, {path}, &first->item);
  REQUIRE(second.has_value());
  CHECK(second->changed);
  CHECK(with.asked == std::vector<std::vector<std::string>>{{path}});
  CHECK(describe(with.rig.load(second->item).value()) == describe(tree));
  CHECK(with.rig.repository->check(kCtx, second->item, true).value() == SnapshotHealth::usable);

  // Touched, and the same all the same.
  CHECK_FALSE(with.save(tree, {path}, &second->item)->changed);
}

TEST_CASE("chunks scan: holes, links and files of many chunks are taken from the parent") {
  Scanned with;
  MemoryTree tree;
  tree.folder("");
  tree.file("empty", "");
  tree.file("large", test::noise(9U << 20U, 1));
  tree.add(EntryType::hardlink, "link", "large");
  MemoryEntry& sparse = tree.add(EntryType::file, "sparse");
  sparse.entry.size_bytes = 1U << 20U;
  sparse.entry.sparse = true;
  sparse.entry.extents = {{0, 3}, {70'000, 4}};
  sparse.blocks = {{0, "abc"}, {70'000, "defg"}};
  const auto first = with.save(tree.entries, {}, nullptr);
  REQUIRE(first.has_value());
  CHECK(describe(with.rig.load(first->item).value()) == describe(tree.entries));
  CHECK_FALSE(with.save(tree.entries, {}, &first->item)->changed);
  tree.file("z", "new");
  const auto second = with.save(tree.entries, {}, &first->item);
  REQUIRE(second.has_value());
  CHECK(with.asked_for() == 1);
  CHECK(describe(with.rig.load(second->item).value()) == describe(tree.entries));
}

TEST_CASE("chunks scan: a claim that does not fit the parent is not believed") {
  Scanned with;
  auto tree = many_files(20, 50, 1);
  const auto first = with.save(tree, {}, nullptr);
  REQUIRE(first.has_value());
  tree[2].entry.size_bytes += 1;  // another size
  tree[2].blocks = {{0, tree[2].content()}};
  tree[3].entry.path += "-renamed";         // nothing of that name
  tree[5].entry.type = EntryType::symlink;  // no file any more
  tree[5].entry.link_target = "x";
  tree[5].entry.size_bytes = 0;
  tree[5].blocks.clear();
  const auto second = with.save(tree, {}, &first->item);
  REQUIRE(second.has_value());
  CHECK(with.asked == std::vector<std::vector<std::string>>{{tree[2].entry.path, tree[3].entry.path}});
  CHECK(describe(with.rig.load(second->item).value()) == describe(tree));
}

TEST_CASE("chunks scan: what changes between scan and read") {
  Scanned with;
  MemoryTree tree;
  tree.folder("");
  tree.file("a", "stays");
  tree.file("b", "vanishes");
  tree.add(EntryType::hardlink, "b-link", "b");
  tree.file("c", "grows");
  tree.file("d", "becomes a folder");
  tree.add(EntryType::hardlink, "d-link", "d");
  tree.file("e", "becomes a link to a");
  tree.file("f", "becomes a link to what nobody saved");
  with.meanwhile = [](std::vector<MemoryEntry>& found) {
    std::erase_if(found, [](const MemoryEntry& one) { return one.entry.path == "b"; });
    for (MemoryEntry& one : found) {
      if (one.entry.path == "c") {
        one.entry.size_bytes = 10;
        one.blocks = {{0, "has grown!"}};
      } else if (one.entry.path == "d") {
        one.entry = TreeEntry{};
        one.entry.path = "d";
        one.entry.type = EntryType::directory;
        one.blocks.clear();
      } else if (one.entry.path == "e" || one.entry.path == "f") {
        one.entry.type = EntryType::hardlink;
        one.entry.link_target = one.entry.path == "e" ? "a" : "d/inside";
        one.entry.size_bytes = 0;
        one.blocks.clear();
      }
    }
  };
  const auto saved = with.save(tree.entries, {}, nullptr);
  REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().message));
  std::string found;
  for (const MemoryEntry& one : with.rig.load(saved->item).value()) {
    found += one.entry.path + "=" +
             (one.entry.type == EntryType::file ? one.content() : one.entry.link_target) + " ";
  }
  CHECK(found == "= a=stays c=has grown! d= e=a ");
  CHECK(saved->item.notes.size() == 4);
}

TEST_CASE("chunks scan: a real folder by the walker") {
  const TempFolder dir;
  const auto write = [&](const std::string& name, const std::string& content) {
    const UniqueFd fd(::open((dir / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    REQUIRE(write_all(fd.get(), content).has_value());
  };
  write("one", test::prose(100'000, 1));
  write("two", "2");
  REQUIRE(::mkdir((dir / "folder").c_str(), 0755) == 0);
  write("folder/three", test::noise(5000, 2));
  REQUIRE(::link((dir / "two").c_str(), (dir / "two-again").c_str()) == 0);
  REQUIRE(::symlink("nowhere", (dir / "folder/link").c_str()) == 0);

  class Walk final : public TreeScan {
   public:
    explicit Walk(const TempFolder& dir) : dir_(dir), walker_(walk_tree(dir.open(), {}).value()) {}
    Result<bool> next(TreeEntry& entry, bool& unchanged) override {
      unchanged = false;
      return walker_->next(entry);
    }
    Result<std::unique_ptr<TreeSource>> read(const std::vector<std::string>& paths) override {
      WalkOptions options;
      options.start = paths;
      ASCOPE_TRY_ASSIGN(auto walker, walk_tree(dir_.open(), std::move(options)));
      return std::unique_ptr<TreeSource>(std::move(walker));
    }

   private:
    const TempFolder& dir_;
    std::unique_ptr<TreeWalker> walker_;
  };
  ChunkRig rig;
  MemoryTree unused;
  SaveRequest request = rig.request(unused);
  request.workspace = nullptr;
  request.scan = [&](SnapshotPart part) {
    return Result<std::unique_ptr<TreeScan>>(part == SnapshotPart::workspace ? std::make_unique<Walk>(dir)
                                                                             : nullptr);
  };
  const auto saved = rig.repository->save(kCtx, request);
  REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().message));
  const auto walker = walk_tree(dir.open(), {}).value();
  CHECK(describe(rig.load(saved->item).value()) == describe(collect(*walker).value()));
  const auto plain = walk_tree(dir.open(), {}).value();
  CHECK_FALSE(rig.repository->save(kCtx, rig.request(*plain, &saved->item))->changed);
}
