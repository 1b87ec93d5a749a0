// SPDX-License-Identifier: Apache-2.0
// snapshots.keep: which snapshots of a history stay, and why.
#include <array>
#include <chrono>
#include <map>
#include <set>

#include <fmt/format.h>

#include "core/engine/gc.h"

namespace ascope {

namespace {

struct Period {
  std::string_view name;
  std::optional<std::uint64_t> count;
  std::size_t digits;  // how much of "2026-01-02T03:04:05Z" names the period
};

// The Monday that begins the week of a day, as "YYYY-MM-DD".
std::string week_of(const std::string& time) {
  const auto parsed = parse_time(time);
  if (!parsed) {
    return time.substr(0, 10);
  }
  const auto day = std::chrono::floor<std::chrono::days>(*parsed);
  const std::chrono::weekday weekday(day);
  const auto monday = day - std::chrono::days((weekday.iso_encoding() + 6) % 7);
  return format_time(monday).substr(0, 10);
}

}  // namespace

std::vector<std::string> keep_reasons(const Aux& aux, const std::string& head, const KeepPolicy& policy,
                                      std::chrono::system_clock::time_point now) {
  std::vector<std::string> reasons(aux.history.size());
  const auto add = [&](std::size_t i, std::string_view reason) {
    reasons[i] += (reasons[i].empty() ? "" : ", ") + std::string(reason);
  };
  const std::array periods{Period{"hourly", policy.hourly, 13}, Period{"daily", policy.daily, 10},
                           Period{"weekly", policy.weekly, 0}, Period{"monthly", policy.monthly, 7}};
  std::map<std::string_view, std::set<std::string>> seen;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < aux.history.size(); ++i) {
    const HistoryItem& item = aux.history[i];
    if (item.snapshot == head) {
      add(i, "head");
    }
    if (item.snapshot == aux.undo) {
      add(i, "undo goes back to it");
    }
    for (const auto& tag : item.tags) {
      add(i, fmt::format("tag '{}'", tag));
    }
    if (item.kind == "stranded") {
      add(i, "stranded work: 'snapshot rm' gives it up");
    }
    if (policy.empty()) {
      add(i, "no snapshots.keep is set");
      continue;
    }
    if (policy.last && last++ < *policy.last) {
      add(i, "last");
    }
    if (const auto time = parse_time(item.time); policy.within && time && now - *time <= *policy.within) {
      add(i, "within");
    }
    for (const auto& period : periods) {
      const std::string key = period.digits == 0 ? week_of(item.time) : item.time.substr(0, period.digits);
      auto& keys = seen[period.name];
      if (period.count && keys.size() < *period.count && keys.insert(key).second) {
        add(i, period.name);
      }
    }
  }
  return reasons;
}

}  // namespace ascope
