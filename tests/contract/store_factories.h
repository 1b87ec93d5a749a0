// SPDX-License-Identifier: Apache-2.0
// The stores that the contract suites run against. To add one: one line in state_stores() or
// receipt_stores().
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/store.h"
#include "fakes/fake_stores.h"
#include "store/stores.h"

namespace ascope::test {

class TempDir {
 public:
  explicit TempDir(const std::string& parent = std::filesystem::temp_directory_path()) {
    std::string name = parent + "/ascope-test-XXXXXX";
    path_ = ::mkdtemp(name.data()) == nullptr ? "" : name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct StateStoreFactory {
  const char* name;
  bool shared;  // two opened objects see the same values, from other processes too
  std::function<std::unique_ptr<StateStore>(const std::string& dir)> open;
};

struct ReceiptStoreFactory {
  const char* name;
  bool shared;
  std::function<std::unique_ptr<ReceiptStore>(const std::string& dir)> open;
};

inline StoreUrl url_in(const std::string& scheme, const std::string& dir) {
  return parse_store_url(scheme + ":" + dir + (scheme == "sqlite" ? "/deep/state.db" : "/deep/states"))
      .value();
}

inline std::unique_ptr<StateStore> open_state_at(const std::string& scheme, const std::string& dir) {
  const StoreKind* kind = find_store_kind(scheme);
  auto store = kind->open_state(OpContext{}, url_in(scheme, dir), StoreContext{dir, "host-1"});
  return std::move(store).value();
}

inline std::unique_ptr<ReceiptStore> open_receipts_at(const std::string& scheme, const std::string& dir) {
  const StoreKind* kind = find_store_kind(scheme);
  auto store = kind->open_receipts(OpContext{}, url_in(scheme, dir), StoreContext{dir, "host-1"});
  return std::move(store).value();
}

inline std::vector<StateStoreFactory> state_stores() {
  return {
      {"fake", false, [](const std::string&) { return std::make_unique<FakeStateStore>(); }},
      {"json", true, [](const std::string& dir) { return open_state_at("json", dir); }},
      {"sqlite", true, [](const std::string& dir) { return open_state_at("sqlite", dir); }},
  };
}

inline std::vector<ReceiptStoreFactory> receipt_stores() {
  return {
      {"fake", false, [](const std::string&) { return std::make_unique<FakeReceiptStore>(); }},
      {"json", true, [](const std::string& dir) { return open_receipts_at("json", dir); }},
      {"sqlite", true, [](const std::string& dir) { return open_receipts_at("sqlite", dir); }},
  };
}

}  // namespace ascope::test
