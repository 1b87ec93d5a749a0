// SPDX-License-Identifier: Apache-2.0
// Memory does not grow with the tree: each case runs in a process of its own, whose peak is then read.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/base/fd.h"
#include "fakes/chunk_store.h"
#include "store/stores.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint64_t kGoalKib = 96U << 10U;
constexpr const char* kVariable = "ASCOPE_TEST_MEMORY_CASE";

bool is_full() {
  return std::getenv("ASCOPE_TEST_FULL") != nullptr;
}

// A folder of `count` files of `bytes` each, made up on the way. Large ones compress to half.
class MadeUpTree final : public TreeSource {
 public:
  MadeUpTree(std::uint64_t count, std::uint64_t bytes, bool backwards = false)
      : count_(count), bytes_(bytes), backwards_(backwards) {}

  Result<bool> next(TreeEntry& entry) override {
    entry = TreeEntry{};
    if (at_ == 0) {
      entry.type = EntryType::directory;
    } else if (at_ > count_) {
      return false;
    } else {
      std::string number = std::to_string(backwards_ ? count_ - at_ : at_ - 1);
      number.insert(0, 9 - number.size(), '0');
      entry.path = "file-with-a-name-of-usual-length-" + number;
      entry.mtime_ns = static_cast<std::int64_t>(at_ * 7919);
      entry.size_bytes = bytes_;
      file_ = std::hash<std::string>()(number);
    }
    offset_ = 0;
    ++at_;
    return true;
  }
  Result<std::optional<DataBlock>> read() override {
    if (at_ == 1 || offset_ == bytes_) {
      return std::optional<DataBlock>();
    }
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_ - offset_, 256U << 10U));
    block_ = test::noise(count, file_ + offset_);
    if (count > 1024) {
      std::fill_n(block_.begin(), count / 2, 'x');
    }
    const DataBlock block{offset_, block_};
    offset_ += count;
    return std::optional<DataBlock>(block);
  }

 private:
  std::uint64_t count_, bytes_;
  bool backwards_;
  std::uint64_t at_ = 0;
  std::uint64_t file_ = 0;
  std::uint64_t offset_ = 0;
  std::string block_;
};

class MadeUpScan final : public TreeScan {
 public:
  MadeUpScan(std::uint64_t count, std::uint64_t bytes) : tree_(count, bytes) {}
  Result<bool> next(TreeEntry& entry, bool& unchanged) override {
    unchanged = true;
    return tree_.next(entry);
  }
  Result<std::unique_ptr<TreeSource>> read(const std::vector<std::string>& /*paths*/) override {
    return make_error(ErrorKind::internal, "nothing should be read");
  }

 private:
  MadeUpTree tree_;
};

struct Place {
  TempFolder dir;
  std::unique_ptr<BlobStore> blobs;
  std::unique_ptr<ChunkRepository> repository;

  Place() {
    StoreUrl url;
    url.scheme = "local";
    url.path = dir / "store";
    blobs =
        find_store_kind("local")->open_blobs(OpContext{}, url, StoreContext{dir.path(), "host-1"}).value();
    ChunkOptions options;
    options.cache_dir = dir / "cache";
    options.pipeline.workers = 2;
    repository = make_chunk_repository(*blobs, options);
  }
  HistoryItem save(TreeSource& tree, const char* id, bool ordered, const HistoryItem* parent = nullptr) {
    SaveRequest request;
    request.id = id;
    request.workspace = &tree;
    request.ordered = ordered;
    request.parent = parent;
    const auto saved = repository->save(OpContext{}, request);
    REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().message));
    CHECK(saved->changed == (parent == nullptr));
    return saved->item;
  }
  void load(const HistoryItem& item, std::uint64_t bytes) {
    const auto tree = repository->open(OpContext{}, item, SnapshotPart::workspace).value();
    TreeEntry entry;
    std::uint64_t sum = 0;
    while (tree->next(entry).value()) {
      while (const auto block = tree->read().value()) {
        sum += block->bytes.size();
      }
    }
    CHECK(sum == bytes);
  }
};

std::uint64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t value = 0;
  while (status >> word) {
    if (word == "VmHWM:") {
      status >> value;
    }
  }
  return value;
}

// Runs the case `name` of the hidden test below in a process of its own; what it printed if it failed.
std::string run_alone(const char* name) {
  Pipe pipe = make_pipe().value();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe.write_end.get(), 1);
    ::setenv(kVariable, name, 1);
    ::execl("/proc/self/exe", "unit_chunks", "--no-skip", "-tc=chunks memory of one case", nullptr);
    ::_exit(127);
  }
  pipe.write_end.reset();
  FdSource output(std::move(pipe.read_end));
  std::string printed = read_all(output, 1U << 20U).value();
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : printed + " failed";
}

}  // namespace

TEST_CASE("chunks memory of one case" * doctest::skip()) {
  const char* variable = std::getenv(kVariable);
  if (variable == nullptr) {
    return;
  }
  const std::string name = variable;
  const std::uint64_t large = is_full() ? std::uint64_t{10} << 30U : std::uint64_t{300} << 20U;
  const std::uint64_t many = is_full() ? 1'000'000 : 60'000;
  Place place;
  if (name == "large file") {
    MadeUpTree tree(1, large);
    const auto item = place.save(tree, "one", true);
    place.load(item, large);
    MadeUpTree again(1, large);
    place.save(again, "two", true, &item);
  } else if (name == "many files") {
    MadeUpTree tree(many, 40);
    const auto item = place.save(tree, "one", true);
    place.load(item, many * 40);
    MadeUpTree again(many, 40);
    place.save(again, "two", true, &item);
    SaveRequest request;
    request.id = "three";
    request.parent = &item;
    request.scan = [&](SnapshotPart part) {
      return Result<std::unique_ptr<TreeScan>>(
          part == SnapshotPart::workspace ? std::make_unique<MadeUpScan>(many, 40) : nullptr);
    };
    CHECK_FALSE(place.repository->save(OpContext{}, request).value().changed);
  } else if (name == "many files in any order") {
    MadeUpTree tree(many, 40, true);
    const auto item = place.save(tree, "one", false);
    MadeUpTree again(many, 40, true);
    place.save(again, "two", false, &item);
  }
  std::cerr << "peak of '" << name << "': " << peak_kib() / 1024 << " MiB\n";
  CHECK(peak_kib() < kGoalKib);
}

TEST_CASE("chunks memory: neither large files nor many take more than 96 MiB") {
  if (std::getenv("ASCOPE_TEST_SANITIZED") != nullptr) {
    MESSAGE("skipped: a sanitizer takes memory of its own");
    return;
  }
  for (const char* name : {"large file", "many files", "many files in any order"}) {
    CAPTURE(std::string(name));
    CHECK(run_alone(name) == "");
  }
}
