// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/tree/applier.h"
#include "fakes/memory_tree.h"
#include "fakes/temp_folder.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

namespace {

class Nothing final : public TreeSource {
 public:
  Result<bool> next(TreeEntry& /*entry*/) override { return false; }
  Result<std::optional<DataBlock>> read() override { return std::optional<DataBlock>{}; }
};

void write(const std::string& path, const std::string& content) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << content;
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return file ? std::string(std::istreambuf_iterator<char>(file), {}) : "<missing>";
}

Result<ApplyReport> apply(const TempFolder& folder, const ApplyOptions& options) {
  Nothing nothing;
  return apply_tree(OpContext{}, folder.open(), nothing, options);
}

}  // namespace

TEST_CASE("an overlay removes files and empty folders, and passes over what is missing or holds more") {
  const TempFolder folder;
  const std::string root = folder.path();
  write(root + "/a/b/file", "1");
  write(root + "/kept/mine", "2");
  write(root + "/kept/gone", "3");
  fs::create_symlink("/etc", root + "/link");
  ApplyOptions options;
  options.remove = {"a/b/file", "kept/gone", "missing/deep", "link/passwd", "link", "kept", "a/b", "a"};
  options.dry_run = true;
  REQUIRE(apply(folder, options).has_value());
  CHECK(content(root + "/a/b/file") == "1");
  options.dry_run = false;
  for (const std::uint64_t removed : {5U, 0U}) {
    const auto report = apply(folder, options);
    REQUIRE_MESSAGE(report.has_value(), (report ? "" : report.error().message));
    CHECK(report->removed == removed);
    CHECK_FALSE(fs::exists(root + "/a"));
    CHECK(content(root + "/kept/mine") == "2");
    CHECK_FALSE(fs::exists(root + "/kept/gone"));
    CHECK_FALSE(fs::exists(fs::symlink_status(root + "/link")));
    CHECK(fs::exists("/etc/passwd"));
  }
}

TEST_CASE("an overlay moves files and folders aside, never over something") {
  const TempFolder folder;
  const std::string root = folder.path();
  write(root + "/dir/inner", "1");
  write(root + "/file", "2");
  write(root + "/taken", "3");
  ApplyOptions options;
  options.rename = {{"dir", "dir.agent"}, {"missing", "missing.agent"}};
  REQUIRE(apply(folder, options).has_value());
  CHECK(content(root + "/dir.agent/inner") == "1");
  REQUIRE(apply(folder, options).has_value());
  options.rename = {{"file", "taken"}};
  const auto refused = apply(folder, options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::conflict);
  CHECK(content(root + "/taken") == "3");
  CHECK(content(root + "/file") == "2");
}

TEST_CASE("removals and moves never leave the root") {
  const TempFolder folder;
  const TempFolder outside;
  const std::string root = folder.path();
  write(outside.path() + "/victim", "1");
  fs::create_symlink(outside.path(), root + "/way");
  write(root + "/mine", "2");
  write(root + "/mount/file", "3");
  for (const std::string path : {"../x", "/etc/passwd", "a/../../x", "", "a//b"}) {
    ApplyOptions options;
    options.remove = {path};
    CHECK_FALSE(apply(folder, options).has_value());
    options.remove.clear();
    options.rename = {{"mine", path}};
    CHECK_FALSE(apply(folder, options).has_value());
  }
  ApplyOptions options;
  options.remove = {"way/victim", "mount/file"};
  options.skip_paths = {"mount"};
  REQUIRE(apply(folder, options).has_value());
  CHECK(content(outside.path() + "/victim") == "1");
  CHECK(content(root + "/mount/file") == "3");
  options.remove.clear();
  options.rename = {{"mine", "way/mine"}};
  CHECK_FALSE(apply(folder, options).has_value());
  CHECK(content(root + "/mine") == "2");
}

TEST_CASE("what was moved aside makes room for what is laid over") {
  const TempFolder folder;
  const std::string root = folder.path();
  write(root + "/name", "same bytes");
  REQUIRE(::chmod((root + "/name").c_str(), 0755) == 0);
  MemoryTree source;
  source.file("name", "same bytes");
  ApplyOptions options;
  options.rename = {{"name", "name.agent"}};
  const auto report = apply_tree(OpContext{}, folder.open(), source, options);
  REQUIRE_MESSAGE(report.has_value(), (report ? "" : report.error().message));
  CHECK(content(root + "/name") == "same bytes");
  CHECK(content(root + "/name.agent") == "same bytes");
}
