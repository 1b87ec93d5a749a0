// SPDX-License-Identifier: Apache-2.0
// The key table and what follows from it: names, JSON Schema, `profile show`. ASCOPE_TEST_ACCEPT=1 writes the
// schema anew.
#include "core/profile/show.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <sys/stat.h>

#include "core/profile/profile_schema.h"
#include "unit/profile/profile_fixture.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using testing::ProfileFixture;

TEST_CASE("the key table is whole") {
  std::set<std::string> environment_names;
  for (const ProfileKey& key : profile_keys()) {
    CAPTURE(key.name);
    CHECK(find_profile_key(key.name) == &key);
    CHECK_FALSE(key.help.empty());
    CHECK(key.help.find('\n') == std::string_view::npos);
    CHECK(key.help.back() != '.');
    CHECK_FALSE(is_profile_group(key.name));
    CHECK((key.type == KeyType::choice) <= !key.choices.empty());
    CHECK(environment_names.insert(environment_name(key.name)).second);
  }
  CHECK(find_profile_key("backend") == nullptr);
  CHECK(is_profile_group("workspace.projection"));
  CHECK_FALSE(is_profile_group("back"));
  CHECK(environment_name("workspace.projection.on_conflict") == "ASCOPE_WORKSPACE_PROJECTION_ON_CONFLICT");
}

TEST_CASE("the JSON Schema covers every key and is current") {
  const Json schema = profile_json_schema();
  for (const ProfileKey& key : profile_keys()) {
    CAPTURE(key.name);
    const Json* at = &schema;
    std::string_view rest = key.name;
    while (!rest.empty()) {
      const std::string word(rest.substr(0, rest.find('.')));
      REQUIRE(at->at("additionalProperties") == false);
      REQUIRE(at->at("properties").contains(word));
      at = &at->at("properties").at(word);
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    }
    CHECK(at->at("description").get<std::string>().starts_with(key.help));
  }
  const std::string path = testing::source_dir() + "/schema/ascope-profile.schema.json";
  const std::string text = dump_json(schema, 2) + "\n";
  if (std::getenv("ASCOPE_TEST_ACCEPT") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string stored{std::istreambuf_iterator<char>(file), {}};
  CHECK_MESSAGE(stored == text, "run tests/unit_profile with ASCOPE_TEST_ACCEPT=1");
}

TEST_CASE("what is shown can be loaded again") {
  ProfileFixture fixture;
  const auto first = fixture.load_named(
      "agent: 'no'\nuser: 'a: b # c'\nsession: \"tab\\tand \\u00e9 \\x7f\"\n"
      "backend: {cpus: 1.5, pids: 10, ports: ['80:80', '1'], labels: {'010': '1e3', x: ''}}\n"
      "workspace:\n"
      "  persist: [/a, /b]\n"
      "  exclude: ['*.sock', 'a,b', '- x']\n"
      "  entries: {'odd: name': {type: file, content: \"{}[]#&*!|>'\\\"%@`\\n\"}, d: {type: dir, children: "
      "{x: {type: dir}}}}\n"
      "  environment: {LANG: C.UTF-8, 'A B': 'yes'}\n"
      "  skills: [{dir: /s}]\n"
      "state: 'sqlite:'\nsnapshots: {keep: {last: 3, within: 1h}}\n");
  REQUIRE_MESSAGE(first.has_value(), first.error().message);
  for (const bool with_origin : {false, true}) {
    const std::string text = profile_yaml(*first, with_origin);
    const auto again = fixture.load_named(text);
    REQUIRE_MESSAGE(again.has_value(), again.error().message, "\n", text);
    CHECK(profile_yaml(*again, false) == profile_yaml(*first, false));
  }
}

TEST_CASE("show says where each value comes from") {
  ProfileFixture fixture;
  fixture.inputs.environment = {{"ASCOPE_AGENT", "envy"}};
  const auto profile = fixture.load_named("backend: {network: host}\nworkspace: {environment: {A: b}}\n");
  REQUIRE(profile.has_value());
  const std::string text = profile_yaml(*profile, true);
  for (const char* const line :
       {"agent: envy                                 # ASCOPE_AGENT\n",
        "backend:\n  type: bubblewrap                          # built in\n",
        "  network: host                             # named.yaml:1:20\n",
        "workspace:\n  environment:\n    A: b                                    # named.yaml:2:30\n"}) {
    CAPTURE(text);
    CHECK(text.find(line) != std::string::npos);
  }
}

TEST_CASE("another backend type drops the lower block") {
  ProfileFixture fixture;
  fixture.write("config/profile.yaml",
                "backend: {type: bubblewrap, network: bridge, memory: 1GiB, labels: {a: b}}\n");
  fixture.write("project/ascope.yaml", "backend: {type: cloud, pids: 5}\n");
  auto profile = fixture.load();
  REQUIRE(profile.has_value());
  CHECK(profile->settings.network == "none");
  CHECK_FALSE(profile->settings.memory_bytes.has_value());
  CHECK(profile->settings.labels.empty());
  CHECK(profile->settings.pids == 5);
  fixture.write("project/ascope.yaml", "backend: {type: bubblewrap, pids: 5}\n");
  profile = fixture.load();
  CHECK(profile->settings.network == "bridge");
  CHECK(profile->settings.labels.at("a") == "b");
}

TEST_CASE("--set, flags and variables are as strict as files") {
  struct Row {
    const char* key;
    const char* text;
    const char* message;
    const char* hint;
  };
  // clang-format off
  constexpr Row kRows[] = {
      {"backend.netwrok", "x", "--set backend.netwrok: unknown key 'backend.netwrok'", "did you mean 'backend.network'?"},
      {"release", "never", "--set release: unknown value 'never' for 'release'", "known are: keep, stop, destroy"},
      {"idle_timeout", "5", "--set idle_timeout: 'idle_timeout': '5' is not a duration", nullptr},
      {"workspace.exclude", "a", "--set workspace.exclude:1:1: 'workspace.exclude' is text where a list is needed", nullptr},
      {"workspace.exclude", "*.o", "--set workspace.exclude:1:1: the referenced anchor is not defined", nullptr},
      {"backend", "{tpye: x}", "--set backend:1:2: unknown key 'tpye' in 'backend'", "did you mean 'type'?"},
  };
  // clang-format on
  for (const Row& row : kRows) {
    CAPTURE(row.key);
    ProfileFixture fixture;
    fixture.inputs.set = {{row.key, row.text}};
    const auto profile = fixture.load();
    REQUIRE_FALSE(profile.has_value());
    CHECK(profile.error().message == row.message);
    if (row.hint != nullptr) {
      CHECK(profile.error().hint == row.hint);
    }
  }
  ProfileFixture fixture;
  fixture.inputs.set = {
      {"workspace.exclude", "['*.o', b]"}, {"workspace.environment.A", "x: y"}, {"agent", "${X}: 1"},
      {"workspace.persist", "all"},        {"lock", "{ttl: 5s, wait: 0}"},      {"agent", "last"}};
  fixture.inputs.environment = {{"ASCOPE_WORKSPACE_EXCLUDE", "[c]"},
                                {"ASCOPE_BACKEND_NETWROK", "host"},
                                {"ASCOPE_LEASE", "t"},
                                {"ASCOPE_SESSION", "ra\nw\xff"}};
  const auto profile = fixture.load();
  REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
  CHECK(profile->exclude == std::vector<std::string>{"*.o", "b"});
  CHECK(profile->environment.at("A") == "x: y");
  CHECK(profile->ids.agent == "last");
  CHECK(profile->ids.session == "ra\nw\xff");
  CHECK(profile->lock_ttl == Millis(5000));
  CHECK(profile->lock_wait == Millis(0));
  CHECK(profile->warnings ==
        std::vector<std::string>{
            "ASCOPE_BACKEND_NETWROK is no setting and is ignored; did you mean ASCOPE_BACKEND_NETWORK?"});
  CHECK_FALSE(profile_yaml(*profile, true).empty());
}

TEST_CASE("places where a profile is looked for") {
  ProfileFixture fixture;
  std::filesystem::create_directories(fixture.root + "/project/a/b");
  fixture.inputs.cwd = fixture.root + "/project/a/b";
  SUBCASE("the nearest one") {
    fixture.write("project/ascope.yaml", "agent: far\n");
    CHECK(fixture.load()->ids.agent == "far");
    fixture.write("project/a/ascope.yaml", "agent: near\nworkspace: {projection: {source: src}}\n");
    const auto profile = fixture.load();
    CHECK(profile->ids.agent == "near");
    CHECK(profile->projection_source == fixture.root + "/project/a/src");
    CHECK(profile->values.at("agent").second.where == fixture.root + "/project/a/ascope.yaml:1:8");
    CHECK(find_project_profile(fixture.inputs.cwd).value() == fixture.root + "/project/a/ascope.yaml");
  }
  SUBCASE("a folder of that name") {
    std::filesystem::create_directory(fixture.root + "/project/ascope.yaml");
    CHECK(fixture.load().error().message == fixture.root + "/project/ascope.yaml: not a file");
  }
  SUBCASE("a pipe of that name does not block") {
    REQUIRE(::mkfifo((fixture.root + "/project/ascope.yaml").c_str(), 0600) == 0);
    CHECK(fixture.load().error().kind == ErrorKind::config);
  }
  SUBCASE("a named one that is not there") {
    fixture.inputs.profile_file = "none.yaml";
    CHECK(fixture.load().error().message == "none.yaml: there is no such profile");
  }
  SUBCASE("a named one instead of the nearest, over the user's") {
    fixture.write("config/profile.yaml", "agent: user\nuser: u\n");
    fixture.write("project/ascope.yaml", "session: s\n");
    fixture.write("project/a/b/n.yaml", "agent: named\n");
    fixture.inputs.profile_file = "n.yaml";
    const auto profile = fixture.load();
    CHECK(profile->ids.agent == "named");
    CHECK(profile->ids.user == "u");
    CHECK(profile->ids.session.empty());
  }
}

TEST_CASE("settings that differ have digests that differ") {
  const SandboxSettings base;
  std::set<std::string> digests{base.digest()};
  const auto differs = [&](auto change) {
    SandboxSettings other = base;
    change(other);
    return digests.insert(other.digest()).second;
  };
  CHECK(differs([](auto& s) { s.image = "i"; }));
  CHECK(differs([](auto& s) { s.rootfs = "/r"; }));
  CHECK(differs([](auto& s) { s.network = "host"; }));
  CHECK(differs([](auto& s) { s.memory_bytes = 1; }));
  CHECK(differs([](auto& s) { s.cpus = 1; }));
  CHECK(differs([](auto& s) { s.pids = 1; }));
  CHECK(differs([](auto& s) { s.user = "u"; }));
  CHECK(differs([](auto& s) { s.ports = {"1", "2"}; }));
  CHECK(differs([](auto& s) { s.ports = {"2", "1"}; }));
  CHECK(differs([](auto& s) { s.labels = {{"a", "b"}}; }));
  CHECK(differs([](auto& s) { s.options = {{"a", "b"}}; }));
  CHECK(differs([](auto& s) { s.read_only_root = true; }));
  CHECK(differs([](auto& s) { s.workspace_root = "/w"; }));
  CHECK(differs([](auto& s) { s.environment = {{"A", "1"}}; }));
  CHECK(differs([](auto& s) { s.mounts = {{"/h", "/w/d", false}}; }));
  CHECK(differs([](auto& s) { s.mounts = {{"/h", "/w/d", true}}; }));
  CHECK_FALSE(differs([](auto& s) { s.environment = {{"A", "2"}}; }));
  CHECK_FALSE(differs([](auto& s) { s.idle_timeout = Millis(1); }));
  CHECK_FALSE(differs([](auto& s) { s.allow_host_root = true; }));
}

TEST_CASE("exit codes of commands") {
  CHECK(ExecOutcome{ExecEnd::exited, 7}.exit_code() == 7);
  CHECK(ExecOutcome{ExecEnd::signaled, 0, 9}.exit_code() == 137);
  CHECK(ExecOutcome{ExecEnd::timed_out}.exit_code() == 124);
  CHECK(ExecOutcome{ExecEnd::not_found}.exit_code() == 127);
  CHECK(ExecOutcome{ExecEnd::not_executable}.exit_code() == 126);
  CHECK(ExecOutcome{ExecEnd::sandbox_ended}.exit_code() == 125);
}

TEST_CASE("loading without a file is quick") {
  const ProfileFixture fixture;
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 50; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    REQUIRE(fixture.load().has_value());
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begin);
  }
  MESSAGE("best load: ", std::chrono::duration<double, std::micro>(best).count(), " us");
  CHECK(best < std::chrono::milliseconds(2));  // measured far below; sanitizers and a busy machine have room
}
