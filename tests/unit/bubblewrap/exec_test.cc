// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "unit/bubblewrap/fixture.h"

using namespace ascope;
using namespace ascope::test;

TEST_CASE("exec gives back the command's own end") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  struct Row {
    const char* name;
    std::vector<std::string> argv;
    int code;
  };
  const Row rows[] = {
      {"success", {"true"}, 0},
      {"failure", {"false"}, 1},
      {"own code", {"sh", "-c", "exit 77"}, 77},
      {"signal", {"sh", "-c", "kill -KILL $$"}, 137},
      {"not found", {"no-such-program"}, 127},
      {"not found by path", {"/no/such/program"}, 127},
      {"a folder", {"/usr"}, 126},
      {"not executable", {"/etc/passwd"}, 126},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    ExecRequest request;
    request.argv = row.argv;
    CHECK(SandboxFixture::run(sandbox, request).outcome.exit_code() == row.code);
  }
}

TEST_CASE("exec passes bytes as they are") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  ExecRequest request;
  request.argv = {"printf", "%s|%s|%s", "a b", "", "\xff\n\"$x"};
  CHECK(SandboxFixture::run(sandbox, request).out == "a b||\xff\n\"$x");

  request.argv = {"sh", "-c",
                  "printf '%s,%s,%s,%s' \"$A\" \"$HOME\" \"$(id -u)\" \"$PWD\"; echo oops >&2; exit 3"};
  request.environment = {{"A", "\x01z"}};
  const Ran ran = SandboxFixture::run(sandbox, request);
  CHECK(ran.out == "\x01z,/home/agent,1000,/workspace");
  CHECK(ran.err == "oops\n");
  CHECK(ran.outcome.code == 3);

  std::string big(8U << 20U, '\0');
  for (std::size_t i = 0; i < big.size(); ++i) {
    big[i] = static_cast<char>(i * 2654435761U >> 13U);
  }
  request.argv = {"cat"};
  CHECK(SandboxFixture::run(sandbox, request, big).out == big);
  CHECK(SandboxFixture::sh(sandbox, "cat; echo end").out == "end\n");  // stdin is /dev/null

  request.argv = {"sh", "-c", "printf %s \"$0\" | wc -c", std::string(100000, 'x')};
  request.environment.clear();
  for (int i = 0; i < 15; ++i) {
    request.environment["BIG" + std::to_string(i)] = std::string(100000, 'y');
  }
  CHECK(SandboxFixture::run(sandbox, request).out == "100000\n");  // longer than one frame
}

TEST_CASE("what stays in the background does not hold the command back, and lives on") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  const auto begin = std::chrono::steady_clock::now();
  const Ran ran = SandboxFixture::sh(sandbox, "sleep 30 & echo started");
  CHECK(ran.out == "started\n");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK(SandboxFixture::sh(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").out.find("sleep 30") !=
        std::string::npos);
}

TEST_CASE("a timeout leaves no descendant") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  ExecRequest request;
  request.argv = {"sh", "-c",
                  "trap '' TERM HUP; (setsid sleep 331 &) ; (nohup sleep 332 >/dev/null 2>&1 &); "
                  "sh -c 'trap \"\" TERM; (sleep 333 & sleep 334) & wait' & sleep 335; sleep 336"};
  request.timeout = Millis(300);
  request.grace = Millis(200);
  const Ran ran = SandboxFixture::run(sandbox, request);
  CHECK(ran.outcome.end == ExecEnd::timed_out);
  CHECK(ran.outcome.exit_code() == 124);
  CHECK(SandboxFixture::sh(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep [3]3'").out ==
        "0\n");
}

TEST_CASE("signals reach the command, and a lost client ends it") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  Pipe events = make_pipe().value();
  ExecEvent event;
  event.signal = SIGUSR1;
  REQUIRE(::write(events.write_end.get(), &event, sizeof event) == static_cast<ssize_t>(sizeof event));
  ExecRequest request;
  // The signal may come before the trap is set: then it ends the shell, which the code tells apart.
  request.argv = {"sh", "-c", "sleep 20"};
  const auto outcome = sandbox.exec(OpContext{}, request, {-1, nullptr, nullptr, events.read_end.get()});
  REQUIRE(outcome.has_value());
  CHECK(outcome->exit_code() == 128 + SIGUSR1);

  request.argv = {"sh", "-c", "sleep 441 & sleep 442"};
  const auto lost = sandbox.exec(OpContext{}.with_timeout(Millis(300)), request, {});
  REQUIRE(!lost.has_value());
  CHECK(lost.error().kind == ErrorKind::timeout);
  std::string count;
  for (int i = 0; i < 100 && count != "0\n"; ++i) {
    count = SandboxFixture::sh(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep [4]4'").out;
  }
  CHECK(count == "0\n");
}

TEST_CASE("a terminal is the sandbox's own") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  ExecRequest request;
  request.argv = {"sh", "-c", "tty; stty size; read line; echo got=$line"};
  request.tty = true;
  request.rows = 33;
  request.columns = 77;
  const Ran ran = SandboxFixture::run(sandbox, request, "hello\n");
  CHECK(ran.out.find("/dev/pts/") != std::string::npos);
  CHECK(ran.out.find("33 77") != std::string::npos);
  CHECK(ran.out.find("got=hello") != std::string::npos);
  CHECK(ran.outcome.code == 0);
  CHECK(SandboxFixture::sh(sandbox, "ls -l /proc/self/fd | grep -c -e pipe -e null; tty")
            .out.find("not a tty") != std::string::npos);
}

TEST_CASE("other users and folders") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  ExecRequest request;
  request.argv = {"id", "-u"};
  request.user = "root";
  StringSink out;
  const auto as_root = sandbox.exec(OpContext{}, request, {-1, &out, nullptr, -1});
  if (::geteuid() == 0) {
    REQUIRE(as_root.has_value());
    CHECK(out.take() == "0\n");
  } else {
    REQUIRE(!as_root.has_value());
    CHECK(as_root.error().kind == ErrorKind::usage);
  }
  request.user = "nobody-there";
  CHECK(!sandbox.exec(OpContext{}, request, {}).has_value());
  request.user.clear();
  request.cwd = "/no/such/folder";
  CHECK(!sandbox.exec(OpContext{}, request, {}).has_value());
  request.cwd = "/tmp";
  request.argv = {"pwd"};
  CHECK(SandboxFixture::run(sandbox, request).out == "/tmp\n");
}
