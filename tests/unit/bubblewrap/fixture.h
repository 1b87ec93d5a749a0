// SPDX-License-Identifier: Apache-2.0
// A state folder of its own, real sandboxes in it, and short ways to run commands in them.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/backend.h"

namespace ascope::test {

struct Ran {
  ExecOutcome outcome;
  std::string out;
  std::string err;
};

// True if bwrap can be used here; else says so once. A required but missing bwrap fails the test.
bool have_bwrap();

class SandboxFixture {
 public:
  SandboxFixture();
  ~SandboxFixture();
  SandboxFixture(const SandboxFixture&) = delete;
  SandboxFixture& operator=(const SandboxFixture&) = delete;

  [[nodiscard]] const std::string& state_dir() const { return state_dir_; }
  Backend& backend() { return *backend_; }
  // Creates one and keeps it until the end of the test.
  Sandbox& create(const SandboxSettings& settings = {});
  static Ran run(Sandbox& sandbox, ExecRequest request, const std::string& input = {});
  static Ran sh(Sandbox& sandbox, const std::string& script);

 private:
  std::string state_dir_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<Sandbox>> sandboxes_;
};

SlotKey test_slot();

}  // namespace ascope::test

#define CHECK_OK(expr)                                               \
  do {                                                               \
    const auto check_ok_result = (expr);                             \
    const bool check_ok = check_ok_result.has_value();               \
    INFO((check_ok ? "" : check_ok_result.error().message.c_str())); \
    CHECK(check_ok);                                                 \
  } while (false)
