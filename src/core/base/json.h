// SPDX-License-Identifier: Apache-2.0
// JSON as we use it: key order kept, parse errors as values, bytes that are not UTF-8 as {"base64": …}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace ascope {

using Json = nlohmann::ordered_json;

// `corrupt` with the byte offset if `text` is not one whole JSON value, repeats a key in an object, or nests
// deeper than 64.
Result<Json> parse_json(std::string_view text);
// Compact (indent < 0) or indented. Never throws: the strings in `value` are valid UTF-8 by construction (see
// bytes_json).
std::string dump_json(const Json& value, int indent = -1);
// A string where `bytes` are valid UTF-8, else {"base64": "…"}; and back (`corrupt` for anything else).
Json bytes_json(std::string_view bytes);
Result<std::string> json_bytes(const Json& value);

// Typed access that answers `corrupt` and names the member, for documents that others wrote.
Result<std::string> get_string(const Json& object, std::string_view key);
Result<std::int64_t> get_int(const Json& object, std::string_view key);
Result<bool> get_bool(const Json& object, std::string_view key);
// nullopt if the member is absent or null.
Result<std::optional<std::string>> get_optional_string(const Json& object, std::string_view key);

}  // namespace ascope
