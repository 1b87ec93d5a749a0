// SPDX-License-Identifier: Apache-2.0
// Glob patterns of `workspace.exclude`.
#include <string_view>
#include <utility>

#include "core/tree/walker.h"

namespace ascope {

namespace {

// Matches one character against the class that begins at pattern[0] == '['. Returns the class's length, 0 if
// it has no end (then '[' is an ordinary character).
std::size_t match_class(std::string_view pattern, char c, bool& matched) {
  std::size_t i = 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  i += negated ? 1 : 0;
  const std::size_t first = i;
  matched = false;
  const auto at = [&](std::size_t k) { return static_cast<unsigned char>(pattern[k]); };
  const auto value = static_cast<unsigned char>(c);
  while (i < pattern.size() && (pattern[i] != ']' || i == first)) {
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      matched = matched || (at(i) <= value && value <= at(i + 2));
      i += 3;
    } else {
      matched = matched || at(i) == value;
      ++i;
    }
  }
  if (i >= pattern.size()) {
    return 0;
  }
  matched = matched != negated && c != '/';
  return i + 1;
}

// Glob match with one way back per kind of star: a hostile pattern costs at most pattern × text × depth.
bool glob(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star_p = kNone;  // behind the last "*"
  std::size_t star_t = 0;
  std::size_t deep_p = kNone;  // behind the last "**"
  std::size_t deep_t = 0;
  while (true) {
    if (p < pattern.size() && pattern[p] == '*') {
      if (pattern.substr(p).starts_with("**")) {
        p += 2;
        if (p < pattern.size() && pattern[p] == '/' && (t == 0 || text[t - 1] == '/') &&
            glob(pattern.substr(p + 1), text.substr(t))) {
          return true;  // "**/x" matches "x" too
        }
        deep_p = p;
        deep_t = t;
        star_p = kNone;
      } else {
        star_p = ++p;
        star_t = t;
      }
      continue;
    }
    if (t == text.size() && p == pattern.size()) {
      return true;
    }
    if (t < text.size() && p < pattern.size()) {
      std::size_t used = 0;
      if (pattern[p] == '[') {
        bool matched = false;
        const std::size_t length = match_class(pattern.substr(p), text[t], matched);
        used = length == 0 ? (text[t] == '[' ? 1 : 0) : (matched ? length : 0);
      } else if (pattern[p] == '\\' && p + 1 < pattern.size()) {
        used = pattern[p + 1] == text[t] ? 2 : 0;
      } else if (pattern[p] == '?' ? text[t] != '/' : pattern[p] == text[t]) {
        used = 1;
      }
      if (used != 0) {
        p += used;
        ++t;
        continue;
      }
    }
    if (star_p != kNone && star_t < text.size() && text[star_t] != '/') {
      p = star_p;
      t = ++star_t;
    } else if (deep_p != kNone && deep_t < text.size()) {
      p = deep_p;
      t = ++deep_t;
      star_p = kNone;
    } else {
      return false;
    }
  }
}

bool matches_one(std::string_view pattern, std::string_view path, bool is_directory) {
  if (pattern.ends_with('/')) {
    if (!is_directory) {
      return false;
    }
    pattern.remove_suffix(1);
  }
  if (pattern.empty()) {
    return false;
  }
  const bool anchored = pattern.find('/') != std::string_view::npos;
  if (pattern.starts_with('/')) {
    pattern.remove_prefix(1);
  }
  const std::size_t slash = path.rfind('/');
  return glob(pattern, anchored || slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace

bool exclude_matches(const std::vector<std::string>& patterns, std::string_view path, bool is_directory) {
  for (const std::string& pattern : patterns) {
    if (matches_one(pattern, path, is_directory)) {
      return true;
    }
  }
  return false;
}

}  // namespace ascope
