// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <stdlib.h>

#include <doctest/doctest.h>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/process.h"
#include "core/base/random.h"
#include "core/base/units.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

namespace {

std::string temp_folder() {
  std::string name = "/tmp/ascope-base-XXXXXX";
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  return name;
}

}  // namespace

TEST_CASE("hex and base64 round trip every byte") {
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all.push_back(static_cast<char>(i));
  }
  for (std::size_t length = 0; length < all.size(); ++length) {
    const std::string part = all.substr(0, length);
    CHECK(from_hex(to_hex(part)).value() == part);
    CHECK(from_base64(to_base64(part)).value() == part);
    CHECK(from_base64url(to_base64url(part)).value() == part);
  }
  CHECK_FALSE(from_hex("0").has_value());
  CHECK_FALSE(from_hex("0g").has_value());
  CHECK_FALSE(from_base64("abc").has_value());
  CHECK_FALSE(from_base64url("a").has_value());
}

TEST_CASE("AgentScope's folder names are URL-safe base64") {
  CHECK(to_base64url("sandbox/session/s1") == "c2FuZGJveC9zZXNzaW9uL3Mx");
  CHECK(to_base64url("sandbox/global") == "c2FuZGJveC9nbG9iYWw");
}

TEST_CASE("UTF-8 check refuses what is not well formed") {
  CHECK(is_utf8("plain, \xC3\xA4, \xE2\x82\xAC, \xF0\x9F\x98\x80"));
  for (const char* bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80", "\xFF"}) {
    CHECK_FALSE(is_utf8(bad));
  }
}

TEST_CASE("SHA-256 of known texts") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("durations and sizes need their unit") {
  CHECK(parse_duration("1h30m").value() == std::chrono::minutes(90));
  CHECK(parse_duration("500ms").value() == Millis(500));
  CHECK(parse_duration("0").value() == Millis(0));
  for (const char* bad : {"", "5", "5x", "-5s", "m", "99999999999d", "1.5s"}) {
    CAPTURE(bad);
    CHECK(parse_duration(bad).has_value() == false);
  }
  CHECK(format_duration(Millis(5400000)) == "1h30m");
  CHECK(parse_size("64KiB").value() == 65536);
  CHECK_FALSE(parse_size("64").has_value());
  CHECK(parse_size("64", true).value() == 64);
  CHECK_FALSE(parse_size("99999999999TiB").has_value());
  CHECK(parse_count("20").value() == 20);
  for (const char* bad : {"", "-1", "+1", " 1", "1 ", "0x1", "1KiB", "99999999999999999999"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_count(bad).has_value());
  }
}

TEST_CASE("times round trip to the millisecond") {
  const auto time = parse_time("2026-01-02T03:04:05.678Z");
  REQUIRE(time.has_value());
  CHECK(format_time(*time) == "2026-01-02T03:04:05.678Z");
  CHECK_FALSE(parse_time("yesterday").has_value());
}

TEST_CASE("JSON: repeated keys, depth and cut text are errors, not guesses") {
  CHECK(parse_json(R"({"a":[1,{"b":null}]})").has_value());
  CHECK_FALSE(parse_json(R"({"a":1,"a":2})").has_value());
  CHECK_FALSE(parse_json(R"({"a":)").has_value());
  CHECK_FALSE(parse_json(R"({"a":1} x)").has_value());
  CHECK_FALSE(parse_json(std::string(100000, '[')).has_value());
  CHECK_FALSE(parse_json(R"({"a":1e999})").has_value());
  CHECK(json_bytes(bytes_json("\xFF\x00")).value() == std::string("\xFF"));
}

TEST_CASE("files are replaced whole, and created once") {
  const std::string dir = temp_folder();
  CHECK(write_file_atomic(dir + "/a", "one").has_value());
  CHECK(write_file_atomic(dir + "/a", "two").has_value());
  CHECK(read_file(dir + "/a").value() == "two");
  CHECK(create_file(dir + "/a", "three").value() == false);
  CHECK(create_file(dir + "/b", "three").value() == true);
  CHECK(list_dir(dir).value() == std::vector<std::string>{"a", "b"});
  CHECK(read_file(dir + "/none").error().kind == ErrorKind::not_found);
  CHECK(read_file(dir + "/a", 2).error().kind == ErrorKind::corrupt);
  CHECK(absolute_path("../x/./y/", "/a/b") == "/a/x/y");
}

TEST_CASE("programs: status, streams and a missing one") {
  const OpContext ctx;
  const auto done = run_program(ctx, {.argv = {"sh", "-c", "printf out; printf err >&2; exit 3"}});
  REQUIRE(done.has_value());
  CHECK(done->out == "out");
  CHECK(done->err == "err");
  CHECK_FALSE(done->succeeded());
  const auto missing = run_program(ctx, {.argv = {"no-such-program-here"}});
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().kind == ErrorKind::io);
  const auto late = run_program(ctx.with_timeout(Millis(50)), {.argv = {"sleep", "30"}});
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().kind == ErrorKind::timeout);
}

TEST_CASE("process identity") {
  const auto self = process_start_time(::getpid());
  REQUIRE(self.has_value());
  CHECK(*self > 0);
  CHECK(boot_id().value().size() == 36);
  CHECK(random_uuid() != random_uuid());
}
