// SPDX-License-Identifier: Apache-2.0
#include "core/engine/entries.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/base/process.h"
#include "fakes/fake_toolbox.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

namespace {

struct Scene {
  Scene() {
    std::string name = "/tmp/ascope-entries-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root = name;
    profile.workspace_root = "/workspace";
  }
  ~Scene() { fs::remove_all(root); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  WorkspaceEntry& add(const std::string& path, EntryKind kind, const std::string& value = "") {
    WorkspaceEntry entry;
    entry.path = path;
    entry.kind = kind;
    (kind == EntryKind::file       ? entry.content
     : kind == EntryKind::git_repo ? entry.url
                                   : entry.source) = value;
    profile.entries.push_back(entry);
    return profile.entries.back();
  }
  void host(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    const std::string path = root + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  }
  Json apply(EntryPass pass) {
    auto done = apply_entries(OpContext{}, profile, root + "/cache", pass, digests, box);
    REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().message));
    return *done;
  }
  std::string action(EntryPass pass, const std::string& path) {
    for (const auto& row : apply(pass)) {
      if (row["path"] == path) {
        return row["action"].get<std::string>();
      }
    }
    return "none";
  }
  [[nodiscard]] std::string at(const std::string& path) const { return box.content("/workspace/" + path); }

  std::string root;
  Profile profile;
  Json digests = Json::object();
  FakeToolbox box;
};

}  // namespace

TEST_CASE("a new workspace gets every entry, with modes and parents") {
  Scene scene;
  scene.host("tool.bin", "tool", 0755);
  scene.host("assets/a/deep", "deep");
  fs::create_symlink("a/deep", scene.root + "/assets/link");
  scene.add("README.md", EntryKind::file, "hello\n");
  scene.add("src/run.cfg", EntryKind::file, "debug=1\n").mode = 0600;
  scene.add("empty", EntryKind::dir);
  scene.add("tool.bin", EntryKind::local_file, scene.root + "/tool.bin");
  scene.add("assets", EntryKind::local_dir, scene.root + "/assets");
  scene.add("data", EntryKind::bind_mount, scene.root);
  const Json actions = scene.apply(EntryPass::all);
  CHECK(actions.size() == 5);
  CHECK(scene.at("README.md") == "hello\n");
  CHECK(scene.at("src/run.cfg") == "debug=1\n");
  CHECK(scene.box.nodes().at("/workspace/src/run.cfg").entry.mode == 0600);
  CHECK(scene.box.nodes().at("/workspace/empty").entry.type == EntryType::directory);
  CHECK(scene.box.nodes().at("/workspace/tool.bin").entry.mode == 0755);
  CHECK(scene.at("assets/a/deep") == "deep");
  CHECK(scene.box.nodes().at("/workspace/assets/link").entry.link_target == "a/deep");
  CHECK_FALSE(scene.box.has("/workspace/data"));
  CHECK(excluded_entry_paths(scene.profile) == std::vector<std::string>{"data"});
  CHECK(scene.digests.size() == 5);
}

TEST_CASE("written once, renewed when declared anew, the agent's work wins") {
  // before: what the agent did since the entry was written; declared: its content now.
  struct Row {
    const char* name;
    EntryPass pass;
    bool ephemeral;
    const char* agent;  // "" = nothing, "-" = removed
    const char* declared;
    const char* action;
    const char* after;
  };
  const Row rows[] = {
      {"warm, nothing new", EntryPass::ephemeral, false, "", "one", "unchanged", "one"},
      {"warm, agent edited", EntryPass::ephemeral, false, "mine", "one", "unchanged", "mine"},
      {"warm, agent removed", EntryPass::ephemeral, false, "-", "one", "unchanged", "<missing>"},
      {"warm, declared anew", EntryPass::ephemeral, false, "", "two", "written", "two"},
      {"warm, declared anew, edited", EntryPass::ephemeral, false, "mine", "two", "kept", "mine"},
      {"warm, declared anew, removed", EntryPass::ephemeral, false, "-", "two", "kept", "<missing>"},
      {"restored, nothing new", EntryPass::missing, false, "", "one", "unchanged", "one"},
      {"restored, edited", EntryPass::missing, false, "mine", "one", "unchanged", "mine"},
      {"restored, not in the snapshot", EntryPass::missing, false, "-", "one", "written", "one"},
      {"restored, declared anew", EntryPass::missing, false, "", "two", "written", "two"},
      {"restored, declared anew, edited", EntryPass::missing, false, "mine", "two", "kept", "mine"},
      {"ephemeral, warm, edited", EntryPass::ephemeral, true, "mine", "one", "written", "one"},
      {"ephemeral, restored, removed", EntryPass::missing, true, "-", "one", "written", "one"},
      {"new workspace", EntryPass::all, false, "-", "one", "written", "one"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Scene scene;
    scene.add("f", EntryKind::file, "one").ephemeral = row.ephemeral;
    scene.apply(EntryPass::all);
    if (row.agent[0] == '-') {
      scene.box.remove("/workspace/f");
    } else if (row.agent[0] != '\0') {
      scene.box.write("/workspace/f", row.agent);
    }
    scene.profile.entries[0].content = row.declared;
    CHECK(scene.action(row.pass, "f") == row.action);
    CHECK(scene.at("f") == row.after);
    CHECK_FALSE(scene.box.has("/workspace/f.agent"));
  }
}

TEST_CASE("an entry that is new to a workspace with work in it") {
  Scene scene;
  scene.box.write("/workspace/mine", "agent's");
  scene.box.write("/workspace/same", "declared");
  scene.add("mine", EntryKind::file, "declared");
  scene.add("same", EntryKind::file, "declared");
  scene.add("fresh", EntryKind::file, "declared");
  scene.apply(EntryPass::ephemeral);
  CHECK(scene.at("mine") == "agent's");
  CHECK(scene.at("fresh") == "declared");
  for (auto& entry : scene.profile.entries) {
    entry.content = "declared anew";
  }
  CHECK(scene.action(EntryPass::ephemeral, "mine") == "kept");
  CHECK(scene.at("mine") == "agent's");
  CHECK(scene.at("same") == "declared anew");
  CHECK(scene.at("fresh") == "declared anew");
}

TEST_CASE("a local_dir that changed replaces what we wrote, whole, unless the agent worked in it") {
  for (const bool edited : {false, true}) {
    CAPTURE(edited);
    Scene scene;
    scene.host("assets/old/file", "1");
    scene.host("assets/same", "2");
    scene.host("assets/kind", "3");
    scene.add("assets", EntryKind::local_dir, scene.root + "/assets");
    scene.add("assets/own.cfg", EntryKind::file, "cfg");
    scene.apply(EntryPass::all);
    fs::remove_all(scene.root + "/assets/old");
    fs::remove(scene.root + "/assets/kind");
    scene.host("assets/kind/inner", "4");
    if (edited) {
      scene.box.write("/workspace/assets/work", "agent");
    }
    CHECK(scene.action(EntryPass::ephemeral, "assets") == (edited ? "kept" : "written"));
    CHECK(scene.box.has("/workspace/assets/old/file") == edited);
    CHECK(scene.box.has("/workspace/assets/old") == edited);
    CHECK(scene.at("assets/kind/inner") == (edited ? "<missing>" : "4"));
    CHECK(scene.at("assets/own.cfg") == "cfg");
    CHECK_FALSE(scene.box.has("/workspace/assets/kind.agent"));
  }
}

TEST_CASE("what the agent put in the way moves aside") {
  Scene scene;
  scene.add("cfg/run", EntryKind::file, "declared").ephemeral = true;
  scene.add("notes", EntryKind::file, "declared").ephemeral = true;
  scene.box.make_folder("/etc");
  scene.box.make_link("/workspace/cfg", "/etc");
  scene.box.write("/workspace/notes/deep", "agent");
  scene.box.write("/workspace/notes.agent", "older");
  scene.apply(EntryPass::ephemeral);
  CHECK(scene.at("cfg/run") == "declared");
  CHECK_FALSE(scene.box.has("/etc/run"));
  CHECK(scene.box.nodes().at("/workspace/cfg.agent").entry.link_target == "/etc");
  CHECK(scene.at("notes") == "declared");
  CHECK(scene.at("notes.agent") == "older");
  CHECK(scene.at("notes.agent.2/deep") == "agent");
}

TEST_CASE("missing sources and bad places are errors of the profile before anything is written") {
  struct Row {
    const char* name;
    std::function<void(Scene&)> declare;
  };
  const Row rows[] = {
      {"file missing", [](Scene& s) { s.add("x", EntryKind::local_file, s.root + "/none"); }},
      {"folder as file", [](Scene& s) { s.add("x", EntryKind::local_file, s.root); }},
      {"folder missing", [](Scene& s) { s.add("x", EntryKind::local_dir, s.root + "/none"); }},
      {"file as folder",
       [](Scene& s) {
         s.host("f", "1");
         s.add("x", EntryKind::local_dir, s.root + "/f");
       }},
      {"below a mount",
       [](Scene& s) {
         s.add("data", EntryKind::bind_mount, s.root);
         s.add("data/x", EntryKind::file, "1");
       }},
      {"bad URL", [](Scene& s) { s.add("x", EntryKind::git_repo, "--upload-pack=touch /tmp/x"); }},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Scene scene;
    scene.add("first", EntryKind::file, "1");
    row.declare(scene);
    const auto done = apply_entries(OpContext{}, scene.profile, scene.root + "/cache", EntryPass::all,
                                    scene.digests, scene.box);
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().kind == ErrorKind::config);
    CHECK(scene.box.applies == 0);
    CHECK(scene.digests.empty());
  }
  Scene scene;
  scene.add("../escape", EntryKind::file, "1");
  CHECK_FALSE(apply_entries(OpContext{}, scene.profile, scene.root + "/cache", EntryPass::all, scene.digests,
                            scene.box)
                  .has_value());
  CHECK(scene.box.applies == 0);
}

TEST_CASE("a git_repo arrives as a clone; a new ref replaces it unless the agent worked in it") {
  for (const bool edited : {false, true}) {
    CAPTURE(edited);
    Scene scene;
    const auto git = [&](std::vector<std::string> args) {
      ProgramCall call;
      call.argv = {
          "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"};
      call.argv.insert(call.argv.end(), args.begin(), args.end());
      call.cwd = scene.root + "/repo";
      REQUIRE(run_program(OpContext{}, call)->succeeded());
    };
    scene.host("repo/run.sh", "#!/bin/sh\n", 0755);
    scene.host("repo/gone", "1");
    git({"init", "-q"});
    git({"add", "-A"});
    git({"commit", "-q", "-m", "one"});
    git({"tag", "v1"});
    fs::remove(scene.root + "/repo/gone");
    git({"add", "-A"});
    git({"commit", "-q", "-m", "two"});
    git({"tag", "v2"});
    scene.add("lib", EntryKind::git_repo, "file://" + scene.root + "/repo").ref = "v1";
    CHECK(scene.action(EntryPass::all, "lib") == "written");
    CHECK(scene.box.nodes().at("/workspace/lib/run.sh").entry.mode == 0755);
    CHECK(scene.at("lib/gone") == "1");
    CHECK(scene.box.has("/workspace/lib/.git/HEAD"));
    CHECK(scene.action(EntryPass::ephemeral, "lib") == "unchanged");
    scene.box.write("/workspace/lib/.git/index", "rewritten by git status");
    if (edited) {
      scene.box.write("/workspace/lib/.git/refs/heads/work", "commit of the agent");
    }
    scene.profile.entries[0].ref = "v2";
    CHECK(scene.action(EntryPass::ephemeral, "lib") == (edited ? "kept" : "written"));
    CHECK(scene.box.has("/workspace/lib/gone") == edited);
    CHECK(fs::is_empty(scene.root + "/cache/git") == false);
    for (const auto& item : fs::directory_iterator(scene.root + "/cache/git")) {
      CHECK_FALSE(item.path().filename().string().starts_with("entry-"));
    }
  }
}

TEST_CASE("entries that are not declared any more are forgotten, their files stay") {
  Scene scene;
  scene.add("f", EntryKind::file, "one");
  scene.apply(EntryPass::all);
  scene.profile.entries.clear();
  scene.apply(EntryPass::ephemeral);
  CHECK(scene.at("f") == "one");
  CHECK(scene.digests.empty());
}

TEST_CASE("the manifest is AgentScope's, secrets left out") {
  Scene scene;
  scene.add("README.md", EntryKind::file, "hello\n");
  scene.add("src", EntryKind::dir);
  scene.add("src/run.cfg", EntryKind::file, "debug=1\n").ephemeral = true;
  scene.add("tool.bin", EntryKind::local_file, "/opt/tools/tool.bin");
  scene.add("assets", EntryKind::local_dir, "/opt/assets");
  scene.add("assets/extra", EntryKind::file, "\xff");
  scene.add("lib", EntryKind::git_repo, "https://u:p@git.example.com/o/lib.git");
  scene.add("data", EntryKind::bind_mount, "/srv/data").read_only = true;
  scene.profile.projection_source = "/app/workspace";
  scene.profile.projection_include = {"AGENTS.md", "skills"};
  scene.profile.environment = {{"LANG", "C.UTF-8"}, {"TOKEN", "s3cret"}};
  scene.profile.secret_environment = {"TOKEN"};
  CHECK(
      dump_json(manifest_document(scene.profile)) ==
      R"({"root":"/workspace","entries":{"README.md":{"type":"file","ephemeral":false,"content":"hello\n",)"
      R"("encoding":"UTF-8"},"src":{"type":"dir","ephemeral":false,"children":{"run.cfg":{"type":"file",)"
      R"("ephemeral":true,"content":"debug=1\n","encoding":"UTF-8"}}},"tool.bin":{"type":"local_file",)"
      R"("ephemeral":false,"sourcePath":"/opt/tools/tool.bin"},"assets":{"type":"local_dir","ephemeral":false,)"
      R"("sourcePath":"/opt/assets"},"assets/extra":{"type":"file","ephemeral":false,"content":"ÿ",)"
      R"("encoding":"ISO-8859-1"},"lib":{"type":"git_repo","ephemeral":false,)"
      R"("url":"https://git.example.com/o/lib.git","ref":"HEAD"},"data":{"type":"bind_mount","ephemeral":false,)"
      R"("hostPath":"/srv/data","readOnly":true},"__workspace_projection__":{"type":"workspace_projection",)"
      R"("ephemeral":false,"sourceRoot":"/app/workspace","includeRoots":["AGENTS.md","skills"]}},)"
      R"("environment":{"LANG":"C.UTF-8"}})");
}
