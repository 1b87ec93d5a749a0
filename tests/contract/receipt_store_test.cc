// SPDX-License-Identifier: Apache-2.0
// What every ReceiptStore must do.
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "contract/store_factories.h"

using namespace ascope;
using namespace ascope::test;

namespace {

const OpContext kCtx;

template <typename Case>
void on_each_store(Case test_case) {
  for (const ReceiptStoreFactory& factory : receipt_stores()) {
    CAPTURE(factory.name);
    const TempDir dir;
    test_case(factory, dir.path());
  }
}

std::string receipt(int number) {
  return "{\"n\":" + std::to_string(number) + "}";
}

std::vector<std::string> newest(ReceiptStore& store, std::string_view slot, std::size_t limit) {
  auto list = store.newest(kCtx, slot, limit);
  REQUIRE_MESSAGE(list.has_value(), (list ? "" : list.error().message));
  return list.value();
}

}  // namespace

TEST_CASE("receipt store: newest first, each slot its own") {
  on_each_store([](const ReceiptStoreFactory& factory, const std::string& dir) {
    const auto store = factory.open(dir);
    CHECK(newest(*store, "sandbox/global", 5).empty());
    CHECK(store->clear(kCtx, "sandbox/global").has_value());
    if (factory.shared) {
      CHECK(std::filesystem::is_empty(dir));
    }
    for (int i = 1; i <= 3; ++i) {
      REQUIRE(store->append(kCtx, "sandbox/global", receipt(i)).has_value());
    }
    REQUIRE(store->append(kCtx, "sandbox/user/a/../b", receipt(9)).has_value());
    CHECK(newest(*store, "sandbox/global", 2) == std::vector<std::string>{receipt(3), receipt(2)});
    CHECK(newest(*store, "sandbox/global", 200).size() == 3);
    CHECK(newest(*store, "sandbox/global", 0).empty());
    CHECK(newest(*store, "sandbox/user/a/../b", 9) == std::vector<std::string>{receipt(9)});
    REQUIRE(store->clear(kCtx, "sandbox/global").has_value());
    CHECK(newest(*store, "sandbox/global", 5).empty());
    CHECK(newest(*store, "sandbox/user/a/../b", 9).size() == 1);
  });
}

TEST_CASE("receipt store: the last 200 are kept") {
  on_each_store([](const ReceiptStoreFactory& factory, const std::string& dir) {
    const auto store = factory.open(dir);
    for (int i = 1; i <= 450; ++i) {
      REQUIRE(store->append(kCtx, "sandbox/global", receipt(i)).has_value());
    }
    const auto list = newest(*store, "sandbox/global", 1000);
    REQUIRE(list.size() == 200);
    CHECK(list.front() == receipt(450));
    CHECK(list.back() == receipt(251));
  });
}

TEST_CASE("receipt store: of two writing processes nothing is lost") {
  on_each_store([](const ReceiptStoreFactory& factory, const std::string& dir) {
    if (!factory.shared) {
      return;
    }
    std::vector<pid_t> workers;
    for (int worker = 0; worker < 2; ++worker) {
      const pid_t pid = ::fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        const auto store = factory.open(dir);
        for (int i = 0; i < 90; ++i) {
          if (!store->append(kCtx, "sandbox/global", receipt(worker * 1000 + i))) {
            ::_exit(1);
          }
        }
        ::_exit(0);
      }
      workers.push_back(pid);
    }
    for (const pid_t pid : workers) {
      int status = -1;
      REQUIRE(::waitpid(pid, &status, 0) == pid);
      CHECK(status == 0);
    }
    CHECK(newest(*factory.open(dir), "sandbox/global", 200).size() == 180);
  });
}
