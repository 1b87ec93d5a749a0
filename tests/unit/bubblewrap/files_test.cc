// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <map>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "unit/bubblewrap/fixture.h"

using namespace ascope;
using namespace ascope::test;

namespace {

// A tree of small entries in memory.
class ListedTree final : public TreeSource {
 public:
  void folder(const std::string& path, std::uint32_t mode) { add(path, EntryType::directory, mode, {}); }
  void file(const std::string& path, const std::string& content, std::uint32_t mode = 0644) {
    add(path, EntryType::file, mode, content);
  }
  Result<bool> next(TreeEntry& entry) override {
    if (at_ == items_.size()) {
      return false;
    }
    entry = items_[at_].first;
    pending_ = &items_[at_++].second;
    return true;
  }
  Result<std::optional<DataBlock>> read() override {
    if (pending_ == nullptr || pending_->empty()) {
      return std::optional<DataBlock>();
    }
    return std::optional<DataBlock>(DataBlock{0, *std::exchange(pending_, nullptr)});
  }

 private:
  void add(const std::string& path, EntryType type, std::uint32_t mode, const std::string& content) {
    TreeEntry entry;
    entry.path = path;
    entry.type = type;
    entry.mode = mode;
    entry.uid = 1000;
    entry.gid = 1000;
    entry.size_bytes = content.size();
    items_.emplace_back(entry, content);
  }
  std::vector<std::pair<TreeEntry, std::string>> items_;
  std::size_t at_ = 0;
  const std::string* pending_ = nullptr;
};

std::map<std::string, TreeEntry> entries(Sandbox& sandbox, const TreeSelection& selection) {
  std::map<std::string, TreeEntry> out;
  auto reader = sandbox.files().read_tree(OpContext{}, selection);
  if (!reader) {
    FAIL(reader.error().message);
  }
  TreeEntry entry;
  while (true) {
    const auto more = (*reader)->next(entry);
    if (!more) {
      FAIL(more.error().message);
    }
    if (!*more) {
      return out;
    }
    out[entry.path] = entry;
  }
}

}  // namespace

TEST_CASE("a tree is read with the ids of inside and without mounts") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  CHECK(SandboxFixture::sh(
            sandbox, "mkdir d z && echo hi > d/f && echo 0 > z/none && chmod 000 z/none z; echo x > /opt/x")
            .outcome.code == (::geteuid() == 0 ? 2 : 0));
  TreeSelection selection;
  selection.roots = {"/workspace", "/no/such"};
  auto found = entries(sandbox, selection);
  REQUIRE(found.count("workspace/d/f") == 1);
  CHECK(found["workspace/d/f"].uid == 1000);
  CHECK(found["workspace/d/f"].gid == 1000);
  CHECK(found.count("workspace/z/none") == 1);  // though nobody may read it
  selection.roots = {"/"};
  found = entries(sandbox, selection);
  CHECK(found.count("etc/passwd") == 1);
  CHECK(found.count("etc/ld.so.cache") == 0);
  CHECK(found.count("usr") == 0);
  CHECK(found.count("proc") == 0);
  CHECK(found.count("tmp") == 0);
  if (::geteuid() == 0) {
    CHECK(found["etc/passwd"].uid == 0);
  }
  selection.roots = {"/workspace"};
  selection.relative_to = "/workspace";
  CHECK(entries(sandbox, selection).count("d/f") == 1);
  selection.roots = {"/gone"};
  selection.relative_to = "/";
  CHECK(entries(sandbox, selection).empty());
}

TEST_CASE("a tree is applied while it runs and while it does not") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  const OpContext ctx;
  for (const bool running : {true, false}) {
    CAPTURE(running);
    if (!running) {
      CHECK_OK(sandbox.stop(ctx, 1));
    }
    ListedTree tree;
    const std::string name = running ? "r" : "s";
    tree.folder(name, 0755);
    tree.file(name + "/f", std::string(100000, 'q'), 0640);
    const auto report = sandbox.files().apply(ctx, "/workspace/in", tree, {});
    if (!report) {
      FAIL(report.error().message);
    }
    CHECK(report->written == 1);
    if (!running) {
      CHECK_OK(sandbox.start(ctx, {}, 1));
    }
    CHECK(SandboxFixture::sh(sandbox, "stat -c '%u:%g %a %s' in/" + name + "/f").out ==
          "1000:1000 640 100000\n");
  }
  ListedTree tree;
  ApplyOptions exact;
  exact.mode = ApplyMode::exact;
  CHECK(sandbox.files().apply(ctx, "/workspace", tree, exact).error().kind == ErrorKind::unsupported);
}

TEST_CASE("the mark of a restore comes and goes") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  const OpContext ctx;
  for (const bool running : {true, false}) {
    CAPTURE(running);
    if (!running) {
      CHECK_OK(sandbox.stop(ctx, 1));
    }
    CHECK_OK(sandbox.files().set_mark(ctx, "/workspace", "snap-1"));
    auto probe = sandbox.files().probe(ctx, "/workspace").value();
    CHECK(probe.exists);
    CHECK(probe.marked);
    CHECK(probe.mark == "snap-1");
    CHECK_OK(sandbox.files().set_mark(ctx, "/workspace", std::nullopt));
    CHECK(!sandbox.files().probe(ctx, "/workspace").value().marked);
  }
  CHECK(!sandbox.files().probe(ctx, "/not/there").value().exists);
}

TEST_CASE("freeze stops all writers, and its end or death lets them go") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  const OpContext ctx;
  CHECK(SandboxFixture::sh(sandbox,
                           "for i in 1 2 3; do (while :; do date >> w$i; done &) ; done; "
                           "(f() { echo x >> chain; f & }; f) 2>/dev/null & sleep 0.2")
            .outcome.code == 0);
  const std::string root = sandbox.info(ctx).value().details.at("root") + "/workspace/";
  const auto sizes = [&root] {
    std::string out;
    for (const char* name : {"w1", "w2", "w3", "chain"}) {
      struct stat info{};
      ::stat((root + name).c_str(), &info);
      out += std::to_string(info.st_size) + " ";
    }
    return out;
  };
  auto frozen = sandbox.files().freeze(ctx);
  if (!frozen) {
    FAIL(frozen.error().message);
  }
  REQUIRE(*frozen != nullptr);
  const std::string before = sizes();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(sizes() == before);
  CHECK((*frozen)->holds());
  frozen->reset();
  std::string after = before;
  for (int i = 0; i < 200 && after == before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    after = sizes();
  }
  CHECK(after != before);
  auto ended = sandbox.files().freeze(ctx);
  REQUIRE(ended.has_value());
  REQUIRE(*ended != nullptr);
  CHECK_OK(sandbox.stop(ctx, 1));
  CHECK(!(*ended)->holds());
  CHECK(sandbox.files().freeze(ctx).value() == nullptr);
}
