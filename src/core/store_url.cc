// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/file.h"
#include "core/slot_key.h"
#include "core/store.h"

namespace ascope {

namespace {

// The part of a URL that may show in messages: what stood in place of the password is left out by the caller.
Error url_error(std::string_view shown, std::string_view why) {
  return make_error(ErrorKind::config, fmt::format("'{}' is not a store URL: {}", shown, why),
                    "write KIND:PLACE, such as sqlite:, json:DIR, local:DIR or redis://HOST");
}

bool is_scheme(std::string_view text) {
  return !text.empty() && text.front() >= 'a' && text.front() <= 'z' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+-.") == std::string_view::npos;
}

// Takes "USER:PASSWORD@" apart: the password goes to `url.password`, the rest stays in `url.path`.
Result<void> take_password(StoreUrl& url) {
  if (!url.path.starts_with("//")) {
    return ok();
  }
  const std::string authority = url.path.substr(2, url.path.find('/', 2) - 2);
  const auto at = authority.rfind('@');
  if (at == std::string::npos) {
    return ok();
  }
  const std::string user_info = authority.substr(0, at);
  const auto colon = user_info.find(':');
  if (colon == std::string::npos) {
    return ok();
  }
  auto password = decode_id(std::string_view(user_info).substr(colon + 1));
  const std::string user = user_info.substr(0, colon);
  const std::string rest = url.path.substr(2 + at + 1);
  url.path = user.empty() ? "//" + rest : "//" + user + "@" + rest;
  if (!password) {
    return url_error(url.scheme + ":" + url.path, "its password has a '%' without two hex digits");
  }
  url.password = Secret(std::move(password).value());
  return ok();
}

Result<void> take_query(StoreUrl& url, std::string_view query) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) {
      continue;
    }
    const auto equal = pair.find('=');
    auto name = decode_id(pair.substr(0, equal));
    auto value = decode_id(equal == std::string_view::npos ? std::string_view() : pair.substr(equal + 1));
    const std::string shown = url.scheme + ":" + url.path;
    if (!name || !value) {
      return url_error(shown, "an option has a '%' without two hex digits");
    }
    if (*name == "password") {
      url.password = Secret(std::move(value).value());
    } else if (!url.query.emplace(*name, *value).second) {
      return url_error(shown, fmt::format("option '{}' stands twice", *name));
    }
  }
  return ok();
}

}  // namespace

Result<StoreUrl> parse_store_url(std::string_view text) {
  StoreUrl url;
  const auto colon = text.find(':');
  if (colon == std::string_view::npos && text != "none") {
    return url_error(text, "it names no kind");
  }
  url.scheme = text.substr(0, colon);
  if (!is_scheme(url.scheme)) {
    return url_error(text.substr(0, colon), "its kind is no word of small letters");
  }
  std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  const auto question = rest.find('?');
  url.path = rest.substr(0, question);
  if (url.path.find('\0') != std::string::npos) {
    return url_error(url.scheme + ":", "it holds a NUL byte");
  }
  ASCOPE_TRY(take_password(url));
  if (question != std::string_view::npos) {
    ASCOPE_TRY(take_query(url, rest.substr(question + 1)));
  }
  url.text = colon == std::string_view::npos ? url.scheme : url.scheme + ":" + url.path;
  char separator = '?';
  for (const auto& [name, value] : url.query) {
    url.text += fmt::format("{}{}={}", std::exchange(separator, '&'), name, value);
  }
  return url;
}

Result<std::string> store_path(const StoreUrl& url) {
  if (url.path.empty()) {
    return make_error(ErrorKind::config, fmt::format("store '{}' names no place", url.text),
                      fmt::format("write {}:/some/folder", url.scheme));
  }
  std::error_code failure;
  const std::string cwd = url.path.front() == '/' ? "/" : std::filesystem::current_path(failure).string();
  if (failure) {
    return errno_error("asking for the working directory", failure.value());
  }
  return absolute_path(url.path, cwd);
}

Result<void> check_store_options(const StoreUrl& url, std::span<const std::string_view> known) {
  for (const auto& [name, value] : url.query) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return make_error(ErrorKind::config, fmt::format("store '{}' has no option '{}'", url.text, name),
                        known.empty() ? "this kind of store takes none"
                                      : fmt::format("it takes {}", fmt::join(known, ", ")));
    }
  }
  return ok();
}

}  // namespace ascope
