// SPDX-License-Identifier: Apache-2.0
// What every backend must do, with real sandboxes: bubblewrap here, and docker where ASCOPE_TEST_DOCKER_HOST
// names an engine with an image "bb:1" (tests/integration/docker_contract_test.py starts one).
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "backends/backends.h"
#include "core/base/process.h"
#include "fakes/memory_tree.h"
#include "fakes/temp_folder.h"

using namespace ascope;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// One backend with a state folder of its own; what was made in it goes at the end.
class Fixture {
 public:
  explicit Fixture(const std::string& name) : name_(name) {
    ::signal(SIGPIPE, SIG_IGN);
    const BackendKind* kind = find_backend_kind(name);
    REQUIRE(kind != nullptr);
    BackendContext context{state_.path(), state_.path() + "/run", "test-host"};
    context.environment["DOCKER_HOST"] = variable("ASCOPE_TEST_DOCKER_HOST");
    auto opened = kind->open(OpContext{}, context);
    REQUIRE(opened.has_value());
    backend_ = std::move(opened).value();
    if (name == "docker") {
      settings_.image = "bb:1";
    }
  }
  ~Fixture() {
    const auto left = backend_->list({}, nullptr);
    CHECK(left.has_value());
    for (const ResourceInfo& info : left ? *left : std::vector<ResourceInfo>()) {
      auto sandbox = backend_->attach({}, info.id);
      CHECK((sandbox && (*sandbox)->destroy({}, info.fence_seen)));
    }
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  Backend& backend() { return *backend_; }
  [[nodiscard]] const SandboxSettings& settings() const { return settings_; }
  static SlotKey slot(const std::string& user = "alice") {
    return SlotKey::resolve({"tester", user, "", Scope::user}, nullptr).value();
  }
  std::unique_ptr<Sandbox> make(std::uint64_t fence = 1) {
    auto made = backend_->create({}, slot(), "op-1", settings_, fence);
    if (!made) {
      FAIL(made.error().message << " / " << made.error().hint);
    }
    return std::move(made).value();
  }
  // A handle as another process would have it.
  std::unique_ptr<Sandbox> again(const std::string& id) {
    auto found = backend_->attach({}, id);
    if (!found) {
      FAIL(found.error().message);
    }
    return std::move(found).value();
  }

 private:
  std::string name_;
  TempFolder state_;
  SandboxSettings settings_;
  std::unique_ptr<Backend> backend_;
};

struct Ran {
  ExecOutcome outcome;
  std::string out, err;
};

Ran sh(Sandbox& sandbox, const std::string& script) {
  ExecRequest request;
  request.argv = {"sh", "-c", script};
  StringSink out;
  StringSink err;
  auto outcome = sandbox.exec({}, request, {-1, &out, &err, -1});
  if (!outcome) {
    FAIL(outcome.error().message);
  }
  return {*outcome, out.take(), err.take()};
}

// Paths with the content of files, of a part of a sandbox.
std::map<std::string, std::string> read_all_of(Sandbox& sandbox, const TreeSelection& selection) {
  std::map<std::string, std::string> out;
  auto reader = sandbox.files().read_tree({}, selection);
  if (!reader) {
    FAIL(reader.error().message);
  }
  TreeEntry entry;
  while (true) {
    auto more = (*reader)->next(entry);
    if (!more) {
      FAIL(more.error().message);
    }
    if (!*more) {
      return out;
    }
    std::string text = entry.type == EntryType::directory ? "/" : entry.link_target;
    while (entry.type == EntryType::file) {
      auto block = (*reader)->read();
      REQUIRE(block.has_value());
      if (!*block) {
        break;
      }
      text += (*block)->bytes;
    }
    out[entry.path] = text;
  }
}

TreeSelection workspace() {
  TreeSelection selection;
  selection.roots = {"/workspace"};
  selection.relative_to = "/workspace";
  return selection;
}

using Case = void (*)(Fixture&);

void lives_and_is_found(Fixture& fixture) {
  const auto sandbox = fixture.make();
  const auto info = sandbox->info({});
  REQUIRE(info.has_value());
  CHECK(info->phase == SandboxPhase::running);
  CHECK(!info->ready);
  CHECK(info->slot == Fixture::slot().store_name());
  CHECK(info->operation == "op-1");
  CHECK(info->settings_digest == fixture.settings().digest());
  CHECK(info->owned);
  CHECK(!info->tree.empty());
  CHECK(sandbox->set_ready({}, true, 1).has_value());
  const SlotKey slot = Fixture::slot();
  const SlotKey other = Fixture::slot("bob");
  const auto listed = fixture.backend().list({}, &slot);
  REQUIRE(listed.has_value());
  REQUIRE(listed->size() == 1);
  CHECK(listed->front().id == info->id);
  CHECK(listed->front().ready);
  CHECK(fixture.backend().list({}, &other)->empty());
  const auto handle = fixture.again(info->id);
  CHECK(handle->info({})->tree == info->tree);
  CHECK(sandbox->destroy({}, 1).has_value());
  CHECK(sandbox->info({})->phase == SandboxPhase::gone);
  CHECK(handle->destroy({}, 1).has_value());  // of what is gone it succeeds
  CHECK(fixture.backend().attach({}, info->id).error().kind == ErrorKind::not_found);
  CHECK(fixture.backend().list({}, nullptr)->empty());
  CHECK(fixture.backend().attach({}, "sb-0123456789abcdef").error().kind == ErrorKind::not_found);
}

void runs_commands(Fixture& fixture) {
  const auto sandbox = fixture.make();
  const Ran ran = sh(*sandbox, "printf 'a\\377b'; printf e >&2; exit 3");
  CHECK(ran.out == "a\377b");
  CHECK(ran.err == "e");
  CHECK(ran.outcome.exit_code() == 3);
  CHECK(sh(*sandbox, "kill -9 $$").outcome.exit_code() == 137);
  CHECK(sh(*sandbox, "pwd").out == "/workspace\n");
  ExecRequest missing;
  missing.argv = {"no-such-program"};
  CHECK(sandbox->exec({}, missing, {})->exit_code() == 127);
  ExecRequest slow;
  slow.argv = {"sh", "-c", "trap '' TERM; (sleep 4321 &) ; sleep 4321"};
  slow.timeout = Millis(200);
  slow.grace = Millis(100);
  const auto late = sandbox->exec({}, slow, {});
  REQUIRE(late.has_value());
  CHECK(late->end == ExecEnd::timed_out);
  // Who has told how the command ended is itself among the jobs until it has ended.
  for (int tries = 0; tries < 500 && !sandbox->info({})->jobs.empty(); ++tries) {
    std::this_thread::sleep_for(Millis(10));
  }
  CHECK(sandbox->info({})->jobs.empty());
}

void stops_and_comes_back(Fixture& fixture) {
  const auto sandbox = fixture.make();
  const std::string id = sandbox->info({})->id;
  const std::string tree = sandbox->info({})->tree;
  sh(*sandbox, "echo kept > f");
  CHECK(sandbox->stop({}, 1).has_value());
  CHECK(sandbox->stop({}, 1).has_value());
  CHECK(sandbox->info({})->phase == SandboxPhase::stopped);
  ExecRequest request;
  request.argv = {"true"};
  CHECK(sandbox->exec({}, request, {}).error().kind == ErrorKind::not_found);
  CHECK(fixture.again(id)->info({})->phase == SandboxPhase::stopped);
  CHECK(read_all_of(*fixture.again(id), workspace()).at("f") == "kept\n");
  CHECK(fixture.again(id)->info({})->phase == SandboxPhase::stopped);
  CHECK(sandbox->start({}, fixture.settings(), 1).has_value());
  CHECK(sandbox->start({}, fixture.settings(), 1).has_value());
  CHECK(sandbox->info({})->tree == tree);
  CHECK(sh(*sandbox, "cat f").out == "kept\n");
}

void refuses_those_that_were_overtaken(Fixture& fixture) {
  const auto sandbox = fixture.make(5);
  const auto late = fixture.again(sandbox->info({})->id);
  CHECK(sandbox->set_ready({}, true, 9).has_value());
  CHECK(late->stop({}, 5).error().kind == ErrorKind::conflict);
  CHECK(late->quiesce({}, 5).error().kind == ErrorKind::conflict);
  CHECK(late->start({}, fixture.settings(), 5).error().kind == ErrorKind::conflict);
  CHECK(late->set_ready({}, false, 8).error().kind == ErrorKind::conflict);
  CHECK(late->destroy({}, 8).error().kind == ErrorKind::conflict);
  CHECK(late->info({})->phase == SandboxPhase::running);
  CHECK(late->info({})->fence_seen == 9);
  CHECK(late->info({})->ready);
}

void reads_what_is_asked_for(Fixture& fixture) {
  const auto sandbox = fixture.make();
  CHECK(read_all_of(*sandbox, workspace()) == std::map<std::string, std::string>{{"", "/"}});
  CHECK(sandbox->files().probe({}, "/workspace")->empty);
  sh(*sandbox,
     "mkdir -p a/b c skipped; echo 1 > a/b/f; echo 2 > a/g; ln -s f a/b/l; ln a/g c/h; echo 3 > c/x.o; "
     "echo 4 > skipped/s");
  TreeSelection selection = workspace();
  selection.skip = {"/workspace/skipped"};
  selection.exclude = {"*.o"};
  const std::map<std::string, std::string> want{{"", "/"},        {"a", "/"},     {"a/b", "/"},
                                                {"a/b/f", "1\n"}, {"a/b/l", "f"}, {"a/g", "2\n"},
                                                {"c", "/"},       {"c/h", "a/g"}};
  CHECK(read_all_of(*sandbox, selection) == want);
  selection.roots = {"/workspace/a/b", "/workspace/missing", "/workspace/a/g/below"};
  const auto part = read_all_of(*sandbox, selection);
  CHECK(part.at("a/b/f") == "1\n");
  CHECK(!part.contains("a/g"));
  CHECK(!part.contains("c"));
  selection = workspace();
  selection.roots = {"/nowhere/at/all"};
  selection.relative_to = "/nowhere";
  CHECK(read_all_of(*sandbox, selection).empty());
  CHECK(!sandbox->files().probe({}, "/nowhere")->exists);
  const auto probe = sandbox->files().probe({}, "/workspace");
  CHECK((probe->exists && !probe->empty && !probe->marked));
}

void writes_over_and_as_a_whole(Fixture& fixture) {
  const auto sandbox = fixture.make();
  sh(*sandbox, "echo old > keep; echo old > f");
  MemoryTree over;
  over.folder("d");
  over.file("d/n", "new");
  over.file("f", "new");
  auto laid = sandbox->files().apply({}, "/workspace/deep/er", over, {});
  REQUIRE(laid.has_value());
  CHECK(sh(*sandbox, "cat deep/er/d/n deep/er/f keep").out == "newnewold\n");
  CHECK(sh(*sandbox, "test -w deep/er && test -w deep/er/f && echo mine").out == "mine\n");
  // As a whole: what is not in the source goes; called once, when all is staged, and free to refuse.
  CHECK(sandbox->quiesce({}, 1).has_value());
  ApplyOptions exact;
  exact.mode = ApplyMode::exact;
  exact.set_owner = true;
  int asked = 0;
  exact.before_change = [&asked]() -> Result<void> {
    ++asked;
    return make_error(ErrorKind::conflict, "not now");
  };
  MemoryTree refused;
  refused.file("only", "x");
  CHECK(sandbox->files().apply({}, "/workspace", refused, exact).error().kind == ErrorKind::conflict);
  MemoryTree broken = refused;
  broken.fail_at = 1;
  CHECK(sandbox->files().apply({}, "/workspace", broken, exact).error().message == "the source fails here");
  CHECK(asked == 1);
  CHECK(read_all_of(*sandbox, workspace()).at("keep") == "old\n");
  exact.before_change = [&asked] {
    ++asked;
    return ok();
  };
  const std::string big(300000, 'y');
  MemoryTree whole;
  whole.file("only", "x");
  whole.folder("sub");
  whole.file("sub/y", big);
  const auto done = sandbox->files().apply({}, "/workspace", whole, exact);
  if (!done) {
    FAIL(done.error().message);
  }
  CHECK(asked == 2);
  CHECK(read_all_of(*sandbox, workspace()) ==
        std::map<std::string, std::string>{{"", "/"}, {"only", "x"}, {"sub", "/"}, {"sub/y", big}});
  CHECK(sandbox->start({}, fixture.settings(), 1).has_value());
  CHECK(sh(*sandbox, "cat only").out == "x");
}

void keeps_a_mark_where_nothing_inside_reaches_it(Fixture& fixture) {
  const auto sandbox = fixture.make();
  const std::string id = sandbox->info({})->id;
  CHECK(sandbox->files().set_mark({}, "/workspace", "target").has_value());
  sh(*sandbox, "rm -rf /workspace/* /workspace/.[!.]*");
  CHECK(sandbox->files().probe({}, "/workspace")->mark == "target");
  CHECK(sandbox->stop({}, 1).has_value());
  const auto probe = fixture.again(id)->files().probe({}, "/workspace");
  REQUIRE(probe.has_value());
  CHECK((probe->marked && probe->exists));
  CHECK(sandbox->files().set_mark({}, "/workspace", std::nullopt).has_value());
  CHECK(sandbox->files().set_mark({}, "/workspace", std::nullopt).has_value());
  CHECK(!fixture.again(id)->files().probe({}, "/workspace")->marked);
}

void holds_what_runs(Fixture& fixture) {
  const auto sandbox = fixture.make();
  sh(*sandbox,
     "(setsid sh -c 'n=0; while :; do n=$((n+1)); echo $n > t; mv t count; done' >/dev/null 2>&1 &)");
  for (int i = 0; i < 2000 && sh(*sandbox, "cat count").out.empty(); ++i) {
  }
  auto frozen = sandbox->files().freeze({});
  REQUIRE(frozen.has_value());
  REQUIRE(*frozen != nullptr);
  const auto first = read_all_of(*sandbox, workspace());
  const auto second = read_all_of(*sandbox, workspace());
  CHECK(first.at("count") == second.at("count"));
  CHECK((*frozen)->holds());
  frozen->reset();
  const std::string before = first.at("count");
  for (int i = 0; i < 2000 && sh(*sandbox, "cat count").out == before; ++i) {
  }
  CHECK(sh(*sandbox, "cat count").out != before);
  CHECK(sandbox->quiesce({}, 1).has_value());
  const auto ended = read_all_of(*sandbox, workspace());
  CHECK(read_all_of(*sandbox, workspace()) == ended);
}

struct Row {
  const char* name;
  Case run;
};
const Row kCases[] = {
    {"lives and is found", lives_and_is_found},
    {"runs commands", runs_commands},
    {"stops and comes back", stops_and_comes_back},
    {"refuses those that were overtaken", refuses_those_that_were_overtaken},
    {"reads what is asked for", reads_what_is_asked_for},
    {"writes over, and as a whole", writes_over_and_as_a_whole},
    {"keeps a mark where nothing inside reaches it", keeps_a_mark_where_nothing_inside_reaches_it},
    {"holds what runs", holds_what_runs}};

void check_backend(const std::string& name) {
  for (const Row& row : kCases) {
    CAPTURE(row.name);
    Fixture fixture(name);
    row.run(fixture);
  }
}

}  // namespace

TEST_CASE("backend contract: bubblewrap") {
  if (!find_program("bwrap")) {
    MESSAGE("skipped: bwrap is not installed");
    return;
  }
  check_backend("bubblewrap");
}

TEST_CASE("backend contract: docker") {
  if (variable("ASCOPE_TEST_DOCKER_HOST").empty()) {
    MESSAGE("skipped: ASCOPE_TEST_DOCKER_HOST names no engine");
    return;
  }
  check_backend("docker");
}
