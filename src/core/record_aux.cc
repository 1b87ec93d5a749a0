// SPDX-License-Identifier: Apache-2.0
// The aux value: one JSON object {"v":1,"slot","history":[…],"undo","projection","entries","extra"}. Members
// that a later version adds under v 1 are ignored by this one; another v is `unsupported`.
#include <fmt/format.h>

#include "core/object_key.h"
#include "core/record.h"
#include "core/tree/tree.h"

namespace ascope {

namespace {

constexpr std::int64_t kVersion = 1;

Json item_json(const HistoryItem& item) {
  Json tags = Json::array();
  for (const std::string& tag : item.tags) {
    tags.push_back(bytes_json(tag));
  }
  return Json{{"snapshot", item.snapshot},
              {"format", item.format},
              {"object", item.object},
              {"size", item.size_bytes},
              {"sha256", item.sha256},
              {"version", item.version},
              {"roots_object", item.roots_object},
              {"roots_sha256", item.roots_sha256},
              {"roots_size", item.roots_size_bytes},
              {"time", item.time},
              {"kind", item.kind},
              {"parent", item.parent},
              {"rev", item.rev},
              {"fence", fmt::to_string(item.fence)},
              {"host", item.host},
              {"tree", item.tree},
              {"files", item.files},
              {"content_bytes", item.content_bytes},
              {"added_bytes", item.added_bytes},
              {"tags", std::move(tags)},
              {"notes", item.notes}};
}

Result<std::uint64_t> get_count(const Json& object, std::string_view key) {
  ASCOPE_TRY_ASSIGN(const std::int64_t value, get_int(object, key));
  if (value < 0) {
    return make_error(ErrorKind::corrupt, fmt::format("member '{}' is negative", key));
  }
  return static_cast<std::uint64_t>(value);
}

Result<std::uint64_t> get_fence(const Json& object) {
  ASCOPE_TRY_ASSIGN(const std::string text, get_string(object, "fence"));
  if (text.empty() || text.size() > 16 || text.find_first_not_of("0123456789") != std::string::npos) {
    return make_error(ErrorKind::corrupt, "member 'fence' is not a decimal string");
  }
  return std::stoull(text);
}

Result<Json> get_value(const Json& object, std::string_view key, Json::value_t type) {
  const auto it = object.find(std::string(key));
  if (it == object.end() || it->type() != type) {
    return make_error(ErrorKind::corrupt, fmt::format("member '{}' is not {}", key,
                                                      type == Json::value_t::array ? "a list" : "an object"));
  }
  return *it;
}

Result<HistoryItem> parse_item(const Json& json) {
  HistoryItem item;
  ASCOPE_TRY_ASSIGN(item.snapshot, get_string(json, "snapshot"));
  ASCOPE_TRY_ASSIGN(item.format, get_string(json, "format"));
  ASCOPE_TRY_ASSIGN(item.object, get_string(json, "object"));
  if (!is_object_key(item.object)) {
    return make_error(ErrorKind::corrupt, "member 'object' is not the key of an object");
  }
  ASCOPE_TRY_ASSIGN(item.size_bytes, get_count(json, "size"));
  ASCOPE_TRY_ASSIGN(item.sha256, get_string(json, "sha256"));
  ASCOPE_TRY_ASSIGN(item.version, get_string(json, "version"));
  ASCOPE_TRY_ASSIGN(item.roots_object, get_string(json, "roots_object"));
  if (!item.roots_object.empty() && !is_object_key(item.roots_object)) {
    return make_error(ErrorKind::corrupt, "member 'roots_object' is not the key of an object");
  }
  ASCOPE_TRY_ASSIGN(item.roots_sha256, get_string(json, "roots_sha256"));
  ASCOPE_TRY_ASSIGN(item.roots_size_bytes, get_count(json, "roots_size"));
  ASCOPE_TRY_ASSIGN(item.time, get_string(json, "time"));
  ASCOPE_TRY_ASSIGN(item.kind, get_string(json, "kind"));
  ASCOPE_TRY_ASSIGN(item.parent, get_string(json, "parent"));
  ASCOPE_TRY_ASSIGN(item.rev, get_count(json, "rev"));
  ASCOPE_TRY_ASSIGN(item.fence, get_fence(json));
  ASCOPE_TRY_ASSIGN(item.host, get_string(json, "host"));
  ASCOPE_TRY_ASSIGN(item.tree, get_string(json, "tree"));
  ASCOPE_TRY_ASSIGN(item.files, get_count(json, "files"));
  ASCOPE_TRY_ASSIGN(item.content_bytes, get_count(json, "content_bytes"));
  item.added_bytes = item.size_bytes + item.roots_size_bytes;
  if (json.contains("added_bytes")) {
    ASCOPE_TRY_ASSIGN(item.added_bytes, get_count(json, "added_bytes"));
  }
  ASCOPE_TRY_ASSIGN(const Json tags, get_value(json, "tags", Json::value_t::array));
  for (const Json& tag : tags) {
    ASCOPE_TRY_ASSIGN(std::string text, json_bytes(tag));
    item.tags.push_back(std::move(text));
  }
  ASCOPE_TRY_ASSIGN(item.notes, get_value(json, "notes", Json::value_t::array));
  return item;
}

}  // namespace

Json note_json(const TreeNote& note) {
  return Json{{"path", bytes_json(note.path)}, {"what", bytes_json(note.what)}};
}

Result<TreeNote> note_of_json(const Json& note) {
  if (!note.is_object() || !note.contains("path") || !note.contains("what")) {
    return make_error(ErrorKind::corrupt, "a note without a path or without what it says");
  }
  ASCOPE_TRY_ASSIGN(std::string path, json_bytes(note.at("path")));
  ASCOPE_TRY_ASSIGN(std::string what, json_bytes(note.at("what")));
  return TreeNote{std::move(path), std::move(what)};
}

std::string dump_aux(const Aux& aux) {
  Json history = Json::array();
  for (const HistoryItem& item : aux.history) {
    history.push_back(item_json(item));
  }
  return dump_json(Json{{"v", kVersion},
                        {"slot", bytes_json(aux.slot)},
                        {"history", std::move(history)},
                        {"undo", aux.undo},
                        {"projection", aux.projection},
                        {"entries", aux.entries},
                        {"extra", aux.extra}});
}

Result<Aux> parse_aux(std::string_view bytes) {
  ASCOPE_TRY_ASSIGN(const Json json, parse_json(bytes));
  ASCOPE_TRY_ASSIGN(const std::int64_t version, get_int(json, "v"));
  if (version > kVersion) {
    return make_error(
        ErrorKind::unsupported,
        fmt::format("the slot's history has version {}, this program knows {}", version, kVersion),
        "use a newer ascope-sandbox");
  }
  if (version != kVersion) {
    return make_error(ErrorKind::corrupt, "member 'v' is not a version");
  }
  Aux aux;
  const auto slot = json.find("slot");
  ASCOPE_TRY_ASSIGN(aux.slot, json_bytes(slot == json.end() ? Json() : *slot));
  ASCOPE_TRY_ASSIGN(aux.undo, get_string(json, "undo"));
  ASCOPE_TRY_ASSIGN(const Json history, get_value(json, "history", Json::value_t::array));
  for (const Json& item : history) {
    ASCOPE_TRY_ASSIGN(HistoryItem parsed, parse_item(item));
    aux.history.push_back(std::move(parsed));
  }
  ASCOPE_TRY_ASSIGN(aux.projection, get_value(json, "projection", Json::value_t::object));
  ASCOPE_TRY_ASSIGN(aux.entries, get_value(json, "entries", Json::value_t::object));
  ASCOPE_TRY_ASSIGN(aux.extra, get_value(json, "extra", Json::value_t::object));
  return aux;
}

}  // namespace ascope
