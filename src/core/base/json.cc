// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"

#include <set>
#include <vector>

#include "core/base/bytes.h"

namespace ascope {

namespace {

constexpr std::size_t kMaxDepth = 64;

// Refuses what nlohmann/json lets pass: a key that stands twice in one object, and endless nesting.
class StrictParse {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
        keys_.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!keys_.back().insert(parsed.get<std::string>()).second && problem.empty()) {
          problem = "key '" + parsed.get<std::string>() + "' stands twice in one object";
        }
        break;
      default:
        break;
    }
    if (static_cast<std::size_t>(depth) > kMaxDepth && problem.empty()) {
      problem = "nested deeper than " + std::to_string(kMaxDepth) + " levels";
    }
    return true;
  }

  std::string problem;

 private:
  std::vector<std::set<std::string>> keys_;
};

Error member_error(std::string_view key, std::string_view want) {
  return make_error(ErrorKind::corrupt, "member '" + std::string(key) + "' is not " + std::string(want));
}

const Json* find_member(const Json& object, std::string_view key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto it = object.find(std::string(key));
  return it == object.end() ? nullptr : &*it;
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  // A cheap look before the recursive parser: brackets alone decide how deep it would go.
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) {
        return make_error(ErrorKind::corrupt,
                          "JSON is nested deeper than " + std::to_string(kMaxDepth) + " levels");
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  StrictParse strict;
  try {
    Json value = Json::parse(text, [&strict](int level, Json::parse_event_t event, Json& parsed) {
      return strict(level, event, parsed);
    });
    if (!strict.problem.empty()) {
      return make_error(ErrorKind::corrupt, "JSON: " + strict.problem);
    }
    return value;
  } catch (const Json::parse_error& e) {
    return make_error(ErrorKind::corrupt, "not valid JSON at byte " + std::to_string(e.byte));
  } catch (const Json::exception& e) {
    return make_error(ErrorKind::corrupt, "not valid JSON (number or text out of range)");
  }
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json bytes_json(std::string_view bytes) {
  if (is_utf8(bytes)) {
    return std::string(bytes);
  }
  return Json{{"base64", to_base64(bytes)}};
}

Result<std::string> json_bytes(const Json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  const Json* encoded = find_member(value, "base64");
  if (encoded == nullptr || !encoded->is_string() || value.size() != 1) {
    return make_error(ErrorKind::corrupt, "neither a string nor {\"base64\": …}");
  }
  return from_base64(encoded->get<std::string>());
}

Result<std::string> get_string(const Json& object, std::string_view key) {
  const Json* member = find_member(object, key);
  if (member == nullptr || !member->is_string()) {
    return member_error(key, "a string");
  }
  return member->get<std::string>();
}

Result<std::int64_t> get_int(const Json& object, std::string_view key) {
  const Json* member = find_member(object, key);
  if (member == nullptr || !member->is_number_integer() ||
      (member->is_number_unsigned() && member->get<std::uint64_t>() > INT64_MAX)) {
    return member_error(key, "a whole number");
  }
  return member->get<std::int64_t>();
}

Result<bool> get_bool(const Json& object, std::string_view key) {
  const Json* member = find_member(object, key);
  if (member == nullptr || !member->is_boolean()) {
    return member_error(key, "true or false");
  }
  return member->get<bool>();
}

Result<std::optional<std::string>> get_optional_string(const Json& object, std::string_view key) {
  const Json* member = find_member(object, key);
  if (member == nullptr || member->is_null()) {
    return std::optional<std::string>{};
  }
  if (!member->is_string()) {
    return member_error(key, "a string or null");
  }
  return std::optional<std::string>(member->get<std::string>());
}

}  // namespace ascope
