// SPDX-License-Identifier: Apache-2.0
// lease_handover FOLDER ROUNDS: two processes take one lease from each other by turns on a SQLite store, and
// the milliseconds from each release to the other's grant are printed, one a line. The clock is shared
// (CLOCK_MONOTONIC).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "core/base/random.h"
#include "store/stores.h"

namespace {

using namespace ascope;  // NOLINT(google-build-using-namespace)

struct Shared {
  volatile std::int64_t released_ns;
};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

[[noreturn]] void die(const Error& error) {
  std::fprintf(stderr, "lease_handover: %s\n", error.message.c_str());
  std::exit(1);
}

// Takes the lease `rounds` times; holds it long enough that the other process waits by then.
void take_turns(const std::string& folder, int rounds, Shared* shared) {
  StoreUrl url;
  url.scheme = "sqlite";
  url.path = folder + "/leases.db";
  auto store = find_store_kind("sqlite")->open_leases({}, url, {folder, "bench"});
  if (!store) {
    die(store.error());
  }
  for (int i = 0; i < rounds; ++i) {
    LeaseRequest request;
    request.name = "bench";
    request.token = random_hex(16);
    auto grant = (*store)->acquire({}, request);
    const std::int64_t granted = now_ns();
    if (!grant) {
      die(grant.error());
    }
    if (const std::int64_t released = shared->released_ns; released != 0) {
      std::printf("%.4f\n", static_cast<double>(granted - released) / 1e6);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    shared->released_ns = now_ns();
    if (auto done = (*store)->release({}, *grant); !done) {
      die(done.error());
    }
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: lease_handover FOLDER ROUNDS\n");
    return 2;
  }
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return 1;
  }
  auto* shared = static_cast<Shared*>(memory);
  const int rounds = std::atoi(argv[2]);
  const pid_t other = ::fork();
  take_turns(argv[1], rounds, shared);
  if (other == 0) {
    std::exit(0);
  }
  int status = 0;
  ::waitpid(other, &status, 0);
  return status == 0 ? 0 : 1;
}
