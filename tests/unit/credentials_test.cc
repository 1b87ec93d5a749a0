// SPDX-License-Identifier: Apache-2.0
#include "core/repository/credentials.h"

#include <map>
#include <string>

#include <doctest/doctest.h>

#include "fakes/memory_tree.h"

namespace ascope {

namespace {

// Put together here, so that no scanner finds one in this file.
std::string key_block(const std::string& kind) {
  return "-----BEGIN " + kind + "PRIVATE" + " KEY-----\nMIIB\n";
}

std::string token(const std::string& prefix, std::size_t length) {
  std::string out = prefix;
  for (std::size_t i = 0; i < length; ++i) {
    out += static_cast<char>('A' + i % 26);
  }
  return out;
}

MemoryTree sample() {
  MemoryTree tree;
  tree.folder("");
  tree.file(".env", "A=1\n");
  tree.file("clean", "nothing to see\n");
  tree.file("config.ini", "token = " + token("ghp_", 36) + "\n");
  tree.file("empty", "");
  tree.file("key.pem", key_block("RSA "));
  tree.add(EntryType::hardlink, "link", "key.pem");
  return tree;
}

std::map<std::string, std::string> contents(TreeSource& source) {
  std::map<std::string, std::string> out;
  TreeEntry entry;
  while (true) {
    auto more = source.next(entry);
    REQUIRE(more.has_value());
    if (!*more) {
      return out;
    }
    std::string bytes;
    while (entry.type == EntryType::file) {
      auto block = source.read();
      REQUIRE(block.has_value());
      if (!*block) {
        break;
      }
      bytes += (*block)->bytes;
    }
    out[entry.path] = bytes;
  }
}

}  // namespace

TEST_CASE("names that tell of credentials") {
  for (const char* path : {".env", "a/.env", "a/.env.production", "home/.ssh/id_ed25519", ".netrc",
                           ".aws/credentials", "x/store.p12", ".git-credentials"}) {
    CAPTURE(path);
    CHECK(credential_by_name(path).has_value());
  }
  for (const char* path : {"", "env", ".env.example", ".environment", "id_rsa.pub", "credentials",
                           "a/credentials.md", ".envoy", "p12"}) {
    CAPTURE(path);
    CHECK_FALSE(credential_by_name(path).has_value());
  }
}

TEST_CASE("shapes that tell of credentials") {
  const std::string found[] = {
      key_block(""),
      key_block("OPENSSH "),
      key_block("ENCRYPTED "),
      "x\n" + key_block("EC "),
      "-----BEGIN PGP PRIVATE" + std::string(" KEY BLOCK-----\n"),
      "id=" + token("AKIA", 16),
      token("ghp_", 36),
      "\"" + token("github_pat_", 82) + "\"",
      token("xoxb-", 30),
      token("sk-ant-", 60),
  };
  for (const std::string& content : found) {
    CAPTURE(content);
    CHECK(credential_in(content).has_value());
    CHECK(credential_in(" " + content).has_value());  // at even and odd places
    CHECK(credential_in("=\n" + content).has_value());
    for (std::size_t cut = 0; cut < 8; ++cut) {
      CHECK_FALSE(credential_in(content.substr(0, cut)).has_value());
    }
  }
  const std::string clean[] = {
      "",
      "-----BEGIN PUBLIC KEY-----\n",
      "-----BEGIN CERTIFICATE-----\nPRIVATE KEY\n",
      "MAKIA" + token("", 16),  // inside a word
      token("ghp_", 35),
      "AKIA but not a key",
      std::string(1000, '-'),
      std::string("\0", 1) + token("ghp_", 36),  // no text
  };
  for (const std::string& content : clean) {
    CAPTURE(content);
    CHECK_FALSE(credential_in(content).has_value());
  }
}

TEST_CASE("a warning changes nothing of the tree") {
  MemoryTree plain = sample();
  MemoryTree tree = sample();
  GuardedSource guarded(tree, CredentialRule::warn);
  CHECK(contents(guarded) == contents(plain));
  REQUIRE(guarded.notes().size() == 3);
  CHECK(guarded.notes()[0].path == ".env");
  CHECK(guarded.notes()[1].path == "config.ini");
  CHECK(guarded.notes()[1].what == "GitHub token found");
  CHECK(guarded.notes()[2].path == "key.pem");
}

TEST_CASE("exclude leaves out the files and their links") {
  MemoryTree tree = sample();
  GuardedSource guarded(tree, CredentialRule::exclude);
  const auto left = contents(guarded);
  CHECK(left.size() == 3);
  CHECK(left.contains("clean"));
  CHECK(left.contains("empty"));
  CHECK(guarded.notes().size() == 4);
}

TEST_CASE("refuse names every path and no value") {
  MemoryTree tree = sample();
  GuardedSource guarded(tree, CredentialRule::refuse);
  TreeEntry entry;
  auto more = guarded.next(entry);
  while (more && *more) {
    more = guarded.next(entry);
  }
  REQUIRE_FALSE(more.has_value());
  CHECK(more.error().kind == ErrorKind::refused);
  for (const char* path : {"'.env'", "'config.ini'", "'key.pem'"}) {
    CHECK(more.error().message.find(path) != std::string::npos);
  }
  CHECK(more.error().message.find("ghp_") == std::string::npos);
}

TEST_CASE("large files pass whole, and what lies behind the first part of them is not looked at") {
  const std::string big = std::string(1U << 20U, 'x') + key_block("");
  MemoryTree tree;
  tree.file("big", big);
  MemoryTree early;
  early.file("big", key_block("") + big);
  GuardedSource late(tree, CredentialRule::warn);
  CHECK(contents(late)["big"] == big);
  CHECK(late.notes().empty());
  GuardedSource soon(early, CredentialRule::warn);
  CHECK(contents(soon)["big"] == key_block("") + big);
  CHECK(soon.notes().size() == 1);
}

}  // namespace ascope
