// SPDX-License-Identifier: Apache-2.0
// AgentScope's state documents (reference 3): which keys each type has, and of which type they are. Java
// rejects a document with any other key, so we must neither write nor pass one on.
#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/record.h"

namespace ascope {

namespace {

enum class Want { text, flag, integer, integers, texts, snapshot, manifest };

struct Field {
  std::string_view key;
  Want want;
  std::string_view choices = {};  // "A|B": a text that must be one of these
};

// In front of every document's own fields; "manifest" comes last (reference 3.1).
constexpr std::array kBase{Field{"sessionId", Want::text}, Field{"snapshot", Want::snapshot},
                           Field{"workspaceProjectionHash", Want::text},
                           Field{"workspaceRootReady", Want::flag}, Field{"manifest", Want::manifest}};
constexpr std::array kDocker{Field{"containerId", Want::text},    Field{"containerName", Want::text},
                             Field{"image", Want::text},          Field{"workspaceRoot", Want::text},
                             Field{"containerOwned", Want::flag}, Field{"memorySizeBytes", Want::integer},
                             Field{"cpuCount", Want::integer},    Field{"exposedPorts", Want::integers},
                             Field{"network", Want::text},        Field{"additionalRunArgs", Want::texts}};
constexpr std::array kKubernetesPod{Field{"namespace", Want::text},     Field{"podName", Want::text},
                                    Field{"containerName", Want::text}, Field{"workspaceRoot", Want::text},
                                    Field{"podOwned", Want::flag},      Field{"image", Want::text}};
constexpr std::array kKubernetesClaim{
    Field{"namespace", Want::text},     Field{"claimName", Want::text},      Field{"sandboxName", Want::text},
    Field{"warmPoolName", Want::text},  Field{"podName", Want::text},        Field{"podIP", Want::text},
    Field{"workspaceRoot", Want::text}, Field{"fileApiBaseDir", Want::text}, Field{"claimOwned", Want::flag}};
constexpr std::array kDaytona{Field{"sandboxId", Want::text}, Field{"workspaceRoot", Want::text},
                              Field{"sandboxOwned", Want::flag}, Field{"image", Want::text},
                              Field{"snapshotId", Want::text}};
constexpr std::array kE2b{
    Field{"sandboxId", Want::text},          Field{"templateId", Want::text},
    Field{"sandboxDomain", Want::text},      Field{"envdAccessToken", Want::text},
    Field{"envdVersion", Want::text},        Field{"workspaceRoot", Want::text},
    Field{"sandboxOwned", Want::flag},       Field{"persistenceMode", Want::text, "TAR|NATIVE_SNAPSHOT"},
    Field{"codec", Want::text, "PROTO|JSON"}};
constexpr std::array kAgentRun{Field{"sandboxId", Want::text},    Field{"workspaceRoot", Want::text},
                               Field{"templateName", Want::text}, Field{"accountId", Want::text},
                               Field{"region", Want::text},       Field{"mcpServerUrl", Want::text},
                               Field{"sandboxOwned", Want::flag}, Field{"workspaceOnNas", Want::flag}};
constexpr std::array kBubblewrap{Field{"sandboxId", Want::text}, Field{"workspaceRoot", Want::text},
                                 Field{"sandboxOwned", Want::flag}, Field{"rootfs", Want::text},
                                 Field{"network", Want::text}};
constexpr std::array kCommand{Field{"sandboxId", Want::text}, Field{"program", Want::text},
                              Field{"workspaceRoot", Want::text}, Field{"sandboxOwned", Want::flag}};

struct Table {
  std::string_view type;
  std::span<const Field> fields;
};
const std::array kDocuments{Table{"docker", kDocker},     Table{"kubernetes", kKubernetesClaim},
                            Table{"daytona", kDaytona},   Table{"e2b", kE2b},
                            Table{"agentrun", kAgentRun}, Table{"bubblewrap", kBubblewrap},
                            Table{"command", kCommand}};

// Entries of a manifest; "dir" has "children" besides, which are entries again (reference 3.9).
constexpr std::array kFileEntry{Field{"content", Want::text}, Field{"encoding", Want::text}};
constexpr std::array kSourceEntry{Field{"sourcePath", Want::text}};
constexpr std::array kGitEntry{Field{"url", Want::text}, Field{"ref", Want::text}};
constexpr std::array kProjectionEntry{Field{"sourceRoot", Want::text}, Field{"includeRoots", Want::texts}};
constexpr std::array kMountEntry{Field{"hostPath", Want::text}, Field{"readOnly", Want::flag}};
const std::array kEntries{Table{"file", kFileEntry},         Table{"dir", {}},
                          Table{"local_file", kSourceEntry}, Table{"local_dir", kSourceEntry},
                          Table{"git_repo", kGitEntry},      Table{"workspace_projection", kProjectionEntry},
                          Table{"bind_mount", kMountEntry}};

template <typename Tables>
const Table* find_table(const Tables& tables, std::string_view type) {
  const auto it = std::find_if(tables.begin(), tables.end(), [&](const Table& t) { return t.type == type; });
  return it == tables.end() ? nullptr : &*it;
}

const Field* find_field(std::span<const Field> fields, std::string_view key) {
  const auto it = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.key == key; });
  return it == fields.end() ? nullptr : &*it;
}

Error wrong(const std::string& where, std::string_view want) {
  return make_error(ErrorKind::corrupt, fmt::format("'{}' is not {}", where, want));
}

Error unknown_key(const std::string& where) {
  return make_error(ErrorKind::corrupt, fmt::format("unknown key '{}'", where));
}

bool is_one_of(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == text) {
      return true;
    }
    choices.remove_prefix(bar == std::string_view::npos ? choices.size() : bar + 1);
  }
  return false;
}

// Java validates the id of a local snapshot like this while reading, and the whole state fails with it.
bool is_local_snapshot_id(std::string_view id) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  return id.find_first_not_of(kBlank) != std::string_view::npos && id.find("..") == std::string_view::npos &&
         id.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

Result<void> check_text(const Json& value, const std::string& where, std::string_view choices) {
  if (value.is_null() && choices.empty()) {
    return ok();
  }
  if (!value.is_string()) {
    return wrong(where, "a string");
  }
  if (!choices.empty() && !is_one_of(choices, value.get<std::string>())) {
    return wrong(where, fmt::format("one of {}", choices));
  }
  return ok();
}

// Snapshot objects are the one place where Java ignores unknown keys.
Result<void> check_snapshot(const Json& value, const std::string& where) {
  if (value.is_null()) {
    return ok();
  }
  if (!value.is_object()) {
    return wrong(where, "an object or null");
  }
  const auto type = value.find("type");
  if (type == value.end() || !type->is_string() ||
      !is_one_of("noop|local|remote", type->get<std::string>())) {
    return wrong(where + ".type", "one of noop|local|remote");
  }
  for (const char* key : {"id", "basePath"}) {
    if (const auto it = value.find(key); it != value.end()) {
      ASCOPE_TRY(check_text(*it, where + "." + key, {}));
    }
  }
  const auto id = value.find("id");
  if (*type == "local" &&
      (id == value.end() || !id->is_string() || !is_local_snapshot_id(id->get<std::string>()))) {
    return wrong(where + ".id", "the name of a local snapshot");
  }
  return ok();
}

Result<void> check_manifest(const Json& value, const std::string& where);

Result<void> check_field(const Json& value, const Field& field, const std::string& where) {
  const auto all_are = [&](auto is) {
    return value.is_array() && std::all_of(value.begin(), value.end(), is);
  };
  switch (field.want) {
    case Want::text:
      return check_text(value, where, field.choices);
    case Want::flag:
      return value.is_boolean() ? ok() : Result<void>(wrong(where, "true or false"));
    case Want::integer:
      return value.is_null() || value.is_number_integer()
                 ? ok()
                 : Result<void>(wrong(where, "a whole number or null"));
    case Want::integers:
      return all_are([](const Json& item) { return item.is_number_integer(); })
                 ? ok()
                 : Result<void>(wrong(where, "a list of whole numbers"));
    case Want::texts:
      return all_are([](const Json& item) { return item.is_string(); })
                 ? ok()
                 : Result<void>(wrong(where, "a list of strings"));
    case Want::snapshot:
      return check_snapshot(value, where);
    case Want::manifest:
      return check_manifest(value, where);
  }
  return ok();
}

Result<void> check_entries(const Json& entries, const std::string& where);

Result<void> check_entry(const Json& entry, const std::string& where) {
  if (!entry.is_object()) {
    return wrong(where, "an object");
  }
  const auto type = entry.find("type");
  const Table* table =
      type != entry.end() && type->is_string() ? find_table(kEntries, type->get<std::string>()) : nullptr;
  if (table == nullptr) {
    return wrong(where + ".type", "a known entry type");
  }
  for (const auto& [key, value] : entry.items()) {
    const std::string path = where + "." + key;
    if (key == "type") {
      continue;
    }
    if (key == "ephemeral") {
      ASCOPE_TRY(check_field(value, Field{"ephemeral", Want::flag}, path));
    } else if (key == "children" && table->type == "dir") {
      ASCOPE_TRY(check_entries(value, path));
    } else if (const Field* field = find_field(table->fields, key)) {
      ASCOPE_TRY(check_field(value, *field, path));
    } else {
      return unknown_key(path);
    }
  }
  return ok();
}

Result<void> check_entries(const Json& entries, const std::string& where) {
  if (!entries.is_object()) {
    return wrong(where, "an object");
  }
  for (const auto& [name, entry] : entries.items()) {
    ASCOPE_TRY(check_entry(entry, where + "." + name));
  }
  return ok();
}

Result<void> check_manifest(const Json& value, const std::string& where) {
  if (value.is_null()) {
    return ok();
  }
  if (!value.is_object()) {
    return wrong(where, "an object or null");
  }
  for (const auto& [key, member] : value.items()) {
    const std::string path = where + "." + key;
    if (key == "root") {
      ASCOPE_TRY(check_text(member, path, {}));
    } else if (key == "entries") {
      ASCOPE_TRY(check_entries(member, path));
    } else if (key == "environment") {
      if (!member.is_object()) {
        return wrong(path, "an object");
      }
      for (const auto& [name, text] : member.items()) {
        ASCOPE_TRY(check_text(text, path + "." + name, {}));
      }
    } else {
      return unknown_key(path);
    }
  }
  return ok();
}

// Two shapes go by the name "kubernetes", and each Java version rejects the other's (reference 3.4).
std::span<const Field> fields_of(const Table& table, const Json& document) {
  if (table.type == "kubernetes") {
    for (const char* key : {"podOwned", "containerName", "image"}) {
      if (document.contains(key)) {
        return kKubernetesPod;
      }
    }
  }
  return table.fields;
}

// Follows the parser for parse_document: how often "type" stood in the top-level object "snapshot", with
// which values, and whether any other key stood twice.
struct TwiceTyped {
  std::vector<std::set<std::string>> keys;
  std::string top_key;
  std::vector<Json> types;
  bool type_is_next = false;
  bool other_twice = false;

  void see(Json::parse_event_t event, const Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
        keys.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case Json::parse_event_t::key: {
        const auto key = parsed.get<std::string>();
        if (keys.size() == 1) {
          top_key = key;
        }
        type_is_next = keys.size() == 2 && top_key == "snapshot" && key == "type";
        other_twice = (!keys.back().insert(key).second && !type_is_next) || other_twice;
        break;
      }
      case Json::parse_event_t::value:
        if (std::exchange(type_is_next, false)) {
          types.push_back(parsed);
        }
        break;
      default:
        type_is_next = false;
        break;
    }
  }
};

}  // namespace

bool is_known_document_type(std::string_view type) {
  return find_table(kDocuments, type) != nullptr;
}

Result<Json> parse_document(std::string_view text) {
  auto strict = parse_json(text);
  if (strict || strict.error().message != "JSON: key 'type' stands twice in one object") {
    return strict;
  }
  TwiceTyped twice;
  try {
    const Json value = Json::parse(text, [&twice](int /*depth*/, Json::parse_event_t event, Json& parsed) {
      twice.see(event, parsed);
      return true;
    });
    if (!twice.other_twice && twice.types.size() == 2 && twice.types[0] == twice.types[1]) {
      return value;
    }
  } catch (const Json::exception&) {
    return strict;
  }
  return strict;
}

Result<void> check_document(const Json& document) {
  if (!document.is_object()) {
    return make_error(ErrorKind::corrupt, "the document is not a JSON object");
  }
  const auto type = document.find("type");
  if (type == document.end() || !type->is_string()) {
    return make_error(ErrorKind::corrupt, "the document has no 'type'");
  }
  const Table* table = find_table(kDocuments, type->get<std::string>());
  if (table == nullptr) {
    return make_error(ErrorKind::corrupt,
                      fmt::format("the document has the unknown type '{}'", type->get<std::string>()));
  }
  const auto fields = fields_of(*table, document);
  for (const auto& [key, value] : document.items()) {
    if (key == "type") {
      continue;
    }
    const Field* field = find_field(kBase, key);
    if (field == nullptr) {
      field = find_field(fields, key);
    }
    if (field == nullptr) {
      return unknown_key(key);
    }
    ASCOPE_TRY(check_field(value, *field, key));
  }
  return ok();
}

Json make_document(std::string_view type, std::string_view session_id, const Json& backend_fields,
                   const Json& snapshot, const Json& manifest) {
  Json document;
  document["type"] = type;
  document["sessionId"] = session_id;
  document["snapshot"] = snapshot;
  document["workspaceProjectionHash"] = nullptr;
  document["workspaceRootReady"] = false;
  for (const auto& [key, value] : backend_fields.items()) {
    document[key] = value;
  }
  document.erase("manifest");
  document["manifest"] = manifest;
  return document;
}

}  // namespace ascope
