// SPDX-License-Identifier: Apache-2.0
#include "core/profile/source.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

#include <climits>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/file.h"
#include "core/base/spelling.h"

namespace ascope {
namespace {

struct FreeDeleter {
  void operator()(char* memory) const { std::free(memory); }
};

// The path with every link followed as far as it exists; what does not exist yet is appended as written.
Result<std::string> real_path(const std::string& path) {
  std::string head = path;
  std::string tail;
  while (true) {
    const std::unique_ptr<char, FreeDeleter> real(::realpath(head.c_str(), nullptr));
    if (real != nullptr) {
      return std::string(real.get()) + tail;
    }
    if (errno != ENOENT && errno != ENOTDIR) {
      return errno_error(fmt::format("looking at '{}'", head), errno);
    }
    const std::size_t slash = head.rfind('/');
    if (slash == std::string::npos || slash == 0) {
      return path;
    }
    tail = head.substr(slash) + tail;
    head.resize(slash);
  }
}

bool is_below(std::string_view path, std::string_view folder) {
  return folder == "/" || path == folder ||
         (path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/');
}

}  // namespace

Error ProfileSource::error(const YamlNode& node, std::string_view message, std::string hint) const {
  return make_error(ErrorKind::config, fmt::format("{}: {}", to_string(place(node)), message),
                    std::move(hint));
}

Error ProfileSource::placed(const YamlNode& node, Error inner) const {
  return error(node, inner.message, std::move(inner.hint));
}

Error ProfileSource::unknown_word(const YamlNode& node, std::string_view what, std::string_view word,
                                  std::span<const std::string_view> known) const {
  const std::string near = nearest_word(word, {known.begin(), known.end()});
  return error(node, fmt::format("unknown {}", what),
               near.empty() ? fmt::format("known are: {}", fmt::join(known, ", "))
                            : fmt::format("did you mean '{}'?", near));
}

void ProfileSource::needs_trust(const YamlNode& node, std::string_view key, std::string_view what) const {
  if (issues != nullptr) {
    issues->push_back(TrustIssue{place(node), std::string(key), std::string(what)});
  }
}

Result<std::string> resolve_host_path(std::string_view text, std::string_view key, const YamlNode& node,
                                      const ProfileSource& source) {
  if (text.empty()) {
    return source.error(node, fmt::format("'{}' names no path", key));
  }
  std::string path;
  if (text == "~" || text.starts_with("~/")) {
    if (source.home.empty()) {
      return source.error(node, fmt::format("'{}' begins with '~', but there is no HOME", key));
    }
    path = absolute_path(text.size() > 2 ? text.substr(2) : std::string_view("."), source.home);
  } else {
    path = absolute_path(text, source.base_dir);
  }
  if (source.issues != nullptr) {
    auto real = real_path(path);
    auto real_base = real_path(source.base_dir);
    if (!real || !real_base || !is_below(*real, *real_base)) {
      source.needs_trust(node, key, "names a host path outside the file's own folder");
    }
  }
  return path;
}

}  // namespace ascope
