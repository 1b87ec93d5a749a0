// SPDX-License-Identifier: Apache-2.0
#include "core/record.h"

#include <doctest/doctest.h>

#include "core/base/hash.h"
#include "unit/sample_documents.h"

using namespace ascope;

namespace {

const std::string kDocument(test::kSampleDocuments[0].text);

SlotMeta full_meta() {
  SlotMeta meta;
  meta.realm = "0f8d6d3e-6f5c-4b1e-9a3d-2f1c5f1f9b11";
  meta.rev = 42;
  meta.fence = 1795976507358174;
  meta.head = HeadRef{"snap-1", "tar", "k/snap-1.tar", 123, std::string(64, 'a'), "\"etag\"", "local:/x"};
  meta.live = LiveMark{"bubblewrap", "host-1", "sb-1", "cid", "2026-01-02T03:04:05.000Z", true};
  meta.aux = AuxRef{"_ascope.42-9f2c6a01d4e8b377", std::string(64, 'b')};
  return meta;
}

std::string full_record() {
  SlotMeta meta = full_meta();
  return build_record(kDocument, false, meta);
}

// A valid record with one member of "ascope" changed; null of kind `discarded` removes it.
std::string with_member(const char* key, const Json& value) {
  Json record = parse_json(full_record()).value();
  if (value.is_discarded()) {
    record["ascope"].erase(key);
  } else {
    record["ascope"][key] = value;
  }
  return dump_json(record);
}

const Json kRemoved(Json::value_t::discarded);

}  // namespace

TEST_CASE("record: what was written comes back") {
  SlotMeta meta = full_meta();
  const std::string bytes = build_record(kDocument, false, meta);
  CHECK(meta.writer.size() == 16);
  const SlotRecord record = parse_record(bytes);
  CHECK(record.kind == RecordClass::ours);
  CHECK(record.problem.empty());
  CHECK(record.bytes == bytes);
  CHECK(record.document_text == kDocument);
  CHECK(dump_json(record.document) == kDocument);
  REQUIRE(record.meta.has_value());
  CHECK(record.meta->realm == meta.realm);
  CHECK(record.meta->rev == 42);
  CHECK(record.meta->fence == 1795976507358174);
  CHECK(record.meta->writer == meta.writer);
  CHECK(record.meta->head == meta.head);
  CHECK(record.meta->live == meta.live);
  CHECK(record.meta->aux == meta.aux);

  SlotMeta empty;
  const SlotRecord bare = parse_record(build_record(kDocument, false, empty));
  REQUIRE(bare.kind == RecordClass::ours);
  CHECK_FALSE(bare.meta->head.has_value());
  CHECK_FALSE(bare.meta->live.has_value());
  CHECK_FALSE(bare.meta->aux.has_value());
}

TEST_CASE("record: its form is AgentScope's with one member more") {
  SlotMeta meta = full_meta();
  const Json json = parse_json(build_record(kDocument, false, meta)).value();
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  CHECK(keys == std::vector<std::string>{"json", "deleted", "ascope"});
  CHECK(json["ascope"]["v"] == 1);
  CHECK(json["ascope"]["fence"] == "1795976507358174");
  CHECK(json["ascope"]["doc"] == sha256_hex(kDocument));
}

TEST_CASE("record: two writes never have equal bytes") {
  CHECK(full_record() != full_record());
}

TEST_CASE("record: classes") {
  const Json plain{{"json", kDocument}, {"deleted", false}};
  Json changed = parse_json(full_record()).value();
  changed["json"] = std::string(test::kSampleDocuments[1].text);
  Json java_tombstone{{"json", ""}, {"deleted", true}};
  SlotMeta meta = full_meta();
  const auto inner = [](const std::string& text) {
    return dump_json(Json{{"json", text}, {"deleted", false}});
  };
  struct Row {
    const char* name;
    std::optional<std::string> bytes;
    RecordClass kind;
  };
  const Row rows[] = {
      {"absent", std::nullopt, RecordClass::absent},
      {"empty value", "", RecordClass::corrupt},
      {"plain Java record", dump_json(plain), RecordClass::foreign},
      {"Java record, pretty printed", dump_json(plain, 2), RecordClass::foreign},
      {"document changed under our part", dump_json(changed), RecordClass::foreign},
      {"ascope null", dump_json(Json{{"json", kDocument}, {"deleted", false}, {"ascope", nullptr}}),
       RecordClass::foreign},
      {"deleted missing", dump_json(Json{{"json", kDocument}}), RecordClass::foreign},
      {"other members beside ours", dump_json(Json{{"json", kDocument}, {"deleted", false}, {"x", 1}}),
       RecordClass::foreign},
      {"Java tombstone", dump_json(java_tombstone), RecordClass::tombstone},
      {"our tombstone", build_record("", true, meta), RecordClass::tombstone},
      {"deleted is text", dump_json(Json{{"json", kDocument}, {"deleted", "no"}}), RecordClass::corrupt},
      {"no json", dump_json(Json{{"deleted", false}}), RecordClass::corrupt},
      {"json null", dump_json(Json{{"json", nullptr}, {"deleted", false}}), RecordClass::corrupt},
      {"json an object", dump_json(Json{{"json", Json::object()}, {"deleted", false}}), RecordClass::corrupt},
      {"json twice", R"({"json":"{}","json":"{}","deleted":false})", RecordClass::corrupt},
      {"not JSON", "hello", RecordClass::corrupt},
      {"a list", "[]", RecordClass::corrupt},
      {"trailing bytes", dump_json(plain) + "x", RecordClass::corrupt},
      {"inner not JSON", inner("{"), RecordClass::corrupt},
      {"inner a list", inner("[]"), RecordClass::corrupt},
      {"inner without type", inner("{}"), RecordClass::corrupt},
      {"inner with an unknown type", inner(R"({"type":"firecracker"})"), RecordClass::corrupt},
      {"inner with a number as type", inner(R"({"type":1})"), RecordClass::corrupt},
      {"newer", with_member("v", 2), RecordClass::newer},
      {"much newer", with_member("v", 18446744073709551615ULL), RecordClass::newer},
      {"version 0", with_member("v", 0), RecordClass::corrupt},
      {"version text", with_member("v", "1"), RecordClass::corrupt},
      {"version 1.0", with_member("v", 1.0), RecordClass::corrupt},
      {"no version", with_member("v", kRemoved), RecordClass::corrupt},
      {"ascope a list", dump_json(Json{{"json", kDocument}, {"deleted", false}, {"ascope", Json::array()}}),
       RecordClass::corrupt},
      {"member of a later version 1", with_member("later", "x"), RecordClass::ours},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const SlotRecord record = parse_record(row.bytes);
    CHECK(to_string(record.kind) == to_string(row.kind));
    CHECK(record.bytes == row.bytes.value_or(""));
    const bool says_why = row.kind == RecordClass::corrupt || row.kind == RecordClass::foreign ||
                          row.kind == RecordClass::newer;
    CHECK(record.problem.empty() != says_why);
  }
}

TEST_CASE("record: a newer tombstone is newer, and ours tells its revision") {
  Json record = parse_json(full_record()).value();
  record["deleted"] = true;
  record["ascope"]["v"] = 2;
  CHECK(parse_record(dump_json(record)).kind == RecordClass::newer);
  SlotMeta meta = full_meta();
  const SlotRecord tombstone = parse_record(build_record("", true, meta));
  REQUIRE(tombstone.meta.has_value());
  CHECK(tombstone.meta->fence == 1795976507358174);
}

TEST_CASE("record: a foreign change leaves our numbers readable") {
  Json changed = parse_json(full_record()).value();
  changed["json"] = std::string(test::kSampleDocuments[1].text);
  const SlotRecord record = parse_record(dump_json(changed));
  REQUIRE(record.meta.has_value());
  CHECK(record.meta->rev == 42);
  CHECK(record.document["type"] == "kubernetes");
}

TEST_CASE("record: a wrong member of ours is corrupt, never guessed") {
  struct Row {
    const char* key;
    Json value;
  };
  const Row rows[] = {{"realm", 1},
                      {"realm", kRemoved},
                      {"rev", "42"},
                      {"rev", -1},
                      {"rev", 4.5},
                      {"rev", 9007199254740993ULL},
                      {"rev", kRemoved},
                      {"fence", 5},
                      {"fence", ""},
                      {"fence", "-1"},
                      {"fence", "+1"},
                      {"fence", "01"},
                      {"fence", "1e3"},
                      {"fence", " 1"},
                      {"fence", "1 "},
                      {"fence", "9007199254740993"},
                      {"fence", "99999999999999999999999"},
                      {"fence", kRemoved},
                      {"writer", "xyz"},
                      {"writer", nullptr},
                      {"writer", "9F2C6A01D4E8B377"},
                      {"doc", "0"},
                      {"doc", nullptr},
                      {"head", "x"},
                      {"head", kRemoved},
                      {"head", Json::object()},
                      {"live", 1},
                      {"live", Json::object()},
                      {"aux", Json{{"key", "k"}, {"sha256", "x"}}},
                      {"aux", false},
                      {"aux", kRemoved}};
  for (const Row& row : rows) {
    CAPTURE(row.key);
    CAPTURE(dump_json(row.value));
    const SlotRecord record = parse_record(with_member(row.key, row.value));
    CHECK(to_string(record.kind) == "corrupt");
    CHECK(record.problem.find(row.key) != std::string::npos);
  }
  Json head = parse_json(full_record()).value()["ascope"]["head"];
  for (const char* key : {"snapshot", "format", "object", "size", "sha256", "version"}) {
    Json wrong = head;
    wrong[key] = false;
    CHECK(parse_record(with_member("head", wrong)).kind == RecordClass::corrupt);
  }
  head["format"] = "zip";
  CHECK(parse_record(with_member("head", head)).kind == RecordClass::corrupt);
  CHECK(parse_record(with_member("fence", "9007199254740992")).kind == RecordClass::ours);
  CHECK(parse_record(with_member("fence", "0")).kind == RecordClass::ours);
}

TEST_CASE("record: cut at any byte it is corrupt") {
  const std::string whole = full_record();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const SlotRecord record = parse_record(whole.substr(0, length));
    CHECK_MESSAGE(record.kind == RecordClass::corrupt, length);
  }
}

TEST_CASE("record: one changed byte is never taken for ours unchanged") {
  const std::string whole = full_record();
  const SlotRecord original = parse_record(whole);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 0x01);
    const SlotRecord record = parse_record(altered);
    if (record.kind == RecordClass::ours) {
      CHECK_MESSAGE(record.document_text == original.document_text, at);
    }
  }
}

TEST_CASE("record: deep nesting is corrupt, not a crash") {
  CHECK(parse_record(std::string(100'000, '[')).kind == RecordClass::corrupt);
  const std::string nested = R"({"type":"docker","manifest":)" + std::string(100'000, '[');
  CHECK(parse_record(dump_json(Json{{"json", nested}, {"deleted", false}})).kind == RecordClass::corrupt);
}

TEST_CASE("document: AgentScope's own samples pass and keep every byte") {
  for (const auto& sample : test::kSampleDocuments) {
    CAPTURE(sample.name);
    auto json = parse_document(sample.text);
    REQUIRE(json.has_value());
    auto checked = check_document(json.value());
    CHECK_MESSAGE(checked.has_value(), (checked ? "" : checked.error().message));
    CHECK(dump_json(json.value()) == sample.text);
  }
}

TEST_CASE("document: ours") {
  const Json manifest{{"root", "/workspace"}, {"entries", Json::object()}, {"environment", Json::object()}};
  const Json bubblewrap = make_document("bubblewrap", "s",
                                        {{"sandboxId", "sb-1"},
                                         {"workspaceRoot", "/workspace"},
                                         {"sandboxOwned", true},
                                         {"rootfs", "host"},
                                         {"network", "none"}},
                                        {{"type", "noop"}, {"id", "noop"}}, manifest);
  CHECK(check_document(bubblewrap).has_value());
  CHECK(dump_json(bubblewrap) ==
        R"({"type":"bubblewrap","sessionId":"s","snapshot":{"type":"noop","id":"noop"},)"
        R"("workspaceProjectionHash":null,"workspaceRootReady":false,"sandboxId":"sb-1",)"
        R"("workspaceRoot":"/workspace","sandboxOwned":true,"rootfs":"host","network":"none",)"
        R"("manifest":{"root":"/workspace","entries":{},"environment":{}}})");
  const Json command = make_document("command", "s",
                                     {{"workspaceRootReady", true},
                                      {"sandboxId", "x"},
                                      {"program", "p"},
                                      {"workspaceRoot", "/w"},
                                      {"sandboxOwned", false}},
                                     nullptr, nullptr);
  CHECK(check_document(command).has_value());
  CHECK(command["workspaceRootReady"] == true);
  CHECK(std::prev(command.end()).key() == "manifest");
}

TEST_CASE("document: keys and types that Java would reject, or that cannot be") {
  struct Row {
    const char* name;
    const char* text;
    const char* names;  // what the message must name
  };
  const Row rows[] = {
      {"unknown key", R"({"type":"docker","extra":1})", "extra"},
      {"workspaceSpec", R"({"type":"docker","workspaceSpec":{}})", "workspaceSpec"},
      {"key of another type", R"({"type":"docker","sandboxId":"x"})", "sandboxId"},
      {"text for a flag", R"({"type":"docker","containerOwned":"true"})", "containerOwned"},
      {"null for a flag", R"({"type":"docker","containerOwned":null})", "containerOwned"},
      {"fraction", R"({"type":"docker","cpuCount":1.5})", "cpuCount"},
      {"number for a text", R"({"type":"docker","image":1})", "image"},
      {"list with a wrong item", R"({"type":"docker","exposedPorts":[1,"2"]})", "exposedPorts"},
      {"run args no list", R"({"type":"docker","additionalRunArgs":"-v"})", "additionalRunArgs"},
      {"both kubernetes shapes", R"({"type":"kubernetes","podOwned":true,"claimName":"x"})", "claimName"},
      {"e2b mode", R"({"type":"e2b","persistenceMode":"tar"})", "persistenceMode"},
      {"e2b codec null", R"({"type":"e2b","codec":null})", "codec"},
      {"snapshot no object", R"({"type":"docker","snapshot":"x"})", "snapshot"},
      {"snapshot type", R"({"type":"docker","snapshot":{"type":"s3","id":"x"}})", "snapshot.type"},
      {"local id with a slash", R"({"type":"docker","snapshot":{"type":"local","id":"a/b"}})", "snapshot.id"},
      {"local id ..", R"({"type":"docker","snapshot":{"type":"local","id":".."}})", "snapshot.id"},
      {"local id blank", R"({"type":"docker","snapshot":{"type":"local","id":" "}})", "snapshot.id"},
      {"local id missing", R"({"type":"docker","snapshot":{"type":"local"}})", "snapshot.id"},
      {"manifest key", R"({"type":"docker","manifest":{"roots":"x"}})", "manifest.roots"},
      {"environment value", R"({"type":"docker","manifest":{"environment":{"A":1}}})",
       "manifest.environment.A"},
      {"entry type", R"({"type":"docker","manifest":{"entries":{"a":{"type":"link"}}}})",
       "manifest.entries.a.type"},
      {"entry without type", R"({"type":"docker","manifest":{"entries":{"a":{}}}})",
       "manifest.entries.a.type"},
      {"entry key", R"({"type":"docker","manifest":{"entries":{"a":{"type":"file","mode":1}}}})",
       "manifest.entries.a.mode"},
      {"children of a file",
       R"({"type":"docker","manifest":{"entries":{"a":{"type":"file","children":{}}}}})",
       "manifest.entries.a.children"},
      {"nested entry",
       R"({"type":"docker","manifest":{"entries":{"a":{"type":"dir","children":{"b":{"type":"file","x":1}}}}}})",
       "manifest.entries.a.children.b.x"},
      {"ephemeral text", R"({"type":"docker","manifest":{"entries":{"a":{"type":"file","ephemeral":"no"}}}})",
       "manifest.entries.a.ephemeral"},
      {"unknown type", R"({"type":"firecracker"})", "firecracker"},
      {"no type", R"({"sessionId":"x"})", "type"},
      {"a list", R"([])", "object"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    auto json = parse_document(row.text);
    REQUIRE(json.has_value());
    auto checked = check_document(json.value());
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().kind == ErrorKind::corrupt);
    CHECK_MESSAGE(checked.error().message.find(row.names) != std::string::npos, checked.error().message);
  }
  for (const char* text :
       {R"({"type":"docker"})", R"({"type":"kubernetes"})", R"({"sessionId":null,"type":"e2b"})",
        R"({"type":"docker","snapshot":{"type":"remote","id":"x","restorable":true}})",
        R"({"type":"docker","image":null,"cpuCount":null,"manifest":null,"snapshot":null})"}) {
    CAPTURE(text);
    CHECK(check_document(parse_document(text).value()).has_value());
  }
}

TEST_CASE("document: the twice written snapshot type of old versions is read, no other repetition") {
  const std::string old =
      R"({"type":"docker","snapshot":{"type":"local","basePath":"/s","id":"x","restorable":true,"type":"local"}})";
  auto json = parse_document(old);
  REQUIRE(json.has_value());
  CHECK(check_document(json.value()).has_value());
  CHECK(parse_record(dump_json(Json{{"json", old}, {"deleted", false}})).kind == RecordClass::foreign);
  for (const char* text :
       {R"({"type":"docker","type":"docker"})",
        R"({"type":"docker","snapshot":{"type":"local","type":"remote","id":"x"}})",
        R"({"type":"docker","snapshot":{"type":"noop","type":"noop","type":"noop"}})",
        R"({"type":"docker","snapshot":{"type":"noop","type":"noop"},"image":"a","image":"b"})",
        R"({"type":"docker","snapshot":{"type":"noop","type":"noop","x":{"type":1,"type":1}}})"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_document(text).has_value());
  }
}

TEST_CASE("aux: round trip, and damage") {
  Aux aux;
  aux.slot = "user/a/\xff";
  HistoryItem item;
  item.snapshot = "snap-1";
  item.format = "chunks";
  item.object = "m/snap-1";
  item.size_bytes = 7;
  item.sha256 = "aa";
  item.time = "2026-01-02T03:04:05.000Z";
  item.kind = "run";
  item.rev = 3;
  item.fence = 1795976507358174;
  item.tags = {"good", "\xfe"};
  item.notes = Json::array({Json{{"path", "s"}, {"what", "socket skipped"}}});
  HistoryItem older;
  older.object = "snap-0.tar";
  aux.history = {item, older};
  aux.undo = "snap-0";
  aux.projection = {{"AGENTS.md", {{"mode", 420}, {"sha256", "x"}}}};
  aux.extra = {{"z", 1}, {"a", {1, 2}}};
  const std::string bytes = dump_aux(aux);
  auto back = parse_aux(bytes);
  REQUIRE(back.has_value());
  CHECK(dump_aux(back.value()) == bytes);
  CHECK(back->slot == aux.slot);
  CHECK(back->history.size() == 2);
  CHECK(back->history[0].tags == item.tags);
  CHECK(back->history[0].fence == item.fence);
  for (const char* key : {"", "../snap-0.tar", "/etc/passwd", "a//b", ".hidden", "a b"}) {
    CAPTURE(key);
    Aux bad = aux;
    bad.history[1].object = key;
    CHECK_FALSE(parse_aux(dump_aux(bad)).has_value());
    bad = aux;
    bad.history[1].roots_object = key;
    CHECK(parse_aux(dump_aux(bad)).has_value() == std::string_view(key).empty());
  }
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    auto cut = parse_aux(std::string_view(bytes).substr(0, length));
    CHECK_MESSAGE((!cut && cut.error().kind == ErrorKind::corrupt), length);
  }
  Json later = parse_json(bytes).value();
  later["v"] = 2;
  CHECK(parse_aux(dump_json(later)).error().kind == ErrorKind::unsupported);
  for (const char* key : {"slot", "history", "undo", "projection", "entries", "extra"}) {
    Json wrong = parse_json(bytes).value();
    wrong[key] = 1;
    auto parsed = parse_aux(dump_json(wrong));
    CHECK_MESSAGE((!parsed && parsed.error().kind == ErrorKind::corrupt), key);
  }
}
