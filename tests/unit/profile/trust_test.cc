// SPDX-License-Identifier: Apache-2.0
// What a profile that was only found may say, and what trusts it.
#include "core/profile/trust.h"

#include <unistd.h>

#include "unit/profile/profile_fixture.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using testing::ProfileFixture;

namespace {

struct TrustRow {
  const char* name;
  const char* text;
  const char* refused;  // the message after "ascope.yaml:", nullptr if it needs no trust
};

constexpr std::string_view kTail = ", which a profile that was only found may not do until it is trusted";

// clang-format off
constexpr TrustRow kRows[] = {
    {"plain settings", "agent: a\nbackend: {network: host, memory: 1GiB, labels: {a: b}}\n", nullptr},
    {"folder of its own", "workspace: {projection: {source: ./workspace}}\n", nullptr},
    {"folder outside", "workspace: {projection: {source: ../outside}}\n",
     "1:34: 'workspace.projection.source' names a host path outside the file's own folder"},
    {"absolute folder", "workspace: {projection: {source: /etc}}\n",
     "1:34: 'workspace.projection.source' names a host path outside the file's own folder"},
    {"home folder", "workspace: {projection: {source: ~/x}}\n",
     "1:34: 'workspace.projection.source' names a host path outside the file's own folder"},
    {"through a link", "workspace: {projection: {source: link/x}}\n",
     "1:34: 'workspace.projection.source' names a host path outside the file's own folder"},
    {"mount outside", "workspace: {entries: {d: {type: bind_mount, host_path: /}}}\n",
     "1:56: 'd.host_path' names a host path outside the file's own folder"},
    {"mount of its own", "workspace: {entries: {d: {type: bind_mount, host_path: data}}}\n", nullptr},
    {"file outside", "workspace: {entries: {d: {type: local_file, source_path: /etc/shadow}}}\n",
     "1:58: 'd.source_path' names a host path outside the file's own folder"},
    {"nested", "workspace: {entries: {d: {type: dir, children: {e: {type: local_dir, source_path: /}}}}}\n",
     "1:83: 'e.source_path' names a host path outside the file's own folder"},
    {"repository", "workspace: {entries: {d: {type: git_repo, url: 'https://h/r'}}}\n",
     "1:48: 'd.url' names an endpoint"},
    {"skills", "workspace: {skills: [{git: 'git@h:r'}]}\n", "1:28: 'workspace.skills.git' names an endpoint"},
    {"root folder", "backend: {rootfs: /}\n",
     "1:19: 'backend.rootfs' names a host path outside the file's own folder"},
    {"root folder host", "backend: {rootfs: host}\n", nullptr},
    {"options", "backend: {options: {a: b}}\n",
     "1:24: 'backend.options.a' is an option of the backend's own"},
    {"secret", "workspace: {environment: {A: \"${HOME}\"}}\n",
     "1:30: 'workspace.environment.A' takes a value from the environment"},
    {"command", "state: command:id\nlock: {store: none}\nsnapshots: {store: none}\n", "1:8: 'state' names a command"},
    {"endpoint", "snapshots: {store: 's3://b/p'}\n", "1:20: 'snapshots.store' names an endpoint"},
    {"bundle", "distributed: redis://h\n", "1:14: 'distributed' names an endpoint"},
    {"built-in places", "state: 'sqlite:'\nsnapshots: {store: 'local:'}\nlock: {store: none}\n", nullptr},
    {"store of its own", "snapshots: {store: 'local:snaps'}\n", nullptr},
    {"store outside", "snapshots: {store: 'local:/srv/x'}\n",
     "1:20: 'snapshots.store' names a host path outside the file's own folder"},
};
// clang-format on

}  // namespace

TEST_CASE("a found profile needs trust for what reaches out of its folder") {
  for (const TrustRow& row : kRows) {
    CAPTURE(row.name);
    ProfileFixture fixture;
    fixture.inputs.environment = {{"HOME", "/home/x"}};
    REQUIRE(::symlink("../outside", (fixture.root + "/project/link").c_str()) == 0);
    fixture.write("project/ascope.yaml", row.text);
    const auto found = fixture.load();
    if (row.refused == nullptr) {
      CHECK_MESSAGE(found.has_value(), found.error().message);
    } else {
      REQUIRE_FALSE(found.has_value());
      CHECK(found.error().kind == ErrorKind::config);
      CHECK(found.error().message == "ascope.yaml:" + std::string(row.refused) + std::string(kTail));
      CHECK(found.error().hint == "read it, then: ascope-sandbox profile trust ascope.yaml");
    }

    SUBCASE("named") {
      fixture.inputs.profile_file = "ascope.yaml";
      CHECK(fixture.load().has_value());
    }
    SUBCASE("trusted") {
      REQUIRE(trust_profile(fixture.inputs.state_dir, fixture.root + "/project/ascope.yaml").has_value());
      CHECK(fixture.load().has_value());
    }
    SUBCASE("the user's own") {
      std::filesystem::rename(fixture.root + "/project/ascope.yaml", fixture.root + "/config/profile.yaml");
      CHECK(fixture.load().has_value());
    }
  }
}

TEST_CASE("trust is for path and content") {
  ProfileFixture fixture;
  const std::string path = fixture.root + "/project/ascope.yaml";
  const std::string& state = fixture.inputs.state_dir;
  fixture.write("project/ascope.yaml", "backend: {rootfs: /opt}\n");
  const auto first = trust_profile(state, path);
  REQUIRE(first.has_value());
  CHECK(first->changed);
  CHECK_FALSE(trust_profile(state, path)->changed);
  REQUIRE(fixture.load().has_value());

  SUBCASE("a changed file asks again") {
    fixture.write("project/ascope.yaml", "backend: {rootfs: /opt }\n");
    CHECK_FALSE(fixture.load().has_value());
  }
  SUBCASE("a copy asks for itself") {
    std::filesystem::create_directory(fixture.root + "/project/sub");
    std::filesystem::copy(path, fixture.root + "/project/sub/ascope.yaml");
    fixture.inputs.cwd = fixture.root + "/project/sub";
    CHECK_FALSE(fixture.load().has_value());
  }
  SUBCASE("from a folder below, by way of a link") {
    std::filesystem::create_directory(fixture.root + "/project/sub");
    REQUIRE(::symlink("project/sub", (fixture.root + "/short").c_str()) == 0);
    fixture.inputs.cwd = fixture.root + "/project/sub";
    CHECK(fixture.load().has_value());
  }
  SUBCASE("revoked") {
    CHECK(distrust_profile(state, path).value());
    CHECK_FALSE(distrust_profile(state, path).value());
    CHECK_FALSE(fixture.load().has_value());
  }
  SUBCASE("a damaged list trusts nothing and says so") {
    fixture.write("state/trust.json", "{\"schema\": \"ascope.trust/1\", \"fi");
    const auto profile = fixture.load();
    REQUIRE_FALSE(profile.has_value());
    CHECK(profile.error().message == state + "/trust.json: not a list of trusted profiles");
    CHECK_FALSE(trust_profile(state, path).has_value());
  }
  SUBCASE("another file beside") {
    fixture.write("project/other.yaml", "agent: a\n");
    REQUIRE(trust_profile(state, fixture.root + "/project/other.yaml").has_value());
    CHECK(fixture.load().has_value());
  }
  CHECK(trust_profile(state, fixture.root + "/none").error().kind == ErrorKind::not_found);
}

TEST_CASE("a found profile of another user is not used until it is trusted") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: giving a file to another user needs root");
    return;
  }
  ProfileFixture fixture;
  const std::string path = fixture.root + "/project/ascope.yaml";
  fixture.write("project/ascope.yaml", "agent: theirs\n");
  REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
  const auto refused = fixture.load();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message == "ascope.yaml: belongs to another user (uid 12345)");
  REQUIRE(trust_profile(fixture.inputs.state_dir, path).has_value());
  CHECK(fixture.load()->ids.agent == "theirs");
}

TEST_CASE("all that is wrong is named at once") {
  ProfileFixture fixture;
  fixture.write(
      "project/ascope.yaml",
      "agnet: a\nbackend: {pids: x, rootfs: /}\nworkspace: {root: r, entries: {../x: {type: file}}}\n");
  const ProfileCheck check = check_profile(fixture.inputs, fixture.kinds);
  std::string all;
  for (const Error& problem : check.problems) {
    all += problem.message.substr(0, problem.message.find(": ")) + "\n";
  }
  CHECK(all == "ascope.yaml:1:1\nascope.yaml:2:17\nascope.yaml:3:32\nascope.yaml:2:28\nascope.yaml:3:19\n");
}
