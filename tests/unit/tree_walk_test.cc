// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <doctest/doctest.h>

#include "core/base/file.h"
#include "core/tree/applier.h"
#include "core/tree/entries_ahead.h"
#include "core/tree/stream.h"
#include "core/tree/walker.h"
#include "fakes/memory_tree.h"
#include "fakes/temp_folder.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<MemoryEntry> walk(const TempFolder& folder, WalkOptions options = {},
                              std::vector<TreeNote>* notes = nullptr) {
  auto walker = walk_tree(folder.open(), std::move(options));
  REQUIRE(walker.has_value());
  auto entries = collect(**walker);
  REQUIRE_MESSAGE(entries.has_value(), (entries ? "" : entries.error().message));
  if (notes != nullptr) {
    *notes = (*walker)->notes();
  }
  return std::move(*entries);
}

std::vector<std::string> paths(const std::vector<MemoryEntry>& entries) {
  std::vector<std::string> out;
  for (const MemoryEntry& one : entries) {
    out.push_back(one.entry.path);
  }
  return out;
}

void write(const std::string& path, std::string_view data) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  REQUIRE(fd.is_open());
  REQUIRE(write_all(fd.get(), data).has_value());
}

}  // namespace

TEST_CASE("walk of metadata: as a walk with content, but for content, holes and what is not asked for") {
  const TempFolder folder;
  REQUIRE(::mkdir((folder / "d").c_str(), 0755) == 0);
  REQUIRE(::setxattr((folder / "d").c_str(), "user.d", "1", 1, 0) == 0);
  write(folder / "d/file", "content");
  REQUIRE(::setxattr((folder / "d/file").c_str(), "user.f", "2", 1, 0) == 0);
  REQUIRE(::link((folder / "d/file").c_str(), (folder / "e").c_str()) == 0);
  REQUIRE(::symlink("e", (folder / "l").c_str()) == 0);
  REQUIRE(::mkfifo((folder / "p").c_str(), 0600) == 0);
  write(folder / "s", "");
  REQUIRE(::truncate((folder / "s").c_str(), 1 << 20) == 0);
  write(folder / "left-out", "x");

  const auto wanted = [&](bool file_xattrs) {
    WalkOptions with_content;
    with_content.exclude = {"left-out"};
    std::vector<TreeEntry> out;
    for (MemoryEntry& one : walk(folder, with_content)) {
      one.entry.sparse = false;
      one.entry.extents.clear();
      if (!file_xattrs && one.entry.type == EntryType::file) {
        one.entry.xattrs.clear();
      }
      out.push_back(std::move(one.entry));
    }
    return out;
  };
  for (const bool file_xattrs : {true, false}) {
    CAPTURE(file_xattrs);
    WalkOptions options;
    options.metadata_only = true;
    options.file_xattrs = file_xattrs;
    options.exclude = {"left-out"};
    std::vector<TreeEntry> got;
    for (MemoryEntry& one : walk(folder, options)) {
      CHECK(one.blocks.empty());
      got.push_back(std::move(one.entry));
    }
    CHECK(got == wanted(file_xattrs));
  }
}

TEST_CASE("walk of metadata: what another file system is mounted on is left out") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can mount");
    return;
  }
  const TempFolder folder;
  write(folder / "source", "a");
  write(folder / "target", "b");
  const pid_t child = ::fork();
  if (child == 0) {
    // A bind mount of the same file system: the device is the same.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount((folder / "source").c_str(), (folder / "target").c_str(), nullptr, MS_BIND, nullptr) != 0) {
      ::_exit(77);
    }
    WalkOptions options;
    options.metadata_only = true;
    options.file_xattrs = false;
    auto walker = walk_tree(folder.open(), options);
    auto entries = collect(**walker);
    ::_exit(entries && paths(*entries) == std::vector<std::string>{"", "source"} ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WEXITSTATUS(status) == 77) {
    MESSAGE("skipped: no mount namespace here");
    return;
  }
  CHECK(status == 0);
}

TEST_CASE("entries ahead: as the source gives them, its error in its place, and left in the middle") {
  MemoryTree tree;
  tree.folder("");
  for (int i = 0; i < 2000; ++i) {
    tree.file("f" + std::to_string(i) + std::string(static_cast<std::size_t>(i % 300), 'x'), "");
  }
  const std::vector<MemoryEntry> all = tree.entries;
  for (const std::size_t fail_at : {all.size() + 1, std::size_t{0}, std::size_t{700}, all.size()}) {
    CAPTURE(fail_at);
    MemoryTree source(all);
    source.fail_at = fail_at;
    EntriesAhead ahead(source);
    TreeEntry entry;
    std::size_t count = 0;
    Result<bool> more = ahead.next(entry);
    for (; more && *more; more = ahead.next(entry)) {
      REQUIRE(entry == all[count].entry);
      ++count;
    }
    CHECK(count == std::min(fail_at, all.size()));
    CHECK(more.has_value() == (fail_at > all.size()));
    CHECK(ahead.next(entry).has_value() == more.has_value());
  }
  MemoryTree source(all);
  TreeEntry entry;
  REQUIRE(EntriesAhead(source).next(entry).value());
}

TEST_CASE("paths of entries: the rules of extraction") {
  struct Row {
    const char* name;
    std::string path;
    bool good;
  };
  const std::vector<Row> rows = {
      {"plain", "a/b", true},
      {"white-out name", ".wh.a", true},
      {"dash", "-rf", true},
      {"newline", "a\nb", true},
      {"not UTF-8", "\xff\xfe", true},
      {"three dots", "...", true},
      {"backslash", "a\\b", true},
      {"255 bytes", std::string(255, 'x'), true},
      {"256 bytes", std::string(256, 'x'), false},
      {"absolute", "/etc/passwd", false},
      {"up", "../x", false},
      {"up inside", "a/../../x", false},
      {"up at the end", "a/..", false},
      {"dot", "./a", false},
      {"dot inside", "a/./b", false},
      {"double slash", "a//b", false},
      {"trailing slash", "a/", false},
      {"NUL", std::string("a\0b", 3), false},
      {"empty", "", false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(check_tree_path(row.path, false).has_value() == row.good);
  }
  CHECK(check_tree_path("", true).has_value());
  std::string deep = "a";
  while (deep.size() < 70000) {
    deep += "/a";
  }
  CHECK_FALSE(check_tree_path(deep, false).has_value());
}

TEST_CASE("walk: order, types, hard links, sockets") {
  const TempFolder folder;
  REQUIRE(::mkdir((folder / "dir").c_str(), 0750) == 0);
  write(folder / "dir/b", "bb");
  write(folder / "dir/a", "a");
  write(folder / "dir-x", "");
  REQUIRE(::link((folder / "dir/a").c_str(), (folder / "z").c_str()) == 0);
  REQUIRE(::symlink("/nowhere/\n", (folder / "link").c_str()) == 0);
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "sock").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);

  std::vector<TreeNote> notes;
  const auto entries = walk(folder, {}, &notes);
  CHECK(paths(entries) ==
        std::vector<std::string>{"", "dir", "dir/a", "dir/b", "dir-x", "link", "pipe", "z"});
  CHECK(entries[1].entry.mode == 0750);
  CHECK(entries[2].content() == "a");
  CHECK(entries[5].entry.link_target == "/nowhere/\n");
  CHECK(entries[6].entry.type == EntryType::fifo);
  CHECK(entries[7].entry.type == EntryType::hardlink);
  CHECK(entries[7].entry.link_target == "dir/a");
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].path == "sock");
  CHECK(notes[0].what == "socket skipped");
}

TEST_CASE("walk: start paths, skipped paths, excludes") {
  const TempFolder folder;
  for (const char* dir : {"a", "a/b", "a/c", "build", "x", "x/build"}) {
    REQUIRE(::mkdir((folder / dir).c_str(), 0755) == 0);
  }
  for (const char* file : {"a/b/f", "a/c/g", "build/o", "x/build/p", "x/t.sock", "top"}) {
    write(folder / file, file);
  }
  struct Row {
    const char* name;
    WalkOptions options;
    std::vector<std::string> want;
  };
  WalkOptions start;
  start.start = {"x", "a/b"};
  start.include_root = false;
  WalkOptions skip;
  skip.skip_paths = {"a/b", "x", "build"};
  WalkOptions exclude;
  exclude.exclude = {"*.sock", "/build/", "a/*/g"};
  const std::vector<Row> rows = {
      {"start", start, {"a", "a/b", "a/b/f", "x", "x/build", "x/build/p", "x/t.sock"}},
      {"skip", skip, {"", "a", "a/c", "a/c/g", "top"}},
      {"exclude", exclude, {"", "a", "a/b", "a/b/f", "a/c", "top", "x", "x/build", "x/build/p"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(paths(walk(folder, row.options)) == row.want);
  }
  for (const char* missing : {"none", "a/none", "top/below"}) {
    CAPTURE(missing);
    WalkOptions options;
    options.start = {missing};
    auto walker = walk_tree(folder.open(), options);
    REQUIRE(walker.has_value());
    const auto entries = collect(**walker);
    REQUIRE_FALSE(entries.has_value());
    CHECK(entries.error().kind == ErrorKind::not_found);
    options.start_may_vanish = true;
    options.include_root = false;
    walker = walk_tree(folder.open(), options);
    REQUIRE(walker.has_value());
    for (const auto& entry : collect(**walker).value()) {
      CHECK(entry.entry.type == EntryType::directory);  // on the way
    }
  }
}

TEST_CASE("exclude patterns") {
  struct Row {
    const char* pattern;
    const char* path;
    bool is_directory;
    bool matches;
  };
  const std::vector<Row> rows = {
      {"*.o", "a/b/c.o", false, true},
      {"*.o", "c.ox", false, false},
      {"build/", "x/build", true, true},
      {"build/", "x/build", false, false},
      {"/build", "x/build", true, false},
      {"/build", "build", true, true},
      {"a/b", "a/b", false, true},
      {"a/b", "x/a/b", false, false},
      {"a/*", "a/b/c", false, false},
      {"a/**", "a/b/c", false, true},
      {"**/c", "c", false, true},
      {"**/c", "a/b/c", false, true},
      {"a/**/z", "a/z", false, true},
      {"a/**/z", "a/b/c/z", false, true},
      {"?.txt", "b.txt", false, true},
      {"?.txt", "/.txt", false, false},
      {"[a-c]x", "bx", false, true},
      {"[!a-c]x", "bx", false, false},
      {"[", "[", false, true},
      {"\\*", "*", false, true},
      {"\\*", "a", false, false},
      {"", "a", false, false},
      {"*", ".hidden", false, true},
      {"a*a*a*a*b", "aaaaaaaaaaaaaaaa", false, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.pattern);
    CAPTURE(row.path);
    CHECK(exclude_matches({row.pattern}, row.path, row.is_directory) == row.matches);
  }
}

TEST_CASE("walk: holes, also of many exbibytes") {
  const TempFolder folder("/dev/shm/ascope-test-XXXXXX");
  struct Row {
    const char* name;
    std::uint64_t size;
    std::vector<std::uint64_t> data;  // offsets of one page each
  };
  const std::uint64_t page = 4096;
  const std::vector<Row> rows = {
      {"trailing", 1U << 20U, {0}},
      {"leading", (1U << 20U) + page, {1U << 20U}},
      {"all", 1U << 20U, {}},
      {"both", 1U << 20U, {page * 3, page * 9}},
      {"huge", (std::uint64_t{1} << 62U), {page, std::uint64_t{1} << 60U}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const UniqueFd fd(::open((folder / row.name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(row.size)) == 0);
    for (const std::uint64_t at : row.data) {
      REQUIRE(::pwrite(fd.get(), std::string(page, 'd').data(), page, static_cast<off_t>(at)) == 4096);
    }
  }
  const auto entries = walk(folder);
  REQUIRE(entries.size() == rows.size() + 1);
  for (const MemoryEntry& one : entries) {
    for (const Row& row : rows) {
      if (one.entry.path == row.name) {
        CAPTURE(row.name);
        CHECK(one.entry.size_bytes == row.size);
        CHECK(one.entry.sparse);
        std::vector<std::uint64_t> found;
        for (const auto& [offset, bytes] : one.blocks) {
          CHECK(bytes.size() == page);
          found.push_back(offset);
        }
        CHECK(found == row.data);
      }
    }
  }
}

TEST_CASE("walk: a file that changes while it is read keeps its announced size and is named") {
  for (const bool grows : {false, true}) {
    CAPTURE(grows);
    const TempFolder folder;
    write(folder / "log", std::string(600'000, 'x'));
    auto walker = walk_tree(folder.open(), {});
    REQUIRE(walker.has_value());
    TreeEntry entry;
    REQUIRE((*walker)->next(entry).value());
    REQUIRE((*walker)->next(entry).value());
    CHECK(entry.size_bytes == 600'000);
    auto first = (*walker)->read();
    REQUIRE(first.value().has_value());
    REQUIRE(::truncate((folder / "log").c_str(), grows ? 900'000 : 300'000) == 0);
    std::uint64_t end = 0;
    while (true) {
      auto block = (*walker)->read();
      REQUIRE(block.has_value());
      if (!*block) {
        break;
      }
      end = (*block)->offset + (*block)->bytes.size();
    }
    CHECK(end <= 600'000);
    CHECK_FALSE((*walker)->next(entry).value());
    REQUIRE((*walker)->notes().size() == 1);
    CHECK((*walker)->notes()[0].what == "changed while it was read");
  }
}

TEST_CASE("walk: ids of the sandbox's own range, and an ordinary user's") {
  const TempFolder folder;
  write(folder / "f", "f");
  WalkOptions map;
  map.map_from_uid = ::getuid();
  map.map_to_uid = 1000;
  map.map_from_gid = ::getgid();
  map.map_to_gid = 1001;
  CHECK(walk(folder, map)[1].entry.uid == 1000);
  CHECK(walk(folder, map)[1].entry.gid == 1001);
  if (::geteuid() != 0) {
    MESSAGE("skipped the id range: needs root");
    return;
  }
  REQUIRE(::chown((folder / "f").c_str(), 0x70000005, 0x70000007) == 0);
  WalkOptions range;
  range.id_base = 0x70000000;
  std::vector<TreeNote> notes;
  const auto entries = walk(folder, range, &notes);
  CHECK(entries[1].entry.uid == 5);
  CHECK(entries[1].entry.gid == 7);
  CHECK(entries[0].entry.uid == 65534);  // the root folder is the host's
  CHECK(notes.size() == 1);
}

TEST_CASE("stream: whole trees pass unchanged, cut and altered streams are refused") {
  MemoryTree tree;
  tree.folder("");
  tree.folder("a");
  tree.file("a/f", std::string(1'500'000, 'f')).entry.xattrs = {{"user.k", std::string("v\0w", 3)}};
  MemoryEntry& sparse = tree.file("s", "");
  sparse.entry.size_bytes = std::uint64_t{1} << 62U;
  sparse.entry.sparse = true;
  for (std::uint64_t i = 0; i < 40'000; ++i) {
    sparse.entry.extents.push_back({i * 8192, 10});
  }
  sparse.blocks.emplace_back(8192, "0123456789");
  tree.add(EntryType::symlink, "\xff\n", "../x");
  tree.add(EntryType::hardlink, "h", "a/f");
  tree.add(EntryType::char_device, "null").entry.device = 0x103;
  const auto want = describe(tree.entries);

  StringSink sink;
  const std::vector<TreeNote> said = {{"p\n", "socket skipped"}};
  REQUIRE(write_tree_stream(tree, sink, &said).has_value());
  const std::string bytes = sink.take();
  ViewSource whole(bytes);
  std::vector<TreeNote> notes;
  const auto got = collect(*read_tree_stream(whole, &notes));
  REQUIRE(got.has_value());
  CHECK(describe(*got) == want);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].path == "p\n");

  for (std::size_t cut = 0; cut < bytes.size(); cut += cut < 200 || cut > bytes.size() - 200 ? 1 : 60'013) {
    CAPTURE(cut);
    ViewSource part(ByteView(bytes).substr(0, cut));
    const auto outcome = collect(*read_tree_stream(part, nullptr));
    REQUIRE_FALSE(outcome.has_value());
    CHECK(outcome.error().kind == ErrorKind::corrupt);
  }
  ViewSource longer(bytes);
  const std::string more = bytes + "x";
  ViewSource extra(more);
  CHECK(collect(*read_tree_stream(extra, nullptr)).error().kind == ErrorKind::corrupt);
}

TEST_CASE("stream: any altered byte gives an error or an entry that keeps the rules") {
  MemoryTree tree;
  tree.folder("");
  tree.file("a", "content").entry.xattrs = {{"user.k", "v"}};
  tree.add(EntryType::symlink, "l", "t");
  StringSink sink;
  REQUIRE(write_tree_stream(tree, sink).has_value());
  const std::string bytes = sink.take();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const unsigned flip : {1U, 0x80U, 0xffU}) {
      std::string bad = bytes;
      bad[at] = static_cast<char>(static_cast<unsigned char>(bad[at]) ^ flip);
      ViewSource source(bad);
      const auto outcome = collect(*read_tree_stream(source, nullptr));
      if (outcome) {
        for (const MemoryEntry& one : *outcome) {
          CHECK(check_tree_path(one.entry.path, true).has_value());
          for (const auto& [offset, data] : one.blocks) {
            CHECK(offset + data.size() <= one.entry.size_bytes);
          }
        }
      } else {
        CHECK(outcome.error().kind == ErrorKind::corrupt);
      }
    }
  }
}
