// SPDX-License-Identifier: Apache-2.0
#include "contract/lease_contract.h"

#include <atomic>
#include <filesystem>
#include <stdlib.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/base/file.h"
#include "core/lease/lease_keeper.h"
#include "fakes/fake_lease_store.h"
#include "store/sqlite_db.h"

using namespace ascope;           // NOLINT(google-build-using-namespace)
using namespace ascope::testing;  // NOLINT(google-build-using-namespace)

namespace {

struct TempFolder {
  TempFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~TempFolder() { std::filesystem::remove_all(path); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string path = "/tmp/ascope-lease-XXXXXX";
};

// Waits until all threads of this process but this one sleep: the keeper's has read the clock and waits.
void await_sleeping_threads() {
  for (int round = 0; round < 5000; ++round) {
    bool busy = false;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const auto stat = read_file(task.path().string() + "/stat", 4096);
      const bool mine = task.path().filename() == std::to_string(::gettid());
      busy = busy || (!mine && stat && stat->substr(stat->rfind(')') + 2, 1) != "S");
    }
    if (!busy) {
      return;
    }
    std::this_thread::sleep_for(Millis(1));
  }
  FAIL("the keeper's thread does not come to rest");
}

LeaseFixture sqlite_fixture(const TempFolder& folder) {
  LeaseFixture out;
  out.name = "sqlite";
  out.sees_death = true;
  out.open = [&folder] {
    StoreUrl url;
    url.scheme = "sqlite";
    url.path = folder.path + "/leases.db";
    auto store = open_sqlite_leases({}, url, {folder.path, "host-a"});
    REQUIRE(store.has_value());
    return std::move(store).value();
  };
  out.wipe = [&folder] {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::filesystem::remove(folder.path + "/leases.db" + suffix);
    }
  };
  return out;
}

}  // namespace

TEST_CASE("sqlite keeps the lease contract") {
  const TempFolder folder;
  check_lease_contract(sqlite_fixture(folder));
}

TEST_CASE("the fake keeps the lease contract") {
  FakeLeaseServer server;
  LeaseFixture fixture;
  fixture.name = "fake";
  fixture.open = [&server] { return server.connect(); };
  fixture.wipe = [&server] { server.wipe(); };
  check_lease_contract(fixture);
}

TEST_CASE("a keeper bears a store that is down for less than a TTL, and no longer") {
  FakeLeaseServer server;
  LeaseFixture fixture;
  const auto store = server.connect();
  LeaseRequest request = lease_request(fixture, "slot");
  request.ttl = Millis(1500);
  std::atomic<int> lost = 0;  // counted on the keeper's thread
  LeaseKeeper keeper(*store, store->acquire({}, request).value(), system_clock(), Millis(0), [&] { ++lost; });
  server.set_down(true);
  ::usleep(600'000);
  server.set_down(false);
  ::usleep(400'000);
  CHECK(keeper.check().has_value());
  CHECK(lost == 0);
  server.set_down(true);
  ::usleep(1'300'000);
  CHECK(keeper.check().error().kind == ErrorKind::conflict);
  ::usleep(1'000'000);
  CHECK(lost == 1);
  server.set_down(false);
  CHECK(keeper.release({}).error().kind == ErrorKind::conflict);
}

TEST_CASE("sqlite leases outlive killed and stopped processes") {
  const TempFolder folder;
  check_lease_processes(sqlite_fixture(folder));
}

TEST_CASE("sqlite leases go round in order of arrival") {
  const TempFolder folder;
  check_lease_queue(sqlite_fixture(folder), 8, 40);
  check_lease_queue(sqlite_fixture(folder), 50, 6);
}

namespace {

class ShiftedClock final : public Clock {
 public:
  [[nodiscard]] Millis boottime() const override { return system_clock().boottime() + boot_shift; }
  [[nodiscard]] std::chrono::system_clock::time_point wall() const override {
    return std::chrono::system_clock::now() + wall_shift;
  }
  Millis boot_shift{0};
  Millis wall_shift{0};
};

std::unique_ptr<LeaseStore> open_on_host(const TempFolder& folder, const std::string& host) {
  StoreUrl url;
  url.scheme = "sqlite";
  url.path = folder.path + "/leases.db";
  return open_sqlite_leases({}, url, {folder.path, host}).value();
}

}  // namespace

TEST_CASE("a sqlite lease is taken over at once only from a holder that is proven dead") {
  struct Line {
    const char* name;
    std::function<void(LeaseHolder&)> change;
    bool taken;
  };
  const Line lines[] = {
      {"alive", [](LeaseHolder&) {}, false},
      {"the number is another process's now", [](LeaseHolder& h) { h.start_time += 1; }, true},
      {"no process of that number", [](LeaseHolder& h) { h.pid = 4'194'303; }, true},
      {"another pid namespace", [](LeaseHolder& h) { h.pid = 4'194'303, h.pid_namespace += 1; }, false},
      {"no process stands behind it", [](LeaseHolder& h) { h.pid = 0; }, false},
  };
  for (const Line& line : lines) {
    CAPTURE(line.name);
    const TempFolder folder;
    const LeaseFixture fixture = sqlite_fixture(folder);
    const auto store = fixture.open();
    LeaseRequest request = lease_request(fixture, "slot");
    line.change(request.holder);
    REQUIRE(store->acquire({}, request).has_value());
    const auto other = fixture.open();
    CHECK(other->list({})->at(0).proven_dead == line.taken);
    LeaseRequest next = lease_request(fixture, "slot");
    const auto grant = other->acquire({}, next);
    CHECK(grant.has_value() == line.taken);
  }
}

TEST_CASE("a sqlite lease of another machine is judged by its deadline alone") {
  const TempFolder folder;
  const auto there = open_on_host(folder, "host-b");
  const LeaseFixture fixture = sqlite_fixture(folder);
  LeaseRequest request = lease_request(fixture, "slot");
  request.holder.host = "host-b";
  request.holder.pid = 4'194'303;  // means nothing here
  request.ttl = Millis(900);
  const auto grant = there->acquire({}, request);
  REQUIRE(grant.has_value());
  const auto here = fixture.open();
  LeaseRequest next = lease_request(fixture, "slot");
  CHECK(here->acquire({}, next).error().kind == ErrorKind::busy);
  next.wait = Millis(8000);
  CHECK(here->acquire({}, next).has_value());
  CHECK_FALSE(there->renew({}, *grant).value());
}

TEST_CASE("a sqlite lease of this machine's last boot is over") {
  const TempFolder folder;
  const LeaseFixture fixture = sqlite_fixture(folder);
  const auto store = fixture.open();
  LeaseRequest request = lease_request(fixture, "slot");
  request.holder.pid = 0;
  REQUIRE(store->acquire({}, request).has_value());
  auto db = SqliteDb::open({}, folder.path + "/leases.db", SqliteDurability::ordered);
  REQUIRE(db->run("UPDATE ascope_leases SET boot_id='another'").has_value());
  CHECK(store->acquire({}, lease_request(fixture, "slot")).has_value());
}

TEST_CASE("a wrong wall clock neither ends nor lengthens a sqlite lease, nor turns its fence back") {
  for (const Millis shift : {Millis(3'600'000), Millis(-3'600'000)}) {
    const TempFolder folder;
    const LeaseFixture fixture = sqlite_fixture(folder);
    const auto store = fixture.open();
    const auto first = store->acquire({}, lease_request(fixture, "slot"));
    REQUIRE(first.has_value());
    ShiftedClock clock;
    clock.wall_shift = shift;
    OpContext ctx;
    ctx.clock = &clock;
    const auto other = fixture.open();
    CHECK(other->acquire(ctx, lease_request(fixture, "slot")).error().kind == ErrorKind::busy);
    CHECK(other->renew(ctx, *first).value());
    CHECK(store->release({}, *first).value());
    const auto second = other->acquire(ctx, lease_request(fixture, "slot"));
    REQUIRE(second.has_value());
    CHECK(second->fence > first->fence);
    CHECK(other->release(ctx, *second).value());
    const auto third = store->acquire({}, lease_request(fixture, "slot"));
    REQUIRE(third.has_value());
    CHECK(third->fence > second->fence);
  }
}

TEST_CASE("time in suspend counts: the keeper fails its check, another may take the lease") {
  const TempFolder folder;
  const LeaseFixture fixture = sqlite_fixture(folder);
  const auto store = fixture.open();
  ShiftedClock clock;
  OpContext ctx;
  ctx.clock = &clock;
  LeaseKeeper keeper(*store, store->acquire(ctx, lease_request(fixture, "slot")).value(), clock, Millis(0),
                     nullptr);
  CHECK(keeper.check().has_value());
  await_sleeping_threads();
  clock.boot_shift = Millis(39'000);
  CHECK(keeper.check().has_value());
  clock.boot_shift = Millis(41'000);  // ttl·2/3 of 60 s
  CHECK(keeper.check().error().kind == ErrorKind::conflict);
  clock.boot_shift = Millis(61'000);
  CHECK(keeper.check().error().kind == ErrorKind::conflict);
  const auto other = fixture.open();
  CHECK(other->acquire(ctx, lease_request(fixture, "slot")).has_value());
  CHECK(keeper.release(ctx).error().kind == ErrorKind::conflict);
}

TEST_CASE("a sqlite file that is no database, or holds a broken holder, is corrupt and not free") {
  const TempFolder folder;
  const LeaseFixture fixture = sqlite_fixture(folder);
  const auto store = fixture.open();
  REQUIRE(store->acquire({}, lease_request(fixture, "slot")).has_value());
  auto db = SqliteDb::open({}, folder.path + "/leases.db", SqliteDurability::ordered);
  REQUIRE(db->run("UPDATE ascope_leases SET holder='{}'").has_value());
  CHECK(store->acquire({}, lease_request(fixture, "slot")).error().kind == ErrorKind::corrupt);
  const TempFolder broken;
  REQUIRE(write_file_atomic(broken.path + "/leases.db", std::string(5000, 'x')).has_value());
  StoreUrl url;
  url.path = broken.path + "/leases.db";
  const auto opened = open_sqlite_leases({}, url, {broken.path, "host-a"});
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().kind == ErrorKind::corrupt);
}

TEST_CASE("sqlite leases go on when holders and waiters are killed") {
  const TempFolder folder;
  check_lease_kills(sqlite_fixture(folder), 6, 15);
}
