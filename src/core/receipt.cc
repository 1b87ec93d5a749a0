// SPDX-License-Identifier: Apache-2.0
#include "core/receipt.h"

#include <fmt/format.h>

#include "core/record.h"

namespace ascope {

namespace {

constexpr std::string_view kSchema = "ascope.receipt/1";

// Text members in the order they are written; an empty one is null. They may hold bytes of the user's.
struct TextMember {
  const char* name;
  std::string Receipt::* field;
};
constexpr TextMember kHeadTexts[] = {{"id", &Receipt::id},     {"command", &Receipt::command},
                                     {"slot", &Receipt::slot}, {"time", &Receipt::time},
                                     {"host", &Receipt::host}, {"outcome", &Receipt::outcome}};
constexpr TextMember kBranchTexts[] = {
    {"branch", &Receipt::branch}, {"rule", &Receipt::rule}, {"why", &Receipt::why}};
constexpr TextMember kPlaceTexts[] = {{"backend", &Receipt::backend},
                                      {"sandbox", &Receipt::sandbox},
                                      {"tree", &Receipt::tree},
                                      {"snapshot", &Receipt::snapshot},
                                      {"parent", &Receipt::parent},
                                      {"restored", &Receipt::restored},
                                      {"stranded", &Receipt::stranded},
                                      {"safety", &Receipt::safety},
                                      {"lost_since", &Receipt::lost_since},
                                      {"lost_snapshot", &Receipt::lost_snapshot},
                                      {"foreign_writer", &Receipt::foreign_writer},
                                      {"order", &Receipt::order},
                                      {"ids", &Receipt::ids}};

struct ListMember {
  const char* name;
  std::vector<std::string> Receipt::* field;
};
constexpr ListMember kLists[] = {{"replaced_settings", &Receipt::replaced_settings},
                                 {"not_enforced", &Receipt::not_enforced},
                                 {"warnings", &Receipt::warnings}};

Json text_json(const std::string& text) {
  return text.empty() ? Json(nullptr) : bytes_json(text);
}

Result<std::string> text_of(const Json& object, const char* name) {
  const auto it = object.find(name);
  if (it == object.end() || it->is_null()) {
    return std::string();
  }
  auto text = json_bytes(*it);
  if (!text) {
    return std::move(text).error().within(fmt::format("member '{}' of a receipt", name));
  }
  return text;
}

Result<void> put_text(const Json& object, const char* name, std::string& out) {
  ASCOPE_TRY_ASSIGN(out, text_of(object, name));
  return ok();
}

// The items of a list member; an absent one is empty.
Result<Json> list_of(const Json& object, const char* name) {
  const auto it = object.find(name);
  if (it == object.end() || it->is_null()) {
    return Json::array();
  }
  if (!it->is_array()) {
    return make_error(ErrorKind::corrupt, fmt::format("member '{}' of a receipt is not a list", name));
  }
  return *it;
}

// Fences go as decimal strings, as in records; plain numbers are read too.
Result<std::uint64_t> number_of(const Json& object, const char* name) {
  const auto it = object.find(name);
  if (it == object.end() || it->is_null()) {
    return std::uint64_t{0};
  }
  if (it->is_number_unsigned()) {
    return it->get<std::uint64_t>();
  }
  const std::string text = it->is_string() ? it->get<std::string>() : "";
  if (text.empty() || text.size() > 19 || text.find_first_not_of("0123456789") != std::string::npos) {
    return make_error(ErrorKind::corrupt, fmt::format("member '{}' of a receipt is not a number", name));
  }
  return std::stoull(text);
}

Result<Millis> millis_of(const Json& object, const char* name) {
  ASCOPE_TRY_ASSIGN(const std::int64_t count, get_int(object, name));
  return Millis(count);
}

void put_decision(const Receipt& receipt, Json& json) {
  json["priority"] = receipt.priority;
  for (const auto& [name, field] : kBranchTexts) {
    json[name] = text_json(receipt.*field);
  }
  Json& evidence = json["evidence"] = Json::array();
  for (const Evidence& item : receipt.evidence) {
    evidence.push_back(
        {{"fact", item.fact}, {"value", bytes_json(item.value)}, {"detail", bytes_json(item.detail)}});
  }
  Json& rejected = json["rejected"] = Json::array();
  for (const RejectedBranch& item : receipt.rejected) {
    rejected.push_back({{"branch", item.branch}, {"reason", bytes_json(item.reason)}});
  }
  Json& phases = json["phases"] = Json::array();
  for (const Phase& phase : receipt.phases) {
    phases.push_back({{"name", phase.name}, {"ms", phase.duration.count()}});
  }
}

Result<void> take_decision(const Json& json, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(const std::int64_t priority, get_int(json, "priority"));
  receipt.priority = static_cast<int>(priority);
  for (const auto& [name, field] : kBranchTexts) {
    ASCOPE_TRY(put_text(json, name, receipt.*field));
  }
  ASCOPE_TRY_ASSIGN(const Json evidence, list_of(json, "evidence"));
  for (const Json& item : evidence) {
    Evidence out;
    ASCOPE_TRY_ASSIGN(out.fact, get_string(item, "fact"));
    ASCOPE_TRY(put_text(item, "value", out.value));
    ASCOPE_TRY(put_text(item, "detail", out.detail));
    receipt.evidence.push_back(std::move(out));
  }
  ASCOPE_TRY_ASSIGN(const Json rejected, list_of(json, "rejected"));
  for (const Json& item : rejected) {
    RejectedBranch out;
    ASCOPE_TRY_ASSIGN(out.branch, get_string(item, "branch"));
    ASCOPE_TRY(put_text(item, "reason", out.reason));
    receipt.rejected.push_back(std::move(out));
  }
  ASCOPE_TRY_ASSIGN(const Json phases, list_of(json, "phases"));
  for (const Json& item : phases) {
    Phase out;
    ASCOPE_TRY_ASSIGN(out.name, get_string(item, "name"));
    ASCOPE_TRY_ASSIGN(out.duration, millis_of(item, "ms"));
    receipt.phases.push_back(std::move(out));
  }
  return ok();
}

Result<void> take_lists(const Json& json, Receipt& receipt) {
  for (const auto& [name, field] : kLists) {
    ASCOPE_TRY_ASSIGN(const Json list, list_of(json, name));
    for (const Json& item : list) {
      ASCOPE_TRY_ASSIGN(std::string text, json_bytes(item));
      (receipt.*field).push_back(std::move(text));
    }
  }
  ASCOPE_TRY_ASSIGN(const Json notes, list_of(json, "notes"));
  for (const Json& item : notes) {
    TreeNote out;
    ASCOPE_TRY(put_text(item, "path", out.path));
    ASCOPE_TRY(put_text(item, "what", out.what));
    receipt.notes.push_back(std::move(out));
  }
  ASCOPE_TRY_ASSIGN(receipt.entries, list_of(json, "entries"));
  receipt.projection = json.value("projection", Json::object());
  receipt.saved = json.value("saved", Json());
  receipt.exec = json.value("exec", Json());
  return ok();
}

}  // namespace

Json receipt_json(const Receipt& receipt) {
  Json json{{"schema", kSchema}};
  for (const auto& [name, field] : kHeadTexts) {
    json[name] = text_json(receipt.*field);
  }
  json["predicted"] = receipt.predicted;
  json["error"] = nullptr;
  if (!receipt.error_kind.empty()) {
    json["error"] = {{"kind", receipt.error_kind}, {"message", bytes_json(receipt.error_message)}};
  }
  json["exit_code"] = receipt.exit_code;
  put_decision(receipt, json);
  for (const auto& [name, field] : kPlaceTexts) {
    json[name] = text_json(receipt.*field);
  }
  json["changed"] = receipt.changed;
  json["fence"] = fmt::to_string(receipt.fence);
  json["rev"] = receipt.rev;
  json["claimed_over"] = fmt::to_string(receipt.claimed_over);
  json["lock_wait_ms"] = receipt.lock_wait.count();
  json["frozen_ms"] = receipt.frozen.count();
  for (const auto& [name, field] : kLists) {
    Json& list = json[name] = Json::array();
    for (const std::string& text : receipt.*field) {
      list.push_back(bytes_json(text));
    }
  }
  Json& notes = json["notes"] = Json::array();
  for (const TreeNote& note : receipt.notes) {
    notes.push_back(note_json(note));
  }
  json["entries"] = receipt.entries;
  json["projection"] = receipt.projection;
  json["saved"] = receipt.saved;
  json["exec"] = receipt.exec;
  return json;
}

Result<Receipt> parse_receipt(const Json& json) {
  ASCOPE_TRY_ASSIGN(const std::string schema, get_string(json, "schema"));
  if (schema != kSchema) {
    return make_error(ErrorKind::unsupported,
                      fmt::format("a receipt has schema '{}', this program reads '{}'", schema, kSchema));
  }
  Receipt receipt;
  for (const auto& [name, field] : kHeadTexts) {
    ASCOPE_TRY(put_text(json, name, receipt.*field));
  }
  ASCOPE_TRY_ASSIGN(receipt.predicted, get_bool(json, "predicted"));
  if (const auto error = json.find("error"); error != json.end() && !error->is_null()) {
    ASCOPE_TRY_ASSIGN(receipt.error_kind, get_string(*error, "kind"));
    ASCOPE_TRY(put_text(*error, "message", receipt.error_message));
  }
  ASCOPE_TRY_ASSIGN(const std::int64_t exit_code, get_int(json, "exit_code"));
  receipt.exit_code = static_cast<int>(exit_code);
  ASCOPE_TRY(take_decision(json, receipt));
  for (const auto& [name, field] : kPlaceTexts) {
    ASCOPE_TRY(put_text(json, name, receipt.*field));
  }
  ASCOPE_TRY_ASSIGN(receipt.changed, get_bool(json, "changed"));
  ASCOPE_TRY_ASSIGN(receipt.fence, number_of(json, "fence"));
  ASCOPE_TRY_ASSIGN(receipt.rev, number_of(json, "rev"));
  ASCOPE_TRY_ASSIGN(receipt.claimed_over, number_of(json, "claimed_over"));
  ASCOPE_TRY_ASSIGN(receipt.lock_wait, millis_of(json, "lock_wait_ms"));
  ASCOPE_TRY_ASSIGN(receipt.frozen, millis_of(json, "frozen_ms"));
  ASCOPE_TRY(take_lists(json, receipt));
  return receipt;
}

PhaseTimer::PhaseTimer(Receipt& receipt, std::string name, const Clock& clock)
    : receipt_(receipt), name_(std::move(name)), clock_(clock), begin_(clock.boottime()) {}

void PhaseTimer::done() {
  if (std::exchange(open_, false)) {
    receipt_.phases.push_back({name_, clock_.boottime() - begin_});
  }
}

}  // namespace ascope
