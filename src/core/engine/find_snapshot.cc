// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "core/base/spelling.h"
#include "core/engine/engine.h"

namespace ascope {

namespace {

constexpr std::size_t kMinPrefix = 4;

Error unknown_snapshot(const Aux& aux, std::string_view name) {
  std::vector<std::string> names;
  for (const auto& item : aux.history) {
    names.push_back(item.snapshot);
    names.insert(names.end(), item.tags.begin(), item.tags.end());
  }
  const std::string near = nearest_word(name, names);
  return make_error(ErrorKind::not_found, fmt::format("there is no snapshot '{}'", name),
                    near.empty() ? "'ascope-sandbox snapshot ls' lists the slot's snapshots"
                                 : fmt::format("did you mean '{}'?", near));
}

// "latest~N": N commits before head, along the parents.
Result<HistoryItem> ancestor(const Aux& aux, const std::optional<HeadRef>& head, std::string_view name) {
  std::string_view rest = name.substr(std::string_view("latest").size());
  std::uint32_t steps = 0;
  if (!rest.empty()) {
    const auto [end, ec] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), steps);
    if (rest[0] != '~' || rest.size() < 2 || ec != std::errc{} || end != rest.data() + rest.size()) {
      return make_error(ErrorKind::usage, fmt::format("'{}' is not a snapshot", name),
                        "write latest, latest~1, latest~2, …");
    }
  }
  std::string id = head ? head->snapshot : "";
  for (std::uint32_t step = 0;; ++step) {
    const auto it = std::find_if(aux.history.begin(), aux.history.end(),
                                 [&](const HistoryItem& item) { return item.snapshot == id; });
    if (it == aux.history.end()) {
      return unknown_snapshot(aux, name);
    }
    if (step == steps) {
      return *it;
    }
    id = it->parent;
  }
}

}  // namespace

Result<HistoryItem> find_snapshot(const Aux& aux, const std::optional<HeadRef>& head, std::string_view name) {
  for (const auto& item : aux.history) {
    if (item.snapshot == name || std::find(item.tags.begin(), item.tags.end(), name) != item.tags.end()) {
      return item;
    }
  }
  if (name == "latest" || name.starts_with("latest~")) {
    return ancestor(aux, head, name);
  }
  std::vector<const HistoryItem*> matches;
  if (name.size() >= kMinPrefix) {
    for (const auto& item : aux.history) {
      if (item.snapshot.starts_with(name)) {
        matches.push_back(&item);
      }
    }
  }
  if (matches.size() > 1) {
    return make_error(ErrorKind::usage, fmt::format("'{}' begins {} snapshots", name, matches.size()),
                      fmt::format("write more of it, for example {}", matches[0]->snapshot));
  }
  if (matches.empty()) {
    return unknown_snapshot(aux, name);
  }
  return *matches[0];
}

}  // namespace ascope
