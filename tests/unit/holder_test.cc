// SPDX-License-Identifier: Apache-2.0
#include "core/lease/holder.h"

#include <functional>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/base/process.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

namespace {

LeaseHolder me() {
  return {"h1",
          "build7",
          boot_id().value(),
          pid_namespace().value(),
          ::getpid(),
          process_start_time(::getpid()).value(),
          "al\xFF",
          "run"};
}

}  // namespace

TEST_CASE("a holder survives its text, whatever bytes are in it") {
  const LeaseHolder before = me();
  const LeaseHolder after = parse_holder(holder_text(before)).value();
  CHECK(after.host == before.host);
  CHECK(after.host_name == before.host_name);
  CHECK(after.boot == before.boot);
  CHECK(after.pid_namespace == before.pid_namespace);
  CHECK(after.pid == before.pid);
  CHECK(after.start_time == before.start_time);
  CHECK(after.user == before.user);
  CHECK(after.command == before.command);
  for (const char* bad : {"", "[]", "{}", "{\"host\":1}"}) {
    CHECK(parse_holder(bad).error().kind == ErrorKind::corrupt);
  }
}

TEST_CASE("only what is sure counts as proof of death") {
  struct Line {
    const char* name;
    std::function<void(LeaseHolder&)> change;
    bool dead;
  };
  const Line lines[] = {
      {"alive", [](LeaseHolder&) {}, false},
      {"start time differs: the number was given again", [](LeaseHolder& h) { h.start_time += 1; }, true},
      {"no such process", [](LeaseHolder& h) { h.pid = 4'194'303; }, true},
      {"another host", [](LeaseHolder& h) { h.pid = 4'194'303, h.host = "h2"; }, false},
      {"a host that is not named", [](LeaseHolder& h) { h.pid = 4'194'303, h.host.clear(); }, false},
      {"another pid namespace", [](LeaseHolder& h) { h.pid = 4'194'303, h.pid_namespace += 1; }, false},
      {"an earlier boot", [](LeaseHolder& h) { h.boot = "earlier"; }, true},
      {"a boot that is not named", [](LeaseHolder& h) { h.boot.clear(); }, false},
      {"no process", [](LeaseHolder& h) { h.pid = 0, h.boot = "earlier"; }, false},
  };
  const PidScope here = this_pid_scope("h1").value();
  for (const Line& line : lines) {
    CAPTURE(line.name);
    LeaseHolder holder = me();
    line.change(holder);
    CHECK(is_proven_dead(holder, here).value() == line.dead);
  }
}

TEST_CASE("a holder is shown whole and without control bytes") {
  LeaseInfo info;
  info.holder.user = "alice\x1b[2J";
  info.holder.host_name = "build7";
  info.holder.pid = 4711;
  info.holder.command = "run -- make\n";
  info.since = "2026-01-02T03:04:05.678Z";
  info.remaining = Millis(40'321);
  CHECK(describe_holder(info) ==
        "alice?[2J on build7, pid 4711 ('run -- make?'), since 2026-01-02T03:04:05.678Z, for 40s more");
  info.remaining.reset();
  CHECK(describe_holder(info).ends_with(", expired"));
  info.proven_dead = true;
  CHECK(describe_holder(info).ends_with(", whose process is gone"));
}
