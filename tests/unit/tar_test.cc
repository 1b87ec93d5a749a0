// SPDX-License-Identifier: Apache-2.0
#include "core/repository/tar.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <doctest/doctest.h>

#include "core/base/file.h"
#include "core/base/process.h"
#include "core/tree/agent.h"
#include "core/tree/walker.h"
#include "fakes/memory_tree.h"
#include "fakes/temp_folder.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

namespace {

std::string tar_of(MemoryTree tree, TarCompression compression = TarCompression::none) {
  StringSink sink;
  auto stats = write_tar(tree, sink, compression);
  REQUIRE_MESSAGE(stats.has_value(), (stats ? "" : stats.error().message));
  return sink.take();
}

Result<std::vector<MemoryEntry>> read_back(ByteView bytes) {
  ViewSource source(bytes);
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<TreeSource> tree, read_tar(source));
  return collect(*tree);
}

// A tree that needs every kind of header.
MemoryTree odd_tree() {
  MemoryTree tree;
  tree.folder("").entry.mode = 0700;
  tree.folder("d").entry.mode = 01777;
  tree.file("d/plain", "content");
  tree.file("empty", "").entry.mtime_ns = -4'876'543'211;
  tree.file("whole-seconds", "x").entry.mtime_ns = 1'700'000'000'000'000'000;
  tree.file(std::string(100, 'a') + "/" + std::string(100, 'b'), "prefix");
  tree.file(std::string(255, 'n'), "long");
  tree.file("p/" + std::string(255, 'm') + "/" + std::string(255, 'o'), "longer");
  tree.file("new\nline", "n");
  tree.file("-dash", "d");
  tree.file(".wh.foo", "w");
  tree.file("bad\xff\xfe", "b");
  tree.file(std::string(200, '\xfe'), "long and not UTF-8");
  tree.file("ids", "i").entry.uid = 3'000'000;
  tree.entries.back().entry.gid = 4'000'000'000U;
  tree.file("mode", "m").entry.mode = 06711;
  tree.file("xattrs", "x").entry.xattrs = {{"security.capability", std::string("\1\0\0\2", 4)},
                                           {"user.a", std::string("v\0=\n", 4)},
                                           {"user.b", ""}};
  tree.add(EntryType::symlink, "link", "../\xff/target");
  tree.add(EntryType::symlink, "long-link", std::string(3000, 'l'));
  tree.add(EntryType::hardlink, "hard", "d/plain");
  tree.add(EntryType::hardlink, "hard-long", std::string(255, 'n'));
  tree.add(EntryType::fifo, "fifo");
  tree.add(EntryType::char_device, "null").entry.device = makedev(1, 3);
  tree.add(EntryType::block_device, "disk").entry.device = makedev(259, 70000);
  const auto sparse = [&](const char* path, std::uint64_t size, std::vector<Extent> extents) {
    MemoryEntry& one = tree.file(path, "");
    one.entry.size_bytes = size;
    one.entry.sparse = true;
    one.entry.extents = extents;
    for (const Extent& extent : extents) {
      one.blocks.emplace_back(extent.offset, std::string(extent.length, 's'));
    }
  };
  sparse("sparse", 1'000'000, {{4096, 4096}, {8192, 10}});
  sparse("sparse-end", 8200, {{8192, 8}});
  sparse("hole", std::uint64_t{1} << 62U, {});
  sparse(("sp/" + std::string(255, 'q')).c_str(), 100'000, {{0, 1}});
  return tree;
}

struct RawMember {
  std::string name;
  char type = '0';
  std::string link;
  std::string data;
  std::string size;  // the size field as it stands, if not that of the data
};

std::string raw_header(const RawMember& member) {
  std::string block(512, '\0');
  const auto put = [&](std::size_t at, const std::string& value) { block.replace(at, value.size(), value); };
  put(0, member.name.substr(0, 100));
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  char size[12];
  std::snprintf(size, sizeof size, "%011zo", member.data.size());
  put(124, member.size.empty() ? size : member.size);
  put(136, "00000000000");
  put(156, std::string(1, member.type));
  put(157, member.link);
  put(257, std::string("ustar\0"
                       "00",
                       8));
  put(148, "        ");
  unsigned sum = 0;
  for (const char c : block) {
    sum += static_cast<unsigned char>(c);
  }
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  block.replace(148, 7, std::string(text, 7));
  return block;
}

std::string raw_tar(const std::vector<RawMember>& members) {
  std::string out;
  for (const RawMember& one : members) {
    out += raw_header(one) + one.data;
    out.append((512 - out.size() % 512) % 512, '\0');
  }
  return out + std::string(1024, '\0');
}

std::string pax(const std::string& key, const std::string& value) {
  std::size_t length = key.size() + value.size() + 3;
  while (std::to_string(length).size() + key.size() + value.size() + 3 != length) {
    length = std::to_string(length).size() + key.size() + value.size() + 3;
  }
  return std::to_string(length) + " " + key + "=" + value + "\n";
}

std::vector<MemoryEntry> walk(const TempFolder& folder) {
  auto walker = walk_tree(folder.open(), {});
  REQUIRE(walker.has_value());
  return collect(**walker).value();
}

bool has_program(const char* name) {
  return find_program(name).has_value();
}

}  // namespace

TEST_CASE("tar: one of everything comes back as it was, compressed or not, and always as the same bytes") {
  const auto want = describe(odd_tree().entries);
  for (const TarCompression compression :
       {TarCompression::none, TarCompression::gzip, TarCompression::zstd}) {
    CAPTURE(static_cast<int>(compression));
    const std::string bytes = tar_of(odd_tree(), compression);
    CHECK(bytes == tar_of(odd_tree(), compression));
    const auto got = read_back(bytes);
    REQUIRE_MESSAGE(got.has_value(), (got ? "" : got.error().message));
    CHECK(describe(*got) == want);
  }
}

TEST_CASE("tar: an archive cut anywhere is corrupt, never shorter") {
  MemoryTree tree;
  tree.folder("");
  tree.file("a", std::string(700, 'a'));
  tree.file("b", "b").entry.xattrs = {{"user.k", "v"}};
  tree.add(EntryType::symlink, "l", "t");
  const std::string bytes = tar_of(tree);
  for (const TarCompression compression :
       {TarCompression::none, TarCompression::gzip, TarCompression::zstd}) {
    CAPTURE(static_cast<int>(compression));
    const std::string whole = tar_of(tree, compression);
    const std::size_t step = compression == TarCompression::none ? 512 : 1;
    for (std::size_t cut = 0; cut < whole.size(); cut += step) {
      CAPTURE(cut);
      const auto got = read_back(ByteView(whole).substr(0, cut));
      REQUIRE_FALSE(got.has_value());
      CHECK(got.error().kind == ErrorKind::corrupt);
    }
  }
  for (std::size_t cut = 1; cut < bytes.size(); cut += 131) {
    CHECK_FALSE(read_back(ByteView(bytes).substr(0, cut)).has_value());
  }
}

TEST_CASE("tar: a flipped byte in a header is corrupt") {
  const std::string bytes = raw_tar({{"./a", '0', "", "content"}});
  for (std::size_t at = 0; at < 512; ++at) {
    if (at >= 148 && at < 156) {
      continue;  // the checksum's own digits: a blank for a leading zero says the same
    }
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    CAPTURE(at);
    const auto got = read_back(bad);
    REQUIRE_FALSE(got.has_value());
    CHECK(got.error().kind == ErrorKind::corrupt);
  }
}

TEST_CASE("tar: hostile archives") {
  struct Row {
    const char* name;
    std::string bytes;
  };
  const std::string big_pax = pax("comment", std::string(17U << 20U, 'x'));
  const std::vector<Row> rows = {
      {"absolute", raw_tar({{"/etc/passwd", '0', "", "x"}})},
      {"up", raw_tar({{"../x", '0', "", "x"}})},
      {"up inside", raw_tar({{"./a/../../x", '0', "", "x"}})},
      {"absolute in pax", raw_tar({{"x", 'x', "", pax("path", "/etc/x")}, {"a", '0', "", ""}})},
      {"up in a GNU long name", raw_tar({{"././@LongLink", 'L', "", std::string("../../x\0", 8)}, {"a", '0', "", ""}})},
      {"NUL in a pax path", raw_tar({{"x", 'x', "", pax("path", std::string("a\0b", 3))}, {"a", '0', "", ""}})},
      {"duplicate", raw_tar({{"a", '0', "", "1"}, {"./a", '0', "", "2"}})},
      {"duplicate folder", raw_tar({{"a/", '5', "", ""}, {"a", '5', "", ""}})},
      {"hard link outside", raw_tar({{"h", '1', "../../etc/passwd", ""}})},
      {"hard link absolute", raw_tar({{"h", '1', "/etc/passwd", ""}})},
      {"hard link to a later member", raw_tar({{"h", '1', "a", ""}, {"a", '0', "", "x"}})},
      {"hard link to a folder", raw_tar({{"d/", '5', "", ""}, {"h", '1', "d", ""}})},
      {"hard link to itself", raw_tar({{"h", '1', "h", ""}})},
      {"huge size", raw_tar({{"a", '0', "", "x", "77777777777"}})},
      {"negative size", raw_tar({{"a", '0', "", "x", std::string(12, '\xff')}})},
      {"size beyond 63 bits", raw_tar({{"a", '0', "", "x", std::string("\x80\0\0\0\xff\0\0\0\0\0\0\0", 12)}})},
      {"size that is no number", raw_tar({{"a", '0', "", "x", "0000000009x"}})},
      {"size in pax that is none", raw_tar({{"x", 'x', "", pax("size", "-1")}, {"a", '0', "", ""}})},
      {"pax record too long", raw_tar({{"x", 'x', "", "99 path=a\n"}, {"a", '0', "", ""}})},
      {"pax record of no length", raw_tar({{"x", 'x', "", "path=a\n"}, {"a", '0', "", ""}})},
      {"pax record of length 0", raw_tar({{"x", 'x', "", "0 path=a\n"}, {"a", '0', "", ""}})},
      {"pax header of 17 MiB", raw_tar({{"x", 'x', "", big_pax}, {"a", '0', "", ""}})},
      {"pax header at the end", raw_tar({{"x", 'x', "", pax("path", "a")}})},
      {"global pax path", raw_tar({{"g", 'g', "", pax("path", "a")}, {"a", '0', "", ""}})},
      {"unknown type", raw_tar({{"a", 'Z', "", ""}})},
      {"empty name", raw_tar({{"", '0', "", ""}})},
      {"root is a file", raw_tar({{"./", '0', "", ""}, {".", '0', "", "x"}})},
      {"something behind the end", raw_tar({{"a", '0', "", ""}}) + "x"},
      {"one end block", raw_tar({{"a", '0', "", ""}}).substr(0, 1024)},
      {"no end block", raw_tar({{"a", '0', "", ""}}).substr(0, 512)},
      {"no bytes at all", ""},
      {"a few bytes", "PK\3\4"},
      {"sparse map of too much",
       raw_tar({{"x", 'x', "", pax("GNU.sparse.major", "1") + pax("GNU.sparse.minor", "0") + pax("GNU.sparse.realsize", "10")},
                {"a", '0', "", "99999999\n" + std::string(503, '0')}})},
      {"sparse map out of order",
       raw_tar({{"x", 'x', "", pax("GNU.sparse.realsize", "10") + pax("GNU.sparse.map", "5,1,0,1")}, {"a", '0', "", "xy"}})},
      {"sparse map beyond the size",
       raw_tar({{"x", 'x', "", pax("GNU.sparse.realsize", "10") + pax("GNU.sparse.map", "9,2")}, {"a", '0', "", "xy"}})},
      {"sparse map that is not the data",
       raw_tar({{"x", 'x', "", pax("GNU.sparse.realsize", "10") + pax("GNU.sparse.map", "0,1")}, {"a", '0', "", "xy"}})},
      {"too many attributes", [] {
         std::string records;
         for (int i = 0; i < 20; ++i) {
           records += pax("SCHILY.xattr.user." + std::to_string(i), std::string(60'000, 'v'));
         }
         return raw_tar({{"x", 'x', "", records}, {"a", '0', "", ""}});
       }()},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto got = read_back(row.bytes);
    REQUIRE_FALSE(got.has_value());
    CHECK(got.error().kind == ErrorKind::corrupt);
  }
}

TEST_CASE("tar: what is odd but harmless is read") {
  struct Row {
    const char* name;
    std::string bytes;
    std::vector<std::string> paths;
  };
  const std::vector<Row> rows = {
      {"dots and slashes", raw_tar({{"./a//b/./c", '0', "", "x"}}), {"a/b/c"}},
      {"old folder", raw_tar({{"d/", '0', "", ""}}), {"d"}},
      {"root", raw_tar({{"./", '5', "", ""}, {"./a", '0', "", ""}}), {"", "a"}},
      {"volume label", raw_tar({{"label", 'V', "", ""}, {"a", '0', "", ""}}), {"a"}},
      {"record of ten kibibytes", raw_tar({{"a", '0', "", ""}}) + std::string(9000, '\0'), {"a"}},
      {"global comment", raw_tar({{"g", 'g', "", pax("comment", "c")}, {"a", '0', "", ""}}), {"a"}},
      {"nothing", std::string(1024, '\0'), {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto got = read_back(row.bytes);
    REQUIRE_MESSAGE(got.has_value(), (got ? "" : got.error().message));
    std::vector<std::string> paths;
    for (const MemoryEntry& one : *got) {
      paths.push_back(one.entry.path);
    }
    CHECK(paths == row.paths);
  }
}

TEST_CASE("tar: owners are those of our own archives; all else belongs to the sandbox's user") {
  const std::string mark = pax("comment", "ascope-sandbox");
  struct Row {
    const char* name;
    std::string bytes;
    std::uint32_t owner;
  };
  const std::string owner = pax("uid", "70000") + pax("gid", "70000");
  MemoryTree own;
  TreeEntry& entry = own.file("a", "x").entry;
  entry.uid = 70'000;
  entry.gid = 70'000;
  const std::vector<Row> rows = {
      {"of root", raw_tar({{"a", '0', "", "x"}}), 1000},
      {"of another in pax", raw_tar({{"x", 'x', "", owner}, {"a", '0', "", "x"}}), 1000},
      {"of another in a global header", raw_tar({{"g", 'g', "", owner}, {"a", '0', "", "x"}}), 1000},
      {"with another's comment", raw_tar({{"g", 'g', "", pax("comment", "c")}, {"a", '0', "", "x"}}), 1000},
      {"marked in one member", raw_tar({{"x", 'x', "", mark}, {"a", '0', "", "x"}}), 1000},
      {"marked, of root", raw_tar({{"g", 'g', "", mark}, {"a", '0', "", "x"}}), 0},
      {"marked, of another", raw_tar({{"g", 'g', "", mark}, {"x", 'x', "", owner}, {"a", '0', "", "x"}}),
       70'000},
      {"written here", tar_of(own), 70'000},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto got = read_back(row.bytes);
    REQUIRE_MESSAGE(got.has_value(), (got ? "" : got.error().message));
    CHECK(got->at(0).entry.uid == row.owner);
    CHECK(got->at(0).entry.gid == row.owner);
  }
}

TEST_CASE("tar: what the system's tar wrote and reads") {
  if (!has_program("tar")) {
    MESSAGE("skipped: no tar here");
    return;
  }
  const TempFolder from;
  const auto write = [&](const std::string& name, std::string_view data) {
    REQUIRE(write_file_atomic(from / name, data, 0644).has_value());
  };
  write("plain", "plain");
  write("bad\xff", "b");
  write("new\nline", "n");
  write(std::string(255, 'n'), "long");
  REQUIRE(make_dirs(from / (std::string(200, 'd') + "/" + std::string(200, 'e')), 0755).has_value());
  write(std::string(200, 'd') + "/" + std::string(200, 'e') + "/f", "deep");
  REQUIRE(::link((from / "plain").c_str(), (from / "z-hard").c_str()) == 0);
  REQUIRE(::symlink(std::string(300, 't').c_str(), (from / "link").c_str()) == 0);
  REQUIRE(::mkfifo((from / "fifo").c_str(), 0600) == 0);
  {
    const UniqueFd sparse(::open((from / "sparse").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    REQUIRE(::pwrite(sparse.get(), "data", 4, 1 << 20) == 4);
    REQUIRE(::ftruncate(sparse.get(), 1 << 22) == 0);
    const UniqueFd many(::open((from / "pieces").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    for (int i = 0; i < 40; ++i) {
      REQUIRE(::pwrite(many.get(), "data", 4, i * 65536) == 4);
    }
  }
  const auto want = describe(walk(from));
  std::vector<MemoryEntry> given_away = walk(from);
  for (MemoryEntry& one : given_away) {
    one.entry.uid = one.entry.gid = kAgentId;
  }
  const auto read = describe(given_away);

  const OpContext ctx;
  for (const char* format :
       {"gnu", "pax", "--sparse-version=0.0", "--sparse-version=0.1", "--sparse-version=1.0"}) {
    CAPTURE(format);
    const bool is_version = format[0] == '-';
    const TempFolder out;
    std::vector<std::string> argv = {"tar",
                                     "-C",
                                     from.path(),
                                     "-cf",
                                     out / "t",
                                     "--sparse",
                                     is_version ? "--format=posix" : "--format=" + std::string(format)};
    if (is_version) {
      argv.emplace_back(format);
    }
    argv.emplace_back(".");
    const auto done = run_program(ctx, {.argv = argv});
    REQUIRE(done.has_value());
    REQUIRE_MESSAGE(done->succeeded(), done->err);
    auto got = read_back(read_file(out / "t").value());
    REQUIRE_MESSAGE(got.has_value(), (got ? "" : got.error().message));
    std::sort(got->begin(), got->end(),
              [](const auto& a, const auto& b) { return a.entry.path < b.entry.path; });
    REQUIRE(got->size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto first_words = [](std::string line) { return line.substr(0, line.find(" mtime=")); };
      // Tar keeps its own order, so which name of two is the link may differ; content tells enough of the
      // others.
      if (want[i].find("hard") == std::string::npos && want[i].find("plain") == std::string::npos) {
        CHECK(first_words(describe({(*got)[i]})[0]).substr(0, 40) == first_words(read[i]).substr(0, 40));
      }
    }
  }

  const TempFolder to;
  const TempFolder place;
  auto walker = walk_tree(from.open(), {});
  StringSink sink;
  REQUIRE(write_tar(**walker, sink, TarCompression::none).has_value());
  REQUIRE(write_file_atomic(place / "t", sink.take()).has_value());
  const auto done = run_program(ctx, {.argv = {"tar", "-C", to.path(), "-xpf", place / "t"}});
  REQUIRE(done.has_value());
  CHECK_MESSAGE(done->succeeded(), done->err);
  // Names that are no UTF-8 are marked so, as POSIX wants it; GNU tar reads them all the same.
  CHECK((done->err.empty() || done->err == "tar: Ignoring unknown extended header keyword 'hdrcharset'\n"));
  CHECK(describe(walk(to)) == want);
}

TEST_CASE("tar: sockets are left out and named") {
  MemoryTree tree;
  tree.add(EntryType::socket, "sock");
  tree.file("a", "a");
  StringSink sink;
  const auto stats = write_tar(tree, sink, TarCompression::none);
  REQUIRE(stats.has_value());
  CHECK(stats->files == 1);
  REQUIRE(stats->notes.size() == 1);
  CHECK(stats->notes[0].path == "sock");
}

TEST_CASE("pipe source: passes bytes and errors, and ends a producer that nobody reads") {
  std::string got;
  {
    const auto source = pipe_source([](ByteSink& sink) -> Result<void> {
      for (int i = 0; i < 100; ++i) {
        ASCOPE_TRY(sink.write(std::string(50'000, static_cast<char>('a' + i % 26))));
      }
      return ok();
    });
    got = read_all(*source, 10U << 20U).value();
  }
  CHECK(got.size() == 5'000'000);
  CHECK(got[50'000] == 'b');
  const auto failing = pipe_source([](ByteSink& sink) -> Result<void> {
    ASCOPE_TRY(sink.write("some"));
    return make_error(ErrorKind::corrupt, "it broke");
  });
  CHECK(read_all(*failing, 100).error().message == "it broke");
  bool ended = false;
  {
    const auto unread = pipe_source([&](ByteSink& sink) -> Result<void> {
      Result<void> done = ok();
      while (done) {
        done = sink.write(std::string(100'000, 'x'));
      }
      ended = true;
      return done;
    });
  }
  CHECK(ended);
}
