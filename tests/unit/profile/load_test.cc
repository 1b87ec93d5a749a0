// SPDX-License-Identifier: Apache-2.0
#include "unit/profile/profile_fixture.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using testing::ProfileFixture;

TEST_CASE("without any file the profile is the built-in one") {
  const ProfileFixture fixture;
  const auto profile = fixture.load();
  REQUIRE(profile.has_value());
  CHECK(profile->ids.agent == "default");
  CHECK(profile->ids.scope == Scope::user);
  CHECK(profile->backend_type == "bubblewrap");
  CHECK(profile->settings.network == "none");
  CHECK(profile->settings.rootfs == "host");
  CHECK(profile->workspace_root == "/workspace");
  CHECK(profile->persist_all);
  CHECK(profile->projection_enabled);
  CHECK(profile->projection_source.empty());
  CHECK(profile->projection_include ==
        std::vector<std::string>{"AGENTS.md", "skills", "subagents", "knowledge"});
  CHECK(profile->state_store == "sqlite:");
  CHECK(profile->snapshot_store == "local:");
  CHECK(profile->lock_store == "sqlite:");
  CHECK(profile->lock_ttl == Millis(60'000));
  CHECK(profile->idle_timeout == Millis(900'000));
  CHECK(profile->snapshot_format == "chunks");
  CHECK(profile->keep.empty());
  CHECK(profile->files.empty());
  CHECK(profile->warnings.empty());
  CHECK(profile->values.at("backend.network").second.kind == OriginKind::builtin);
}

TEST_CASE("layers lie over one another key by key") {
  ProfileFixture fixture;
  fixture.write("config/profile.yaml",
                "agent: low\nuser: alice\nbackend: {network: bridge, pids: 7}\n"
                "workspace: {environment: {A: '1', B: '2'}, exclude: [x, y]}\n");
  fixture.write("project/ascope.yaml",
                "agent: middle\nbackend: {pids: 8}\n"
                "workspace: {environment: {B: '3'}, exclude: [z]}\nidle_timeout: 1m\n");
  fixture.inputs.environment = {
      {"ASCOPE_IDLE_TIMEOUT", "2m"}, {"ASCOPE_BACKEND_MEMORY", "64MiB"}, {"ASCOPE_USER", ""}};
  fixture.inputs.set = {{"backend.memory", "128MiB"}, {"agent", "set"}, {"snapshots.keep", "{last: 3}"}};
  fixture.inputs.flags = {{"agent", "flag"}};
  const auto profile = fixture.load();
  REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
  CHECK(profile->ids.agent == "flag");
  CHECK(profile->ids.user == "alice");
  CHECK(profile->settings.network == "bridge");
  CHECK(profile->settings.pids == 8);
  CHECK(profile->settings.memory_bytes == 128U << 20U);
  CHECK(profile->environment == std::map<std::string, std::string>{{"A", "1"}, {"B", "3"}});
  CHECK(profile->exclude == std::vector<std::string>{"z"});
  CHECK(profile->idle_timeout == Millis(120'000));
  CHECK(profile->keep.last == 3);
  const auto where = [&](const std::string& key) { return profile->values.at(key).second.where; };
  CHECK(where("agent") == "--agent");
  CHECK(where("user") == fixture.root + "/config/profile.yaml:2:7");
  CHECK(where("backend.pids") == "ascope.yaml:2:17");
  CHECK(where("workspace.environment.B") == "ascope.yaml:3:30");
  CHECK(where("idle_timeout") == "ASCOPE_IDLE_TIMEOUT");
  CHECK(where("backend.memory") == "--set backend.memory");
  CHECK(where("snapshots.keep.last") == "--set snapshots.keep:1:8");
  CHECK(where("release") == "built in");
}
