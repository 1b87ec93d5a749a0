// SPDX-License-Identifier: Apache-2.0
// What is saved comes back, and what is there already is not stored again.
#include <doctest/doctest.h>

#include "fakes/chunk_store.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using test::ChunkRig;
using test::many_files;

namespace {

MemoryEntry& add_sparse(MemoryTree& tree, const std::string& path, std::uint64_t size,
                        std::vector<std::pair<std::uint64_t, std::string>> runs) {
  MemoryEntry& one = tree.add(EntryType::file, path);
  one.entry.size_bytes = size;
  one.entry.sparse = true;
  for (auto& [offset, bytes] : runs) {
    one.entry.extents.push_back({offset, bytes.size()});
    one.blocks.emplace_back(offset, std::move(bytes));
  }
  return one;
}

// Everything odd that a tree may hold, in path order.
std::vector<MemoryEntry> odd_tree() {
  MemoryTree tree;
  tree.folder("").entry.mode = 0700;
  tree.file("\x01\n\t", "control bytes in the name");
  tree.file("-rf", "dash");
  tree.file(".wh.file", "no white-out");
  tree.folder("a");
  tree.folder("a/b");
  tree.file("a/b/c", "deep");
  tree.file("a/z", "");
  tree.file("a-before-slash-in-bytes", "x");
  tree.file("a.b", "after a/ in the walker's order");
  MemoryEntry& attributes = tree.file("attributes", "x");
  attributes.entry.xattrs = {{"security.capability", std::string("\0\1\2", 3)},
                             {"user.empty", ""},
                             {"user.long", std::string(5000, 'v')}};
  tree.add(EntryType::symlink, "dangling", "../no/where");
  MemoryEntry& null_device = tree.add(EntryType::char_device, "dev-c");
  null_device.entry.device = 0x103;
  MemoryEntry& disk = tree.add(EntryType::block_device, "dev-d");
  disk.entry.device = 0xFFFFFFFF00000801U;
  tree.add(EntryType::fifo, "fifo");
  tree.file("first", test::prose(50'000, 1));
  tree.add(EntryType::hardlink, "first-again", "first");
  MemoryEntry& owner = tree.file("owner", "o");
  owner.entry.uid = UINT32_MAX - 1;
  owner.entry.gid = 65534;
  owner.entry.mode = 07777;
  owner.entry.mtime_ns = -1'234'567'890'123;
  MemoryEntry& locked = tree.folder("read-only");
  locked.entry.mode = 0;
  tree.file("read-only/inside", test::noise(300'000, 2));
  tree.add(EntryType::hardlink, "second-link", "read-only/inside");
  add_sparse(tree, "sparse-all-data", 7, {{0, "content"}});
  add_sparse(tree, "sparse-begin", 1U << 30U, {{0, "data"}});
  add_sparse(tree, "sparse-end", 1U << 20U, {{(1U << 20U) - 4, "data"}});
  add_sparse(tree, "sparse-hole", std::uint64_t{1} << 62U, {});
  add_sparse(tree, "sparse-many", 10'000'000,
             {{4096, test::noise(40'000, 3)}, {100'000, "x"}, {5'000'000, test::prose(700'000, 4)}});
  tree.file("\xff\xfe not utf-8", "bytes");
  MemoryTree sorted;
  sorted.entries = std::move(tree.entries);
  return sorted.entries;
}

void check_same(const std::vector<MemoryEntry>& got, const std::vector<MemoryEntry>& want) {
  CHECK(describe(got) == describe(want));
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(want[i].entry.path);
    CHECK(got[i].entry == want[i].entry);
  }
}

}  // namespace

TEST_CASE("chunks: everything odd comes back as it was") {
  for (const bool ordered : {true, false}) {
    CAPTURE(ordered);
    ChunkRig rig;
    const auto want = odd_tree();
    const auto saved = rig.save(want, nullptr, ordered);
    REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().message));
    CHECK(saved->changed);
    CHECK(saved->item.format == "chunks");
    CHECK(saved->item.size_bytes == rig.blobs.objects[saved->item.object].bytes.size());
    CHECK(saved->item.files == 23);
    const auto got = rig.load(saved->item);
    REQUIRE_MESSAGE(got.has_value(), (got ? "" : got.error().message));
    check_same(*got, want);
    CHECK(rig.repository->check(OpContext{}, saved->item, false).value() == SnapshotHealth::usable);
    CHECK(rig.repository->check(OpContext{}, saved->item, true).value() == SnapshotHealth::usable);
  }
}

TEST_CASE("chunks: both parts, and a part that is not there") {
  ChunkRig rig;
  MemoryTree workspace(many_files(3, 100, 1));
  MemoryTree roots(many_files(5, 100, 9));
  SaveRequest request = rig.request(workspace);
  request.roots = &roots;
  const auto saved = rig.repository->save(OpContext{}, request);
  REQUIRE(saved.has_value());
  check_same(rig.load(saved->item, SnapshotPart::roots).value(), many_files(5, 100, 9));
  check_same(rig.load(saved->item).value(), many_files(3, 100, 1));
  CHECK_FALSE(saved->item.roots_object.empty());
  const auto alone = rig.save(many_files(3, 100, 1), &saved->item);
  REQUIRE(alone.has_value());
  CHECK(alone->changed);
  CHECK(alone->item.roots_object.empty());
  CHECK(rig.load(alone->item, SnapshotPart::roots).value().empty());
}

TEST_CASE("chunks: empty trees") {
  ChunkRig rig;
  const auto nothing = rig.save({});
  REQUIRE(nothing.has_value());
  CHECK(rig.load(nothing->item).value().empty());
  MemoryTree root;
  root.folder("");
  const auto saved = rig.save(root.entries, &nothing->item);
  REQUIRE(saved.has_value());
  CHECK(saved->changed);
  CHECK(rig.load(saved->item).value().size() == 1);
}

TEST_CASE("chunks: entries in any order are sorted, hard links find their file") {
  MemoryTree mixed;
  mixed.file("z/target", "linked content");
  mixed.folder("z").entry.mode = 0711;
  mixed.add(EntryType::hardlink, "m", "z/target");
  mixed.add(EntryType::hardlink, "zz", "m");
  mixed.file("a.b", "2");
  mixed.add(EntryType::hardlink, "b", "m");
  mixed.folder("a");
  mixed.file("a/c", "1");
  mixed.folder("");
  ChunkRig rig;
  const auto saved = rig.save(mixed.entries, nullptr, false);
  REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().message));
  const auto got = rig.load(saved->item).value();
  std::vector<std::string> paths;
  for (const MemoryEntry& one : got) {
    paths.push_back(one.entry.path +
                    (one.entry.type == EntryType::hardlink ? " -> " + one.entry.link_target : ""));
  }
  CHECK(paths ==
        std::vector<std::string>{"", "a", "a/c", "a.b", "b", "m -> b", "z", "z/target -> b", "zz -> b"});
  CHECK(got[4].content() == "linked content");

  // What comes in order where order was promised, or twice, is an error, and nothing is left but packs.
  MemoryTree wrong;
  wrong.file("b", "1");
  wrong.file("a", "2");
  CHECK(rig.save(wrong.entries).error().kind == ErrorKind::corrupt);
  MemoryTree twice;
  twice.file("a", "1");
  twice.file("b", "1");
  twice.file("a", "2");
  CHECK(rig.save(twice.entries, nullptr, false).error().kind == ErrorKind::corrupt);
  CHECK(rig.keys("snapshots/").size() == 1);
}

TEST_CASE("chunks: many entries in any order take the same form as in order") {
  auto entries = many_files(9000, 20, 5);
  ChunkRig rig;
  const auto ordered = rig.save(entries);
  REQUIRE(ordered.has_value());
  for (std::size_t i = entries.size(); i > 1; --i) {
    std::swap(entries[i - 1], entries[(i * 2654435761U) % i]);
  }
  const auto again = rig.save(entries, &ordered->item, false);
  REQUIRE_MESSAGE(again.has_value(), (again ? "" : again.error().message));
  CHECK_FALSE(again->changed);
}

TEST_CASE("chunks: an unchanged tree writes nothing, whatever is kept in the cache") {
  for (const bool ordered : {true, false}) {
    CAPTURE(ordered);
    ChunkRig rig;
    const auto entries = many_files(700, 3000, 1);
    const auto first = rig.save(entries, nullptr, ordered);
    REQUIRE(first.has_value());
    std::size_t puts = 0;
    rig.blobs.before = [&](std::string_view call, std::string_view) {
      puts += call == "put" || call == "remove" ? 1 : 0;
      return ok();
    };
    for (const std::string cache : {"kept", "lost"}) {
      CAPTURE(cache);
      if (cache == "lost") {
        REQUIRE(remove_tree_contents(rig.cache.open(), {}).has_value());
      }
      rig.reopen();
      const auto second = rig.save(entries, &first->item, ordered);
      REQUIRE_MESSAGE(second.has_value(), (second ? "" : second.error().message));
      CHECK_FALSE(second->changed);
      CHECK(second->item.snapshot == first->item.snapshot);
      CHECK(second->stored_bytes == 0);
      CHECK(puts == 0);
    }
  }
}

TEST_CASE("chunks: a change of one in a hundred writes about as much") {
  ChunkRig rig;
  auto entries = many_files(4000, 5000, 1);
  const auto first = rig.save(entries);
  REQUIRE(first.has_value());
  const std::uint64_t whole = rig.stored_bytes();
  std::uint64_t changed = 0;
  for (std::size_t i = 1000; changed < 40; ++i) {  // one region, as work in a project is
    if (entries[i].entry.type == EntryType::file) {
      std::string text = test::prose(5000, 77'000 + i);
      entries[i].entry.size_bytes = text.size();
      entries[i].blocks = {{0, std::move(text)}};
      ++changed;
    }
  }
  const auto second = rig.save(entries, &first->item);
  REQUIRE(second.has_value());
  CHECK(second->changed);
  check_same(rig.load(second->item).value(), entries);
  const std::uint64_t added = rig.stored_bytes() - whole;
  CHECK(added == second->stored_bytes);
  CHECK(added < whole / 40);
  CHECK(second->new_bytes == 40 * 5000);
}

TEST_CASE("chunks: content moved, copied, appended to, or of another slot is found again") {
  const std::string large = test::noise(3U << 20U, 1);
  ChunkRig rig;
  MemoryTree first;
  first.folder("");
  first.file("large", large);
  first.file("small", "a small file");
  const auto one = rig.save(first.entries);
  REQUIRE(one.has_value());
  struct Row {
    const char* name;
    std::vector<std::pair<std::string, std::string>> files;
    std::uint64_t most_new;
  };
  const std::vector<Row> rows = {
      {"moved", {{"elsewhere", large}, {"small2", "a small file"}}, 0},
      {"copied", {{"large", large}, {"twin", large}}, 0},
      {"appended to", {{"large", large + "more"}}, 600'000},
      {"inserted into", {{"large", large.substr(0, 1'000'000) + "!" + large.substr(1'000'000)}}, 1'200'000},
  };
  for (const Row& row : rows) {
    for (const bool same_slot : {true, false}) {
      CAPTURE(row.name);
      CAPTURE(same_slot);
      MemoryTree tree;
      tree.folder("");
      for (const auto& [path, content] : row.files) {
        tree.file(path, content);
      }
      rig.origin.slot = same_slot ? "user/a/b" : "user/other/slot";
      rig.reopen();
      const auto saved = rig.save(tree.entries, same_slot ? &one->item : nullptr);
      REQUIRE(saved.has_value());
      CHECK(saved->new_bytes <= row.most_new);
      check_same(rig.load(saved->item).value(), tree.entries);
      CHECK(rig.repository->check(OpContext{}, saved->item, true).value() == SnapshotHealth::usable);
    }
  }
}

TEST_CASE("chunks: with dedup within the slot, other slots' content is stored again, one's own is not") {
  ChunkOptions options;
  options.dedup = chunks::Dedup::slot;
  ChunkRig rig(options);
  MemoryTree tree;
  tree.folder("");
  tree.file("f", test::noise(100'000, 1));
  const auto first = rig.save(tree.entries);
  REQUIRE(first.has_value());
  MemoryTree moved;
  moved.folder("");
  moved.file("g", test::noise(100'000, 1));
  CHECK(rig.save(moved.entries, &first->item)->new_bytes == 0);
  rig.origin.slot = "user/other/slot";
  std::vector<std::string> asked;
  rig.blobs.before = [&](std::string_view call, std::string_view key) {
    asked.push_back(std::string(call) + " " + std::string(key));
    return ok();
  };
  CHECK(rig.save(moved.entries)->new_bytes == 100'000);
  for (const std::string& call : asked) {
    CHECK(call.find("index/") == call.find("put index/") + (call.starts_with("put index/") ? 4 : 0));
  }
}

TEST_CASE("chunks: only what lies under some paths") {
  ChunkRig rig;
  auto entries = many_files(3000, 200, 1);
  const auto saved = rig.save(entries);
  REQUIRE(saved.has_value());
  const auto paths_of = [&](const std::vector<std::string>& asked) {
    std::vector<std::string> out;
    for (const MemoryEntry& one : rig.load(saved->item, SnapshotPart::workspace, asked).value()) {
      out.push_back(one.entry.path);
      const auto same = std::find_if(entries.begin(), entries.end(),
                                     [&](const MemoryEntry& e) { return e.entry.path == one.entry.path; });
      CHECK(describe({one}) == describe({*same}));
    }
    return out;
  };
  CHECK(paths_of({"d0012/001234"}) == std::vector<std::string>{"", "d0012", "d0012/001234"});
  CHECK(paths_of({"d0029/002999", "d0000/000000"}) ==
        std::vector<std::string>{"", "d0000", "d0000/000000", "d0029", "d0029/002999"});
  CHECK(paths_of({"d0003"}).size() == 102);
  CHECK(paths_of({"d0003", "d0003/000300"}).size() == 102);
  CHECK(paths_of({""}).size() == entries.size());
  const auto missing = rig.load(saved->item, SnapshotPart::workspace, {"d0003/nope"});
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().kind == ErrorKind::not_found);
  CHECK(missing.error().message.find("d0003/nope") != std::string::npos);
  CHECK(rig.load(saved->item, SnapshotPart::workspace, {"d0003/000300", "zzz"}).error().kind ==
        ErrorKind::not_found);
  CHECK(rig.load(saved->item, SnapshotPart::workspace, {"../x"}).error().kind == ErrorKind::corrupt);

  // One path needs few of the pages.
  std::size_t gets = 0;
  rig.blobs.before = [&](std::string_view call, std::string_view) {
    gets += call == "get" ? 1 : 0;
    return ok();
  };
  CHECK(paths_of({"d0012/001234"}).size() == 3);
  CHECK(gets <= 8);
}

TEST_CASE("chunks: names only cost no content") {
  ChunkRig rig;
  const auto saved = rig.save(many_files(500, 2000, 1));
  REQUIRE(saved.has_value());
  std::size_t gets = 0;
  rig.blobs.before = [&](std::string_view call, std::string_view) {
    gets += call == "get" ? 1 : 0;
    return ok();
  };
  const auto tree = rig.repository->open(OpContext{}, saved->item, SnapshotPart::workspace).value();
  TreeEntry entry;
  std::size_t count = 0;
  while (tree->next(entry).value()) {
    ++count;
  }
  CHECK(count == 506);
  CHECK(gets <= 3);
}

TEST_CASE("chunks: a file of many chunks goes over pages; leaving it early is fine") {
  ChunkOptions options;
  options.sizes = {1U << 10U, 2U << 10U, 16U << 10U};
  ChunkRig rig(options);
  MemoryTree tree;
  tree.folder("");
  tree.file("before", "b");
  tree.file("large", test::noise(90U << 20U, 1));
  std::vector<std::pair<std::uint64_t, std::string>> runs;
  for (std::uint64_t i = 0; i < 60'000; ++i) {
    runs.emplace_back(i * 8192, std::string(1, static_cast<char>('a' + i % 26)));
  }
  add_sparse(tree, "runs", 60'000 * 8192, std::move(runs));
  tree.file("zz", "after");
  const auto saved = rig.save(tree.entries);
  REQUIRE(saved.has_value());
  const auto root = rig.repository->read_root(OpContext{}, saved->item.object).value();
  REQUIRE(root.workspace.size() > 1);
  CHECK(root.workspace[1].first == "large");
  for (const chunks::PageRef& page : root.workspace) {
    CHECK(page.chunk.raw < 2U << 20U);
  }
  check_same(rig.load(saved->item).value(), tree.entries);
  for (const std::string path : {"before", "large", "runs", "zz"}) {
    CHECK(rig.load(saved->item, SnapshotPart::workspace, {path}).value().back().entry.path == path);
  }
  CHECK_FALSE(rig.save(tree.entries, &saved->item)->changed);
  const auto source = rig.repository->open(OpContext{}, saved->item, SnapshotPart::workspace).value();
  TreeEntry entry;
  std::string paths;
  while (source->next(entry).value()) {
    paths += entry.path + " ";
    CHECK(source->read().has_value());
  }
  CHECK(paths == " before large runs zz ");
}

TEST_CASE("chunks: sources that do not keep to what they say") {
  ChunkRig rig;
  MemoryTree shrunk;
  shrunk.folder("");
  shrunk.file("f", "abc").entry.size_bytes = 10;  // the rest reads as zeros
  const auto saved = rig.save(shrunk.entries);
  REQUIRE(saved.has_value());
  const auto got = rig.load(saved->item).value();
  CHECK(got[1].content() == std::string("abc\0\0\0\0\0\0\0", 10));
  CHECK(got[1].entry.size_bytes == 10);

  MemoryTree grown;
  grown.folder("");
  grown.file("f", "abc").entry.size_bytes = 2;
  CHECK(rig.save(grown.entries).error().kind == ErrorKind::corrupt);
  MemoryTree backwards;
  backwards.folder("");
  MemoryEntry& two = backwards.file("f", "abc");
  two.entry.size_bytes = 100;
  two.blocks.emplace_back(1, "x");
  CHECK(rig.save(backwards.entries).error().kind == ErrorKind::corrupt);
  MemoryTree failing;
  failing.folder("");
  failing.file("f", "abc");
  failing.fail_at = 2;
  CHECK(rig.repository->save(OpContext{}, rig.request(failing)).error().kind == ErrorKind::corrupt);
  MemoryTree climbing;
  climbing.file("../x", "abc");
  CHECK(rig.save(climbing.entries).error().kind == ErrorKind::corrupt);
  MemoryTree listening;
  listening.folder("");
  listening.add(EntryType::socket, "sock");
  const auto noted = rig.save(listening.entries);
  REQUIRE(noted.has_value());
  CHECK(dump_json(noted->item.notes) == R"([{"path":"sock","what":"socket skipped"}])");
  CHECK(rig.load(noted->item).value().size() == 1);
  CHECK(rig.keys("snapshots/").size() == 2);
}

TEST_CASE("chunks: small packs, other sizes of chunks, and several workers make no difference") {
  const auto want = odd_tree();
  for (const std::uint64_t pack_bytes :
       {std::uint64_t{1}, std::uint64_t{100'000}, std::uint64_t{16U << 20U}}) {
    for (const unsigned workers : {1U, 3U}) {
      CAPTURE(pack_bytes);
      CAPTURE(workers);
      ChunkOptions options;
      options.pipeline.pack_bytes = pack_bytes;
      options.pipeline.workers = workers;
      options.sizes = {2048, 8192, 65536};
      ChunkRig rig(options);
      const auto saved = rig.save(want);
      REQUIRE(saved.has_value());
      CHECK((pack_bytes > 100'000) == (rig.keys("packs/").size() == 1));
      check_same(rig.load(saved->item).value(), want);
    }
  }
}

TEST_CASE("chunks: objects of others are listed and described; a removed manifest is gone") {
  ChunkRig rig;
  const auto one = rig.save(many_files(10, 100, 1));
  const auto two = rig.save(many_files(10, 100, 2), &one->item);
  REQUIRE(two.has_value());
  rig.blobs.objects["snapshots/notes.txt"] = {"no manifest", 1};
  const auto listed = rig.repository->list(OpContext{}).value();
  REQUIRE(listed.size() == 2);
  const auto name = chunks::parse_manifest_key(listed[1].key);
  REQUIRE(name.has_value());
  CHECK(name->id == two->item.snapshot);
  CHECK(name->rev == 3);
  CHECK(name->fence == 7);
  const auto described = rig.repository->describe(OpContext{}, two->item.object).value();
  CHECK(described.snapshot == two->item.snapshot);
  CHECK(described.sha256 == two->item.sha256);
  CHECK(described.parent == one->item.snapshot);
  CHECK(described.fence == 7);
  CHECK(described.files == two->item.files);
  REQUIRE(rig.repository->remove(OpContext{}, two->item).has_value());
  REQUIRE(rig.repository->remove(OpContext{}, two->item).has_value());
  CHECK(rig.load(two->item).error().kind == ErrorKind::not_found);
  CHECK(rig.repository->check(OpContext{}, two->item, false).value() == SnapshotHealth::missing);
  check_same(rig.load(one->item).value(), many_files(10, 100, 1));
  HistoryItem tar;
  tar.format = "tar";
  CHECK(rig.load(tar).error().kind == ErrorKind::unsupported);
}
