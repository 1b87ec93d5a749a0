// SPDX-License-Identifier: Apache-2.0
#include "backends/docker/asked_for.h"

#include <doctest/doctest.h>

using namespace ascope;
using docker::AskedFor;

namespace {

bool passes(AskedFor& asked, const std::string& path, EntryType type = EntryType::file) {
  TreeEntry entry;
  entry.path = path;
  entry.type = type;
  const auto checked = asked.check(entry);
  CHECK((checked || checked.error().kind == ErrorKind::corrupt));
  return checked.has_value();
}

}  // namespace

TEST_CASE("only what was asked for comes out, with the folders that lead to it") {
  struct Row {
    const char* path;
    EntryType type;
    bool want;
  };
  constexpr auto kFolder = EntryType::directory;
  constexpr auto kFile = EntryType::file;
  const Row rows[] = {
      {"", kFolder, true},          {"a", kFolder, true},
      {"a", kFile, false},          {"a", EntryType::symlink, false},
      {"a/b", kFolder, true},       {"a/b", kFile, true},
      {"a/b/c", kFile, true},       {"a/b/c/d", kFile, true},
      {"a/bc", kFile, false},       {"a/b-c", kFolder, false},
      {"a/x", kFile, false},        {".bashrc", kFile, false},
      {"z", kFile, true},           {"z/y", kFile, true},
      {"zz", kFolder, false},       {"a/b/skip", kFile, false},
      {"a/b/skip/x", kFile, false}, {"a/b/skipped", kFile, true},
      {"q", kFolder, true},         {"q/r", kFolder, true},
      {"q/r/s", kFile, true},       {"q/t", kFolder, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.path);
    AskedFor asked({"a/b", "z", "q/r/s"}, {"a/b/skip"});
    CHECK(passes(asked, row.path, row.type) == row.want);
  }
  // A name that sorts between a folder and what is in it.
  AskedFor between({"d-e", "d/f"}, {});
  CHECK(passes(between, "d", kFolder));
  AskedFor everything({}, {"dev"});
  CHECK(passes(everything, "", kFolder));
  CHECK(!passes(everything, "dev", kFolder));
  AskedFor whole({""}, {});
  CHECK(passes(whole, "", kFolder));
  CHECK(passes(whole, "any/thing"));
}

TEST_CASE("entries come in path order, each once") {
  AskedFor asked({}, {});
  for (const char* path : {"", "a", "a/b", "a/b/c", "a/b-", "a-", "a.b", "b", "\x7f", "\xff"}) {
    CAPTURE(path);
    CHECK(passes(asked, path));
  }
  CHECK(!passes(asked, "\xff"));
  CHECK(!passes(asked, "c"));
  CHECK(!passes(asked, ""));
}
