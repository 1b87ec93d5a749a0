// SPDX-License-Identifier: Apache-2.0
// In-memory stores that keep the contracts of core/store.h, with a hook before each call for tests that let
// something happen in between or let a call fail. Single-threaded.
#pragma once

#include <deque>
#include <functional>
#include <map>

#include "core/store.h"

namespace ascope::test {

class FakeStateStore final : public StateStore {
 public:
  // Called with "read", "swap", … before the call does anything; an error is passed on.
  std::function<Result<void>(std::string_view call, std::string_view slot, std::string_view key)> before;
  std::map<std::pair<std::string, std::string>, std::string> values;

  Result<std::optional<std::string>> read(const OpContext& ctx, std::string_view slot,
                                          std::string_view key) override {
    ASCOPE_TRY(begin(ctx, "read", slot, key));
    const auto it = values.find(name(slot, key));
    return it == values.end() ? std::nullopt : std::optional(it->second);
  }

  Result<bool> swap(const OpContext& ctx, std::string_view slot, std::string_view key,
                    const std::optional<std::string>& expected, std::string_view desired) override {
    ASCOPE_TRY(begin(ctx, "swap", slot, key));
    const auto it = values.find(name(slot, key));
    const auto present = it == values.end() ? std::nullopt : std::optional(it->second);
    if (present != expected) {
      return false;
    }
    values[name(slot, key)] = desired;
    return true;
  }

  Result<void> remove(const OpContext& ctx, std::string_view slot, std::string_view key) override {
    ASCOPE_TRY(begin(ctx, "remove", slot, key));
    values.erase(name(slot, key));
    return ok();
  }

  Result<std::vector<std::string>> keys(const OpContext& ctx, std::string_view slot) override {
    ASCOPE_TRY(begin(ctx, "keys", slot, ""));
    std::vector<std::string> out;
    for (const auto& [where, value] : values) {
      if (where.first == slot) {
        out.push_back(where.second);
      }
    }
    return out;
  }

  Result<std::vector<std::string>> slots(const OpContext& ctx) override {
    ASCOPE_TRY(begin(ctx, "slots", "", ""));
    std::vector<std::string> out;
    for (const auto& [where, value] : values) {
      if (where.second == kRecordKey) {
        out.push_back(where.first);
      }
    }
    return out;
  }

 private:
  static std::pair<std::string, std::string> name(std::string_view slot, std::string_view key) {
    return {std::string(slot), std::string(key)};
  }
  Result<void> begin(const OpContext& ctx, std::string_view call, std::string_view slot,
                     std::string_view key) {
    ASCOPE_TRY(ctx.check("asking the fake state store"));
    return before ? before(call, slot, key) : ok();
  }
};

class FakeReceiptStore final : public ReceiptStore {
 public:
  std::map<std::string, std::deque<std::string>, std::less<>> receipts;

  Result<void> append(const OpContext& ctx, std::string_view slot, std::string_view receipt_json) override {
    ASCOPE_TRY(ctx.check("asking the fake receipt store"));
    auto& list = receipts[std::string(slot)];
    list.emplace_front(receipt_json);
    list.resize(std::min<std::size_t>(list.size(), 200));
    return ok();
  }

  Result<std::vector<std::string>> newest(const OpContext& ctx, std::string_view slot,
                                          std::size_t limit) override {
    ASCOPE_TRY(ctx.check("asking the fake receipt store"));
    const auto it = receipts.find(slot);
    if (it == receipts.end()) {
      return std::vector<std::string>{};
    }
    const auto count = static_cast<std::ptrdiff_t>(std::min(limit, it->second.size()));
    return std::vector<std::string>(it->second.begin(), it->second.begin() + count);
  }

  Result<void> clear(const OpContext& ctx, std::string_view slot) override {
    ASCOPE_TRY(ctx.check("asking the fake receipt store"));
    receipts.erase(std::string(slot));
    return ok();
  }
};

}  // namespace ascope::test
