// SPDX-License-Identifier: Apache-2.0
// Whose sandbox: the identity of a slot, its written form, its name in AgentScope's stores, its safe file
// name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace ascope {

enum class Scope { user, session, agent, global };
std::string_view to_string(Scope scope);
Result<Scope> parse_scope(std::string_view text);

// The ids of one call as flags, environment and profile give them. Empty = not given.
struct SlotIds {
  std::string agent;  // built-in default: "default"
  std::string user;
  std::string session;
  Scope scope = Scope::user;
};

// Ids are data: any bytes, at most kMaxIdBytes, never interpreted.
class SlotKey {
 public:
  static constexpr std::size_t kMaxIdBytes = 4096;  // product 2 wants 1 KiB ids to work; more is a slip

  // Applies scope with its fallback: user without user id → session; without session id → the agent's name as
  // session. `fallback` (may be null) gets one sentence for stderr when that happened. `usage` for an empty
  // agent or a NUL-only id.
  static Result<SlotKey> resolve(const SlotIds& ids, std::string* fallback);
  // From the written form "user/<agent>/<user>", "session/<s>", "agent/<a>", "global", each part
  // percent-encoded; or AgentScope's raw name "sandbox/user/…" as a Java agent left it. `usage` otherwise.
  static Result<SlotKey> parse(std::string_view written);
  // From a state store's session id; never fails: a name that is not of our making is kept raw (is_raw()).
  static SlotKey from_store_name(std::string_view name);

  [[nodiscard]] Scope scope() const { return scope_; }
  [[nodiscard]] const std::string& agent() const { return agent_; }      // empty for session, global
  [[nodiscard]] const std::string& user() const { return user_; }        // only for user
  [[nodiscard]] const std::string& session() const { return session_; }  // only for session
  [[nodiscard]] bool is_raw() const { return !raw_.empty(); }

  // "user/assistant/alice": what users type and see. Reversible.
  [[nodiscard]] std::string written() const;
  // AgentScope's slot session id, "sandbox/user/assistant/alice" (protocols 1.4). Reversible through
  // from_store_name.
  [[nodiscard]] std::string store_name() const;
  // A name safe as one file or folder name: lower-case hex SHA-256 of store_name().
  [[nodiscard]] std::string file_name() const;
  // AgentScope's lock value part, "user:alice" (reference 6.1).
  [[nodiscard]] std::string guard_name() const;

  bool operator==(const SlotKey&) const = default;

 private:
  Scope scope_ = Scope::global;
  std::string agent_;
  std::string user_;
  std::string session_;
  std::string raw_;
};

// A store whose names hold at most `limit` bytes keeps `store_name` as "sandbox/<scope>/~<sha256>" if it is
// longer (protocols 1.4); shorter names stay as they are. The full name then stands in Aux::slot, and beside
// the value in the store, for listing. No id encodes to "~<sha256>", so a name made here is nobody else's.
std::string store_name_within(std::string_view store_name, std::size_t limit);

// Percent-encodes '/', '%', control bytes, bytes that are not UTF-8, the whole ids "." and "..", and
// the '~' of an id that looks like a shortened name; and back (`usage`: a '%' without two hex digits).
std::string encode_id(std::string_view id);
Result<std::string> decode_id(std::string_view text);

}  // namespace ascope
