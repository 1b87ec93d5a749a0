// SPDX-License-Identifier: Apache-2.0
// Which store keeps what, secrets in URLs, and variables.
#include "unit/profile/profile_fixture.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using testing::ProfileFixture;

TEST_CASE("an explicit part wins over distributed, which wins over the built-in one") {
  struct Row {
    const char* text;
    const char* state;
    const char* snapshots;
    const char* leases;
    const char* projection;
  };
  // clang-format off
  constexpr Row kRows[] = {
      {"", "sqlite:", "local:", "sqlite:", ""},
      {"distributed: redis://h\n", "redis://h?prefix=agentscope:session:", "redis://h?prefix=agentscope:snapshot:",
       "redis://h?prefix=agentscope:guard:", "redis://h?prefix=agentscope:store:"},
      {"distributed: redis://h/2?ttl=1d&prefix=p:&x=y\n", "redis://h/2?ttl=1d&prefix=p:session:&x=y",
       "redis://h/2?ttl=1d&prefix=p:snapshot:&x=y", "redis://h/2?ttl=1d&prefix=p:guard:&x=y",
       "redis://h/2?ttl=1d&prefix=p:store:&x=y"},
      {"distributed: s3://b\n", "s3://b/agentscope/state/", "s3://b/agentscope/snapshot/", "s3://b/agentscope/guard/",
       "s3://b/agentscope/store/"},
      {"distributed: 's3://b/p/q?region=r'\n", "s3://b/p/q/state/?region=r", "s3://b/p/q/snapshot/?region=r",
       "s3://b/p/q/guard/?region=r", "s3://b/p/q/store/?region=r"},
      {"distributed: mysql://u@h/d\n", "mysql://u@h/d", "mysql://u@h/d", "mysql://u@h/d", "mysql://u@h/d"},
      {"distributed: redis://h\nstate: mysql://u@h/d\nsnapshots: {store: none}\nlock: {store: none}\n"
       "workspace: {projection: {source: /w}}\n", "mysql://u@h/d", "none", "none", "/w"},
      {"state: 'json:states'\nsnapshots: {store: 'local:~/snaps'}\nlock: {store: 'sqlite:/l.db'}\n",
       "json:@/project/states", "local:@/home/snaps", "sqlite:/l.db", ""},
      {"state: command:./prog\nlock: {store: command:prog}\nsnapshots: {store: 's3://b'}\n",
       "command:@/project/prog", "s3://b", "command:prog", ""},
  };
  // clang-format on
  for (const Row& row : kRows) {
    CAPTURE(row.text);
    ProfileFixture fixture;
    const auto profile = fixture.load_named(row.text);
    REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
    const auto placed = [&](std::string expected) {
      const std::size_t at = expected.find(":@/");
      return at == std::string::npos ? expected : expected.replace(at + 1, 1, fixture.root);
    };
    CHECK(profile->state_store == placed(row.state));
    CHECK(profile->snapshot_store == placed(row.snapshots));
    CHECK(profile->lock_store == placed(row.leases));
    CHECK(profile->projection_source == placed(row.projection));
    CHECK(profile->warnings.empty());
  }
}

TEST_CASE("stores that are refused") {
  struct Row {
    const char* text;
    const char* message;
    const char* hint;
  };
  // clang-format off
  constexpr Row kRows[] = {
      {"state: sqlit:x\n", "1:8: unknown store 'sqlit' for 'state'", "did you mean 'sqlite'?"},
      {"state: sqlite\n", "1:8: 'sqlite' is not a store's URL", "write sqlite:…"},
      {"state: 'local:/x'\n", "1:8: a store 'local' cannot keep states", nullptr},
      {"state: none\n", "1:8: a store 'none' cannot keep states", nullptr},
      {"snapshots: {store: 'json:/x'}\n", "1:20: a store 'json' cannot keep snapshots", nullptr},
      {"lock: {store: 'local:/x'}\n", "1:15: a store 'local' cannot keep leases", nullptr},
      {"distributed: 'sqlite:/x'\n", "1:14: 'distributed' is no store that other machines see", nullptr},
      {"state: 'redis://:pw@h'\nlock: {store: none}\n", "1:8: the URL of 'state' has a password written out", nullptr},
      {"state: 'mysql://u:pw@h/d'\n", "1:8: the URL of 'state' has a password written out", nullptr},
      {"state: 'redis://h?password=pw'\n", "1:8: the URL of 'state' has a 'password' written out", nullptr},
      {"workspace: {environment: {URL: 'postgresql://u:pw@h/d'}}\n",
       "1:32: the URL of 'workspace.environment.URL' has a password written out", nullptr},
      {"state: 'redis://h'\n", "1:8: other machines see the state store, but not the lease store", nullptr},
      {"state: 'redis://h'\nlock: {store: 'sqlite:'}\n",
       "2:15: other machines see the state store, but not the lease store", nullptr},
      {"state: 'command:'\n", "1:8: 'state' names no program", nullptr},
      {"workspace: {projection: {source: 'sqlite:/x'}}\n", "1:34: that kind of store keeps no files to project", ""},
  };
  // clang-format on
  for (const Row& row : kRows) {
    CAPTURE(row.text);
    ProfileFixture fixture;
    const auto profile = fixture.load_named(row.text);
    REQUIRE_FALSE(profile.has_value());
    CHECK(profile.error().kind == ErrorKind::config);
    CHECK(profile.error().message == std::string("named.yaml:") + row.message);
    CHECK(profile.error().message.find("pw") == std::string::npos);
    if (row.hint != nullptr) {
      CHECK(profile.error().hint == row.hint);
    } else {
      CHECK_FALSE(profile.error().hint.empty());
    }
  }
}

TEST_CASE("snapshots are in chunks, or in tar, which is never encrypted") {
  ProfileFixture fixture;
  CHECK(fixture.load_named("snapshots: {format: chunks, key: 'env:KEY'}\n").value().snapshot_key ==
        "env:KEY");
  CHECK(fixture.load_named("snapshots: {format: tar}\n").value().snapshot_format == "tar");
  for (const std::string text : {"snapshots: {format: tar, key: 'env:KEY'}\n", "snapshots: {key: '0123'}\n",
                                 "snapshots: {format: zip}\n"}) {
    const auto profile = fixture.load_named(text);
    REQUIRE_FALSE(profile.has_value());
    CHECK(profile.error().kind == ErrorKind::config);
  }
}

TEST_CASE("local snapshots beside a shared state are warned of") {
  ProfileFixture fixture;
  const auto profile = fixture.load_named("state: 'redis://h'\nlock: {store: 'redis://h'}\n");
  REQUIRE(profile.has_value());
  CHECK(profile->warnings.size() == 1);
}

TEST_CASE("variables are replaced late and never shown") {
  ProfileFixture fixture;
  fixture.inputs.environment = {{"TOKEN", "s3cret"}, {"PW", "a@b:c/d?e%f"}};
  const auto profile = fixture.load_named(
      "distributed: 'redis://:${PW}@h/0'\n"
      "workspace: {environment: {A: \"x${TOKEN}y\", B: \"$${TOKEN}\", C: plain}}\n"
      "backend: {options: {apiKey: \"${TOKEN}\", other: text, list: [a, b]}}\n");
  REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
  CHECK(profile->environment ==
        std::map<std::string, std::string>{{"A", "xs3crety"}, {"B", "${TOKEN}"}, {"C", "plain"}});
  CHECK(profile->settings.environment == profile->environment);
  CHECK(profile->secret_environment == std::vector<std::string>{"A"});
  CHECK(profile->settings.secret_options == std::vector<std::string>{"apiKey"});
  CHECK(profile->settings.options.at("apiKey") == "s3cret");
  CHECK(profile->settings.options.at("list") == "[\"a\",\"b\"]");
  CHECK(profile->state_store == "redis://:${PW}@h/0?prefix=agentscope:session:");
  CHECK(profile->values.at("workspace.environment.A").first == "x********y");
  CHECK(profile->values.at("distributed").first == "redis://:********@h/0");
  for (const auto& [key, value] : profile->values) {
    CHECK(dump_json(value.first).find("s3cret") == std::string::npos);
  }
  for (const auto& [key, value] : profile->settings.describe()) {
    CHECK(value.find("s3cret") == std::string::npos);
  }
  CHECK(expand_store_url(profile->state_store, fixture.inputs.environment).value() ==
        "redis://:a%40b%3Ac%2Fd%3Fe%25f@h/0?prefix=agentscope:session:");
}

TEST_CASE("expand_variables") {
  const std::map<std::string, std::string> environment{{"A", "1"}, {"B_2", "${A}"}, {"EMPTY", ""}};
  CHECK(expand_variables("", environment).value().empty());
  CHECK(expand_variables("a${A}b${B_2}c${EMPTY}", environment).value() == "a1b${A}c");
  CHECK(expand_variables("$A $ {A} $${A} $$", environment).value() == "$A $ {A} ${A} $$");
  for (const char* const bad : {"${", "${}", "${A", "${1A}", "${A-B}", "${A }"}) {
    CAPTURE(bad);
    CHECK(expand_variables(bad, environment).error().kind == ErrorKind::config);
  }
  CHECK(expand_variables("${NO}", environment).error().message == "environment variable 'NO' is not set");
  CHECK(expand_store_url("local:${A}/x", environment).value() == "local:1/x");
  CHECK(expand_store_url("mysql://${A}:${A}@${A}:3/d?k=${B_2}&l=m", environment).value() ==
        "mysql://1:1@1:3/d?k=%24%7BA%7D&l=m");
}

TEST_CASE("password files are places, too") {
  ProfileFixture fixture;
  const auto profile = fixture.load_named("distributed: 'redis://h?password_file=pw&prefix=p:'\n");
  REQUIRE(profile.has_value());
  CHECK(profile->distributed == "redis://h?password_file=" + fixture.root + "/project/pw&prefix=p:");
}
