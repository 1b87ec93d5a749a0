// SPDX-License-Identifier: Apache-2.0
#include "core/slot_key.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "core/base/hash.h"

using namespace ascope;

namespace {

SlotKey resolved(const SlotIds& ids, std::string* fallback = nullptr) {
  auto key = SlotKey::resolve(ids, fallback);
  REQUIRE(key.has_value());
  return key.value();
}

}  // namespace

TEST_CASE("slot: scopes and their names") {
  struct Row {
    const char* name;
    SlotIds ids;
    const char* written;
    const char* store;
    const char* guard;
    bool fallback;
  };
  const Row rows[] = {
      {"user",
       {"assistant", "alice", "", Scope::user},
       "user/assistant/alice",
       "sandbox/user/assistant/alice",
       "user:alice",
       false},
      {"session",
       {"assistant", "", "s1", Scope::session},
       "session/s1",
       "sandbox/session/s1",
       "session:s1",
       false},
      {"session beside a user",
       {"a", "u", "s", Scope::session},
       "session/s",
       "sandbox/session/s",
       "session:s",
       false},
      {"agent",
       {"assistant", "u", "s", Scope::agent},
       "agent/assistant",
       "sandbox/agent/assistant",
       "agent:assistant",
       false},
      {"global",
       {"assistant", "u", "s", Scope::global},
       "global",
       "sandbox/global",
       "global:__global__",
       false},
      {"user without a user id",
       {"assistant", "", "s1", Scope::user},
       "session/s1",
       "sandbox/session/s1",
       "session:s1",
       true},
      {"user without any id",
       {"assistant", "", "", Scope::user},
       "session/assistant",
       "sandbox/session/assistant",
       "session:assistant",
       true},
      {"session without an id",
       {"assistant", "u", "", Scope::session},
       "session/assistant",
       "sandbox/session/assistant",
       "session:assistant",
       true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    std::string fallback = "old";
    const SlotKey key = resolved(row.ids, &fallback);
    CHECK(key.written() == row.written);
    CHECK(key.store_name() == row.store);
    CHECK(key.guard_name() == row.guard);
    CHECK(fallback.empty() != row.fallback);
    CHECK(key.file_name() == sha256_hex(row.store));
  }
}

TEST_CASE("slot: hostile ids come back as they were, and no two share a name") {
  const std::string long_id(1024, 'x');
  const std::string ids[] = {"alice",
                             ".",
                             "..",
                             "...",
                             "a/b",
                             "a%2Fb",
                             "a b",
                             "%",
                             "%41",
                             "A",
                             " ",
                             "\n\t",
                             "\x7f",
                             "é",
                             "日本",
                             "\xff\xfe",
                             "\xc3",
                             "e\xcc\x81",
                             "~",
                             "~x",
                             "~" + std::string(64, 'a'),
                             "~" + std::string(64, 'g'),
                             "sandbox/user/a/b",
                             std::string("a\0b", 3),
                             long_id,
                             "-",
                             "--yes",
                             "a\\b",
                             "a:b",
                             "__anon__",
                             "global"};
  std::vector<std::string> seen;
  for (const std::string& id : ids) {
    CAPTURE(id);
    for (const SlotIds& which : {SlotIds{"a", id, "", Scope::user}, SlotIds{id, "u", "", Scope::user},
                                 SlotIds{"a", "", id, Scope::session}, SlotIds{id, "", "", Scope::agent}}) {
      const SlotKey key = resolved(which);
      auto parsed = SlotKey::parse(key.written());
      REQUIRE(parsed.has_value());
      CHECK(parsed.value() == key);
      const SlotKey stored = SlotKey::from_store_name(key.store_name());
      CHECK_FALSE(stored.is_raw());
      CHECK(stored == key);
      seen.push_back(key.store_name());
      // One folder level per id: nothing in an id makes another.
      const auto slashes = std::count(seen.back().begin(), seen.back().end(), '/');
      CHECK(slashes == (which.scope == Scope::user ? 3 : 2));
    }
    CHECK(decode_id(encode_id(id)).value() == id);
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("slot: an id that needs no escape stands as AgentScope writes it") {
  for (const char* id : {"alice", "A b", "é", "a\\b", "a:b", "...", "~", "_x-1.2"}) {
    CHECK(encode_id(id) == id);
  }
  CHECK(encode_id("a/b") == "a%2Fb");
  CHECK(encode_id("100%") == "100%25");
  CHECK(encode_id("..") == "%2E%2E");
  CHECK(encode_id("\xff") == "%FF");
  CHECK(encode_id("a\nb") == "a%0Ab");
}

TEST_CASE("slot: raw names of Java agents keep their own name") {
  for (const char* name :
       {"sandbox/user/a/b/c", "sandbox/user/a/..", "sandbox/session/", "sandbox/user/a/%41",
        "sandbox/user/only", "sandbox/other/x", "sandbox/user/a/x%", "sandbox/user//u", "sandbox/global/x",
        "sandbox/sandbox/global", "sandbox/session/a\nb", "chat-1",
        "sandbox/session/~aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    CAPTURE(name);
    const SlotKey key = SlotKey::from_store_name(name);
    CHECK(key.is_raw());
    CHECK(key.store_name() == name);
    CHECK(key.written() == name);
    if (std::string_view(name).starts_with("sandbox/")) {
      auto parsed = SlotKey::parse(name);
      REQUIRE(parsed.has_value());
      CHECK(parsed.value() == key);
    }
  }
  CHECK(SlotKey::from_store_name("sandbox/user/a/b/c").guard_name() == "user:b/c");
  CHECK(SlotKey::from_store_name("sandbox/session/a/b").guard_name() == "session:a/b");
}

TEST_CASE("slot: AgentScope's full name is a written form too") {
  auto key = SlotKey::parse("sandbox/user/assistant/alice");
  REQUIRE(key.has_value());
  CHECK(key->written() == "user/assistant/alice");
  CHECK_FALSE(key->is_raw());
}

TEST_CASE("slot: what names no slot is a usage error") {
  for (const char* text :
       {"",          "user",     "user/",       "user/a",    "user//u",    "user/a/",    "user/a/b/c",
        "session",   "session/", "session/a/b", "agent/",    "global/x",   "User/a/b",   "alice",
        "/user/a/b", "sandbox/", "user/a/%",    "user/a/%4", "user/a/%zz", "session/%00"}) {
    CAPTURE(text);
    auto key = SlotKey::parse(text);
    REQUIRE_FALSE(key.has_value());
    CHECK(key.error().kind == ErrorKind::usage);
  }
  for (const SlotIds& ids :
       {SlotIds{"", "u", "", Scope::user}, SlotIds{"a", std::string(4097, 'x'), "", Scope::user},
        SlotIds{"a", std::string(3, '\0'), "", Scope::user}}) {
    auto key = SlotKey::resolve(ids, nullptr);
    REQUIRE_FALSE(key.has_value());
    CHECK(key.error().kind == ErrorKind::usage);
  }
  CHECK_FALSE(parse_scope("tenant").has_value());
}

TEST_CASE("slot: a store with short names gets a hash that no id can take") {
  const std::string fits = "sandbox/user/a/" + std::string(176, 'x');
  CHECK(store_name_within(fits, 191) == fits);
  const std::string longer = fits + "x";
  const std::string kept = store_name_within(longer, 191);
  CHECK(kept == "sandbox/user/~" + sha256_hex(longer));
  CHECK(SlotKey::from_store_name(kept).is_raw());
  CHECK(store_name_within("sandbox/session/" + std::string(300, 'x'), 191).starts_with("sandbox/session/~"));
  CHECK(store_name_within(std::string(300, 'x'), 191).starts_with("sandbox/raw/~"));
  // The id that spells a kept name is another slot with another name.
  const SlotKey imitation = resolved({"a", "", kept.substr(13), Scope::session});
  CHECK(imitation.store_name().starts_with("sandbox/session/%7E"));
}
