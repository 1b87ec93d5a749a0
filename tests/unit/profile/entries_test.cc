// SPDX-License-Identifier: Apache-2.0
// workspace.entries and workspace.skills.
#include "unit/profile/profile_fixture.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using testing::ProfileFixture;

TEST_CASE("entries of every type") {
  ProfileFixture fixture;
  const auto profile = fixture.load_named(
      "workspace:\n"
      "  root: /work\n"
      "  entries:\n"
      "    z.txt: {type: file, content: no, encoding: ISO-8859-1}\n"
      "    latin.txt: {type: file, content: \"\\u00e9\\u00ff\", encoding: ISO-8859-1, mode: 0600}\n"
      "    src:\n"
      "      type: dir\n"
      "      ephemeral: true\n"
      "      children:\n"
      "        run.cfg: {type: file, content: \"${KEPT}\"}\n"
      "        deep: {type: dir, children: {x: {type: local_file, source_path: a/b}}}\n"
      "    app: {type: git_repo, url: git@host.example:team/app.git}\n"
      "    copy: {type: local_dir, source_path: ~/copy}\n"
      "    data: {type: bind_mount, host_path: /srv/data, read_only: true}\n");
  REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
  std::string all;
  for (const WorkspaceEntry& entry : profile->entries) {
    all += entry.path + (entry.ephemeral ? " e" : "") + "\n";
  }
  CHECK(all == "app\ncopy\ndata\nlatin.txt\nsrc e\nsrc/deep e\nsrc/deep/x e\nsrc/run.cfg e\nz.txt\n");
  CHECK(profile->entries[0].ref == "HEAD");
  CHECK(profile->entries[0].url == "git@host.example:team/app.git");
  CHECK(profile->entries[1].source == fixture.root + "/home/copy");
  CHECK(profile->entries[2].read_only);
  CHECK(profile->entries[3].content == "\xe9\xff");
  CHECK(profile->entries[3].mode == 0600U);
  CHECK(profile->entries[6].source == fixture.root + "/project/a/b");
  CHECK(profile->entries[7].content == "${KEPT}");
  CHECK(profile->entries[8].content == "no");
  CHECK_FALSE(profile->entries[8].mode.has_value());
  REQUIRE(profile->settings.mounts.size() == 1);
  CHECK(profile->settings.mounts[0].path == "/work/data");
  CHECK(profile->settings.mounts[0].host_path == "/srv/data");
}

TEST_CASE("entries that are refused") {
  struct Row {
    const char* entries;
    const char* message;
  };
  // clang-format off
  constexpr Row kRows[] = {
      {"{a: {type: flie}}", "1:33: unknown value 'flie' for 'a.type'"},
      {"{a: {content: x}}", "1:26: 'a' has no 'type'"},
      {"{a: text}", "1:26: 'a' is text where a map with a 'type' is needed"},
      {"{a: {type: file, contents: x}}", "1:39: unknown key 'contents' of a file entry"},
      {"{a: {type: dir, content: x}}", "1:38: unknown key 'content' of a dir entry"},
      {"{a: {type: file, ephemeral: yes}}", "1:50: 'a.ephemeral' is 'yes' where true or false is needed"},
      {"{a: {type: file, mode: 4755}}", "1:45: 'a.mode' is '4755' where a file mode is needed"},
      {"{a: {type: file, mode: 888}}", "1:45: 'a.mode' is '888' where a file mode is needed"},
      {"{a: {type: file, encoding: UTF-16}}", "1:49: unknown value 'UTF-16' for 'a.encoding'"},
      {"{a: {type: file, encoding: US-ASCII, content: \"\\u00e9\"}}",
       "1:68: the content has letters that US-ASCII lacks"},
      {"{a: {type: file, encoding: ISO-8859-1, content: \"\\u20ac\"}}",
       "1:70: the content has letters that ISO-8859-1 lacks"},
      {"{a: {type: local_file}}", "1:26: 'a' is a local_file without 'source_path'"},
      {"{a: {type: git_repo}}", "1:26: 'a' is a git_repo without 'url'"},
      {"{a: {type: bind_mount}}", "1:26: 'a' is a bind_mount without 'host_path'"},
      {"{a: {type: git_repo, url: 'https://h/r', ref: '-x'}}",
       "1:68: 'a.ref' is '-x', which is no branch, tag or commit"},
      {"{a: {type: dir, children: {b: {type: bind_mount, host_path: /x}}}}",
       "1:59: 'b' is a bind_mount inside a dir"},
      {"{/a: {type: file}}", "1:23: the entry's path '/a' is absolute"},
      {"{a/../../b: {type: file}}", "1:23: the entry's path 'a/../../b' has a '..' in it"},
      {"{'..': {type: file}}", "1:23: the entry's path '..' has a '..' in it"},
      {"{'': {type: file}}", "1:23: the entry's path '' is empty"},
      {"{a//b: {type: file}}", "1:23: the entry's path 'a//b' has an empty part"},
      {"{a/: {type: dir}}", "1:23: the entry's path 'a/' ends with '/'"},
      {"{.ascope-restore: {type: file}}",
       "1:23: the entry's path '.ascope-restore' is a name that ascope-sandbox keeps for itself"},
      {"{a: {type: dir, children: {../b: {type: file}}}}", "1:49: the entry's path '../b' has a '..' in it"},
      {"{a: {type: dir, children: {b: {type: file}}}, a/b: {type: file}}",
       "1:73: the entry 'a/b' is declared twice"},
      {"{a: {type: file}, a/b: {type: file}}", "1:45: the entry 'a/b' is below 'a', which is a file"},
      {"{a: {type: bind_mount, host_path: /x}, a/b: {type: file}}",
       "1:66: the entry 'a/b' is below the bind_mount 'a', whose files are the host's"},
      {"{a: {type: bind_mount, host_path: /x}, a/b: {type: bind_mount, host_path: /y}}",
       "1:66: the entry 'a/b' is below the bind_mount 'a', whose files are the host's"},
      {"{a: {type: local_dir, source_path: /x}, a/b: {type: bind_mount, host_path: /y}}",
       "1:67: the entry 'a/b' is a bind_mount below 'a'"},
  };
  // clang-format on
  for (const Row& row : kRows) {
    CAPTURE(row.entries);
    ProfileFixture fixture;
    const auto profile = fixture.load_named(std::string("workspace: {entries: ") + row.entries + "}\n");
    REQUIRE_FALSE(profile.has_value());
    CHECK(profile.error().kind == ErrorKind::config);
    CHECK(profile.error().message == std::string("named.yaml:") + row.message);
  }
}

TEST_CASE("a dir may hold a mount, and a copied folder further entries") {
  ProfileFixture fixture;
  const auto profile = fixture.load_named(
      "workspace: {entries: {a: {type: dir}, a/b: {type: bind_mount, host_path: /x},\n"
      "  c: {type: local_dir, source_path: /y}, c/d: {type: file}, ab: {type: file}}}\n");
  CHECK_MESSAGE(profile.has_value(), profile.error().message);
}

TEST_CASE("skills") {
  ProfileFixture fixture;
  const auto profile = fixture.load_named(
      "workspace:\n  skills:\n    - {git: ./repo, ref: v3, path: a/b, name: mine}\n    - {dir: "
      "/srv/skills}\n");
  REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
  REQUIRE(profile->skills.size() == 2);
  CHECK(profile->skills[0].git == fixture.root + "/project/repo");
  CHECK(profile->skills[0].ref == "v3");
  CHECK(profile->skills[0].path == "a/b");
  CHECK(profile->skills[0].name == "mine");
  CHECK(profile->skills[1].dir == "/srv/skills");
}
