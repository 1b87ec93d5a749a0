// SPDX-License-Identifier: Apache-2.0
#include "core/slot_key.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/base/bytes.h"
#include "core/base/hash.h"

namespace ascope {

namespace {

struct ScopeName {
  Scope scope;
  std::string_view name;
  std::size_t ids;  // how many ids stand behind the scope's name
};
constexpr std::array<ScopeName, 4> kScopes{{{Scope::user, "user", 2},
                                            {Scope::session, "session", 1},
                                            {Scope::agent, "agent", 1},
                                            {Scope::global, "global", 0}}};
constexpr std::string_view kStorePrefix = "sandbox/";
constexpr std::size_t kShortLength = 65;  // '~' and a SHA-256 in hex

const ScopeName* find_scope(std::string_view name) {
  const auto it =
      std::find_if(kScopes.begin(), kScopes.end(), [&](const ScopeName& s) { return s.name == name; });
  return it == kScopes.end() ? nullptr : &*it;
}

std::vector<std::string_view> split_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto slash = text.find('/');
    parts.push_back(text.substr(0, slash));
    if (slash == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(slash + 1);
  }
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F;
}

// Length of the UTF-8 character at the front of `text`, or 0.
std::size_t character_length(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, text.size()); ++length) {
    if (is_utf8(text.substr(0, length))) {
      return length;
    }
  }
  return 0;
}

bool looks_shortened(std::string_view id) {
  return id.size() == kShortLength && id.front() == '~' &&
         id.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
}

void append_percent(std::string& out, char c) {
  fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

Result<void> check_id(std::string_view what, std::string_view id) {
  if (id.find_first_not_of('\0') == std::string_view::npos) {
    return make_error(ErrorKind::usage, fmt::format("the {} id is empty", what),
                      fmt::format("name it with --{}", what));
  }
  if (id.size() > SlotKey::kMaxIdBytes) {
    return make_error(ErrorKind::usage, fmt::format("the {} id has {} bytes, more than {}", what, id.size(),
                                                    SlotKey::kMaxIdBytes));
  }
  return ok();
}

Error slot_error(std::string_view written, std::string_view why) {
  return make_error(ErrorKind::usage, fmt::format("'{}' does not name a slot: {}", written, why),
                    "write user/AGENT/USER, session/SESSION, agent/AGENT or global; a '/' inside an id is "
                    "%2F, a '%' is %25");
}

}  // namespace

std::string_view to_string(Scope scope) {
  for (const auto& entry : kScopes) {
    if (entry.scope == scope) {
      return entry.name;
    }
  }
  return "global";
}

Result<Scope> parse_scope(std::string_view text) {
  if (const ScopeName* found = find_scope(text)) {
    return found->scope;
  }
  return make_error(ErrorKind::usage, fmt::format("'{}' is not a scope", text),
                    "use user, session, agent or global");
}

std::string encode_id(std::string_view id) {
  std::string out;
  if (id == "." || id == "..") {
    for (const char c : id) {
      append_percent(out, c);
    }
    return out;
  }
  if (looks_shortened(id)) {
    append_percent(out, '~');
    id.remove_prefix(1);
  }
  while (!id.empty()) {
    const std::size_t length = character_length(id);
    const char c = id.front();
    if (length == 0 || c == '/' || c == '%' || is_control(c)) {
      append_percent(out, c);
      id.remove_prefix(1);
    } else {
      out += id.substr(0, length);
      id.remove_prefix(length);
    }
  }
  return out;
}

Result<std::string> decode_id(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const int high = i + 1 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return make_error(ErrorKind::usage, fmt::format("'{}' has a '%' without two hex digits", text),
                        "write '%' itself as %25");
    }
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

std::string store_name_within(std::string_view store_name, std::size_t limit) {
  if (store_name.size() <= limit) {
    return std::string(store_name);
  }
  std::string_view scope = "raw";
  if (store_name.starts_with(kStorePrefix)) {
    const auto rest = store_name.substr(kStorePrefix.size());
    if (const ScopeName* found = find_scope(rest.substr(0, rest.find('/')))) {
      scope = found->name;
    }
  }
  return fmt::format("{}{}/~{}", kStorePrefix, scope, sha256_hex(store_name));
}

Result<SlotKey> SlotKey::resolve(const SlotIds& ids, std::string* fallback) {
  SlotKey key;
  ASCOPE_TRY(check_id("agent", ids.agent));
  key.scope_ = ids.scope;
  std::string said;
  if (key.scope_ == Scope::user && ids.user.empty()) {
    key.scope_ = Scope::session;
    said = fmt::format("No user id was given; the slot is that of session '{}'.", ids.session);
  }
  switch (key.scope_) {
    case Scope::user:
      ASCOPE_TRY(check_id("user", ids.user));
      key.agent_ = ids.agent;
      key.user_ = ids.user;
      break;
    case Scope::session:
      key.session_ = ids.session;
      if (ids.session.empty()) {
        key.session_ = ids.agent;
        said = fmt::format("No {} id was given; the slot is that of session '{}', named after the agent.",
                           ids.scope == Scope::user ? "user or session" : "session", ids.agent);
      }
      ASCOPE_TRY(check_id("session", key.session_));
      break;
    case Scope::agent:
      key.agent_ = ids.agent;
      break;
    case Scope::global:
      break;
  }
  if (fallback != nullptr) {
    *fallback = std::move(said);
  }
  return key;
}

Result<SlotKey> SlotKey::parse(std::string_view written) {
  if (written.starts_with(kStorePrefix) && written.size() > kStorePrefix.size()) {
    return from_store_name(written);
  }
  const auto parts = split_parts(written);
  const ScopeName* scope = find_scope(parts.front());
  if (scope == nullptr) {
    return slot_error(written, "it begins with no scope");
  }
  if (parts.size() != scope->ids + 1) {
    return slot_error(
        written, fmt::format("scope {} takes {} id{}", scope->name, scope->ids, scope->ids == 1 ? "" : "s"));
  }
  std::array<std::string, 2> ids;
  for (std::size_t i = 0; i < scope->ids; ++i) {
    auto id = decode_id(parts[i + 1]);
    if (!id) {
      return slot_error(written, id.error().message);
    }
    ids[i] = std::move(id).value();
    const bool is_user_id = scope->scope == Scope::user && i == 1;
    ASCOPE_TRY(check_id(is_user_id ? "user" : scope->scope == Scope::session ? "session" : "agent", ids[i]));
  }
  SlotKey key;
  key.scope_ = scope->scope;
  (scope->scope == Scope::session ? key.session_ : key.agent_) = std::move(ids[0]);
  key.user_ = std::move(ids[1]);
  return key;
}

SlotKey SlotKey::from_store_name(std::string_view name) {
  SlotKey raw;
  raw.raw_ = name;
  if (!name.starts_with(kStorePrefix)) {
    return raw;
  }
  const std::string_view rest = name.substr(kStorePrefix.size());
  if (const ScopeName* scope = find_scope(rest.substr(0, rest.find('/')))) {
    raw.scope_ = scope->scope;
  }
  if (rest.starts_with(kStorePrefix)) {
    return raw;  // not a scope; parse() would go round in circles
  }
  auto key = parse(rest);
  if (key.has_value() && key.value().store_name() == name) {
    return std::move(key).value();
  }
  return raw;
}

std::string SlotKey::written() const {
  if (is_raw()) {
    return raw_;
  }
  std::string out(to_string(scope_));
  if (scope_ == Scope::user || scope_ == Scope::agent) {
    out += "/" + encode_id(agent_);
  }
  if (scope_ == Scope::user) {
    out += "/" + encode_id(user_);
  }
  if (scope_ == Scope::session) {
    out += "/" + encode_id(session_);
  }
  return out;
}

std::string SlotKey::store_name() const {
  return is_raw() ? raw_ : std::string(kStorePrefix) + written();
}

std::string SlotKey::file_name() const {
  return sha256_hex(store_name());
}

std::string SlotKey::guard_name() const {
  if (is_raw()) {
    // A Java agent put its ids there as they are. What stands behind the scope (for user: behind the agent's
    // id, which has no slash as a rule) is the value that it locks.
    std::string_view value = raw_;
    for (int skip = scope_ == Scope::user ? 3 : 2; skip > 0; --skip) {
      const auto slash = value.find('/');
      value.remove_prefix(slash == std::string_view::npos ? 0 : slash + 1);
    }
    return fmt::format("{}:{}", to_string(scope_), value);
  }
  const std::string& value = scope_ == Scope::user ? user_ : scope_ == Scope::session ? session_ : agent_;
  return fmt::format("{}:{}", to_string(scope_), scope_ == Scope::global ? "__global__" : value);
}

}  // namespace ascope
