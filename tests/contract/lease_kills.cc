// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <random>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "contract/lease_contract.h"
#include "core/base/fd.h"
#include "core/base/random.h"

namespace ascope::testing {

namespace {

struct Place {
  std::string name;
  std::string guard_path;  // flock'ed inside a turn: the kernel drops it with its holder
  int out;                 // one fence a turn; 0 = two were inside at once
};

[[noreturn]] void work(const LeaseFixture& fixture, const Place& place) {
  const auto store = fixture.open();
  const int guard = ::open(place.guard_path.c_str(), O_RDWR | O_CLOEXEC);
  while (true) {
    LeaseRequest request = lease_request(fixture, place.name);
    request.wait = Millis(60'000);
    const auto grant = store->acquire({}, request);
    if (!grant) {
      ::_exit(4);
    }
    std::uint64_t fence = ::flock(guard, LOCK_EX | LOCK_NB) == 0 ? grant->fence : 0;
    ::usleep(500);
    std::array<char, sizeof fence> bytes{};
    std::memcpy(bytes.data(), &fence, sizeof fence);
    static_cast<void>(write_all(place.out, {bytes.data(), bytes.size()}).has_value());
    ::flock(guard, LOCK_UN);
    static_cast<void>(store->release({}, *grant).has_value());
  }
}

pid_t start_worker(const LeaseFixture& fixture, const Place& place) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      work(fixture, place);
    } catch (...) {  // a failed REQUIRE of the fixture
      ::_exit(3);
    }
  }
  return child;
}

// Reads the fences of the next `turns` turns; false if they do not come in time.
bool read_turns(int fd, int turns, std::vector<std::uint64_t>& fences) {
  for (int i = 0; i < turns; ++i) {
    pollfd item{fd, POLLIN, 0};
    std::uint64_t fence = 0;
    std::array<char, sizeof fence> bytes{};
    if (::poll(&item, 1, 30'000) <= 0 || ::read(fd, bytes.data(), bytes.size()) != sizeof fence) {
      return false;
    }
    std::memcpy(&fence, bytes.data(), sizeof fence);
    fences.push_back(fence);
  }
  return true;
}

}  // namespace

void check_lease_kills(const LeaseFixture& fixture, int workers, int kills) {
  CAPTURE(fixture.name);
  std::mt19937 random(20'260'101);
  std::string guard = "/tmp/ascope-guard-XXXXXX";
  const UniqueFd guard_fd(::mkostemp(guard.data(), O_CLOEXEC));
  REQUIRE(guard_fd.is_open());
  auto pipe = make_pipe();
  REQUIRE(pipe.has_value());
  const Place place{"kills/" + random_hex(4), guard, pipe->write_end.get()};
  std::vector<pid_t> children;
  for (int i = 0; i < workers; ++i) {
    children.push_back(start_worker(fixture, place));
  }
  std::vector<std::uint64_t> fences;
  for (int i = 0; i < kills; ++i) {
    REQUIRE(read_turns(pipe->read_end.get(), 5 + static_cast<int>(random() % 10), fences));
    ::usleep(static_cast<useconds_t>(random() % 2000));
    pid_t& victim = children[random() % children.size()];
    ::kill(victim, SIGKILL);
    ::waitpid(victim, nullptr, 0);
    victim = start_worker(fixture, place);
  }
  CHECK(read_turns(pipe->read_end.get(), 50, fences));
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ::unlink(guard.c_str());
  for (std::size_t i = 0; i < fences.size(); ++i) {
    CHECK(fences[i] != 0);
    CHECK((i == 0 || fences[i] > fences[i - 1]));
  }
}

}  // namespace ascope::testing
