// SPDX-License-Identifier: Apache-2.0
// What every StateStore must do, one case after the other on each of them.
#include <algorithm>
#include <csignal>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "contract/store_factories.h"
#include "core/record.h"
#include "core/slot_key.h"
#include "unit/sample_documents.h"

using namespace ascope;
using namespace ascope::test;

namespace {

const OpContext kCtx;

std::string record_bytes(std::uint64_t rev = 1) {
  SlotMeta meta;
  meta.rev = rev;
  return build_record(std::string(kSampleDocuments[0].text), false, meta);
}

std::optional<std::string> value_of(StateStore& store, std::string_view slot,
                                    std::string_view key = kRecordKey) {
  auto value = store.read(kCtx, slot, key);
  REQUIRE_MESSAGE(value.has_value(), (value ? "" : value.error().message));
  return value.value();
}

bool swapped(StateStore& store, std::string_view slot, const std::optional<std::string>& expected,
             std::string_view desired, std::string_view key = kRecordKey) {
  auto done = store.swap(kCtx, slot, key, expected, desired);
  REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().message));
  return done.value();
}

// Runs `work` in a process of its own; its number tells the workers apart.
pid_t spawn(const std::function<int()>& work) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::_exit(work());
  }
  return pid;
}

int wait_for(pid_t pid) {
  int status = -1;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return status;
}

template <typename Case>
void on_each_store(Case test_case, bool only_shared = false) {
  for (const StateStoreFactory& factory : state_stores()) {
    if (only_shared && !factory.shared) {
      continue;
    }
    CAPTURE(factory.name);
    const TempDir dir;
    REQUIRE_FALSE(dir.path().empty());
    test_case(factory, dir.path());
  }
}

// The revision in a value, -1 if it is no whole record of ours.
std::int64_t revision(const std::optional<std::string>& bytes) {
  const SlotRecord record = parse_record(bytes);
  return record.kind == RecordClass::ours ? static_cast<std::int64_t>(record.meta->rev) : -1;
}

}  // namespace

TEST_CASE("state store: swap writes only over what was expected") {
  on_each_store([](const StateStoreFactory& factory, const std::string& dir) {
    const auto store = factory.open(dir);
    const std::string slot = "sandbox/user/a/b";
    const std::string one = record_bytes(1);
    const std::string two = record_bytes(2);
    CHECK_FALSE(value_of(*store, slot).has_value());
    CHECK_FALSE(swapped(*store, slot, one, two));
    CHECK_FALSE(value_of(*store, slot).has_value());
    CHECK(swapped(*store, slot, std::nullopt, one));
    CHECK(value_of(*store, slot) == one);
    CHECK_FALSE(swapped(*store, slot, std::nullopt, two));
    CHECK_FALSE(swapped(*store, slot, two, two));
    CHECK_FALSE(swapped(*store, slot, one + " ", two));
    CHECK_FALSE(swapped(*store, slot, std::string(), two));
    CHECK(value_of(*store, slot) == one);
    CHECK(swapped(*store, slot, one, two));
    CHECK(value_of(*store, slot) == two);
    CHECK_FALSE(swapped(*store, slot, one, one));
  });
}

TEST_CASE("state store: values are bytes") {
  on_each_store([](const StateStoreFactory& factory, const std::string& dir) {
    const auto store = factory.open(dir);
    const std::string values[] = {"",         "x",    std::string("a\0b", 3),
                                  "\xff\xfe", "{}",   "{\"a\":1}",
                                  "[]",       "null", "{\"json\":\"\u00e9\\u0001\\\"\",\"deleted\":false}",
                                  "1",        " {} ", std::string(3'000'000, 'x')};
    int number = 0;
    for (const std::string& value : values) {
      CAPTURE(value.substr(0, 40));
      const std::string slot = "sandbox/session/" + std::to_string(++number);
      for (const std::string_view key : {kRecordKey, std::string_view("_ascope.1-0123456789abcdef")}) {
        CHECK(swapped(*store, slot, std::nullopt, value, key));
        CHECK(value_of(*store, slot, key) == value);
        CHECK(swapped(*store, slot, value, "other", key));
        CHECK(swapped(*store, slot, "other", value, key));
        CHECK(value_of(*store, slot, key) == value);
      }
    }
  });
}

TEST_CASE("state store: keys of one slot are apart from those of another") {
  on_each_store([](const StateStoreFactory& factory, const std::string& dir) {
    const auto store = factory.open(dir);
    const auto keys = [&](std::string_view slot) { return store->keys(kCtx, slot).value(); };
    CHECK(keys("sandbox/user/a/b").empty());
    CHECK(swapped(*store, "sandbox/user/a/b", std::nullopt, "1", "_ascope.2-b"));
    CHECK(swapped(*store, "sandbox/user/a/b", std::nullopt, "2"));
    CHECK(swapped(*store, "sandbox/user/a/b", std::nullopt, "3", "_ascope.1-a"));
    CHECK(swapped(*store, "sandbox/user/a/B", std::nullopt, "4", "_ascope.1-a"));
    CHECK(swapped(*store, kRealmSlot, std::nullopt, "5", "_ascope_realm"));
    CHECK(keys("sandbox/user/a/b") ==
          std::vector<std::string>{"_ascope.1-a", "_ascope.2-b", "_sandbox_state"});
    CHECK(keys("sandbox/user/a/B") == std::vector<std::string>{"_ascope.1-a"});
    CHECK(store->remove(kCtx, "sandbox/user/a/b", "_ascope.1-a").has_value());
    CHECK(store->remove(kCtx, "sandbox/user/a/b", "_ascope.1-a").has_value());
    CHECK(store->remove(kCtx, "sandbox/session/never", "_ascope.1-a").has_value());
    CHECK(keys("sandbox/user/a/b") == std::vector<std::string>{"_ascope.2-b", "_sandbox_state"});
    CHECK(value_of(*store, "sandbox/user/a/B", "_ascope.1-a") == "4");
    CHECK_FALSE(value_of(*store, "sandbox/user/a/b", "_ascope.1-a").has_value());
    // Slots are those that hold a record.
    CHECK(store->slots(kCtx).value() == std::vector<std::string>{"sandbox/user/a/b"});
  });
}

TEST_CASE("state store: hostile names are listed as they are and hold their own value") {
  on_each_store([](const StateStoreFactory& factory, const std::string& dir) {
    const auto store = factory.open(dir);
    std::vector<std::string> names = {"sandbox/global",
                                      "sandbox/session/s",
                                      "sandbox/session/S",
                                      "sandbox/session/s ",
                                      "sandbox/session/..",
                                      "sandbox/user/a/b/c",
                                      "sandbox/user/a/../../x",
                                      "sandbox/session/'; DROP TABLE x; --",
                                      "sandbox/session/%",
                                      "sandbox/session/_",
                                      "sandbox/session/a\nb",
                                      "sandbox/session/\xff",
                                      "sandbox/session/\u00e9",
                                      "sandbox/session/e\u0301",
                                      "sandbox/",
                                      "chat-1",
                                      "..",
                                      ".",
                                      "a b",
                                      "Li4",
                                      "sandbox/agent/" + std::string(191, 'x'),
                                      "sandbox/agent/" + std::string(1024, 'x'),
                                      "sandbox/agent/" + std::string(1024, 'y'),
                                      "sandbox/user/a/" + std::string(3 * 4096, 'z')};
    if (std::string_view(factory.name) == "json") {
      // There "Li4" is how the folder of ".." is called: see the store's own test.
      names.erase(std::find(names.begin(), names.end(), "Li4"));
    }
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK_FALSE(value_of(*store, name).has_value());
      CHECK(swapped(*store, name, std::nullopt, "value of " + name));
    }
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK(value_of(*store, name) == "value of " + name);
      CHECK(store->keys(kCtx, name).value() == std::vector<std::string>{std::string(kRecordKey)});
    }
    std::sort(names.begin(), names.end());
    CHECK(store->slots(kCtx).value() == names);
  });
}

TEST_CASE("state store: looking into a store that was never written makes nothing") {
  on_each_store([](const StateStoreFactory& factory, const std::string& dir) {
    const auto store = factory.open(dir);
    CHECK_FALSE(value_of(*store, "sandbox/global").has_value());
    CHECK(store->slots(kCtx).value().empty());
    CHECK(store->keys(kCtx, "sandbox/global").value().empty());
    CHECK(store->remove(kCtx, "sandbox/global", "_ascope.1-a").has_value());
    CHECK(std::filesystem::is_empty(dir));
  });
}

TEST_CASE("state store: two objects see each other's writes") {
  on_each_store(
      [](const StateStoreFactory& factory, const std::string& dir) {
        const auto one = factory.open(dir);
        const auto two = factory.open(dir);
        CHECK_FALSE(value_of(*two, "sandbox/global").has_value());
        CHECK(swapped(*one, "sandbox/global", std::nullopt, "1"));
        CHECK(value_of(*two, "sandbox/global") == "1");
        CHECK(swapped(*two, "sandbox/global", "1", "2"));
        CHECK_FALSE(swapped(*one, "sandbox/global", "1", "3"));
        CHECK(value_of(*one, "sandbox/global") == "2");
      },
      true);
}

TEST_CASE("state store: files are for their owner alone") {
  on_each_store(
      [](const StateStoreFactory& factory, const std::string& dir) {
        const auto store = factory.open(dir);
        CHECK(swapped(*store, "sandbox/global", std::nullopt, "1"));
        int files = 0;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
          CAPTURE(entry.path().string());
          const auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
          CHECK((entry.status().permissions() & others) == std::filesystem::perms::none);
          files += entry.is_regular_file() ? 1 : 0;
        }
        CHECK(files > 0);
      },
      true);
}

TEST_CASE("state store: of racing increments none is lost") {
  on_each_store(
      [](const StateStoreFactory& factory, const std::string& dir) {
        constexpr std::uint64_t kEach = 500;
        const std::string slot = "sandbox/user/a/b";
        CHECK(swapped(*factory.open(dir), slot, std::nullopt, record_bytes(0)));
        std::vector<pid_t> workers;
        for (int worker = 0; worker < 2; ++worker) {
          workers.push_back(spawn([&] {
            const auto store = factory.open(dir);
            for (std::uint64_t done = 0; done < kEach;) {
              const auto present = store->read(kCtx, slot, kRecordKey);
              const auto rev = present ? revision(present.value()) : -1;
              if (rev < 0) {
                return 1;
              }
              const auto written = store->swap(kCtx, slot, kRecordKey, present.value(),
                                               record_bytes(static_cast<std::uint64_t>(rev) + 1));
              if (!written) {
                return 2;
              }
              done += written.value() ? 1 : 0;
            }
            return 0;
          }));
        }
        for (const pid_t pid : workers) {
          CHECK(wait_for(pid) == 0);
        }
        CHECK(revision(value_of(*factory.open(dir), slot)) == 2 * kEach);
      },
      true);
}

TEST_CASE("state store: of racing creators one wins") {
  on_each_store(
      [](const StateStoreFactory& factory, const std::string& dir) {
        for (int round = 0; round < 10; ++round) {
          const std::string slot = "sandbox/session/" + std::to_string(round);
          std::vector<pid_t> workers;
          for (int worker = 0; worker < 4; ++worker) {
            workers.push_back(spawn([&] {
              const auto made = factory.open(dir)->swap(kCtx, slot, kRecordKey, std::nullopt, record_bytes());
              return !made ? 2 : made.value() ? 1 : 0;
            }));
          }
          int winners = 0;
          for (const pid_t pid : workers) {
            const int status = wait_for(pid);
            REQUIRE(WIFEXITED(status));
            REQUIRE(WEXITSTATUS(status) != 2);
            winners += WEXITSTATUS(status);
          }
          CHECK(winners == 1);
        }
      },
      true);
}

TEST_CASE("state store: kill -9 in the middle of writing leaves an old or a new value, and no lock") {
  on_each_store(
      [](const StateStoreFactory& factory, const std::string& dir) {
        const std::string slot = "sandbox/user/a/b";
        CHECK(swapped(*factory.open(dir), slot, std::nullopt, record_bytes(0)));
        std::int64_t before = 0;
        for (int round = 0; round < 12; ++round) {
          const pid_t pid = spawn([&] {
            const auto store = factory.open(dir);
            while (true) {
              const auto present = store->read(kCtx, slot, kRecordKey);
              const auto rev = static_cast<std::uint64_t>(revision(present.value()));
              if (!store->swap(kCtx, slot, kRecordKey, present.value(), record_bytes(rev + 1))) {
                return 1;
              }
            }
          });
          ::usleep(static_cast<useconds_t>(2000 + 3100 * round));
          ::kill(pid, SIGKILL);
          const int status = wait_for(pid);
          CHECK(WIFSIGNALED(status));
          const auto store = factory.open(dir);
          const std::int64_t now = revision(value_of(*store, slot));
          CHECK(now >= before);
          before = now;
          const OpContext soon = kCtx.with_timeout(Millis(5000));
          const auto written =
              store->swap(soon, slot, kRecordKey, store->read(kCtx, slot, kRecordKey).value(),
                          record_bytes(static_cast<std::uint64_t>(now) + 1));
          CHECK((written && written.value()));
        }
        CHECK(before > 0);
      },
      true);
}

TEST_CASE("state store: a full disk is an io error with a hint, and the old value stays") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root may mount a small file system");
    return;
  }
  on_each_store(
      [](const StateStoreFactory& factory, const std::string& dir) {
        if (::mount("tmpfs", dir.c_str(), "tmpfs", MS_NODEV | MS_NOSUID, "size=400k") != 0) {
          MESSAGE("skipped: mount is not allowed here");
          return;
        }
        {
          const auto store = factory.open(dir);
          const std::string small = record_bytes(1);
          CHECK(swapped(*store, "sandbox/global", std::nullopt, small));
          const auto full = store->swap(kCtx, "sandbox/global", kRecordKey, small, std::string(600'000, 'x'));
          REQUIRE_FALSE(full.has_value());
          CHECK(to_string(full.error().kind) == "io");
          CHECK_MESSAGE(full.error().hint.find("free some space") != std::string::npos, full.error().message);
          CHECK(value_of(*store, "sandbox/global") == small);
          CHECK(swapped(*store, "sandbox/global", small, record_bytes(2)));
        }
        CHECK(::umount(dir.c_str()) == 0);
      },
      true);
}

TEST_CASE("state store: an interrupt or a passed deadline ends a call") {
  on_each_store([](const StateStoreFactory& factory, const std::string& dir) {
    const auto store = factory.open(dir);
    OpContext late;
    late.deadline = late.clock->boottime() - Millis(1);
    CHECK(store->read(late, "sandbox/global", kRecordKey).error().kind == ErrorKind::timeout);
    CHECK(store->swap(late, "sandbox/global", kRecordKey, std::nullopt, "x").error().kind ==
          ErrorKind::timeout);
    CHECK_FALSE(value_of(*store, "sandbox/global").has_value());
  });
}
