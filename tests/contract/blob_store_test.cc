// SPDX-License-Identifier: Apache-2.0
// What every BlobStore must do: the fake and each kind of store of this machine that has objects.
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "contract/store_factories.h"
#include "fakes/fake_blobs.h"

using namespace ascope;
using namespace ascope::test;

namespace {

const OpContext kCtx;

template <typename Case>
void on_each_store(Case test_case) {
  const TempDir unused;
  const auto fake = std::make_unique<FakeBlobStore>();
  {
    CAPTURE("fake");
    test_case(*fake, unused.path(), [] { return std::unique_ptr<BlobStore>(); });
  }
  for (const char* scheme : {"local", "sqlite"}) {
    const StoreKind* kind = find_store_kind(scheme);
    if (kind == nullptr || kind->open_blobs == nullptr) {
      continue;
    }
    CAPTURE(scheme);
    const TempDir dir;
    const auto open = [&] {
      return kind->open_blobs(kCtx, url_in(scheme, dir.path()), StoreContext{dir.path(), "host-1"}).value();
    };
    test_case(*open(), dir.path(), [&]() -> std::unique_ptr<BlobStore> { return open(); });
  }
}

std::string pattern(std::size_t count) {
  std::string out(count, '\0');
  std::uint32_t value = 1;
  for (char& c : out) {
    value = value * 1664525U + 1013904223U;
    c = static_cast<char>(value >> 24U);
  }
  return out;
}

bool put(BlobStore& store, std::string_view key, std::string_view bytes) {
  ViewSource source(bytes);
  auto done = store.put(kCtx, key, source);
  REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().message));
  if (done->has_value()) {
    CHECK(done.value()->key == key);
    CHECK(done.value()->size_bytes == bytes.size());
  }
  return done->has_value();
}

std::string get(BlobStore& store, std::string_view key, std::uint64_t offset = 0, std::uint64_t length = 0) {
  auto source = store.get(kCtx, key, offset, length);
  REQUIRE_MESSAGE(source.has_value(), (source ? "" : source.error().message));
  auto bytes = read_all(*source.value(), 64U << 20U);
  REQUIRE_MESSAGE(bytes.has_value(), (bytes ? "" : bytes.error().message));
  return bytes.value();
}

std::vector<std::string> keys(BlobStore& store, std::string_view prefix) {
  std::vector<std::string> out;
  const auto list = store.list(kCtx, prefix);
  REQUIRE(list.has_value());
  for (const BlobInfo& info : list.value()) {
    out.push_back(info.key);
  }
  return out;
}

// Gives some bytes and then fails, as a broken connection does.
class FailingSource final : public ByteSource {
 public:
  explicit FailingSource(std::size_t good) : left_(good) {}
  Result<std::size_t> read(std::span<char> buffer) override {
    if (left_ == 0) {
      return make_error(ErrorKind::backend_unavailable, "the stream broke");
    }
    const std::size_t count = std::min({left_, buffer.size(), std::size_t{1000}});
    std::fill_n(buffer.data(), count, 'x');
    left_ -= count;
    return count;
  }

 private:
  std::size_t left_;
};

}  // namespace

TEST_CASE("blob store: what was put comes back, whole and in parts") {
  on_each_store([](BlobStore& store, const std::string&, auto) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20U,
                                   (std::size_t{1} << 20U) + 1, std::size_t{5'000'000}}) {
      CAPTURE(size);
      const std::string key = "packs/ab/" + std::to_string(size) + ".pack";
      const std::string bytes = pattern(size);
      CHECK(put(store, key, bytes));
      CHECK((get(store, key) == bytes));
      const auto info = store.stat(kCtx, key).value();
      REQUIRE(info.has_value());
      CHECK(info->size_bytes == size);
      for (const std::uint64_t offset : {0UL, 1UL, 1048575UL, 1048576UL, 4999999UL}) {
        for (const std::uint64_t length : {1UL, 17UL, 2000000UL}) {
          if (offset < size) {
            CHECK((get(store, key, offset, length) == bytes.substr(offset, length)));
          }
        }
        if (offset < size) {
          CHECK((get(store, key, offset) == bytes.substr(offset)));
        }
      }
    }
  });
}

TEST_CASE("blob store: a key is written once") {
  on_each_store([](BlobStore& store, const std::string&, auto) {
    CHECK(put(store, "a/one", "first"));
    CHECK_FALSE(put(store, "a/one", "second"));
    CHECK(get(store, "a/one") == "first");
    CHECK(store.remove(kCtx, "a/one").has_value());
    CHECK(store.remove(kCtx, "a/one").has_value());
    CHECK_FALSE(store.stat(kCtx, "a/one").value().has_value());
    CHECK(put(store, "a/one", "third"));
    CHECK(get(store, "a/one") == "third");
  });
}

TEST_CASE("blob store: absent is said as absent, and looking makes nothing") {
  on_each_store([](BlobStore& store, const std::string& dir, auto) {
    CHECK_FALSE(store.stat(kCtx, "no/such").value().has_value());
    CHECK(store.get(kCtx, "no/such").error().kind == ErrorKind::not_found);
    CHECK(store.list(kCtx, "").value().empty());
    CHECK(store.remove(kCtx, "no/such").has_value());
    CHECK(std::filesystem::is_empty(dir));
  });
}

TEST_CASE("blob store: lists by prefix in the order of bytes") {
  on_each_store([](BlobStore& store, const std::string&, auto) {
    for (const char* key : {"b/2", "a/1", "a-1", "a/1.x", "B/1", "a/2/deep/er", "b"}) {
      if (std::string_view(key) !=
          "b") {  // a folder and an object of one name is more than a file system holds
        CHECK(put(store, key, key));
      }
    }
    CHECK(keys(store, "") == std::vector<std::string>{"B/1", "a-1", "a/1", "a/1.x", "a/2/deep/er", "b/2"});
    CHECK(keys(store, "a/") == std::vector<std::string>{"a/1", "a/1.x", "a/2/deep/er"});
    CHECK(keys(store, "a/1") == std::vector<std::string>{"a/1", "a/1.x"});
    CHECK(keys(store, "c").empty());
  });
}

TEST_CASE("blob store: keys that are no plain paths are our defect") {
  on_each_store([](BlobStore& store, const std::string& dir, auto) {
    for (const std::string& key : {std::string(), std::string(".."), std::string("a/../b"), std::string("/a"),
                                   std::string("a/"), std::string("a//b"), std::string("a b"),
                                   std::string("a/./b"), std::string("\xc3\xa9"), std::string(513, 'x')}) {
      CAPTURE(key);
      ViewSource source("x");
      auto done = store.put(kCtx, key, source);
      REQUIRE_FALSE(done.has_value());
      CHECK(done.error().kind == ErrorKind::internal);
    }
    CHECK(std::filesystem::is_empty(dir));
  });
}

TEST_CASE("blob store: a broken stream leaves nothing under the key") {
  on_each_store([](BlobStore& store, const std::string&, auto) {
    FailingSource source(2'500'000);
    auto done = store.put(kCtx, "a/broken", source);
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().kind == ErrorKind::backend_unavailable);
    CHECK_FALSE(store.stat(kCtx, "a/broken").value().has_value());
    CHECK(keys(store, "").empty());
    CHECK(put(store, "a/broken", "whole"));
  });
}

TEST_CASE("blob store: two objects see the same, and one of racing writers wins") {
  on_each_store([](BlobStore& store, const std::string&, auto open) {
    const auto other = open();
    if (!other) {
      return;
    }
    CHECK(put(store, "a/1", "x"));
    CHECK(get(*other, "a/1") == "x");
    std::vector<pid_t> workers;
    for (int worker = 0; worker < 4; ++worker) {
      const pid_t pid = ::fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        const std::string bytes(2'000'000, static_cast<char>('a' + worker));
        ViewSource source(bytes);
        auto done = open()->put(kCtx, "a/race", source);
        ::_exit(!done ? 2 : done->has_value() ? 1 : 0);
      }
      workers.push_back(pid);
    }
    int winners = 0;
    for (const pid_t pid : workers) {
      int status = -1;
      REQUIRE(::waitpid(pid, &status, 0) == pid);
      REQUIRE(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) != 2);
      winners += WEXITSTATUS(status);
    }
    CHECK(winners == 1);
    const std::string bytes = get(*other, "a/race");
    CHECK((bytes == std::string(2'000'000, bytes.front())));
  });
}

TEST_CASE("blob store: kill -9 while writing leaves nothing under the key, and the next write works") {
  on_each_store([](BlobStore&, const std::string&, auto open) {
    if (!open()) {
      return;
    }
    for (int round = 0; round < 6; ++round) {
      const std::string key = "a/" + std::to_string(round);
      const pid_t pid = ::fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        FailingSource endless(std::size_t{1} << 40U);
        auto done = open()->put(kCtx, key, endless);
        ::_exit(done.has_value() ? 0 : 1);
      }
      ::usleep(static_cast<useconds_t>(3000 + 9000 * round));
      ::kill(pid, SIGKILL);
      int status = -1;
      REQUIRE(::waitpid(pid, &status, 0) == pid);
      CHECK(WIFSIGNALED(status));
      const auto store = open();
      CHECK_FALSE(store->stat(kCtx, key).value().has_value());
      CHECK(put(*store, key, "whole"));
      CHECK(get(*store, key) == "whole");
    }
    CHECK(keys(*open(), "").size() == 6);
  });
}
