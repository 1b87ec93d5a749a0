// SPDX-License-Identifier: Apache-2.0
// The JSON Schema of the profile, for editors. The loader stays the judge: a schema cannot say all of it.
#include <algorithm>

#include <fmt/format.h>

#include "core/profile/profile_schema.h"

namespace ascope {
namespace {

// Text keeps what is written, so an editor may not complain about `agent: 10`.
Json written_text() {
  return Json{{"type", Json::array({"string", "number", "boolean"})}};
}

Json text_type() {
  return Json{{"type", "string"}};
}

Json choices(std::string_view words) {
  Json list = Json::array();
  while (!words.empty()) {
    const std::size_t end = std::min(words.find('|'), words.size());
    list.push_back(std::string(words.substr(0, end)));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return Json{{"enum", std::move(list)}};
}

Json closed_object(Json properties) {
  return Json{{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
}

Json whole_number() {
  return Json{{"type", "integer"}, {"minimum", 1}};
}

Json duration() {
  return Json{{"type", Json::array({"string", "integer"})},
              {"pattern", "^(0|([0-9]+(ms|s|m|h|d))+)$"},
              {"maximum", 0}};
}

Json entry_of(std::string_view type, const Json& properties, Json required) {
  Json all{{"type", Json{{"const", std::string(type)}}},
           {"ephemeral", Json{{"type", "boolean"}, {"default", false}}}};
  all.update(properties);
  Json object = closed_object(std::move(all));
  required.insert(required.begin(), "type");
  object["required"] = std::move(required);
  return object;
}

Json entry_definitions() {
  const Json mode{{"type", Json::array({"string", "integer"})}, {"pattern", "^0?[0-7]{3}$"}};
  const Json file{
      {"content", written_text()}, {"encoding", choices("UTF-8|ISO-8859-1|US-ASCII")}, {"mode", mode}};
  const Json children{{"type", "object"}, {"additionalProperties", Json{{"$ref", "#/$defs/nested_entry"}}}};
  Json nested = Json::array();
  nested.push_back(entry_of("file", file, Json::array()));
  nested.push_back(entry_of("dir", Json{{"children", children}, {"mode", mode}}, Json::array()));
  nested.push_back(entry_of("local_file", Json{{"source_path", text_type()}, {"mode", mode}},
                            Json::array({"source_path"})));
  nested.push_back(entry_of("local_dir", Json{{"source_path", text_type()}}, Json::array({"source_path"})));
  nested.push_back(
      entry_of("git_repo", Json{{"url", text_type()}, {"ref", written_text()}}, Json::array({"url"})));
  Json top = Json::array({Json{{"$ref", "#/$defs/nested_entry"}}});
  top.push_back(entry_of("bind_mount",
                         Json{{"host_path", text_type()}, {"read_only", Json{{"type", "boolean"}}}},
                         Json::array({"host_path"})));
  Json definitions = Json::object();
  definitions["nested_entry"] = Json{{"oneOf", std::move(nested)}};
  definitions["entry"] = Json{{"oneOf", std::move(top)}};
  return definitions;
}

Json skill_list() {
  Json properties = Json::object();
  for (const char* const name : {"git", "dir", "path", "name"}) {
    properties[name] = text_type();
  }
  properties["ref"] = written_text();
  return Json{{"type", "array"}, {"items", closed_object(std::move(properties))}};
}

Json keep_rules() {
  Json properties = Json::object();
  for (const char* const name : {"last", "hourly", "daily", "weekly", "monthly"}) {
    properties[name] = whole_number();
  }
  properties["within"] = duration();
  return closed_object(std::move(properties));
}

Json key_type(const ProfileKey& key) {
  switch (key.type) {
    case KeyType::text:
      return written_text();
    case KeyType::url:
    case KeyType::host_path:
      return text_type();
    case KeyType::boolean:
      return Json{{"type", "boolean"}};
    case KeyType::number:
      return whole_number();
    case KeyType::decimal:
      return Json{{"type", "number"}, {"exclusiveMinimum", 0}};
    case KeyType::duration:
      return duration();
    case KeyType::size:
      return Json{{"type", "string"}, {"pattern", "^[0-9]+(B|[KMGT]i?B)$"}};
    case KeyType::choice:
      return choices(key.choices);
    case KeyType::text_list: {
      Json list{{"type", "array"}, {"items", written_text()}};
      return key.choices.empty() ? list
                                 : Json{{"anyOf", Json::array({choices(key.choices), std::move(list)})}};
    }
    case KeyType::text_map: {
      Json value = written_text();
      value["type"].push_back("array");
      return Json{
          {"type", Json::array({"object", "null"})},
          {"additionalProperties", key.name == "backend.options" ? std::move(value) : written_text()}};
    }
    case KeyType::entries:
      return Json{{"type", "object"}, {"additionalProperties", Json{{"$ref", "#/$defs/entry"}}}};
    case KeyType::skills:
      return skill_list();
    case KeyType::keep:
      return keep_rules();
  }
  return Json::object();
}

// The object's members as they are written in the schema; groups are made on the way.
Json& place_of(Json& schema, std::string_view key) {
  Json* object = &schema;
  while (true) {
    const std::size_t dot = key.find('.');
    Json& next = (*object)["properties"][std::string(key.substr(0, dot))];
    if (dot == std::string_view::npos) {
      return next;
    }
    if (next.is_null()) {
      next = closed_object(Json::object());
    }
    object = &next;
    key.remove_prefix(dot + 1);
  }
}

}  // namespace

Json profile_json_schema() {
  Json schema = Json::object();
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "ascope-sandbox profile";
  schema["description"] = "ascope.yaml, version 1; see ascope-profile(5)";
  schema["type"] = "object";
  schema["additionalProperties"] = false;
  schema["properties"] = Json::object();
  for (const ProfileKey& key : profile_keys()) {
    Json property = Json::object();
    std::string help(key.help);
    help += key.policy == KeyPolicy::user_only ? " (a found file may need trust for it)" : "";
    property["description"] = std::move(help);
    property.update(key_type(key));
    if (!key.default_text.empty() && key.type != KeyType::text_list) {
      property["default"] = key.type == KeyType::boolean  ? Json(key.default_text == "true")
                            : key.type == KeyType::number ? Json(1)
                                                          : Json(std::string(key.default_text));
    }
    place_of(schema, key.name) = std::move(property);
  }
  schema["properties"]["version"]["enum"] = Json::array({1});
  schema["$defs"] = entry_definitions();
  return schema;
}

}  // namespace ascope
