// SPDX-License-Identifier: Apache-2.0
#include "core/projection/projection.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/projection/host_tree.h"
#include "fakes/fake_toolbox.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = "/tmp/ascope-projection-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    const std::string file = path + "/" + name;
    fs::create_directories(fs::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << content;
    REQUIRE(::chmod(file.c_str(), mode) == 0);
  }
  void link(const std::string& name, const std::string& target) const {
    fs::create_directories(fs::path(path + "/" + name).parent_path());
    REQUIRE(::symlink(target.c_str(), (path + "/" + name).c_str()) == 0);
  }
  void remove(const std::string& name) const { fs::remove_all(path + "/" + name); }
  std::string path;
};

// A host folder, a workspace and what was last projected.
struct Scene {
  Folder host;
  Folder cache;
  FakeToolbox box;
  ProjectionManifest last;
  ProjectionRequest request;

  Scene() {
    request.source = host.path;
    request.include = {"AGENTS.md", "skills", "subagents", "knowledge"};
    request.workspace_root = "/workspace";
    request.stat_cache = cache.path + "/projection.json";
  }
  ProjectionPlan plan() {
    auto planned = plan_projection(OpContext{}, request, last, box);
    REQUIRE_MESSAGE(planned.has_value(), (planned ? "" : planned.error().message));
    return *planned;
  }
  ProjectionPlan project() {
    ProjectionPlan done = plan();
    auto applied = apply_projection(OpContext{}, request, done, box);
    REQUIRE_MESSAGE(applied.has_value(), (applied ? "" : applied.error().message));
    last = done.next;
    return done;
  }
  [[nodiscard]] std::string at(const std::string& path) const { return box.content("/workspace/" + path); }
};

const ProjectionStep* step_at(const ProjectionPlan& plan, const std::string& path) {
  for (const auto& step : plan.steps) {
    if (step.path == path) {
      return &step;
    }
  }
  return nullptr;
}

std::string action_at(const ProjectionPlan& plan, const std::string& path) {
  const ProjectionStep* step = step_at(plan, path);
  return step == nullptr ? "none" : std::string(to_string(step->action));
}

}  // namespace

TEST_CASE("the hash is AgentScope's") {
  Scene scene;
  CHECK(scene.plan().source_hash == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  scene.host.write("AGENTS.md", "# A\n");
  scene.host.write("skills/a.sh", "#!/bin/sh\n", 0755);
  CHECK(scene.plan().source_hash == "7b6c2f3ee4bfde891964685ee815c037070621d0e4d8ac579e4eb8ad7ae08bda");
  CHECK(scene.plan().source_hash == "7b6c2f3ee4bfde891964685ee815c037070621d0e4d8ac579e4eb8ad7ae08bda");
}

TEST_CASE("paths sort as Java sorts strings") {
  CHECK(utf16_less("a", "b"));
  CHECK(utf16_less("a", "ab"));
  CHECK_FALSE(utf16_less("a", "a"));
  // U+1F600 is D83D DE00 in UTF-16 and so comes before U+FF21, though its UTF-8 bytes come after.
  CHECK(utf16_less("\xF0\x9F\x98\x80", "\xEF\xBC\xA1"));
  CHECK_FALSE(utf16_less("\xEF\xBC\xA1", "\xF0\x9F\x98\x80"));
  CHECK(utf16_less("\x41\xff", "\x42"));
}

TEST_CASE("three-way: every case") {
  // h, l, w: content on the host, as last projected, in the workspace; "" = not there; "x" in front of a
  // content = executable.
  struct Row {
    const char* name;
    const char *h, *l, *w;
    const char* action[2];  // on_conflict host, agent
    const char* after[2];
    const char* aside[2];
  };
  const Row rows[] = {
      {"nothing anywhere", "", "", "", {"none", "none"}, {"", ""}, {"", ""}},
      {"new on the host", "1", "", "", {"copy", "copy"}, {"1", "1"}, {"", ""}},
      {"same everywhere", "1", "1", "1", {"keep", "keep"}, {"1", "1"}, {"", ""}},
      {"both came to the same", "2", "1", "2", {"keep", "keep"}, {"2", "2"}, {"", ""}},
      {"first time, already there", "1", "", "1", {"keep", "keep"}, {"1", "1"}, {"", ""}},
      {"changed on the host alone", "2", "1", "1", {"copy", "copy"}, {"2", "2"}, {"", ""}},
      {"changed by the agent alone", "1", "1", "3", {"keep", "keep"}, {"3", "3"}, {"", ""}},
      {"changed by both", "2", "1", "3", {"replace_conflict", "keep_conflict"}, {"2", "3"}, {"3", ""}},
      {"first time, another there",
       "1",
       "",
       "3",
       {"replace_conflict", "keep_conflict"},
       {"1", "3"},
       {"3", ""}},
      {"deleted by the agent", "1", "1", "", {"copy", "copy"}, {"1", "1"}, {"", ""}},
      {"deleted by the agent, changed", "2", "1", "", {"copy", "copy"}, {"2", "2"}, {"", ""}},
      {"gone from the host", "", "1", "1", {"remove", "remove"}, {"", ""}, {"", ""}},
      {"gone, edited by the agent", "", "1", "3", {"keep_removed", "keep_removed"}, {"3", "3"}, {"", ""}},
      {"gone on both sides", "", "1", "", {"none", "none"}, {"", ""}, {"", ""}},
      {"the agent's own file", "", "", "3", {"none", "none"}, {"3", "3"}, {"", ""}},
      {"made executable on the host", "x1", "1", "1", {"copy", "copy"}, {"x1", "x1"}, {"", ""}},
      {"made executable by the agent", "1", "1", "x1", {"keep", "keep"}, {"x1", "x1"}, {"", ""}},
      {"gone, made executable by the agent",
       "",
       "1",
       "x1",
       {"keep_removed", "keep_removed"},
       {"x1", "x1"},
       {"", ""}},
  };
  const auto content = [](const char* text) { return std::string(text[0] == 'x' ? text + 1 : text); };
  const auto mode = [](const char* text) { return text[0] == 'x' ? 0755U : 0644U; };
  for (const auto& row : rows) {
    for (const std::size_t side : {0U, 1U}) {
      CAPTURE(row.name);
      CAPTURE(side);
      Scene scene;
      scene.request.on_conflict = side == 0 ? "host" : "agent";
      if (*row.l != '\0') {
        scene.host.write("skills/f", content(row.l), mode(row.l));
        scene.project();
        scene.host.remove("skills");
        scene.box.remove("/workspace/skills");
      }
      if (*row.h != '\0') {
        scene.host.write("skills/f", content(row.h), mode(row.h));
      }
      if (*row.w != '\0') {
        scene.box.write("/workspace/skills/f", content(row.w), mode(row.w));
      }
      const ProjectionPlan plan = scene.project();
      CHECK(action_at(plan, "skills/f") == row.action[side]);
      CHECK(scene.at("skills/f") == (*row.after[side] == '\0' ? "<missing>" : content(row.after[side])));
      if (*row.after[side] != '\0') {
        CHECK(scene.box.nodes().at("/workspace/skills/f").entry.mode == mode(row.after[side]));
      }
      CHECK(scene.at("skills/f.agent") == (*row.aside[side] == '\0' ? "<missing>" : row.aside[side]));
      CHECK(scene.last.contains("skills/f") == (*row.h != '\0'));
      // What was decided is decided: the same again changes nothing and names no conflict.
      const ProjectionPlan again = scene.plan();
      CHECK_FALSE(again.changes());
      CHECK(again.summary()["conflicts"].empty());
    }
  }
}

TEST_CASE("an emptied folder of ours goes, one with the agent's work stays") {
  Scene scene;
  scene.host.write("skills/a/one", "1");
  scene.host.write("skills/b/two", "2");
  scene.host.write("AGENTS.md", "x");
  scene.project();
  scene.box.write("/workspace/skills/b/mine", "agent");
  scene.host.remove("skills");
  scene.project();
  CHECK_FALSE(scene.box.has("/workspace/skills/a"));
  CHECK_FALSE(scene.box.has("/workspace/skills/b/two"));
  CHECK(scene.at("skills/b/mine") == "agent");
  CHECK(scene.at("AGENTS.md") == "x");
}

TEST_CASE("the agent's copies are numbered, never overwritten") {
  Scene scene;
  for (int i = 1; i <= 3; ++i) {
    scene.host.write("AGENTS.md", "host" + std::to_string(i));
    scene.box.write("/workspace/AGENTS.md", "agent" + std::to_string(i));
    scene.project();
  }
  CHECK(scene.at("AGENTS.md") == "host3");
  CHECK(scene.at("AGENTS.md.agent") == "agent1");
  CHECK(scene.at("AGENTS.md.agent.2") == "agent2");
  CHECK(scene.at("AGENTS.md.agent.3") == "agent3");
  const std::string longest(255, 'n');
  scene.host.write("skills/" + longest, "h");
  scene.box.write("/workspace/skills/" + longest, "a");
  const ProjectionPlan plan = scene.project();
  CHECK(scene.at("skills/" + std::string(249, 'n') + ".agent") == "a");
  CHECK(plan.summary()["conflicts"].size() == 1);
}

TEST_CASE("a file becomes a folder on the host and back") {
  Scene scene;
  scene.host.write("skills/x", "file");
  scene.project();
  scene.host.remove("skills/x");
  scene.host.write("skills/x/inner", "deep");
  scene.project();
  CHECK(scene.at("skills/x/inner") == "deep");
  CHECK_FALSE(scene.box.has("/workspace/skills/x.agent"));
  scene.host.remove("skills/x");
  scene.host.write("skills/x", "file again");
  scene.project();
  CHECK(scene.at("skills/x") == "file again");
  CHECK_FALSE(scene.box.has("/workspace/skills/x.agent"));
}

TEST_CASE("what the agent put in the way is moved aside, not replaced") {
  Scene scene;
  scene.host.write("skills/tool/run", "host");
  scene.host.write("AGENTS.md", "host");
  SUBCASE("a file where a folder comes") {
    scene.box.write("/workspace/skills", "notes of the agent");
    scene.project();
    CHECK(scene.at("skills/tool/run") == "host");
    CHECK(scene.at("skills.agent") == "notes of the agent");
  }
  SUBCASE("a link where a folder comes") {
    scene.box.make_folder("/etc");
    scene.box.make_link("/workspace/skills", "/etc");
    scene.project();
    CHECK(scene.at("skills/tool/run") == "host");
    CHECK_FALSE(scene.box.has("/etc/tool"));
    CHECK(scene.box.nodes().at("/workspace/skills.agent").entry.link_target == "/etc");
  }
  SUBCASE("a folder where a file comes") {
    scene.box.write("/workspace/AGENTS.md/deep/work", "agent");
    scene.project();
    CHECK(scene.at("AGENTS.md") == "host");
    CHECK(scene.at("AGENTS.md.agent/deep/work") == "agent");
  }
  SUBCASE("on_conflict: agent leaves it") {
    scene.request.on_conflict = "agent";
    scene.box.write("/workspace/skills", "notes of the agent");
    const ProjectionPlan plan = scene.project();
    CHECK(action_at(plan, "skills/tool/run") == "keep_conflict");
    CHECK(scene.at("skills") == "notes of the agent");
    CHECK(scene.at("AGENTS.md") == "host");
  }
  CHECK_FALSE(scene.plan().changes());
}

TEST_CASE("links: those that stay inside are copied as content, all others refused and named") {
  Folder outside;
  outside.write("secret", "host secret");
  Scene scene;
  scene.host.write("knowledge/real", "content");
  scene.host.link("skills/inside", "../knowledge/real");
  scene.host.link("skills/chain", "inside");
  scene.host.link("skills/out-relative", "../../" + fs::path(outside.path).filename().string() + "/secret");
  scene.host.link("skills/out-absolute", outside.path + "/secret");
  scene.host.link("skills/absolute-inside", scene.host.path + "/knowledge/real");
  scene.host.link("skills/hop", outside.path);
  scene.host.link("skills/out-chain", "hop/secret");
  scene.host.link("skills/dangling", "nowhere");
  scene.host.link("skills/circle", "circle");
  scene.host.link("skills/folder", "../knowledge");
  scene.host.link("subagents", "knowledge");
  REQUIRE(::mkfifo((scene.host.path + "/skills/pipe").c_str(), 0644) == 0);
  const ProjectionPlan plan = scene.project();
  CHECK(scene.at("skills/inside") == "content");
  CHECK(scene.at("skills/chain") == "content");
  std::map<std::string, std::string> refused;
  for (const auto& step : plan.steps) {
    if (step.action == ProjectionAction::refuse) {
      refused[step.path] = step.reason;
    }
  }
  const std::map<std::string, std::string> expected{
      {"skills/out-relative", "a link that leaves the source"},
      {"skills/out-absolute", "a link that leaves the source"},
      {"skills/absolute-inside", "a link that leaves the source"},
      {"skills/hop", "a link that leaves the source"},
      {"skills/out-chain", "a link that leaves the source"},
      {"skills/dangling", "a link to nothing"},
      {"skills/circle", "a link that leads in a circle"},
      {"skills/folder", "a link to a folder"},
      {"subagents", "a link to a folder"},
      {"skills/pipe", "a special file"}};
  CHECK(refused == expected);
  for (const auto& [path, node] : scene.box.nodes()) {
    CHECK(node.content.find("secret") == std::string::npos);
  }
  CHECK(plan.summary()["refused"].size() == expected.size());
}

TEST_CASE("an unchanged tree is neither read nor written again") {
  Scene scene;
  for (int i = 0; i < 50; ++i) {
    scene.host.write("skills/" + std::to_string(i), "content " + std::to_string(i));
    // Long ago, as the cache keeps only what has settled.
    const timespec old[2] = {{1'000'000, 0}, {1'000'000, 0}};
    REQUIRE(::utimensat(AT_FDCWD, (scene.host.path + "/skills/" + std::to_string(i)).c_str(), old, 0) == 0);
  }
  scene.project();
  scene.plan();
  scene.box.content_reads = 0;
  const std::uint64_t applies = scene.box.applies;
  const ProjectionPlan plan = scene.project();
  CHECK_FALSE(plan.changes());
  CHECK(scene.box.content_reads == 0);
  CHECK(scene.box.applies == applies);
  CHECK(plan.steps.size() == 50);
}

TEST_CASE("a file of the same size and time, touched just now, is read again") {
  Scene scene;
  scene.host.write("AGENTS.md", "one");
  scene.project();
  const std::string file = scene.host.path + "/AGENTS.md";
  struct stat before{};
  REQUIRE(::stat(file.c_str(), &before) == 0);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << "two";
  const timespec times[2] = {before.st_atim, before.st_mtim};
  REQUIRE(::utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
  scene.project();
  CHECK(scene.at("AGENTS.md") == "two");
}

TEST_CASE("a damaged stat cache costs time only") {
  Scene scene;
  scene.host.write("AGENTS.md", "one");
  scene.project();
  for (const char* text :
       {"", "{", "[]", "{\"schema\":\"ascope.stat-cache/1\"}",
        "{\"schema\":\"ascope.stat-cache/1\",\"host\":[[1]],\"workspace\":[],\"source\":{}}"}) {
    std::ofstream(scene.request.stat_cache, std::ios::trunc) << text;
    CHECK_FALSE(scene.plan().changes());
  }
}

TEST_CASE("only the folders concerned are looked at, and huge files of the agent are not read") {
  Scene scene;
  scene.host.write("AGENTS.md", "short");
  scene.box.write("/workspace/AGENTS.md", std::string(100'000, 'z'));
  scene.box.write("/workspace/huge/data", "…");
  const ProjectionPlan plan = scene.plan();
  CHECK(action_at(plan, "AGENTS.md") == "replace_conflict");
  CHECK(scene.box.content_reads == 0);
  for (const auto& root : scene.box.roots_read) {
    CHECK(root.starts_with("/workspace/AGENTS.md"));
  }
}

TEST_CASE("names are bytes") {
  Scene scene;
  const std::string names[] = {"skills/-rf",         "skills/new\nline", "skills/\xFF\xFE",
                               "skills/ blank ",     "skills/\xC3\xA4",  "skills/back\\slash",
                               "skills/base64:AAAA", "skills/..."};
  for (const auto& name : names) {
    scene.host.write(name, name);
  }
  scene.project();
  for (const auto& name : names) {
    CHECK(scene.at(name) == name);
  }
  const std::string stored = dump_json(manifest_json(scene.last));
  CHECK(parse_manifest(parse_json(stored).value()).value() == scene.last);
  CHECK_FALSE(scene.plan().changes());
}

TEST_CASE("manifests of others are checked") {
  CHECK(parse_manifest(Json::object()).value().empty());
  CHECK(parse_manifest(Json(nullptr)).value().empty());
  for (const char* text : {"[]", "{\"a\":1}", R"({"files":[{"path":"../x","mode":1,"size":1,"sha256":""}]})",
                           R"({"files":[{"path":"x","size":1,"sha256":""}]})", R"({"files":[1]})"}) {
    CHECK_FALSE(parse_manifest(parse_json(text).value()).has_value());
  }
}

TEST_CASE("sources and includes") {
  Scene scene;
  SUBCASE("a source that does not exist is an error of the profile") {
    scene.request.source = "/nonexistent/ascope";
    const auto plan = plan_projection(OpContext{}, scene.request, {}, scene.box);
    REQUIRE_FALSE(plan.has_value());
    CHECK(plan.error().kind == ErrorKind::config);
  }
  SUBCASE("a store as source") {
    scene.request.source = "s3://bucket/prefix";
    const auto plan = plan_projection(OpContext{}, scene.request, {}, scene.box);
    REQUIRE_FALSE(plan.has_value());
    CHECK(plan.error().kind == ErrorKind::unsupported);
  }
  SUBCASE("includes that leave the source") {
    for (const char* include : {"..", "../x", "a/../../x", "/etc"}) {
      scene.request.include = {include};
      const auto plan = plan_projection(OpContext{}, scene.request, {}, scene.box);
      REQUIRE_FALSE(plan.has_value());
      CHECK(plan.error().kind == ErrorKind::config);
    }
  }
  SUBCASE("missing, blank and nested includes") {
    scene.request.include = {"missing", "", " ", "docs/guide", "./top.md"};
    scene.host.write("docs/guide/a", "1");
    scene.host.write("docs/other", "2");
    scene.host.write("top.md", "3");
    scene.project();
    CHECK(scene.at("docs/guide/a") == "1");
    CHECK(scene.at("top.md") == "3");
    CHECK_FALSE(scene.box.has("/workspace/docs/other"));
  }
  SUBCASE("everything, without names of ours") {
    scene.request.include = {"."};
    scene.host.write("a/b", "1");
    scene.host.write(".ascope-restore", "mark");
    const ProjectionPlan plan = scene.project();
    CHECK(scene.at("a/b") == "1");
    CHECK(action_at(plan, ".ascope-restore") == "refuse");
  }
  SUBCASE("an include behind a link") {
    scene.host.write("real/sub/f", "1");
    scene.host.link("way", "real");
    scene.request.include = {"way/sub"};
    CHECK(action_at(scene.project(), "way/sub") == "refuse");
  }
}

TEST_CASE("skills are projected whatever the includes say, over the source's own") {
  Scene scene;
  Folder skills;
  skills.write("team/pdf/SKILL.md", "# pdf");
  skills.write("team/pdf/run.sh", "#!/bin/sh\n", 0755);
  scene.request.skills_cache = skills.path;
  scene.request.include = {"AGENTS.md"};
  scene.project();
  CHECK(scene.at(".skills-cache/team/pdf/SKILL.md") == "# pdf");
  CHECK(scene.box.nodes().at("/workspace/.skills-cache/team/pdf/run.sh").entry.mode == 0755);
  skills.remove("team/pdf");
  scene.request.source = "";
  scene.project();
  CHECK_FALSE(scene.box.has("/workspace/.skills-cache"));
}

TEST_CASE("mount points are left alone") {
  Scene scene;
  scene.host.write("skills/data/f", "1");
  scene.host.write("skills/other", "2");
  scene.request.excluded = {"skills/data"};
  const ProjectionPlan plan = scene.project();
  CHECK(action_at(plan, "skills/data/f") == "refuse");
  CHECK_FALSE(scene.box.has("/workspace/skills/data/f"));
  CHECK(scene.at("skills/other") == "2");
}

TEST_CASE("a host file that changes between plan and deed is not half copied") {
  Scene scene;
  scene.host.write("AGENTS.md", "planned");
  const ProjectionPlan plan = scene.plan();
  scene.host.write("AGENTS.md", "changed");
  const auto applied = apply_projection(OpContext{}, scene.request, plan, scene.box);
  REQUIRE_FALSE(applied.has_value());
  CHECK(applied.error().kind == ErrorKind::conflict);
  CHECK_FALSE(scene.box.has("/workspace/AGENTS.md"));
  scene.project();
  CHECK(scene.at("AGENTS.md") == "changed");
}

TEST_CASE("a .git file that names a folder outside brings a note") {
  Scene scene;
  scene.host.write("skills/sub/.git", "gitdir: ../../../elsewhere/.git/modules/sub\n");
  scene.host.write("skills/in/.git", "gitdir: ../../knowledge/git\n");
  const ProjectionPlan plan = scene.project();
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes[0].path == "skills/sub/.git");
  CHECK(scene.box.has("/workspace/skills/sub/.git"));
}

TEST_CASE("large files are streamed whole") {
  Scene scene;
  std::string content(9U << 20U, 'a');
  content += "end";
  scene.host.write("knowledge/large", content);
  scene.project();
  CHECK(scene.at("knowledge/large") == content);
  CHECK_FALSE(scene.plan().changes());
}
