// SPDX-License-Identifier: Apache-2.0
#include "core/projection/skills.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/base/process.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

namespace {

class Scene {
 public:
  Scene() {
    std::string name = "/tmp/ascope-skills-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root = name;
    cache = root + "/cache";
  }
  ~Scene() { fs::remove_all(root); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  void write(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    const std::string path = root + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  }
  void git(const std::string& repository, std::vector<std::string> args) const {
    ProgramCall call;
    call.argv = {"git",
                 "-c",
                 "user.name=t",
                 "-c",
                 "user.email=t@example.com",
                 "-c",
                 "init.defaultBranch=main",
                 "-c",
                 "protocol.file.allow=always"};
    call.argv.insert(call.argv.end(), args.begin(), args.end());
    call.cwd = root + "/" + repository;
    call.set_env = {{"GIT_CONFIG_GLOBAL", "/dev/null"}, {"GIT_CONFIG_NOSYSTEM", "1"}};
    const auto outcome = run_program(OpContext{}, call);
    REQUIRE_MESSAGE(outcome.has_value(), (outcome ? "" : outcome.error().message));
    REQUIRE_MESSAGE(outcome->succeeded(), outcome->err);
  }
  void commit(const std::string& repository) const {
    if (!fs::exists(root + "/" + repository + "/.git")) {
      git(repository, {"init", "-q"});
    }
    git(repository, {"add", "-A"});
    git(repository, {"commit", "-q", "--allow-empty", "-m", "c"});
  }
  [[nodiscard]] std::string url(const std::string& repository) const {
    return "file://" + root + "/" + repository;
  }
  [[nodiscard]] StagedSkills stage(const std::vector<SkillSource>& sources) const {
    auto staged = stage_skills(OpContext{}, sources, cache);
    REQUIRE_MESSAGE(staged.has_value(), (staged ? "" : staged.error().message));
    return *staged;
  }
  std::string root, cache;
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return file ? std::string(std::istreambuf_iterator<char>(file), {}) : "<missing>";
}

SkillSource from_git(const std::string& url, const std::string& ref = "") {
  SkillSource source;
  source.git = url;
  source.ref = ref;
  return source;
}

SkillSource from_dir(const std::string& dir, const std::string& name = "") {
  SkillSource source;
  source.dir = dir;
  source.name = name;
  return source;
}

}  // namespace

TEST_CASE("skills of a repository arrive complete, under a name without slashes") {
  const Scene scene;
  scene.write("owner/repo/skills/pdf/SKILL.md", "# pdf");
  scene.write("owner/repo/skills/pdf/scripts/run.sh", "#!/bin/sh\n", 0755);
  scene.write("owner/repo/skills/pdf/.hidden", "h");
  scene.write("owner/repo/skills/notaskill/readme", "x");
  scene.write("owner/repo/README", "x");
  scene.commit("owner/repo");
  const StagedSkills staged = scene.stage({from_git(scene.url("owner/repo"))});
  CHECK(staged.skills == std::vector<std::string>{"git-owner-repo/pdf"});
  CHECK(staged.warnings.empty());
  const std::string skill = staged.folder + "/git-owner-repo/pdf/";
  CHECK(content(skill + "SKILL.md") == "# pdf");
  CHECK(content(skill + ".hidden") == "h");
  struct stat info{};
  REQUIRE(::stat((skill + "scripts/run.sh").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0755);
  CHECK(scene.stage({from_git(scene.url("owner/repo"))}).folder == staged.folder);
}

TEST_CASE("refs: branch, tag, commit, none, unknown") {
  const Scene scene;
  scene.write("repo/s/SKILL.md", "one");
  scene.commit("repo");
  scene.git("repo", {"tag", "v1"});
  scene.git("repo", {"tag", "-a", "v1a", "-m", "annotated"});
  scene.git("repo", {"checkout", "-q", "-b", "next"});
  scene.write("repo/s/SKILL.md", "two");
  scene.commit("repo");
  scene.git("repo", {"checkout", "-q", "main"});
  ProgramCall call;
  call.argv = {"git", "-C", scene.root + "/repo", "rev-parse", "next"};
  std::string id = run_program(OpContext{}, call)->out;
  id.pop_back();
  const std::pair<std::string, std::string> rows[] = {{"", "one"},   {"HEAD", "one"}, {"main", "one"},
                                                      {"v1", "one"}, {"v1a", "one"},  {"next", "two"},
                                                      {id, "two"}};
  for (const auto& [ref, expected] : rows) {
    CAPTURE(ref);
    const StagedSkills staged = scene.stage({from_git(scene.url("repo"), ref)});
    REQUIRE(staged.skills.size() == 1);
    CHECK(content(staged.folder + "/" + staged.skills[0] + "/SKILL.md") == expected);
  }
  const auto unknown = stage_skills(OpContext{}, {from_git(scene.url("repo"), "nope")}, scene.cache);
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().kind == ErrorKind::not_found);
}

TEST_CASE("an outage keeps what was fetched last and warns; with nothing fetched it is an error") {
  const Scene scene;
  scene.write("repo/s/SKILL.md", "one");
  scene.commit("repo");
  const auto source = from_git(scene.url("repo"));
  const StagedSkills before = scene.stage({source});
  fs::rename(scene.root + "/repo", scene.root + "/away");
  const StagedSkills during = scene.stage({source});
  CHECK(during.folder == before.folder);
  REQUIRE(during.warnings.size() == 1);
  CHECK(during.warnings[0].find("fetched last") != std::string::npos);
  fs::remove_all(scene.cache + "/staged");
  CHECK(content(scene.stage({source}).folder + "/" + before.skills[0] + "/SKILL.md") == "one");
  const auto never = stage_skills(OpContext{}, {from_git(scene.url("never"))}, scene.cache);
  REQUIRE_FALSE(never.has_value());
  CHECK(never.error().kind == ErrorKind::io);
  fs::rename(scene.root + "/away", scene.root + "/repo");
  scene.write("repo/s/SKILL.md", "two");
  scene.commit("repo");
  const StagedSkills after = scene.stage({source});
  CHECK(after.warnings.empty());
  CHECK(content(after.folder + "/" + after.skills[0] + "/SKILL.md") == "two");
  CHECK(content(before.folder + "/" + before.skills[0] + "/SKILL.md") == "one");
}

TEST_CASE("a later source wins a skill of the same name; equal name spaces are told apart") {
  const Scene scene;
  scene.write("a/pdf/SKILL.md", "first");
  scene.write("a/only/SKILL.md", "only");
  scene.write("b/pdf/SKILL.md", "second");
  const StagedSkills staged =
      scene.stage({from_dir(scene.root + "/a", "team"), from_dir(scene.root + "/b", "team")});
  CHECK(staged.skills == std::vector<std::string>{"team/only", "team_1/pdf"});
  CHECK(content(staged.folder + "/team_1/pdf/SKILL.md") == "second");
  CHECK_FALSE(fs::exists(staged.folder + "/team/pdf"));
}

TEST_CASE("a folder that changes is staged anew, one that does not is not") {
  const Scene scene;
  scene.write("a/pdf/SKILL.md", "first");
  const auto source = from_dir(scene.root + "/a", "team");
  static_cast<void>(scene.stage({source}));
  scene.write("a/pdf/SKILL.md", "other");
  CHECK(content(scene.stage({source}).folder + "/team/pdf/SKILL.md") == "other");
  fs::remove_all(scene.root + "/a/pdf");
  CHECK(scene.stage({source}).skills.empty());
}

TEST_CASE("links out of a repository are left out and said") {
  const Scene scene;
  scene.write("secret", "host secret");
  scene.write("repo/s/SKILL.md", "x");
  scene.write("repo/s/real", "real");
  fs::create_symlink(scene.root + "/secret", scene.root + "/repo/s/out");
  fs::create_symlink("../../../../../../../etc/passwd", scene.root + "/repo/s/up");
  fs::create_symlink("real", scene.root + "/repo/s/in");
  scene.commit("repo");
  const StagedSkills staged = scene.stage({from_git(scene.url("repo"))});
  REQUIRE(staged.skills.size() == 1);
  const std::string skill = staged.folder + "/" + staged.skills[0];
  CHECK_FALSE(fs::exists(fs::symlink_status(skill + "/out")));
  CHECK_FALSE(fs::exists(fs::symlink_status(skill + "/up")));
  CHECK(content(skill + "/in") == "real");
  CHECK(staged.warnings.size() == 2);
}

TEST_CASE("hooks, filters and templates of the user do not run") {
  const Scene scene;
  const std::string ran = scene.root + "/ran";
  scene.write("hooks/post-checkout", "#!/bin/sh\ntouch " + ran + "\n", 0755);
  scene.write("home/.gitconfig",
              "[core]\n\thooksPath = " + scene.root + "/hooks\n[filter \"evil\"]\n\tsmudge = touch " + ran +
                  "\n\trequired = true\n[init]\n\ttemplateDir = " + scene.root + "/hooks\n");
  scene.write("repo/s/SKILL.md", "x");
  scene.write("repo/.gitattributes", "* filter=evil\n");
  scene.commit("repo");
  scene.write("repo/.git/hooks/post-update", "#!/bin/sh\ntouch " + ran + "\n", 0755);
  ::setenv("HOME", (scene.root + "/home").c_str(), 1);
  ::setenv("GIT_CONFIG_GLOBAL", (scene.root + "/home/.gitconfig").c_str(), 1);
  ::setenv("GIT_DIR", (scene.root + "/nowhere").c_str(), 1);
  const auto staged = stage_skills(OpContext{}, {from_git(scene.url("repo"))}, scene.cache);
  const auto fetched =
      fetch_git(OpContext{}, scene.url("repo"), "", scene.cache, scene.root + "/clone", true);
  ::unsetenv("GIT_CONFIG_GLOBAL");
  ::unsetenv("GIT_DIR");
  REQUIRE_MESSAGE(staged.has_value(), (staged ? "" : staged.error().message));
  REQUIRE_MESSAGE(fetched.has_value(), (fetched ? "" : fetched.error().message));
  CHECK(content(scene.root + "/clone/s/SKILL.md") == "x");
  CHECK_FALSE(fs::exists(ran));
}

TEST_CASE("URLs and refs that are options or helper programs are refused") {
  const Scene scene;
  const std::string ran = scene.root + "/ran";
  for (const std::string& url :
       {"--upload-pack=touch " + ran, std::string("-u"), "ext::sh -c 'touch " + ran + "'",
        std::string("http://example.com/x.git"), std::string("ssh://-oProxyCommand=x/y"),
        std::string("fd::3"), std::string(), std::string("https://a/\nb")}) {
    CAPTURE(url);
    const auto staged = stage_skills(OpContext{}, {from_git(url)}, scene.cache);
    REQUIRE_FALSE(staged.has_value());
    CHECK(staged.error().kind == ErrorKind::config);
  }
  scene.write("repo/s/SKILL.md", "x");
  scene.commit("repo");
  for (const char* ref : {"-x", "--all", "a b", "a..b", "a:b", "a^{tree}"}) {
    const auto staged = stage_skills(OpContext{}, {from_git(scene.url("repo"), ref)}, scene.cache);
    REQUIRE_FALSE(staged.has_value());
    CHECK(staged.error().kind == ErrorKind::config);
  }
  CHECK_FALSE(fs::exists(ran));
}

TEST_CASE("names that are no path segment are refused or left out") {
  const Scene scene;
  scene.write("a/pdf/SKILL.md", "x");
  scene.write("a/.hid/SKILL.md", "x");
  scene.write("a/new\nline/SKILL.md", "x");
  for (const char* name : {"../x", "a/b", ".", "..", "a\\b", "x\ny"}) {
    const auto staged = stage_skills(OpContext{}, {from_dir(scene.root + "/a", name)}, scene.cache);
    REQUIRE_FALSE(staged.has_value());
    CHECK(staged.error().kind == ErrorKind::config);
  }
  const StagedSkills staged = scene.stage({from_dir(scene.root + "/a", "team")});
  CHECK(staged.skills == std::vector<std::string>{"team/pdf"});
  CHECK(staged.warnings.size() == 2);
  SkillSource outside = from_dir(scene.root + "/a", "team");
  outside.path = "../b";
  CHECK_FALSE(stage_skills(OpContext{}, {outside}, scene.cache).has_value());
}

TEST_CASE("passwords of a URL are in no message and no file of ours") {
  const Scene scene;
  const auto staged =
      stage_skills(OpContext{}, {from_git("https://user:s3cret@127.0.0.1:1/o/r.git")}, scene.cache);
  REQUIRE_FALSE(staged.has_value());
  CHECK(staged.error().message.find("s3cret") == std::string::npos);
  for (const auto& file : fs::recursive_directory_iterator(scene.cache)) {
    if (file.is_regular_file()) {
      CHECK(content(file.path()).find("s3cret") == std::string::npos);
    }
  }
  CHECK(git_url_without_credentials("https://u:p@h:1/p@q") == "https://h:1/p@q");
  CHECK(git_url_without_credentials("ssh://git:pw@h/p") == "ssh://git@h/p");
  CHECK(git_url_without_credentials("https://h/p") == "https://h/p");
  CHECK(git_url_without_credentials("git@h:o/r") == "git@h:o/r");
}

TEST_CASE("two processes that stage at once get whole folders") {
  const Scene scene;
  for (int i = 0; i < 20; ++i) {
    scene.write("repo/s" + std::to_string(i) + "/SKILL.md", std::to_string(i));
  }
  scene.commit("repo");
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const auto staged = stage_skills(OpContext{}, {from_git(scene.url("repo"))}, scene.cache);
      bool whole = staged.has_value() && staged->skills.size() == 20;
      for (int k = 0; whole && k < 20; ++k) {
        whole = content(staged->folder + "/" + staged->skills[0].substr(0, staged->skills[0].find('/')) +
                        "/s" + std::to_string(k) + "/SKILL.md") == std::to_string(k);
      }
      ::_exit(whole ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  for (const auto& item : fs::directory_iterator(scene.cache + "/staged")) {
    CHECK_FALSE(item.path().filename().string().starts_with(".new-"));
  }
}

TEST_CASE("submodules stay empty folders; a clone for an entry has its own .git without credentials") {
  const Scene scene;
  scene.write("inner/f", "inner");
  scene.commit("inner");
  scene.write("repo/s/SKILL.md", "x");
  scene.commit("repo");
  scene.git("repo", {"submodule", "--quiet", "add", scene.url("inner"), "sub"});
  scene.commit("repo");
  auto fetched = fetch_git(OpContext{}, scene.url("repo"), "", scene.cache, scene.root + "/clone", true);
  REQUIRE_MESSAGE(fetched.has_value(), (fetched ? "" : fetched.error().message));
  CHECK_FALSE(fs::exists(scene.root + "/clone/sub/f"));
  CHECK(content(scene.root + "/clone/.git/HEAD") == "ref: refs/heads/main\n");
  CHECK(content(scene.root + "/clone/.git/config").find(scene.url("repo")) != std::string::npos);
  scene.git("clone", {"diff", "--quiet"});
  fetched = fetch_git(OpContext{}, scene.url("repo"), "main", scene.cache, scene.root + "/plain", false);
  REQUIRE(fetched.has_value());
  CHECK(content(scene.root + "/plain/s/SKILL.md") == "x");
  CHECK_FALSE(fs::exists(scene.root + "/plain/.git"));
}
