// SPDX-License-Identifier: Apache-2.0
#include "core/repository/scan_cache.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/file.h"
#include "fakes/temp_folder.h"

namespace ascope::test {

namespace {

constexpr std::int64_t kStarted = 1'800'000'000'123'456'789;

TreeEntry entry(std::string path, std::uint64_t inode) {
  TreeEntry out;
  out.path = std::move(path);
  out.inode = inode;
  out.mtime_ns = kStarted - 5'000'000'001;
  out.ctime_ns = kStarted - 4'000'000'001;
  out.size_bytes = inode * 10;
  return out;
}

std::vector<TreeEntry> tree() {
  return {entry("", 1), entry("a", 2), entry("a/b", 3), entry("a\nb\xff", 5), entry("a-b", 4)};
}

void record(const std::string& path, const std::string& snapshot, const std::vector<TreeEntry>& entries) {
  ScanRecorder recorder(path, kStarted);
  for (const TreeEntry& one : entries) {
    recorder.add(SnapshotPart::workspace, one);
  }
  recorder.add(SnapshotPart::roots, entry("home", 9));
  REQUIRE(recorder.finish(snapshot).has_value());
}

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("a scan cache knows what was not touched") {
  const TempFolder folder;
  const std::string path = folder.path() + "/scan";
  record(path, "snap-1", tree());
  CHECK(files_in(folder.path()) == 1);

  ScanCache cache(path, "snap-1");
  REQUIRE(cache.is_usable());
  for (const TreeEntry& one : tree()) {
    CHECK(cache.same(SnapshotPart::workspace, one));
  }
  CHECK(cache.same(SnapshotPart::roots, entry("home", 9)));
}

TEST_CASE("each sign of a change is seen") {
  const TempFolder folder;
  const std::string path = folder.path() + "/scan";
  record(path, "snap-1", tree());
  const auto changed = [&](auto change) {
    auto entries = tree();
    change(entries[2]);
    ScanCache cache(path, "snap-1");
    std::string said;
    for (const TreeEntry& one : entries) {
      said += cache.same(SnapshotPart::workspace, one) ? '=' : 'x';
    }
    return said;
  };
  CHECK(changed([](TreeEntry&) {}) == "=====");
  CHECK(changed([](TreeEntry& one) { ++one.inode; }) == "==x==");
  CHECK(changed([](TreeEntry& one) { ++one.ctime_ns; }) == "==x==");
  CHECK(changed([](TreeEntry& one) { ++one.mtime_ns; }) == "==x==");
  CHECK(changed([](TreeEntry& one) { ++one.size_bytes; }) == "==x==");
  CHECK(changed([](TreeEntry& one) { one.path = "a/c"; }) == "==x==");

  SUBCASE("new and missing entries do not hide others") {
    ScanCache cache(path, "snap-1");
    CHECK(cache.same(SnapshotPart::workspace, entry("", 1)));
    CHECK_FALSE(cache.same(SnapshotPart::workspace, entry("a/a", 7)));
    CHECK(cache.same(SnapshotPart::workspace, entry("a-b", 4)));
    CHECK_FALSE(cache.same(SnapshotPart::workspace, entry("z", 8)));
    CHECK(cache.same(SnapshotPart::roots, entry("home", 9)));
  }
}

TEST_CASE("what was touched within the clock's grain of the scan is not trusted") {
  const TempFolder folder;
  const std::string path = folder.path() + "/scan";
  TreeEntry fine = entry("fine", 1);
  fine.ctime_ns = kStarted - 90'000'000;
  TreeEntry settled = entry("settled", 2);
  settled.ctime_ns = kStarted - 110'000'000;
  TreeEntry whole = entry("whole", 3);  // a file system of whole seconds
  whole.ctime_ns = (kStarted / 1'000'000'000 - 1) * 1'000'000'000;
  record(path, "s", {fine, settled, whole});
  ScanCache cache(path, "s");
  CHECK_FALSE(cache.same(SnapshotPart::workspace, fine));
  CHECK(cache.same(SnapshotPart::workspace, settled));
  CHECK_FALSE(cache.same(SnapshotPart::workspace, whole));
}

TEST_CASE("a cache of another snapshot, cut or altered, knows nothing or the truth") {
  const TempFolder folder;
  const std::string path = folder.path() + "/scan";
  std::vector<TreeEntry> many;
  for (int i = 0; i < 4000; ++i) {
    many.push_back(
        entry("folder/with/a/long/name/file" + std::to_string(10000 + i), 100 + static_cast<unsigned>(i)));
  }
  record(path, "snap-1", many);
  CHECK_FALSE(ScanCache(path, "snap-2").is_usable());
  CHECK_FALSE(ScanCache(folder.path() + "/none", "snap-1").is_usable());
  auto whole = read_file(path);
  REQUIRE(whole.has_value());

  // Whatever it says "same" of must be what was recorded: an altered entry never passes.
  const auto count_same = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    ScanCache cache(path, "snap-1");
    std::size_t same = 0;
    for (TreeEntry one : many) {
      same += cache.same(SnapshotPart::workspace, one) ? 1U : 0U;
    }
    return same;
  };
  CHECK(count_same(*whole) == many.size());
  for (std::size_t cut = 0; cut < whole->size(); cut += whole->size() / 50) {
    CHECK(count_same(whole->substr(0, cut)) < many.size());
  }
  for (std::size_t at = 0; at < whole->size(); at += whole->size() / 200) {
    std::string altered = *whole;
    altered[at] = static_cast<char>(altered[at] ^ 0x10);
    CHECK(count_same(altered) < many.size());
  }
}

TEST_CASE("a scan begins by the clock of the file system") {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  struct stat info{};
  REQUIRE(::stat((folder / "file").c_str(), &info) == 0);
  TreeEntry fresh = entry("file", info.st_ino);
  fresh.ctime_ns = info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec;
  TreeEntry old = entry("old", 7);
  old.ctime_ns = fresh.ctime_ns - 1'500'000'000;
  ScanRecorder recorder(folder / "scan");
  recorder.add(SnapshotPart::workspace, fresh);
  recorder.add(SnapshotPart::workspace, old);
  REQUIRE(recorder.finish("s").has_value());
  ScanCache cache(folder / "scan", "s");
  CHECK_FALSE(cache.same(SnapshotPart::workspace, fresh));
  CHECK(cache.same(SnapshotPart::workspace, old));
}

TEST_CASE("a recorder that is given up leaves nothing") {
  const TempFolder folder;
  {
    ScanRecorder recorder(folder.path() + "/scan", kStarted);
    recorder.add(SnapshotPart::workspace, entry("a", 1));
  }
  CHECK(files_in(folder.path()) == 0);
  ScanRecorder nowhere(folder.path() + "/missing/scan", kStarted);
  nowhere.add(SnapshotPart::workspace, entry("a", 1));
  CHECK_FALSE(nowhere.finish("s").has_value());
}

}  // namespace ascope::test
