// SPDX-License-Identifier: Apache-2.0
#include "contract/lease_contract.h"

#include <algorithm>
#include <atomic>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/base/process.h"
#include "core/base/random.h"
#include "core/lease/holder.h"
#include "core/lease/lease_keeper.h"

namespace ascope::testing {

LeaseHolder this_process(const std::string& host) {
  LeaseHolder out;
  out.host = host;
  out.host_name = "build7";
  out.boot = boot_id().value();
  out.pid_namespace = pid_namespace().value();
  out.pid = ::getpid();
  out.start_time = process_start_time(::getpid()).value();
  out.user = "alice";
  out.command = "run -- make \xFF\n";
  return out;
}

LeaseRequest lease_request(const LeaseFixture& fixture, const std::string& name) {
  LeaseRequest out;
  out.name = name;
  out.token = random_hex(16);
  out.holder = this_process(fixture.host);
  out.wait = Millis(0);
  return out;
}

namespace {

void check_one_holder(const LeaseFixture& fixture) {
  const auto first = fixture.open();
  const auto second = fixture.open();
  const std::string name = "sandbox/user/a/" + random_hex(4);
  LeaseRequest request = lease_request(fixture, name);
  const auto grant = first->acquire({}, request);
  REQUIRE(grant.has_value());
  CHECK(grant->name == name);
  CHECK(grant->token == request.token);
  CHECK(grant->ttl == request.ttl);
  CHECK(grant->fence > 1'600'000'000'000'000U);  // µs since the epoch

  // The same token again, on another connection too: the same grant.
  CHECK(first->acquire({}, request)->fence == grant->fence);
  CHECK(second->acquire({}, request)->fence == grant->fence);

  // Another token: busy, at once, and the message says who.
  int told = 0;
  LeaseRequest other = lease_request(fixture, name);
  other.on_wait = [&](const LeaseInfo& info) { told += info.holder.user == "alice" ? 1 : 100; };
  const auto refused = second->acquire({}, other);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::busy);
  CHECK(refused.error().message.find("alice on build7, pid " + std::to_string(::getpid())) !=
        std::string::npos);
  CHECK(refused.error().message.find('\n') == std::string::npos);
  CHECK(told == 0);
  other.wait = Millis(60);
  CHECK(second->acquire({}, other).error().kind == ErrorKind::busy);
  CHECK(told == 1);

  // Another name is another lease.
  LeaseRequest beside = lease_request(fixture, name + "x");
  const auto third = second->acquire({}, beside);
  REQUIRE(third.has_value());
  CHECK(second->release({}, *third).value());

  CHECK(first->renew({}, *grant).value());
  CHECK(first->release({}, *grant).value());
  CHECK_FALSE(first->release({}, *grant).value());
  CHECK_FALSE(first->renew({}, *grant).value());
  other.wait = Millis(0);
  const auto next = second->acquire({}, other);
  REQUIRE(next.has_value());
  CHECK(next->fence > grant->fence);
  // A stale release, renewal and raise change nothing.
  CHECK_FALSE(first->release({}, *grant).value());
  CHECK_FALSE(first->renew({}, *grant).value());
  CHECK(first->raise({}, *grant, 7).error().kind == ErrorKind::conflict);
  CHECK(second->renew({}, *next).value());
  CHECK(second->release({}, *next).value());
}

void check_fences(const LeaseFixture& fixture) {
  const auto store = fixture.open();
  const std::string name = "fences/" + random_hex(4);
  std::uint64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    LeaseRequest request = lease_request(fixture, name);
    const auto grant = store->acquire({}, request);
    REQUIRE(grant.has_value());
    CHECK(grant->fence > last);
    last = grant->fence;
    REQUIRE(store->release({}, *grant).value());
  }
  // A record with a higher fence lifts the lease's.
  const std::uint64_t ahead = last + 3'600'000'000U;
  LeaseRequest request = lease_request(fixture, name);
  request.min_fence = ahead;
  auto grant = store->acquire({}, request);
  REQUIRE(grant.has_value());
  CHECK(grant->fence > ahead);
  const std::uint64_t raised = store->raise({}, *grant, grant->fence + 1000).value();
  CHECK(raised > grant->fence + 1000);
  // One raise for nothing still never gives a number twice.
  CHECK(store->raise({}, *grant, 5).value() > raised);
  REQUIRE(store->release({}, *grant).value());
  request = lease_request(fixture, name);
  CHECK(store->acquire({}, request)->fence > raised);
}

void check_list_and_break(const LeaseFixture& fixture) {
  const auto store = fixture.open();
  const auto other = fixture.open();
  const std::string name = "listed/\xC3\xA4 / ../" + random_hex(4);
  LeaseRequest request = lease_request(fixture, name);
  request.ttl = Millis(40'000);
  const auto grant = store->acquire({}, request);
  REQUIRE(grant.has_value());
  const auto find = [&]() -> std::optional<LeaseInfo> {
    for (const LeaseInfo& info : other->list({}).value()) {
      if (info.name == name) {
        return info;
      }
    }
    return std::nullopt;
  };
  const auto info = find();
  REQUIRE(info.has_value());
  CHECK(info->token == grant->token);
  CHECK(info->fence == grant->fence);
  CHECK(info->ttl == Millis(40'000));
  CHECK(info->holder.pid == ::getpid());
  CHECK(info->holder.start_time == request.holder.start_time);
  CHECK(info->holder.command == request.holder.command);
  CHECK_FALSE(info->since.empty());
  CHECK_FALSE(info->proven_dead);
  REQUIRE(info->remaining.has_value());
  CHECK(*info->remaining <= Millis(40'000));
  CHECK(*info->remaining > Millis(30'000));

  CHECK_FALSE(other->break_lease({}, name, random_hex(16)).value());
  CHECK(find().has_value());
  CHECK(other->break_lease({}, name, grant->token).value());
  CHECK_FALSE(find().has_value());
  CHECK_FALSE(store->renew({}, *grant).value());
  CHECK_FALSE(store->release({}, *grant).value());
  const auto next = other->acquire({}, lease_request(fixture, name));
  REQUIRE(next.has_value());
  CHECK(next->fence > grant->fence);
  CHECK(other->release({}, *next).value());
}

void check_expiry(const LeaseFixture& fixture) {
  const auto store = fixture.open();
  const auto other = fixture.open();
  const std::string name = "expiry/" + random_hex(4);
  LeaseRequest request = lease_request(fixture, name);
  request.ttl = Millis(900);
  request.holder.pid = 0;  // as `lock acquire` leaves it
  const auto grant = store->acquire({}, request);
  REQUIRE(grant.has_value());
  LeaseRequest second = lease_request(fixture, name);
  CHECK(other->acquire({}, second).error().kind == ErrorKind::busy);
  second.wait = Millis(5000);
  const Millis before = system_clock().boottime();
  const auto next = other->acquire({}, second);
  REQUIRE(next.has_value());
  CHECK(system_clock().boottime() - before < Millis(4500));
  CHECK(next->fence > grant->fence);
  CHECK_FALSE(store->renew({}, *grant).value());
  CHECK_FALSE(store->release({}, *grant).value());
  CHECK(other->renew({}, *next).value());
  CHECK(other->release({}, *next).value());
}

void check_join(const LeaseFixture& fixture) {
  const auto store = fixture.open();
  const auto other = fixture.open();
  const std::string name = "joined/" + random_hex(4);
  LeaseRequest request = lease_request(fixture, name);
  request.ttl = Millis(1500);
  request.holder.pid = 0;
  const auto grant = store->acquire({}, request);
  REQUIRE(grant.has_value());
  const auto joined = join_lease(*other, {}, name, grant->token);
  REQUIRE(joined.has_value());
  CHECK(joined->fence == grant->fence);
  CHECK(joined->ttl == Millis(1500));
  CHECK(other->renew({}, *joined).value());
  CHECK(join_lease(*other, {}, name + "x", grant->token).error().kind == ErrorKind::conflict);
  CHECK(join_lease(*other, {}, name, random_hex(16)).error().kind == ErrorKind::conflict);
  CHECK(join_lease(*other, {}, name, "").error().kind == ErrorKind::conflict);
  ::usleep(1'600'000);
  CHECK(join_lease(*other, {}, name, grant->token).error().kind == ErrorKind::conflict);
}

void check_keeper(const LeaseFixture& fixture) {
  const auto store = fixture.open();
  const auto other = fixture.open();
  const std::string name = "kept/" + random_hex(4);
  LeaseRequest request = lease_request(fixture, name);
  request.ttl = Millis(900);
  std::atomic<int> lost = 0;  // counted on the keeper's thread
  {
    LeaseKeeper keeper(*store, store->acquire({}, request).value(), system_clock(), Millis(0),
                       [&] { ++lost; });
    ::usleep(2'000'000);  // more than two TTLs, blocked
    CHECK(keeper.check().has_value());
    CHECK(other->acquire({}, lease_request(fixture, name)).error().kind == ErrorKind::busy);
    CHECK(keeper.release({}).has_value());
  }
  CHECK(lost == 0);
  request.token = random_hex(16);
  {
    LeaseKeeper keeper(*store, store->acquire({}, request).value(), system_clock(), Millis(0),
                       [&] { ++lost; });
    CHECK(other->break_lease({}, name, request.token).value());
    ::usleep(500'000);  // a renewal falls into it
    CHECK(keeper.check().error().kind == ErrorKind::conflict);
    CHECK(keeper.release({}).error().kind == ErrorKind::conflict);
  }
  CHECK(lost == 1);
  request.token = random_hex(16);
  {
    LeaseKeeper keeper(*store, store->acquire({}, request).value(), system_clock(), Millis(400),
                       [&] { ++lost; });
    CHECK(keeper.check().has_value());
    ::usleep(500'000);
    const auto over = keeper.check();
    REQUIRE_FALSE(over.has_value());
    CHECK(over.error().message.find("max_hold") != std::string::npos);
    CHECK(keeper.release({}).error().kind == ErrorKind::conflict);
  }
  CHECK(lost == 2);
  CHECK(other->acquire({}, lease_request(fixture, name)).has_value());
}

void check_wipe(const LeaseFixture& fixture) {
  const auto store = fixture.open();
  const std::string name = "wiped/" + random_hex(4);
  const auto grant = store->acquire({}, lease_request(fixture, name));
  REQUIRE(grant.has_value());
  fixture.wipe();
  CHECK_FALSE(store->renew({}, *grant).value());
  CHECK_FALSE(store->release({}, *grant).value());
  const auto other = fixture.open();
  const auto next = other->acquire({}, lease_request(fixture, name));
  REQUIRE(next.has_value());
  CHECK(next->fence > grant->fence);
}

}  // namespace

void check_lease_contract(const LeaseFixture& fixture) {
  CAPTURE(fixture.name);
  check_one_holder(fixture);
  check_fences(fixture);
  check_list_and_break(fixture);
  check_expiry(fixture);
  check_join(fixture);
  check_keeper(fixture);
  if (fixture.wipe) {
    check_wipe(fixture);
  }
  const auto store = fixture.open();
  CHECK((store->order() == "kept") == fixture.kept_order);
}

}  // namespace ascope::testing
