// SPDX-License-Identifier: Apache-2.0
// What a profile may say and what is refused, each with the exact words.
#include <fstream>
#include <iterator>

#include "unit/profile/profile_fixture.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using testing::ProfileFixture;

namespace {

struct BadRow {
  const char* name;
  const char* text;
  const char* message;
  const char* hint;
};

// clang-format off
constexpr BadRow kBad[] = {
    {"unknown key, near", "backend:\n  netwrok: none\n",
     "named.yaml:2:3: unknown key 'netwrok' in 'backend'", "did you mean 'network'?"},
    {"unknown key at the top", "agnet: a\n", "named.yaml:1:1: unknown key 'agnet'", "did you mean 'agent'?"},
    {"known key in the wrong place", "on_conflict: host\n",
     "named.yaml:1:1: unknown key 'on_conflict'", "did you mean 'workspace.projection.on_conflict'?"},
    {"far key lists the known ones", "lock: {zzzzzz: 1}\n", "named.yaml:1:8: unknown key 'zzzzzz' in 'lock'",
     "known are: store, ttl, wait, retry, max_hold, agentscope"},
    {"duplicate key", "agent: a\nuser: b\nagent: c\n", "named.yaml:3:1: key 'agent' stands twice in this map", ""},
    {"duplicate key deep inside", "workspace:\n  environment: {A: 1, A: 2}\n",
     "named.yaml:2:23: key 'A' stands twice in this map", ""},
    {"merge key", "x: &x {a: 1}\nbackend: {<<: *x}\n", "named.yaml:1:1: unknown key 'x'", nullptr},
    {"tag", "agent: !!str a\n", "named.yaml:1:8: a tag; write the value alone", ""},
    {"second document", "agent: a\n---\nagent: b\n",
     "named.yaml:2:1: a second document; a profile is one document", ""},
    {"a list for a map", "- a\n", "named.yaml:1:1: the profile is a list where a map is needed", ""},
    {"a text for a group", "backend: docker\n", "named.yaml:1:10: 'backend' is text where a map is needed", ""},
    {"a map for a text", "agent: {a: b}\n", "named.yaml:1:8: 'agent' is a map where a text is needed", ""},
    {"nothing for a text", "agent:\n", "named.yaml:1:1: 'agent' has no value", nullptr},
    {"null for a text", "agent: null\n", "named.yaml:1:1: 'agent' has no value", nullptr},
    {"boolean words", "backend: {read_only_root: yes}\n",
     "named.yaml:1:27: 'backend.read_only_root' is 'yes' where true or false is needed", nullptr},
    {"boolean in quotes", "backend: {read_only_root: 'true'}\n",
     "named.yaml:1:27: 'backend.read_only_root' is 'true' where true or false is needed", nullptr},
    {"octal number", "backend: {pids: 010}\n",
     "named.yaml:1:17: 'backend.pids' is '010' where a whole number is needed", nullptr},
    {"hex number", "backend: {pids: 0x10}\n",
     "named.yaml:1:17: 'backend.pids' is '0x10' where a whole number is needed", nullptr},
    {"quoted number", "backend: {pids: \"10\"}\n",
     "named.yaml:1:17: 'backend.pids' is '10' where a whole number is needed", nullptr},
    {"negative number", "backend: {pids: -1}\n",
     "named.yaml:1:17: 'backend.pids' is '-1' where a whole number is needed", nullptr},
    {"huge number", "backend: {pids: 99999999999999999999}\n",
     "named.yaml:1:17: 'backend.pids' is '99999999999999999999' where a whole number is needed", nullptr},
    {"no processors", "backend: {cpus: 0.0}\n",
     "named.yaml:1:17: 'backend.cpus' is '0.0' where a number is needed", nullptr},
    {"exponent", "backend: {cpus: 1e3}\n",
     "named.yaml:1:17: 'backend.cpus' is '1e3' where a number is needed", nullptr},
    {"duration without unit", "idle_timeout: 15\n",
     "named.yaml:1:15: 'idle_timeout': '15' is not a duration",
     "write a number with a unit, such as 500ms, 60s, 15m, 12h or 7d"},
    {"size without unit", "backend: {memory: 512}\n",
     "named.yaml:1:19: 'backend.memory': '512' is not a size",
     "write a number with a unit, such as 64KiB, 512MiB or 2GiB"},
    {"no memory", "backend: {memory: 0B}\n", "named.yaml:1:19: 'backend.memory' is 0", nullptr},
    {"ttl too short", "lock: {ttl: 10ms}\n", "named.yaml:1:13: 'lock.ttl' is 10ms, less than 1s", ""},
    {"choice", "release: stopp\n", "named.yaml:1:10: unknown value 'stopp' for 'release'", "did you mean 'stop'?"},
    {"scope", "scope: everybody\n", "named.yaml:1:8: unknown value 'everybody' for 'scope'",
     "known are: user, session, agent, global"},
    {"backend, near", "backend: {type: bubblewarp}\n", "named.yaml:1:17: there is no backend 'bubblewarp'",
     "did you mean 'bubblewrap'?"},
    {"backend, far", "backend: {type: docker}\n", "named.yaml:1:17: there is no backend 'docker'",
     "backends are: bubblewrap, cloud"},
    {"version", "version: 2\n", "named.yaml:1:10: profile version 2 is not known", "this program reads version 1"},
    {"version as text", "version: one\n", "named.yaml:1:10: 'version' is 'one' where a whole number is needed",
     nullptr},
    {"empty agent", "agent: ''\n", "named.yaml:1:8: 'agent' is empty", nullptr},
    {"list for persist", "workspace: {persist: some}\n",
     "named.yaml:1:22: unknown value 'some' for 'workspace.persist'", "known are: all"},
    {"relative persist", "workspace: {persist: [out]}\n",
     "named.yaml:1:22: 'workspace.persist' is 'out' where an absolute path is needed", nullptr},
    {"empty persist", "workspace: {persist: []}\n", "named.yaml:1:22: 'workspace.persist' is an empty list", nullptr},
    {"relative root", "workspace: {root: work}\n",
     "named.yaml:1:19: 'workspace.root' is 'work' where an absolute path is needed", nullptr},
    {"root is all", "workspace: {root: //}\n", "named.yaml:1:19: 'workspace.root' is the root folder itself", ""},
    {"root in proc", "workspace: {root: /proc/x}\n",
     "named.yaml:1:19: 'workspace.root' is '/proc/x', where no files can be kept", ""},
    {"include leaves the source", "workspace: {projection: {include: [a/../../b]}}\n",
     "named.yaml:1:35: 'a/../../b' in 'workspace.projection.include' has a '..' in it", nullptr},
    {"keep rule", "snapshots: {keep: {dayly: 1}}\n", "named.yaml:1:20: unknown key 'dayly' in 'snapshots.keep'",
     "did you mean 'daily'?"},
    {"keep nothing", "snapshots: {keep: {last: 0}}\n",
     "named.yaml:1:26: 'snapshots.keep.last' is '0' where a whole number is needed", nullptr},
    {"environment name", "workspace: {environment: {A=B: c}}\n",
     "named.yaml:1:27: 'A=B' is no name of an environment variable", ""},
    {"variable where none is replaced", "agent: ${USER}\n",
     "named.yaml:1:8: 'agent' holds ${…}, which nothing replaces there", nullptr},
    {"variable not set", "workspace: {environment: {A: \"x${NOPE}\"}}\n",
     "named.yaml:1:30: environment variable 'NOPE' is not set", "set it: export NOPE=…"},
    {"variable in a store not set", "state: \"redis://:${NOPE}@h\"\nlock: {store: none}\n",
     "named.yaml:1:8: environment variable 'NOPE' is not set", nullptr},
    {"half a variable", "workspace: {environment: {A: \"${B\"}}\n",
     "named.yaml:1:30: '${' does not begin the name of a variable such as ${NAME}", nullptr},
    {"secret option", "backend: {options: {apiKey: abc}}\n",
     "named.yaml:1:29: 'backend.options.apiKey' is a secret written out", nullptr},
    {"control byte", "agent: a\x01\n", "named.yaml:1:9: a control byte (0x01)", ""},
    {"not UTF-8", "agent: a\nuser: \xff\n", "named.yaml:2:1: this line is not UTF-8 text", ""},
    {"NUL in a text", "agent: \"a\\0b\"\n", "named.yaml:1:8: 'agent' holds a NUL byte", ""},
    {"cut flow map", "backend: {type: bubblewrap\n", "named.yaml:2:1: end of map flow not found", ""},
    {"tab", "backend:\n\ttype: bubblewrap\n", nullptr, nullptr},
    {"skill without a source", "workspace: {skills: [{ref: v1}]}\n",
     "named.yaml:1:22: an item of 'workspace.skills' needs one of 'git' and 'dir'", ""},
    {"skill key", "workspace: {skills: [{gti: x}]}\n", "named.yaml:1:23: unknown key 'gti' in 'workspace.skills'",
     "did you mean 'git'?"},
    {"git transport that runs a program", "workspace: {skills: [{git: 'ext::sh -c id'}]}\n",
     "named.yaml:1:28: 'workspace.skills.git' is 'ext::sh -c id', which is no Git URL", nullptr},
    {"git option as URL", "workspace: {skills: [{git: '--upload-pack=id'}]}\n",
     "named.yaml:1:28: 'workspace.skills.git' is '--upload-pack=id', which is no Git URL", nullptr},
    {"git option as ref", "workspace: {skills: [{git: 'https://h/r', ref: '--exec=id'}]}\n",
     "named.yaml:1:48: 'workspace.skills.ref' is '--exec=id', which is no branch, tag or commit", ""},
    {"git password", "workspace: {skills: [{git: 'https://u:pw@h/r'}]}\n",
     "named.yaml:1:28: the URL of 'workspace.skills.git' has a password written out", nullptr},
};
// clang-format on

std::string read_example(const char* name) {
  std::ifstream file(testing::source_dir() + "/examples/" + name, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("bad documents are refused with place and mend") {
  for (const BadRow& row : kBad) {
    CAPTURE(row.name);
    ProfileFixture fixture;
    const auto profile = fixture.load_named(row.text);
    REQUIRE_FALSE(profile.has_value());
    CHECK(profile.error().kind == ErrorKind::config);
    if (row.message != nullptr) {
      CHECK(profile.error().message == row.message);
    } else {
      CHECK(profile.error().message.starts_with("named.yaml:"));
    }
    if (row.hint != nullptr) {
      CHECK(profile.error().hint == row.hint);
    } else if (row.message != nullptr) {
      CHECK_FALSE(profile.error().hint.empty());
    }
  }
}

TEST_CASE("texts keep what is written") {
  for (const char* const text :
       {"no", "on", "y", "010", "1e3", "0x1F", "1_000", "2026-01-02", "~x", "'null'", ".5"}) {
    CAPTURE(text);
    ProfileFixture fixture;
    const auto profile =
        fixture.load_named(std::string("agent: ") + text + "\nbackend: {labels: {a: " + text + "}}\n");
    REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
    const std::string expected = text[0] == '\'' ? "null" : text;
    CHECK(profile->ids.agent == expected);
    CHECK(profile->settings.labels.at("a") == expected);
  }
}

TEST_CASE("good documents") {
  ProfileFixture fixture;
  SUBCASE("nothing at all") {
    CHECK(fixture.load_named("").has_value());
  }
  SUBCASE("comments only") {
    CHECK(fixture.load_named("# nothing\n").has_value());
  }
  SUBCASE("empty groups") {
    CHECK(fixture.load_named("backend:\nworkspace:\n  entries:\n").has_value());
  }
  SUBCASE("byte order mark and carriage returns") {
    CHECK(fixture
              .load_named("\xef\xbb\xbf"
                          "agent: a\r\nuser: b\r\n")
              ->ids.user == "b");
  }
  SUBCASE("aliases") {
    const auto profile = fixture.load_named("workspace:\n  environment: {A: &v one, B: *v}\n");
    REQUIRE(profile.has_value());
    CHECK(profile->environment.at("B") == "one");
  }
  SUBCASE("idle for ever") {
    CHECK(fixture.load_named("idle_timeout: 0\n")->idle_timeout == Millis(0));
  }
  SUBCASE("another backend's defaults") {
    const auto profile = fixture.load_named("backend: {type: cloud}\n");
    REQUIRE(profile.has_value());
    CHECK(profile->workspace_root == "/home/user");
    CHECK_FALSE(profile->persist_all);
    CHECK(profile->persist == std::vector<std::string>{"/home/user"});
  }
}

TEST_CASE("what is large or deep is refused without delay") {
  ProfileFixture fixture;
  const auto refused = [&](const std::string& text) {
    const auto profile = fixture.load_named(text);
    REQUIRE_FALSE(profile.has_value());
    CHECK(profile.error().kind == ErrorKind::config);
    return profile.error().message;
  };
  CHECK(refused(std::string((1U << 20U) + 1, '#')) == "named.yaml: larger than 1048576 bytes");
  CHECK(
      refused("agent: " + std::string(40, '[') + std::string(40, ']')).find("nested deeper than 32 levels") !=
      std::string::npos);
  CHECK_FALSE(refused("agent: " + std::string(200'000, '[')).empty());
  CHECK_FALSE(refused("agent: " + std::string(200'000, '{')).empty());
  CHECK_FALSE(refused("agent: " + std::string(200'000, '[') + std::string(200'000, ']')).empty());
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'l'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) {
      bomb += std::string(i == 0 ? "*" : ",*") + static_cast<char>(c - 1);
    }
    bomb += "]\n";
  }
  CHECK(refused(bomb).find("more than 50000 values") != std::string::npos);
  CHECK(refused("a: &a [*a]\n").find("an alias of a value that it stands in") != std::string::npos);
}

TEST_CASE("the examples load") {
  ProfileFixture fixture;
  fixture.inputs.environment = {{"EXAMPLE_API_TOKEN", "t"}, {"EXAMPLE_REDIS_PASSWORD", "p"}};
  for (const char* const name : {"minimal.yaml", "developer.yaml", "trusted.yaml", "shared.yaml"}) {
    CAPTURE(name);
    const auto profile = fixture.load_named(read_example(name));
    REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
    CHECK(profile->warnings.empty());
  }
}

TEST_CASE("every cut of an example is a profile or an error") {
  ProfileFixture fixture;
  fixture.inputs.environment = {{"EXAMPLE_API_TOKEN", "t"}, {"EXAMPLE_REDIS_PASSWORD", "p"}};
  for (const char* const name : {"developer.yaml", "trusted.yaml", "shared.yaml"}) {
    const std::string whole = read_example(name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      CAPTURE(length);
      const auto profile = fixture.load_named(std::string_view(whole).substr(0, length));
      if (!profile) {
        REQUIRE(profile.error().kind == ErrorKind::config);
        REQUIRE(profile.error().message.starts_with("named.yaml:"));
      }
    }
    for (std::size_t at = 0; at < whole.size(); at += 11) {
      for (const char byte : {'\0', ':', '&', '*', '{', '"', '\n', '\xff'}) {
        std::string damaged = whole;
        damaged[at] = byte;
        const auto profile = fixture.load_named(damaged);
        if (!profile) {
          const bool expected =
              profile.error().kind == ErrorKind::config || profile.error().kind == ErrorKind::unsupported;
          REQUIRE(expected);
        }
      }
    }
  }
}
