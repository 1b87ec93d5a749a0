// SPDX-License-Identifier: Apache-2.0
#include "core/record.h"

#include <charconv>

#include <fmt/format.h>

#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/object_key.h"

namespace ascope {

namespace {

constexpr std::int64_t kVersion = 1;
// Lua and many JSON readers keep numbers as doubles: exact up to here only.
constexpr std::uint64_t kMaxExact = 1ULL << 53U;

Error member_error(std::string_view key, std::string_view want) {
  return make_error(ErrorKind::corrupt, fmt::format("member 'ascope.{}' is not {}", key, want));
}

bool is_hex(std::string_view text, std::size_t length) {
  return text.size() == length && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

const Json& member(const Json& object, const char* key) {
  static const Json kNull;
  const auto it = object.find(key);
  return it == object.end() ? kNull : *it;
}

Result<std::uint64_t> exact_number(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMaxExact) {
    return member_error(key, "a whole number up to 2^53");
  }
  return value.get<std::uint64_t>();
}

Result<std::uint64_t> parse_fence(const Json& object) {
  const Json& value = member(object, "fence");
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  std::uint64_t fence = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), fence);
  const bool canonical = text == "0" || (!text.empty() && text.front() != '0');
  if (!canonical || ec != std::errc{} || end != text.data() + text.size() || fence > kMaxExact) {
    return member_error("fence", "a decimal string up to 2^53");
  }
  return fence;
}

// An object member, or nullptr for null; anything else is an error.
Result<const Json*> nullable_object(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || (!it->is_null() && !it->is_object())) {
    return member_error(key, "an object or null");
  }
  return it->is_null() ? static_cast<const Json*>(nullptr) : &*it;
}

Result<std::optional<HeadRef>> parse_head(const Json& ascope) {
  ASCOPE_TRY_ASSIGN(const Json* json, nullable_object(ascope, "head"));
  if (json == nullptr) {
    return std::optional<HeadRef>{};
  }
  HeadRef head;
  ASCOPE_TRY_ASSIGN(head.snapshot, get_string(*json, "snapshot"));
  ASCOPE_TRY_ASSIGN(head.format, get_string(*json, "format"));
  ASCOPE_TRY_ASSIGN(head.object, get_string(*json, "object"));
  ASCOPE_TRY_ASSIGN(head.size_bytes, exact_number(*json, "size"));
  ASCOPE_TRY_ASSIGN(head.sha256, get_string(*json, "sha256"));
  ASCOPE_TRY_ASSIGN(head.version, get_string(*json, "version"));
  ASCOPE_TRY_ASSIGN(const auto store, get_optional_string(*json, "store"));
  head.store = store.value_or("");
  if (!is_object_key(head.object)) {
    return member_error("head.object", "the key of an object");
  }
  if (head.snapshot.empty()) {
    return member_error("head.snapshot", "a snapshot id");
  }
  if (head.format != "tar" && head.format != "chunks") {
    return member_error("head.format", "\"tar\" or \"chunks\"");
  }
  return std::optional(std::move(head));
}

Result<std::optional<LiveMark>> parse_live(const Json& ascope) {
  ASCOPE_TRY_ASSIGN(const Json* json, nullable_object(ascope, "live"));
  if (json == nullptr) {
    return std::optional<LiveMark>{};
  }
  LiveMark live;
  ASCOPE_TRY_ASSIGN(live.backend, get_string(*json, "backend"));
  ASCOPE_TRY_ASSIGN(live.bound, get_optional_string(*json, "bound"));
  ASCOPE_TRY_ASSIGN(live.tree, get_string(*json, "tree"));
  ASCOPE_TRY_ASSIGN(live.sandbox, get_optional_string(*json, "sandbox"));
  ASCOPE_TRY_ASSIGN(live.since, get_string(*json, "since"));
  ASCOPE_TRY_ASSIGN(live.clean, get_bool(*json, "clean"));
  return std::optional(std::move(live));
}

Result<std::optional<AuxRef>> parse_aux_ref(const Json& ascope) {
  ASCOPE_TRY_ASSIGN(const Json* json, nullable_object(ascope, "aux"));
  if (json == nullptr) {
    return std::optional<AuxRef>{};
  }
  AuxRef aux;
  ASCOPE_TRY_ASSIGN(aux.key, get_string(*json, "key"));
  ASCOPE_TRY_ASSIGN(aux.sha256, get_string(*json, "sha256"));
  if (!is_hex(aux.sha256, 64)) {
    return member_error("aux.sha256", "64 hex digits");
  }
  return std::optional(std::move(aux));
}

template <typename T>
Result<T> within(std::string_view what, Result<T> result) {
  return result ? std::move(result) : Result<T>(std::move(result).error().within(what));
}

struct ParsedMeta {
  SlotMeta meta;
  std::string doc;
};

Result<ParsedMeta> parse_meta(const Json& ascope) {
  ParsedMeta out;
  ASCOPE_TRY_ASSIGN(out.meta.realm, get_string(ascope, "realm"));
  ASCOPE_TRY_ASSIGN(out.meta.rev, exact_number(ascope, "rev"));
  ASCOPE_TRY_ASSIGN(out.meta.fence, parse_fence(ascope));
  ASCOPE_TRY_ASSIGN(out.meta.writer, get_string(ascope, "writer"));
  ASCOPE_TRY_ASSIGN(out.doc, get_string(ascope, "doc"));
  if (!is_hex(out.meta.writer, 16)) {
    return member_error("writer", "16 hex digits");
  }
  if (!is_hex(out.doc, 64)) {
    return member_error("doc", "64 hex digits");
  }
  ASCOPE_TRY_ASSIGN(out.meta.head, within("ascope.head", parse_head(ascope)));
  ASCOPE_TRY_ASSIGN(out.meta.live, within("ascope.live", parse_live(ascope)));
  ASCOPE_TRY_ASSIGN(out.meta.aux, within("ascope.aux", parse_aux_ref(ascope)));
  return out;
}

// Why this is not a document we can work with; fills record.document if it is one.
std::optional<std::string> read_document(SlotRecord& record) {
  auto document = parse_document(record.document_text);
  if (!document) {
    return "the document inside 'json' is " + document.error().message;
  }
  if (!document->is_object()) {
    return "the document inside 'json' is not an object";
  }
  const Json& type = member(*document, "type");
  if (!type.is_string()) {
    return "the document inside 'json' names no type";
  }
  if (!is_known_document_type(type.get<std::string>())) {
    return fmt::format("the document inside 'json' has the unknown type '{}'", type.get<std::string>());
  }
  record.document = std::move(document).value();
  return std::nullopt;
}

struct Verdict {
  RecordClass kind = RecordClass::corrupt;
  std::string problem;
};

// Looks at "ascope": fills record.meta and `doc`. A verdict ends the classification.
std::optional<Verdict> read_meta(const Json& outer, SlotRecord& record, std::string& doc) {
  const Json& ascope = member(outer, "ascope");
  if (ascope.is_null()) {
    return std::nullopt;
  }
  const Json version = ascope.is_object() ? member(ascope, "v") : Json();
  if (!version.is_number_integer() || version.get<std::int64_t>() < kVersion) {
    if (version.is_number_unsigned() && version.get<std::uint64_t>() > INT64_MAX) {
      return Verdict{RecordClass::newer, "its version is beyond this program's"};
    }
    return Verdict{RecordClass::corrupt, "member 'ascope.v' is not a version"};
  }
  if (version.get<std::int64_t>() > kVersion) {
    return Verdict{RecordClass::newer, fmt::format("it has version {}, this program knows {}",
                                                   version.get<std::int64_t>(), kVersion)};
  }
  auto parsed = parse_meta(ascope);
  if (!parsed) {
    return Verdict{RecordClass::corrupt, parsed.error().message};
  }
  record.meta = std::move(parsed->meta);
  doc = std::move(parsed->doc);
  return std::nullopt;
}

Verdict classify(SlotRecord& record) {
  auto outer = parse_json(record.bytes);
  if (!outer) {
    return {RecordClass::corrupt, "the record is " + outer.error().message};
  }
  if (!outer->is_object()) {
    return {RecordClass::corrupt, "the record is not a JSON object"};
  }
  const Json& text = member(*outer, "json");
  if (text.is_string()) {
    record.document_text = text.get<std::string>();
  }
  std::string doc;
  if (auto verdict = read_meta(*outer, record, doc)) {
    return *std::move(verdict);
  }
  const Json& deleted = member(*outer, "deleted");
  if (!deleted.is_null() && !deleted.is_boolean()) {
    return {RecordClass::corrupt, "member 'deleted' is not true or false"};
  }
  if (deleted.is_boolean() && deleted.get<bool>()) {
    return {RecordClass::tombstone, ""};
  }
  if (!text.is_string()) {
    return {RecordClass::corrupt, "the record has no document: member 'json' is not a string"};
  }
  if (auto problem = read_document(record)) {
    return {RecordClass::corrupt, *std::move(problem)};
  }
  if (!record.meta) {
    return {RecordClass::foreign, "another program wrote it (no 'ascope' part)"};
  }
  if (doc != sha256_hex(record.document_text)) {
    return {RecordClass::foreign, "another program changed the document"};
  }
  return {RecordClass::ours, ""};
}

Json optional_json(const std::optional<std::string>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

std::string_view to_string(RecordClass value) {
  switch (value) {
    case RecordClass::absent:
      return "absent";
    case RecordClass::tombstone:
      return "tombstone";
    case RecordClass::ours:
      return "ours";
    case RecordClass::foreign:
      return "foreign";
    case RecordClass::newer:
      return "newer";
    case RecordClass::corrupt:
      return "corrupt";
  }
  return "corrupt";
}

SlotRecord parse_record(const std::optional<std::string>& bytes) {
  SlotRecord record;
  if (!bytes) {
    return record;
  }
  record.bytes = *bytes;
  auto verdict = classify(record);
  record.kind = verdict.kind;
  record.problem = std::move(verdict.problem);
  return record;
}

std::string build_record(const std::string& document_text, bool deleted, SlotMeta& meta) {
  meta.writer = random_hex(8);
  Json head = nullptr;
  if (meta.head) {
    const HeadRef& h = *meta.head;
    head =
        Json{{"snapshot", h.snapshot}, {"format", h.format},   {"object", h.object}, {"size", h.size_bytes},
             {"sha256", h.sha256},     {"version", h.version}, {"store", h.store}};
  }
  Json live = nullptr;
  if (meta.live) {
    const LiveMark& l = *meta.live;
    live = Json{{"backend", l.backend}, {"bound", optional_json(l.bound)},
                {"tree", l.tree},       {"sandbox", optional_json(l.sandbox)},
                {"since", l.since},     {"clean", l.clean}};
  }
  Json aux = nullptr;
  if (meta.aux) {
    aux = Json{{"key", meta.aux->key}, {"sha256", meta.aux->sha256}};
  }
  Json record;
  record["json"] = document_text;
  record["deleted"] = deleted;
  Json& ascope = record["ascope"];
  ascope["v"] = kVersion;
  ascope["realm"] = meta.realm;
  ascope["rev"] = meta.rev;
  ascope["fence"] = fmt::to_string(meta.fence);
  ascope["writer"] = meta.writer;
  ascope["doc"] = sha256_hex(document_text);
  ascope["head"] = std::move(head);
  ascope["live"] = std::move(live);
  ascope["aux"] = std::move(aux);
  return dump_json(record);
}

}  // namespace ascope
