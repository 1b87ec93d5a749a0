// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <unistd.h>

#include "core/base/file.h"
#include "unit/bubblewrap/fixture.h"

using namespace ascope;
using namespace ascope::test;

TEST_CASE("create, stop, start, destroy") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  const OpContext ctx;
  auto info = sandbox.info(ctx).value();
  CHECK(info.phase == SandboxPhase::running);
  CHECK(info.id == info.tree);
  CHECK(info.slot == test_slot().store_name());
  CHECK(info.operation == "op-1");
  CHECK(!info.ready);
  CHECK(sandbox.files().probe(ctx, "/workspace").value().empty);
  CHECK(
      SandboxFixture::sh(sandbox, "echo kept > f; echo sys > /var/tmp/g; echo gone > /tmp/h").outcome.code ==
      0);

  CHECK_OK(sandbox.set_ready(ctx, true, 2));
  CHECK_OK(sandbox.stop(ctx, 2));
  info = sandbox.info(ctx).value();
  CHECK(info.phase == SandboxPhase::stopped);
  CHECK(info.ready);
  CHECK(info.fence_seen == 2);
  CHECK_OK(sandbox.stop(ctx, 2));
  ExecRequest request;
  request.argv = {"true"};
  const auto refused = sandbox.exec(ctx, request, {});
  REQUIRE(!refused.has_value());
  CHECK(refused.error().kind == ErrorKind::not_found);

  CHECK_OK(sandbox.start(ctx, {}, 3));
  CHECK_OK(sandbox.start(ctx, {}, 3));
  CHECK(SandboxFixture::sh(sandbox, "cat f /var/tmp/g; ls /tmp").out == "kept\nsys\n");

  const std::string id = info.id;
  auto again = fixture.backend().attach(ctx, id);
  REQUIRE(again.has_value());
  CHECK(SandboxFixture::sh(**again, "cat f").out == "kept\n");
  CHECK(fixture.backend().list(ctx, nullptr).value().size() == 1);
  const SlotKey slot = test_slot();
  CHECK(fixture.backend().list(ctx, &slot).value().size() == 1);

  CHECK_OK(sandbox.destroy(ctx, 3));
  CHECK_OK(sandbox.destroy(ctx, 3));
  CHECK(sandbox.info(ctx).value().phase == SandboxPhase::gone);
  CHECK(fixture.backend().attach(ctx, id).error().kind == ErrorKind::not_found);
  CHECK(fixture.backend().list(ctx, nullptr).value().empty());
}

TEST_CASE("a stale holder can neither stop, start, mark ready nor destroy") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  const OpContext ctx;
  CHECK_OK(sandbox.set_ready(ctx, true, 9));
  CHECK(sandbox.stop(ctx, 8).error().kind == ErrorKind::conflict);
  CHECK(sandbox.destroy(ctx, 8).error().kind == ErrorKind::conflict);
  CHECK(sandbox.start(ctx, {}, 8).error().kind == ErrorKind::conflict);
  CHECK(sandbox.set_ready(ctx, false, 8).error().kind == ErrorKind::conflict);
  CHECK(sandbox.info(ctx).value().phase == SandboxPhase::running);
}

TEST_CASE("two starts at once make one sandbox; a killed guest is started anew") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  const OpContext ctx;
  const auto info = sandbox.info(ctx).value();
  ::kill(std::atoi(info.details.at("pid").c_str()), SIGKILL);
  while (sandbox.info(ctx).value().phase == SandboxPhase::running) {
  }
  auto other = fixture.backend().attach(ctx, info.id).value();
  std::thread first([&] { CHECK_OK(sandbox.start(ctx, {}, 1)); });
  std::thread second([&] { CHECK_OK(other->start(ctx, {}, 1)); });
  first.join();
  second.join();
  CHECK(SandboxFixture::sh(sandbox, "echo $$").outcome.code == 0);
  CHECK(sandbox.info(ctx).value().details.at("pid") == other->info(ctx).value().details.at("pid"));
}

TEST_CASE("an idle sandbox ends by itself and loses no command") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  SandboxSettings settings;
  settings.idle_timeout = Millis(2);
  Sandbox& sandbox = fixture.create(settings);
  const OpContext ctx;
  ExecRequest request;
  request.argv = {"sh", "-c", "echo x >> /workspace/count"};
  int done = 0;
  for (int i = 0; i < 60; ++i) {
    auto outcome = sandbox.exec(ctx, request, {});
    if (!outcome && outcome.error().kind == ErrorKind::not_found) {
      CHECK_OK(sandbox.start(ctx, settings, 1));
      continue;
    }
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->exit_code() == 0);
    ++done;
  }
  settings.idle_timeout = Millis(0);
  CHECK_OK(sandbox.start(ctx, settings, 1));
  CHECK(SandboxFixture::sh(sandbox, "cat count 2>/dev/null | wc -l").out == std::to_string(done) + "\n");
}

TEST_CASE("what cannot be honoured is refused and leaves nothing") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  struct Row {
    const char* name;
    ErrorKind kind;
    void (*change)(SandboxSettings&);
  };
  const Row rows[] = {
      {"image", ErrorKind::unsupported, [](SandboxSettings& s) { s.image = "ubuntu"; }},
      {"network", ErrorKind::unsupported, [](SandboxSettings& s) { s.network = "bridge"; }},
      {"ports", ErrorKind::unsupported, [](SandboxSettings& s) { s.ports = {"80:80"}; }},
      {"option", ErrorKind::unsupported, [](SandboxSettings& s) { s.options = {{"x", "y"}}; }},
      {"rootfs", ErrorKind::config, [](SandboxSettings& s) { s.rootfs = "/no/such"; }},
      {"mount source", ErrorKind::config,
       [](SandboxSettings& s) { s.mounts = {{"/no/such", "/data", true}}; }},
      {"mount place", ErrorKind::unsupported,
       [](SandboxSettings& s) { s.mounts = {{"/usr", "/proc/x", true}}; }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    SandboxSettings settings;
    row.change(settings);
    const auto made = fixture.backend().create(OpContext{}, test_slot(), "op", settings, 1);
    REQUIRE(!made.has_value());
    CHECK(made.error().kind == row.kind);
    CHECK(fixture.backend().list(OpContext{}, nullptr).value().empty());
  }
  CHECK(fixture.backend().attach(OpContext{}, "sb-0123456789abcdef").error().kind == ErrorKind::not_found);
  CHECK(fixture.backend().attach(OpContext{}, "../etc").error().kind == ErrorKind::not_found);
  CHECK(fixture.backend().diagnose(OpContext{}).value().empty());
}
