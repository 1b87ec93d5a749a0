// SPDX-License-Identifier: Apache-2.0
#include "core/repository/master_key.h"

#include <cstdlib>
#include <fstream>

#include <doctest/doctest.h>

#include "core/base/bytes.h"
#include "fakes/temp_folder.h"

namespace ascope::test {

namespace {

const std::string kKey = "0123456789abcdef0123456789ABCDEF";  // 32 bytes

std::string read(const std::string& source) {
  const auto key = read_master_key(OpContext{}, source);
  return key ? key->reveal() : "error: " + key.error().message;
}

}  // namespace

TEST_CASE("a master key comes from a file, a variable or a program, in hex or base64") {
  const TempFolder folder;
  const std::string path = folder.path() + "/key";
  std::ofstream(path) << "  " << to_hex(kKey) << "\n";
  CHECK(read("file:" + path) == kKey);
  CHECK(read("command:cat " + path) == kKey);
  std::ofstream(path) << to_base64(kKey);
  CHECK(read("file:" + path) == kKey);
  ::setenv("ASCOPE_TEST_MASTER_KEY", to_base64(kKey).c_str(), 1);
  CHECK(read("env:ASCOPE_TEST_MASTER_KEY") == kKey);
  ::unsetenv("ASCOPE_TEST_MASTER_KEY");
  CHECK(read("").empty());
}

TEST_CASE("what is no key is refused, and never repeated") {
  const TempFolder folder;
  const std::string path = folder.path() + "/key";
  for (const std::string text : {"", "secret-that-is-no-key", "00", "zz23456789abcdef0123456789abcdef01"}) {
    std::ofstream(path, std::ios::trunc) << text;
    const auto key = read_master_key(OpContext{}, "file:" + path);
    REQUIRE_FALSE(key.has_value());
    CHECK(key.error().kind == ErrorKind::denied);
    CHECK((text.size() < 3 || key.error().message.find(text) == std::string::npos));
  }
  for (const std::string& source : {"file:" + folder.path() + "/none", std::string("env:ASCOPE_TEST_NO_KEY"),
                                    std::string("command:false")}) {
    const auto key = read_master_key(OpContext{}, source);
    REQUIRE_FALSE(key.has_value());
    CHECK(key.error().kind == ErrorKind::denied);
  }
  CHECK(read_master_key(OpContext{}, "command:no-such-program-here").error().kind == ErrorKind::io);
}

TEST_CASE("a source that says nothing is a problem of the profile") {
  CHECK_FALSE(master_key_problem("").has_value());
  CHECK_FALSE(master_key_problem("env:NAME").has_value());
  const std::string key = to_hex(kKey);
  for (const std::string& source :
       {key, std::string("file:"), std::string("file:relative/key"), std::string("env: ")}) {
    const auto problem = master_key_problem(source);
    REQUIRE(problem.has_value());
    CHECK(problem->kind == ErrorKind::config);
    CHECK(problem->message.find(key) == std::string::npos);
  }
}

}  // namespace ascope::test
