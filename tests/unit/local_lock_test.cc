// SPDX-License-Identifier: Apache-2.0
#include "core/lease/local_lock.h"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <stdlib.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "core/lease/lock_queue.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

namespace {

struct TempFolder {
  TempFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~TempFolder() { std::filesystem::remove_all(path); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string path = "/tmp/ascope-lock-XXXXXX";
};

Millis now() {
  return system_clock().boottime();
}

// Runs `body` in a process of its own; its value is the exit code.
template <typename Body>
pid_t spawn(Body body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::_exit(body());
  }
  return child;
}

int wait_status(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("lock modes exclude each other as the table says") {
  struct Line {
    const char* name;
    LockMode held;
    LockMode asked;
    bool works;
  };
  const Line lines[] = {
      {"shared, shared", LockMode::shared, LockMode::shared, true},
      {"shared, commit", LockMode::shared, LockMode::commit, true},
      {"commit, shared", LockMode::commit, LockMode::shared, true},
      {"commit, commit", LockMode::commit, LockMode::commit, false},
      {"shared, exclusive", LockMode::shared, LockMode::exclusive, false},
      {"commit, exclusive", LockMode::commit, LockMode::exclusive, false},
      {"exclusive, shared", LockMode::exclusive, LockMode::shared, false},
      {"exclusive, commit", LockMode::exclusive, LockMode::commit, false},
      {"exclusive, exclusive", LockMode::exclusive, LockMode::exclusive, false},
  };
  const TempFolder folder;
  for (const Line& line : lines) {
    CAPTURE(line.name);
    const std::string path = folder.path + "/" + line.name;
    {
      const auto held = LocalLock::acquire({}, path, line.held, Millis(0));
      REQUIRE(held.has_value());
      const auto asked = LocalLock::acquire({}, path, line.asked, Millis(0));
      CHECK(asked.has_value() == line.works);
      if (!asked) {
        CHECK(asked.error().kind == ErrorKind::busy);
      }
    }
    CHECK(LocalLock::acquire({}, path, LockMode::exclusive, Millis(0)).has_value());
  }
}

TEST_CASE("a lock changes between commit and exclusive in place") {
  const TempFolder folder;
  const std::string path = folder.path + "/slot";
  auto lock = LocalLock::acquire({}, path, LockMode::exclusive, Millis(0));
  REQUIRE(lock.has_value());
  CHECK_FALSE(LocalLock::acquire({}, path, LockMode::shared, Millis(0)).has_value());
  REQUIRE(lock->change({}, LockMode::commit, Millis(0)).has_value());
  {
    const auto shared = LocalLock::acquire({}, path, LockMode::shared, Millis(0));
    CHECK(shared.has_value());
    CHECK_FALSE(LocalLock::acquire({}, path, LockMode::commit, Millis(0)).has_value());
    const auto refused = lock->change({}, LockMode::exclusive, Millis(20));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().kind == ErrorKind::busy);
    CHECK(lock->mode() == LockMode::commit);
  }
  CHECK(lock->change({}, LockMode::exclusive, Millis(0)).has_value());
  CHECK(lock->change({}, LockMode::shared, Millis(0)).error().kind == ErrorKind::internal);
}

TEST_CASE("the file is private, made on demand, and a symbolic link is refused") {
  const TempFolder folder;
  const std::string path = folder.path + "/slot";
  REQUIRE(LocalLock::acquire({}, path, LockMode::commit, Millis(0)).has_value());
  CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms(0600));
  REQUIRE(::symlink("/tmp/elsewhere", (folder.path + "/link").c_str()) == 0);
  CHECK_FALSE(LocalLock::acquire({}, folder.path + "/link", LockMode::commit, Millis(0)).has_value());
  CHECK(LocalLock::acquire({}, folder.path + "/none/slot", LockMode::commit, Millis(0)).error().kind ==
        ErrorKind::not_found);
}

TEST_CASE("waiting ends in time, and no earlier") {
  const TempFolder folder;
  const std::string path = folder.path + "/slot";
  const auto held = LocalLock::acquire({}, path, LockMode::exclusive, Millis(0));
  REQUIRE(held.has_value());
  for (const LockMode mode : {LockMode::shared, LockMode::commit, LockMode::exclusive}) {
    for (const int wait : {30, 600}) {
      const Millis before = now();
      const auto asked = LocalLock::acquire({}, path, mode, Millis(wait));
      const Millis took = now() - before;
      CHECK(asked.error().kind == ErrorKind::busy);
      CHECK(took >= Millis(wait));
      CHECK(took < Millis(wait + 10'000));  // a loaded machine
    }
  }
  const OpContext ctx = OpContext().with_timeout(Millis(50));
  CHECK(LocalLock::acquire(ctx, path, LockMode::commit, Millis(60'000)).error().kind == ErrorKind::timeout);
}

TEST_CASE("a holder and a waiter that are killed leave nothing behind") {
  const TempFolder folder;
  const std::string path = folder.path + "/slot";
  for (const LockMode mode : {LockMode::commit, LockMode::exclusive, LockMode::shared}) {
    auto ready = make_pipe();
    REQUIRE(ready.has_value());
    const auto hold = [&](LockMode held) {
      const auto lock = LocalLock::acquire({}, path, held, Millis(60'000));
      static_cast<void>(::write(ready->write_end.get(), "x", 1));
      ::pause();
      return lock.has_value() ? 0 : 1;
    };
    const pid_t holder = spawn([&] { return hold(mode); });
    char byte = 0;
    REQUIRE(::read(ready->read_end.get(), &byte, 1) == 1);
    const pid_t waiter = spawn([&] { return hold(LockMode::exclusive); });
    // Only to let the waiter come to its wait; whether it did makes no difference to what must hold.
    ::usleep(20'000);
    CHECK(LocalLock::acquire({}, path, LockMode::exclusive, Millis(0)).error().kind == ErrorKind::busy);
    ::kill(waiter, SIGKILL);
    wait_status(waiter);
    std::thread killer([&] {
      ::usleep(30'000);
      ::kill(holder, SIGKILL);
    });
    const Millis before = now();
    CHECK(LocalLock::acquire({}, path, LockMode::exclusive, Millis(10'000)).has_value());
    CHECK(now() - before < Millis(8000));
    killer.join();
    wait_status(holder);
  }
}

TEST_CASE("a signal ends the wait at once, and no other thread is disturbed") {
  const TempFolder folder;
  const std::string path = folder.path + "/slot";
  const auto held = LocalLock::acquire({}, path, LockMode::exclusive, Millis(0));
  REQUIRE(held.has_value());
  const pid_t child = spawn([&] {
    struct sigaction action{};
    action.sa_handler = [](int number) { interrupt_signal.store(number); };
    ::sigaction(SIGINT, &action, nullptr);
    const auto lock = LocalLock::acquire({}, path, LockMode::commit, Millis(60'000));
    return !lock && lock.error().kind == ErrorKind::cancelled && lock.error().signal == SIGINT ? 0 : 1;
  });
  ::usleep(50'000);
  const Millis before = now();
  ::kill(child, SIGINT);
  CHECK(wait_status(child) == 0);
  CHECK(now() - before < Millis(10'000));

  // A thread that sleeps beside a wait sleeps its full time, uninterrupted.
  int interrupted = 0;
  std::thread sleeper([&] {
    timespec left{0, 700'000'000};
    interrupted = ::nanosleep(&left, &left);
  });
  CHECK_FALSE(LocalLock::acquire({}, path, LockMode::commit, Millis(600)).has_value());
  sleeper.join();
  CHECK(interrupted == 0);
}

TEST_CASE("a lock on a file that was removed meanwhile is not believed") {
  const TempFolder folder;
  const std::string path = folder.path + "/slot";
  auto first = LocalLock::acquire({}, path, LockMode::commit, Millis(0));
  REQUIRE(first.has_value());
  std::thread remover([&] {
    ::usleep(50'000);
    std::filesystem::remove(path);
    const LocalLock gone = std::move(first).value();
  });
  const auto second = LocalLock::acquire({}, path, LockMode::commit, Millis(5000));
  remover.join();
  REQUIRE(second.has_value());
  CHECK(LocalLock::acquire({}, path, LockMode::commit, Millis(0)).error().kind == ErrorKind::busy);
}

TEST_CASE("tickets rise, also over an emptied file, and gaps are found") {
  const TempFolder folder;
  const std::string path = folder.path + "/queue";
  std::vector<LockQueue> queues;
  for (std::uint64_t i = 0; i < 5; ++i) {
    queues.push_back(LockQueue::open(path).value());
    CHECK(queues.back().draw({}).value() == i);
  }
  CHECK(queues[0].draw({}).error().kind == ErrorKind::internal);
  CHECK(queues[4].lowest_held(0, 4).value() == std::optional<std::uint64_t>(0));
  queues[0].leave();
  queues[2].leave();
  CHECK(queues[4].lowest_held(0, 4).value() == std::optional<std::uint64_t>(1));
  CHECK(queues[4].lowest_held(2, 3).value() == std::nullopt);
  CHECK(queues[1].wait_free({}, 0, 1, Millis(0)).value());
  CHECK_FALSE(queues[3].wait_free({}, 0, 3, Millis(0)).value());
  REQUIRE(::truncate(path.c_str(), 0) == 0);
  LockQueue late = LockQueue::open(path).value();
  CHECK(late.draw({}).value() == 5);
}

TEST_CASE("the bell wakes who listens") {
  const TempFolder folder;
  const std::string path = folder.path + "/queue";
  LockQueue listener = LockQueue::open(path).value();
  const LockQueue ringer = LockQueue::open(path).value();
  listener.watch();
  REQUIRE(ringer.ring().has_value());
  const Millis before = now();
  CHECK(listener.listen({}, Millis(5000)).has_value());
  CHECK(now() - before < Millis(4000));
  const Millis again = now();
  CHECK(listener.listen({}, Millis(40)).has_value());
  CHECK(now() - again >= Millis(40));
}
