// SPDX-License-Identifier: Apache-2.0
// What the folder of objects keeps beyond the contract of every BlobStore.
#include <fcntl.h>
#include <filesystem>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/base/file.h"
#include "fakes/temp_folder.h"
#include "store/stores.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

namespace {

std::unique_ptr<BlobStore> open_local(const std::string& dir) {
  const StoreKind* kind = find_store_kind("local");
  REQUIRE(kind != nullptr);
  auto url = parse_store_url("local:" + dir);
  REQUIRE(url.has_value());
  auto store = kind->open_blobs(OpContext{}, *url, StoreContext{dir, "host-1"});
  REQUIRE(store.has_value());
  return std::move(*store);
}

// Fails after some bytes, as a full sandbox disk or a lost connection does.
class FailingSource final : public ByteSource {
 public:
  explicit FailingSource(std::size_t bytes) : left_(bytes) {}
  Result<std::size_t> read(std::span<char> buffer) override {
    if (left_ == 0) {
      return make_error(ErrorKind::io, "the source fails here");
    }
    const std::size_t count = std::min(left_, buffer.size());
    std::fill_n(buffer.data(), count, 'x');
    left_ -= count;
    return count;
  }

 private:
  std::size_t left_;
};

std::vector<std::string> keys(BlobStore& store, std::string_view prefix = "") {
  std::vector<std::string> out;
  auto list = store.list(OpContext{}, prefix);
  REQUIRE(list.has_value());
  for (const BlobInfo& one : *list) {
    out.push_back(one.key);
  }
  return out;
}

}  // namespace

TEST_CASE("local store: what is not an object is not listed, bad keys are ours to blame") {
  const TempFolder dir;
  const auto store = open_local(dir.path());
  for (const char* name : {".tmp.0123", ".id.uuid.tmp", "with space.tar", "good.tar"}) {
    REQUIRE(write_file_atomic(dir / name, "x").has_value());
  }
  CHECK(keys(*store) == std::vector<std::string>{"good.tar"});
  for (const char* bad : {"", "../x", "a/../b", "/etc/passwd", ".hidden", "a//b", "a/", "a b", "ä"}) {
    CAPTURE(bad);
    CHECK(store->stat(OpContext{}, bad).error().kind == ErrorKind::internal);
  }
}

TEST_CASE("local store: a folder that cannot be read is never empty") {
  const TempFolder dir;
  REQUIRE(write_file_atomic(dir / "file", "not a folder").has_value());
  const auto store = open_local(dir / "file");
  CHECK(store->list(OpContext{}, "").error().kind == ErrorKind::store_unavailable);
  CHECK(store->stat(OpContext{}, "a.tar").error().kind == ErrorKind::store_unavailable);
  CHECK(store->get(OpContext{}, "a.tar").error().kind == ErrorKind::store_unavailable);
  if (::geteuid() == 0) {
    MESSAGE("skipped the folder without rights: root reads it");
    return;
  }
  const auto locked = open_local(dir / "locked");
  ViewSource data("x");
  REQUIRE(locked->put(OpContext{}, "a.tar", data).has_value());
  REQUIRE(::chmod((dir / "locked").c_str(), 0) == 0);
  CHECK(locked->list(OpContext{}, "").error().kind == ErrorKind::store_unavailable);
  CHECK(locked->stat(OpContext{}, "a.tar").error().kind == ErrorKind::store_unavailable);
}

TEST_CASE("local store: a full disk leaves nothing") {
  const TempFolder dir;
  if (::geteuid() != 0 || ::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    MESSAGE("skipped: needs root to mount a small tmpfs");
    return;
  }
  {
    const auto store = open_local(dir / "s");
    FailingSource source(8'000'000);
    const auto outcome = store->put(OpContext{}, "k.tar", source);
    REQUIRE_FALSE(outcome.has_value());
    CHECK(outcome.error().kind == ErrorKind::io);
    CHECK_FALSE(outcome.error().hint.empty());
    CHECK(keys(*store).empty());
    ViewSource small("fits again");
    CHECK(store->put(OpContext{}, "k.tar", small).value().has_value());
  }
  CHECK(::umount2(dir.path().c_str(), MNT_DETACH) == 0);
}

TEST_CASE("local store: a put killed at any moment leaves no part under the key") {
  const TempFolder dir;
  for (int round = 0; round < 12; ++round) {
    const std::string key = "k" + std::to_string(round) + ".tar";
    Pipe told = make_pipe().value();
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // Tells after each piece; the parent kills it after a number of them.
      class TellingSource final : public ByteSource {
       public:
        explicit TellingSource(int fd) : fd_(fd) {}
        Result<std::size_t> read(std::span<char> buffer) override {
          if (pieces_++ == 8) {
            return std::size_t{0};
          }
          static_cast<void>(::write(fd_, "x", 1) == 1);
          std::fill(buffer.begin(), buffer.end(), 'k');
          return buffer.size();
        }

       private:
        int fd_;
        int pieces_ = 0;
      };
      TellingSource source(told.write_end.get());
      const auto store = open_local(dir.path());
      static_cast<void>(store->put(OpContext{}, key, source).has_value());
      ::_exit(0);
    }
    told.write_end.reset();
    char byte = 0;
    for (int piece = 0; piece < round; ++piece) {
      if (read_some(told.read_end.get(), {&byte, 1}).value() == 0) {
        break;
      }
    }
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    const auto store = open_local(dir.path());
    const auto info = store->stat(OpContext{}, key).value();
    if (info) {
      CHECK(info->size_bytes == std::uint64_t{8} << 20U);  // whole, or not there
    }
    for (const BlobInfo& one : store->list(OpContext{}, "").value()) {
      CHECK(one.size_bytes == std::uint64_t{8} << 20U);
    }
  }
}
