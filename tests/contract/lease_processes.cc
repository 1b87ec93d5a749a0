// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>  // NOLINT(modernize-deprecated-headers): clock_gettime
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "contract/lease_contract.h"
#include "contract/lease_worker.h"
#include "core/base/random.h"

namespace ascope::testing {

namespace {

struct TurnRecord {
  std::uint64_t fence = 0;
  long long acquired = 0;
  long long released = 0;
};

long long now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// Exit code 0 when all turns were done.
int take_turns(const LeaseFixture& fixture, const std::string& name, int turns, int start_fd, int out_fd) {
  const auto store = fixture.open();
  char go = 0;
  static_cast<void>(read_some(start_fd, {&go, 1}).has_value());  // ends when the parent closes it
  for (int i = 0; i < turns; ++i) {
    LeaseRequest request = lease_request(fixture, name);
    request.wait = Millis(120'000);
    const auto grant = store->acquire({}, request);
    if (!grant) {
      return 4;
    }
    TurnRecord record{grant->fence, now_ns(), 0};
    record.released = now_ns();
    std::array<char, sizeof record> bytes{};
    std::memcpy(bytes.data(), &record, sizeof record);
    if (!write_all(out_fd, {bytes.data(), bytes.size()})) {
      return 5;
    }
    if (const auto released = store->release({}, *grant); !released || !*released) {
      return 6;
    }
  }
  return 0;
}

void check_turns(const LeaseFixture& fixture, int workers, int turns) {
  const std::string name = "turns/" + random_hex(4);
  std::string path = "/tmp/ascope-turns-XXXXXX";
  const UniqueFd log(::mkostemp(path.data(), O_APPEND | O_CLOEXEC));
  REQUIRE(log.is_open());
  ::unlink(path.c_str());
  auto start = make_pipe();
  REQUIRE(start.has_value());
  std::vector<pid_t> children;
  for (int i = 0; i < workers; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      start->write_end.reset();
      try {
        ::_exit(take_turns(fixture, name, turns, start->read_end.get(), log.get()));
      } catch (...) {  // a failed REQUIRE of the fixture
        ::_exit(3);
      }
    }
    children.push_back(child);
  }
  start->write_end.reset();
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  std::vector<TurnRecord> records(static_cast<std::size_t>(workers * turns));
  const std::size_t size = records.size() * sizeof(TurnRecord);
  REQUIRE(::pread(log.get(), records.data(), size, 0) == static_cast<ssize_t>(size));
  std::sort(records.begin(), records.end(),
            [](const TurnRecord& a, const TurnRecord& b) { return a.acquired < b.acquired; });
  std::vector<long long> handovers;
  for (std::size_t i = 1; i < records.size(); ++i) {
    CHECK(records[i].fence > records[i - 1].fence);
    CHECK(records[i].acquired >= records[i - 1].released);
    handovers.push_back(records[i].acquired - records[i - 1].released);
  }
  std::sort(handovers.begin(), handovers.end());
  const long long median = handovers[handovers.size() / 2];
  MESSAGE(fixture.name << ": " << workers << " processes, hand-over median " << median / 1000 << " µs, 99 % "
                       << handovers[handovers.size() * 99 / 100] / 1000 << " µs");
  CHECK(median < 20'000'000);
}

void check_order(const LeaseFixture& fixture, int workers) {
  const LeaseWorker::Setup setup{.name = "order/" + random_hex(4)};
  LeaseWorker holder(fixture, setup);
  REQUIRE(holder.ask('a').starts_with("got "));
  std::vector<std::unique_ptr<LeaseWorker>> waiters;
  for (int i = 0; i < workers; ++i) {
    waiters.push_back(std::make_unique<LeaseWorker>(fixture, setup));
    REQUIRE(waiters.back()->ask('a') == "wait");
  }
  CHECK(holder.ask('r') == "true");
  std::vector<long long> stamps;
  for (const auto& waiter : waiters) {
    // The queue moves on only when this one releases: one that is served out of turn is seen here.
    CHECK(waiter->answer().starts_with("got "));
    stamps.push_back(waiter->stamp());
    CHECK(waiter->ask('r') == "true");
  }
  CHECK(std::is_sorted(stamps.begin(), stamps.end()));
}

void check_killed_holder(const LeaseFixture& fixture) {
  const LeaseWorker::Setup setup{.name = "killed/" + random_hex(4),
                                 .ttl = Millis(fixture.sees_death ? 60'000 : 700)};
  LeaseWorker holder(fixture, setup);
  REQUIRE(holder.ask('a').starts_with("got "));
  LeaseWorker waiter(fixture, setup);
  REQUIRE(waiter.ask('a') == "wait");
  holder.kill();
  const long long killed = now_ns();
  CHECK(waiter.answer().starts_with("got "));
  CHECK(waiter.stamp() - killed < 8'000'000'000LL);
  CHECK(waiter.ask('r') == "true");
}

void check_killed_waiter(const LeaseFixture& fixture) {
  const LeaseWorker::Setup setup{.name = "head/" + random_hex(4)};
  LeaseWorker holder(fixture, setup);
  LeaseWorker head(fixture, setup);
  LeaseWorker next(fixture, setup);
  REQUIRE(holder.ask('a').starts_with("got "));
  REQUIRE(head.ask('a') == "wait");
  REQUIRE(next.ask('a') == "wait");
  head.kill();
  CHECK(holder.ask('r') == "true");
  const long long released = holder.stamp();
  CHECK(next.answer().starts_with("got "));
  CHECK(next.stamp() - released < 8'000'000'000LL);
}

void check_stopped_waiter(const LeaseFixture& fixture) {
  const LeaseWorker::Setup setup{.name = "stopped-head/" + random_hex(4)};
  LeaseWorker holder(fixture, setup);
  LeaseWorker head(fixture, setup);
  LeaseWorker next(fixture, setup);
  REQUIRE(holder.ask('a').starts_with("got "));
  REQUIRE(head.ask('a') == "wait");
  REQUIRE(next.ask('a') == "wait");
  head.signal(SIGSTOP);
  CHECK(holder.ask('r') == "true");
  CHECK(next.answer().starts_with("got "));
  CHECK(next.stamp() - holder.stamp() < 8'000'000'000LL);
  // Back to life, it does not take what another holds, and gets its turn after it.
  head.signal(SIGCONT);
  CHECK(head.answer(Millis(300)).empty());
  CHECK(next.ask('r') == "true");
  CHECK(head.answer().starts_with("got "));
  CHECK(head.stamp() - next.stamp() < 8'000'000'000LL);
}

void check_stopped_holder(const LeaseFixture& fixture) {
  const LeaseWorker::Setup setup{.name = "stopped/" + random_hex(4), .ttl = Millis(1500)};
  LeaseWorker holder(fixture, setup);
  REQUIRE(holder.ask('a').starts_with("got "));
  REQUIRE(holder.ask('k') == "ok");
  CHECK(holder.ask('c') == "ok");
  LeaseWorker next(fixture, {.name = setup.name});
  REQUIRE(next.ask('a') == "wait");
  holder.signal(SIGSTOP);
  const long long stopped = now_ns();
  CHECK(next.answer().starts_with("got "));
  CHECK(next.stamp() - stopped < 8'000'000'000LL);
  holder.signal(SIGCONT);
  CHECK(holder.ask('c') == "conflict");
  CHECK(holder.ask('n') == "false");
  CHECK(holder.ask('R') == "conflict");
  CHECK(holder.ask('r') == "false");
  // All that changed nothing for the new holder.
  CHECK(next.ask('n') == "true");
  CHECK(next.ask('r') == "true");
}

void check_no_process(const LeaseFixture& fixture) {
  const std::string name = "no-process/" + random_hex(4);
  LeaseWorker holder(fixture, {.name = name, .process = false});
  REQUIRE(holder.ask('a').starts_with("got "));
  holder.kill();  // proves nothing: only the deadline does, or a release by token
  LeaseWorker waiter(fixture, {.name = name, .wait = Millis(400)});
  CHECK(waiter.ask('a') == "wait");
  CHECK(waiter.answer() == "busy");
}

void check_prompt_release(const LeaseFixture& fixture) {
  const std::string name = "prompt/" + random_hex(4);
  LeaseWorker holder(fixture, {.name = name, .process = false});
  LeaseWorker waiter(fixture, {.name = name});
  for (int i = 0; i < 3; ++i) {
    REQUIRE(holder.ask('a').starts_with("got "));
    REQUIRE(waiter.ask('a') == "wait");
    ::usleep(30'000);
    CHECK(holder.ask('r') == "true");
    CHECK(waiter.answer().starts_with("got "));
    CHECK(waiter.stamp() - holder.stamp() < 3'000'000'000LL);
    CHECK(waiter.ask('r') == "true");
  }
}

}  // namespace

void check_lease_queue(const LeaseFixture& fixture, int workers, int turns) {
  CAPTURE(fixture.name);
  check_turns(fixture, workers, turns);
  if (fixture.kept_order) {
    check_order(fixture, workers);
  }
}

void check_lease_processes(const LeaseFixture& fixture) {
  CAPTURE(fixture.name);
  check_killed_holder(fixture);
  check_killed_waiter(fixture);
  check_stopped_waiter(fixture);
  check_stopped_holder(fixture);
  check_no_process(fixture);
  check_prompt_release(fixture);
}

}  // namespace ascope::testing
