// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/store.h"

using namespace ascope;

TEST_CASE("store url: parts") {
  struct Row {
    const char* text;
    const char* scheme;
    const char* path;
    const char* password;
    const char* shown;
  };
  const Row rows[] = {
      {"none", "none", "", "", "none"},
      {"none:", "none", "", "", "none:"},
      {"sqlite:", "sqlite", "", "", "sqlite:"},
      {"json:/var/lib/state", "json", "/var/lib/state", "", "json:/var/lib/state"},
      {"local:./100%", "local", "./100%", "", "local:./100%"},
      {"redis://h:6379/0?prefix=a:&ttl=1h", "redis", "//h:6379/0", "", "redis://h:6379/0?prefix=a:&ttl=1h"},
      {"redis://:s%40x@h/0", "redis", "//h/0", "s@x", "redis://h/0"},
      {"mysql://bob:pw@h:3306/db", "mysql", "//bob@h:3306/db", "pw", "mysql://bob@h:3306/db"},
      {"postgresql://bob@h/db", "postgresql", "//bob@h/db", "", "postgresql://bob@h/db"},
      {"redis+unix:///run/r.sock?db=2&password=pw", "redis+unix", "///run/r.sock", "pw",
       "redis+unix:///run/r.sock?db=2"},
      {"s3://bucket/p@x?endpoint=http://h:9000", "s3", "//bucket/p@x", "",
       "s3://bucket/p@x?endpoint=http://h:9000"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    auto url = parse_store_url(row.text);
    REQUIRE(url.has_value());
    CHECK(url->scheme == row.scheme);
    CHECK(url->path == row.path);
    CHECK(url->password.reveal() == row.password);
    CHECK(url->text == row.shown);
  }
  auto url = parse_store_url("redis://h?prefix=a%26b&empty=&flag");
  REQUIRE(url.has_value());
  CHECK(url->query.at("prefix") == "a&b");
  CHECK(url->query.at("empty").empty());
  CHECK(url->query.contains("flag"));
}

TEST_CASE("store url: what is none, and no password in the message") {
  for (const char* text : {"", "sqlite", ":x", "/tmp/x", "Redis://h", "re dis:x", "redis://u:secret%zz@h/0",
                           "redis://u:secret@h?a=1&a=2", "redis://u:secret@h?a=%"}) {
    CAPTURE(text);
    auto url = parse_store_url(text);
    REQUIRE_FALSE(url.has_value());
    CHECK(url.error().kind == ErrorKind::config);
    CHECK(url.error().message.find("secret") == std::string::npos);
  }
}
