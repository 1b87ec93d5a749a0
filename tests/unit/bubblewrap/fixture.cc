// SPDX-License-Identifier: Apache-2.0
#include "unit/bubblewrap/fixture.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/backends.h"
#include "core/base/file.h"
#include "core/base/process.h"

namespace ascope::test {

bool have_bwrap() {
  if (find_program("bwrap")) {
    return true;
  }
  const char* required = std::getenv("ASCOPE_REQUIRE");
  if (required != nullptr && std::strstr(required, "bubblewrap") != nullptr) {
    FAIL("bwrap is required and not installed");
  }
  MESSAGE("skipped: bwrap is not installed");
  return false;
}

SlotKey test_slot() {
  SlotIds ids;
  ids.agent = "tester";
  ids.user = "alice";
  return SlotKey::resolve(ids, nullptr).value();
}

SandboxFixture::SandboxFixture() {
  ::signal(SIGPIPE, SIG_IGN);
  std::string name = "/tmp/ascope-bwrap-XXXXXX";
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  state_dir_ = name;
  const BackendKind* kind = find_backend_kind("bubblewrap");
  REQUIRE(kind != nullptr);
  auto opened = kind->open(OpContext{}, {state_dir_, state_dir_ + "/run", "test-host"});
  REQUIRE(opened.has_value());
  backend_ = std::move(opened).value();
}

SandboxFixture::~SandboxFixture() {
  for (const auto& sandbox : sandboxes_) {
    auto info = sandbox->info(OpContext{});
    const std::uint64_t fence = info ? info->fence_seen : ~0ULL >> 1U;
    CHECK_OK(sandbox->destroy(OpContext{}, fence));
  }
  static_cast<void>(remove_tree_contents(open_file(state_dir_, O_RDONLY | O_DIRECTORY).value(), {}));
  ::rmdir(state_dir_.c_str());
}

Sandbox& SandboxFixture::create(const SandboxSettings& settings) {
  auto made = backend_->create(OpContext{}, test_slot(), "op-1", settings, 1);
  if (!made) {
    FAIL(made.error().message << " / " << made.error().hint);
  }
  sandboxes_.push_back(std::move(made).value());
  return *sandboxes_.back();
}

Ran SandboxFixture::run(Sandbox& sandbox, ExecRequest request, const std::string& input) {
  Ran ran;
  StringSink out;
  StringSink err;
  ExecStreams streams{-1, &out, &err, -1};
  UniqueFd in;
  if (!input.empty()) {
    in = UniqueFd(::memfd_create("input", MFD_CLOEXEC));
    REQUIRE(write_all(in.get(), input).has_value());
    ::lseek(in.get(), 0, SEEK_SET);
    streams.in = in.get();
  }
  auto outcome = sandbox.exec(OpContext{}, request, streams);
  if (!outcome) {
    FAIL(outcome.error().message);
  }
  ran.outcome = *outcome;
  ran.out = out.take();
  ran.err = err.take();
  return ran;
}

Ran SandboxFixture::sh(Sandbox& sandbox, const std::string& script) {
  ExecRequest request;
  request.argv = {"/bin/sh", "-c", script};
  return run(sandbox, request);
}

}  // namespace ascope::test
