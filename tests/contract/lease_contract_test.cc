// SPDX-License-Identifier: Apache-2.0
#include "contract/lease_contract.h"

#include <filesystem>
#include <stdlib.h>

#include <doctest/doctest.h>

#include "store/sqlite_db.h"

using namespace ascope;           // NOLINT(google-build-using-namespace)
using namespace ascope::testing;  // NOLINT(google-build-using-namespace)

namespace {

struct TempFolder {
  TempFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~TempFolder() { std::filesystem::remove_all(path); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string path = "/tmp/ascope-lease-XXXXXX";
};

LeaseFixture sqlite_fixture(const TempFolder& folder) {
  LeaseFixture out;
  out.name = "sqlite";
  out.sees_death = true;
  out.open = [&folder] {
    StoreUrl url;
    url.scheme = "sqlite";
    auto store = open_sqlite_leases({}, url, {folder.path, "host-a"});
    REQUIRE(store.has_value());
    return std::move(store).value();
  };
  out.wipe = [&folder] {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::filesystem::remove(folder.path + "/state.db" + suffix);
    }
  };
  return out;
}

}  // namespace

TEST_CASE("sqlite keeps the lease contract") {
  const TempFolder folder;
  check_lease_contract(sqlite_fixture(folder));
}
