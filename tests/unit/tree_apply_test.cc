// SPDX-License-Identifier: Apache-2.0
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <doctest/doctest.h>

#include "core/base/file.h"
#include "core/tree/applier.h"
#include "core/tree/walker.h"
#include "fakes/memory_tree.h"
#include "fakes/temp_folder.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

namespace {

bool is_root() {
  return ::geteuid() == 0;
}

std::vector<MemoryEntry> walk(const TempFolder& folder) {
  WalkOptions options;
  options.skip_paths = {std::string(kStageName)};
  auto walker = walk_tree(folder.open(), options);
  REQUIRE(walker.has_value());
  auto entries = collect(**walker);
  REQUIRE_MESSAGE(entries.has_value(), (entries ? "" : entries.error().message));
  return std::move(*entries);
}

ApplyOptions options_of(ApplyMode mode) {
  ApplyOptions options;
  options.mode = mode;
  options.set_owner = is_root();
  options.allow_setid = is_root();
  options.allow_devices = is_root();
  return options;
}

Result<ApplyReport> apply(const TempFolder& folder, MemoryTree source, const ApplyOptions& options) {
  const OpContext ctx;
  return apply_tree(ctx, folder.open(), source, options);
}

Result<ApplyReport> copy_tree(const TempFolder& from, const TempFolder& to, const ApplyOptions& options) {
  const OpContext ctx;
  auto walker = walk_tree(from.open(), {});
  REQUIRE(walker.has_value());
  return apply_tree(ctx, to.open(), **walker, options);
}

void write(const std::string& path, std::string_view data) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  REQUIRE(fd.is_open());
  REQUIRE(write_all(fd.get(), data).has_value());
}

std::string content(const std::string& path) {
  auto data = read_file(path);
  return data ? *data : "error: " + data.error().message;
}

// A tree that holds one of everything that comes back badly elsewhere.
void build_odd_tree(const TempFolder& folder) {
  const auto at = [&](const char* name) { return folder / name; };
  write(at("plain"), "plain\n");
  write(at("empty"), "");
  write(at("secret"), "nobody may read this");
  write(at("-rf"), "dash");
  write(at("new\nline"), "n");
  write(at("bad\xff\xfeutf8"), "u");
  write(at(".wh.foo"), "an ordinary file");
  write(folder / std::string(255, 'L'), "long");
  REQUIRE(::mkdir(at("ro").c_str(), 0755) == 0);
  write(at("ro/inside"), "in a read-only folder");
  REQUIRE(::mkdir(at("ro/deeper").c_str(), 0755) == 0);
  write(at("ro/deeper/x"), "x");
  REQUIRE(::mkdir(at("none").c_str(), 0755) == 0);
  write(at("none/f"), "hidden");
  REQUIRE(::link(at("plain").c_str(), at("ro/hard").c_str()) == 0);
  REQUIRE(::symlink("no/such/place", at("dangling").c_str()) == 0);
  REQUIRE(::symlink("/etc/hostname", at("absolute").c_str()) == 0);
  REQUIRE(::symlink("..", at("up").c_str()) == 0);
  REQUIRE(::mkfifo(at("fifo").c_str(), 0622) == 0);
  const UniqueFd sparse(::open(at("sparse").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  REQUIRE(::pwrite(sparse.get(), "data", 4, 1 << 20) == 4);
  REQUIRE(::ftruncate(sparse.get(), 1 << 24) == 0);
  const UniqueFd hole(::open(at("hole").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  REQUIRE(::ftruncate(hole.get(), std::int64_t{1} << 33) == 0);
  if (::setxattr(at("plain").c_str(), "user.note", "v\0w", 3, 0) == 0) {
    REQUIRE(::setxattr(at("ro").c_str(), "user.dir", "d", 1, 0) == 0);
  }
  if (is_root()) {
    REQUIRE(::mknod(at("null").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0);
    REQUIRE(::chown(at("-rf").c_str(), 1234, 4321) == 0);
    REQUIRE(::lchown(at("dangling").c_str(), 7, 8) == 0);
    write(at("setuid"), "#!");
    REQUIRE(::chmod(at("setuid").c_str(), 06755) == 0);
  }
  const timespec old[2] = {{0, UTIME_OMIT}, {-5, 123'456'789}};
  REQUIRE(::utimensat(AT_FDCWD, at("empty").c_str(), old, 0) == 0);
  const timespec link_time[2] = {{0, UTIME_OMIT}, {1'000'000'000, 987'654'321}};
  REQUIRE(::utimensat(AT_FDCWD, at("dangling").c_str(), link_time, AT_SYMLINK_NOFOLLOW) == 0);
  REQUIRE(::chmod(at("secret").c_str(), 0) == 0);
  REQUIRE(::chmod(at("ro/deeper").c_str(), 0555) == 0);
  REQUIRE(::chmod(at("ro").c_str(), 0555) == 0);
  REQUIRE(::chmod(at("none").c_str(), 0) == 0);
  REQUIRE(::utimensat(AT_FDCWD, at("ro").c_str(), link_time, 0) == 0);
}

}  // namespace

TEST_CASE("apply: one of everything comes back as it was, in every mode and twice") {
  const TempFolder from;
  build_odd_tree(from);
  const auto want = describe(walk(from));
  CHECK(want.size() >= 21);
  for (const ApplyMode mode : {ApplyMode::fresh, ApplyMode::exact, ApplyMode::overlay}) {
    CAPTURE(static_cast<int>(mode));
    const TempFolder to;
    auto report = copy_tree(from, to, options_of(mode));
    REQUIRE_MESSAGE(report.has_value(), (report ? "" : report.error().message));
    CHECK(describe(walk(to)) == want);
    CHECK(report->notes.empty());
    CHECK(report->owners_not_set == 0);
    struct stat info{};
    REQUIRE(::stat((to / "hole").c_str(), &info) == 0);
    CHECK(info.st_size == std::int64_t{1} << 33);
    CHECK(info.st_blocks < 64);
    struct stat one{};
    struct stat two{};
    REQUIRE(::stat((to / "plain").c_str(), &one) == 0);

    auto again = copy_tree(from, to, options_of(ApplyMode::exact));
    REQUIRE_MESSAGE(again.has_value(), (again ? "" : again.error().message));
    CHECK(again->written <= (is_root() ? 0 : 2));  // what its owner may not read is written again
    CHECK(again->metadata <= 1);                   // the root's own time: the stage was made in it
    CHECK(again->removed == 0);
    CHECK(describe(walk(to)) == want);
    REQUIRE(::stat((to / "plain").c_str(), &two) == 0);
    CHECK(one.st_ino == two.st_ino);  // unchanged inodes stay
  }
}

TEST_CASE("apply: exact takes away, replaces types and links, and never writes through a link") {
  const TempFolder outside;
  write(outside / "victim", "untouched");
  MemoryTree source;
  source.folder("");
  source.file("was-link", "file now");
  source.folder("was-dirlink");
  source.file("was-dirlink/f", "inside");
  source.file("was-dir", "file");
  source.folder("was-file");
  source.file("was-file/x", "x");
  source.add(EntryType::symlink, "was-file-link", "there");
  source.file("linked", "same");
  source.file("unlinked", "same");
  source.add(EntryType::hardlink, "rejoined", "linked");
  source.file("changed", std::string(300'000, 'a') + "B");
  source.file("grown", "grown up");

  const TempFolder to;
  REQUIRE(::symlink((outside / "victim").c_str(), (to / "was-link").c_str()) == 0);
  REQUIRE(::symlink(outside.path().c_str(), (to / "was-dirlink").c_str()) == 0);
  REQUIRE(::mkdir((to / "was-dir").c_str(), 0755) == 0);
  REQUIRE(::mkdir((to / "was-dir/sub").c_str(), 0) == 0);
  write(to / "was-file", "");
  write(to / "was-file-link", "");
  write(to / "linked", "same");
  REQUIRE(::link((to / "linked").c_str(), (to / "unlinked").c_str()) == 0);
  write(to / "rejoined", "same");
  write(to / "changed", std::string(300'000, 'a') + "A");
  write(to / "grown", "g");
  REQUIRE(::mkdir((to / "extra").c_str(), 0755) == 0);
  write(to / "extra/e", "e");
  REQUIRE(::symlink(outside.path().c_str(), (to / "extra/out").c_str()) == 0);
  REQUIRE(::chmod((to / "extra").c_str(), 0500) == 0);

  ApplyOptions dry = options_of(ApplyMode::exact);
  dry.dry_run = true;
  const auto before = describe(walk(to));
  auto predicted = apply(to, source, dry);
  REQUIRE(predicted.has_value());
  CHECK(describe(walk(to)) == before);

  bool called = false;
  ApplyOptions options = options_of(ApplyMode::exact);
  options.before_change = [&]() -> Result<void> {
    called = true;
    CHECK(content(to / "changed").back() == 'A');
    return ok();
  };
  auto report = apply(to, source, options);
  REQUIRE_MESSAGE(report.has_value(), (report ? "" : report.error().message));
  CHECK(called);
  CHECK(content(outside / "victim") == "untouched");
  CHECK(list_dir(outside.path()).value() == std::vector<std::string>{"victim"});
  CHECK(predicted->written == report->written);
  CHECK(predicted->removed == report->removed);
  CHECK(predicted->unchanged == report->unchanged);

  const TempFolder clean;
  REQUIRE(apply(clean, source, options_of(ApplyMode::fresh)).has_value());
  CHECK(describe(walk(to)) == describe(walk(clean)));
  auto twice = apply(to, source, options_of(ApplyMode::exact));
  REQUIRE(twice.has_value());
  CHECK(twice->written == 0);
  CHECK(describe(walk(to)) == describe(walk(clean)));
}

TEST_CASE("apply: a dry run lists each change with its kind") {
  const TempFolder to;
  REQUIRE(apply(
              to,
              [] {
                MemoryTree tree;
                tree.folder("");
                tree.file("gone", "g");
                tree.file("content", "old");
                tree.file("mode", "m");
                tree.file("type", "t");
                tree.file("same", "s");
                return tree;
              }(),
              options_of(ApplyMode::fresh))
              .has_value());
  MemoryTree source;
  source.folder("");
  source.file("content", "new");
  source.file("mode", "m").entry.mode = 0755;
  source.folder("type");
  source.file("same", "s");
  source.file("added", "a");
  ApplyOptions options = options_of(ApplyMode::exact);
  options.dry_run = true;
  auto report = apply(to, source, options);
  REQUIRE(report.has_value());
  using Change = std::pair<char, std::string>;
  CHECK(report->changes ==
        std::vector<Change>{{'M', "content"}, {'P', "mode"}, {'T', "type"}, {'A', "added"}, {'D', "gone"}});
}

TEST_CASE("apply: hostile sources are refused before anything changed") {
  struct Row {
    const char* name;
    std::function<void(MemoryTree&)> make;
    ErrorKind kind = ErrorKind::corrupt;
  };
  const std::vector<Row> rows = {
      {"absolute", [](MemoryTree& t) { t.file("/tmp/x", "x"); }},
      {"up", [](MemoryTree& t) { t.file("../x", "x"); }},
      {"through a link",
       [](MemoryTree& t) {
         t.add(EntryType::symlink, "l", "/tmp");
         t.file("l/x", "x");
       }},
      {"through a link, deeper",
       [](MemoryTree& t) {
         t.add(EntryType::symlink, "l", "/");
         t.file("l/tmp/x", "x");
       }},
      {"below a file",
       [](MemoryTree& t) {
         t.file("f", "f");
         t.file("f/x", "x");
       }},
      {"twice",
       [](MemoryTree& t) {
         t.file("a", "1");
         t.file("a", "2");
       }},
      {"folder twice",
       [](MemoryTree& t) {
         t.folder("d");
         t.folder("d");
       }},
      {"link over file",
       [](MemoryTree& t) {
         t.file("a", "1");
         t.add(EntryType::symlink, "a", "b");
       }},
      {"file over folder",
       [](MemoryTree& t) {
         t.file("d/x", "1");
         t.file("d", "2");
       }},
      {"hard link outside", [](MemoryTree& t) { t.add(EntryType::hardlink, "h", "../../etc/passwd"); }},
      {"hard link absolute", [](MemoryTree& t) { t.add(EntryType::hardlink, "h", "/etc/passwd"); }},
      {"hard link to what is only in place", [](MemoryTree& t) { t.add(EntryType::hardlink, "h", "old"); }},
      {"hard link to a folder",
       [](MemoryTree& t) {
         t.folder("d");
         t.add(EntryType::hardlink, "h", "d");
       }},
      {"hard link to itself", [](MemoryTree& t) { t.add(EntryType::hardlink, "h", "h"); }},
      {"empty link", [](MemoryTree& t) { t.add(EntryType::symlink, "l", ""); }},
      {"impossible size", [](MemoryTree& t) { t.file("a", "").entry.size_bytes = ~std::uint64_t{0}; }},
      {"data beyond the size", [](MemoryTree& t) { t.file("a", "abc").entry.size_bytes = 2; }},
      {"root is a file", [](MemoryTree& t) { t.file("", "x"); }},
      {"source fails late",
       [](MemoryTree& t) {
         t.file("a", "a");
         t.file("b", "b");
         t.fail_at = 3;
       }},
  };
  for (const Row& row : rows) {
    for (const ApplyMode mode : {ApplyMode::exact, ApplyMode::overlay}) {
      CAPTURE(row.name);
      const TempFolder to;
      write(to / "old", "old");
      REQUIRE(::mkdir((to / "d0").c_str(), 0755) == 0);
      const auto before = describe(walk(to));
      MemoryTree source;
      source.folder("d1");
      row.make(source);
      auto report = apply(to, source, options_of(mode));
      REQUIRE_FALSE(report.has_value());
      CHECK(report.error().kind == row.kind);
      CHECK(describe(walk(to)) == before);
      CHECK(list_dir(to.path()).value() == std::vector<std::string>{"d0", "old"});
    }
  }
}

TEST_CASE("apply: skipped paths, wanted paths, refused things") {
  const TempFolder to;
  REQUIRE(::mkdir((to / "keep").c_str(), 0755) == 0);
  write(to / "keep/mark", "mine");
  REQUIRE(::mkdir((to / "a").c_str(), 0755) == 0);
  write(to / "a/old", "old");
  write(to / "b", "b stays");
  MemoryTree source;
  source.folder("");
  source.folder("a");
  source.file("a/new", "new");
  source.file("b", "b of the source");
  source.file("keep", "a file where something must stay");
  source.folder("deep");
  source.file("deep/file", "d");
  source.add(EntryType::hardlink, "deep/hard", "b");

  ApplyOptions only = options_of(ApplyMode::exact);
  only.skip_paths = {"keep/mark"};
  only.only = {"a", "deep/file"};
  auto report = apply(to, source, only);
  REQUIRE_MESSAGE(report.has_value(), (report ? "" : report.error().message));
  CHECK(content(to / "a/new") == "new");
  CHECK(content(to / "b") == "b stays");
  CHECK(content(to / "deep/file") == "d");
  CHECK(list_dir(to / "a").value() == std::vector<std::string>{"new"});

  only.only = {"deep"};
  auto refused = apply(to, source, only);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::usage);

  ApplyOptions all = options_of(ApplyMode::exact);
  all.skip_paths = {"keep/mark"};
  all.allow_devices = false;
  all.allow_setid = false;
  source.add(EntryType::block_device, "disk").entry.device = makedev(8, 0);
  source.add(EntryType::socket, "sock");
  source.file("suid", "s").entry.mode = 06755;
  source.file("cap", "c").entry.xattrs = {{"security.capability", "x"}};
  auto done = apply(to, source, all);
  REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().message));
  CHECK(content(to / "keep/mark") == "mine");
  CHECK(content(to / "b") == "b of the source");
  CHECK(done->notes.size() == 5);
  CHECK_FALSE(path_exists(to / "disk").value());
  struct stat info{};
  REQUIRE(::stat((to / "suid").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777U) == 0755U);
}

TEST_CASE("apply: fresh wants an empty folder") {
  const TempFolder to;
  write(to / "x", "x");
  MemoryTree source;
  source.file("a", "a");
  auto report = apply(to, source, options_of(ApplyMode::fresh));
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().kind == ErrorKind::conflict);
  ApplyOptions skip = options_of(ApplyMode::fresh);
  skip.skip_paths = {"x"};
  CHECK(apply(to, source, skip).has_value());
}

TEST_CASE("apply: parents that no entry names are made as real folders") {
  for (const ApplyMode mode : {ApplyMode::fresh, ApplyMode::exact, ApplyMode::overlay}) {
    const TempFolder to;
    const TempFolder outside;
    if (mode == ApplyMode::exact) {
      REQUIRE(::symlink(outside.path().c_str(), (to / "p").c_str()) == 0);
    }
    MemoryTree source;
    source.file("p/q/f", "f");
    source.folder("p").entry.mode = 0711;
    auto report = apply(to, source, options_of(mode));
    REQUIRE_MESSAGE(report.has_value(), (report ? "" : report.error().message));
    CHECK(content(to / "p/q/f") == "f");
    CHECK(list_dir(outside.path()).value().empty());
    struct stat info{};
    REQUIRE(::lstat((to / "p").c_str(), &info) == 0);
    CHECK((info.st_mode & 07777U) == 0711U);
  }
}

TEST_CASE("apply: an error before the change leaves the tree untouched") {
  const TempFolder to;
  write(to / "a", "old");
  const auto before = describe(walk(to));
  MemoryTree source;
  source.file("a", "new");
  ApplyOptions options = options_of(ApplyMode::exact);
  options.before_change = []() -> Result<void> {
    return make_error(ErrorKind::conflict, "the lease was lost");
  };
  auto report = apply(to, source, options);
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().kind == ErrorKind::conflict);
  CHECK(describe(walk(to)) == before);
  CHECK(list_dir(to.path()).value() == std::vector<std::string>{"a"});
}

TEST_CASE("apply: a full disk while staging leaves the tree untouched") {
  if (!is_root()) {
    MESSAGE("skipped: needs root to mount a small tmpfs");
    return;
  }
  const TempFolder mount;
  if (::mount("tmpfs", mount.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    MESSAGE("skipped: no tmpfs can be mounted here");
    return;
  }
  write(mount / "a", std::string(500'000, 'o'));
  MemoryTree source;
  source.folder("");
  source.file("a", std::string(900'000, 'n'));
  const auto before = describe(walk(mount));
  auto report = apply(mount, source, options_of(ApplyMode::exact));
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().kind == ErrorKind::io);
  CHECK_FALSE(report.error().hint.empty());
  CHECK(describe(walk(mount)) == before);
  CHECK(list_dir(mount.path()).value() == std::vector<std::string>{"a"});
  CHECK(::umount2(mount.path().c_str(), MNT_DETACH) == 0);
}

TEST_CASE("apply and remove: a tree 5 000 folders deep") {
  MemoryTree source;
  source.folder("");
  std::string path;
  for (int i = 0; i < 5000; ++i) {
    path += path.empty() ? "d" : "/d";
    source.folder(path);
    if (i % 100 == 0) {
      source.file(path + "x", std::to_string(i));
    }
  }
  const auto want = describe(source.entries).size();
  for (const ApplyMode mode : {ApplyMode::fresh, ApplyMode::exact}) {
    const TempFolder to;
    auto report = apply(to, source, options_of(mode));
    REQUIRE_MESSAGE(report.has_value(), (report ? "" : report.error().message));
    CHECK(walk(to).size() == want);
    auto twice = apply(to, source, options_of(ApplyMode::exact));
    REQUIRE_MESSAGE(twice.has_value(), (twice ? "" : twice.error().message));
    CHECK(twice->written == 0);
    MemoryTree empty;
    empty.folder("");
    auto emptied = apply(to, empty, options_of(ApplyMode::exact));
    REQUIRE_MESSAGE(emptied.has_value(), (emptied ? "" : emptied.error().message));
    CHECK(emptied->removed == 5050);
  }
}

TEST_CASE("remove: folders of mode 000, other names kept, links not followed") {
  const TempFolder outside;
  write(outside / "victim", "v");
  const TempFolder folder;
  REQUIRE(::mkdir((folder / "a").c_str(), 0755) == 0);
  REQUIRE(::mkdir((folder / "a/b").c_str(), 0755) == 0);
  write(folder / "a/b/f", "f");
  REQUIRE(::symlink(outside.path().c_str(), (folder / "a/out").c_str()) == 0);
  REQUIRE(::chmod((folder / "a/b").c_str(), 0) == 0);
  REQUIRE(::chmod((folder / "a").c_str(), 0) == 0);
  write(folder / "kept", "k");
  REQUIRE(remove_tree_contents(folder.open(), {"kept"}).has_value());
  CHECK(list_dir(folder.path()).value() == std::vector<std::string>{"kept"});
  CHECK(content(outside / "victim") == "v");
}
