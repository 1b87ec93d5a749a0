// SPDX-License-Identifier: Apache-2.0
// A slot's record: AgentScope's {"json","deleted"} with our part "ascope" beside it (protocols 1.1), and the
// aux value that the record names. Reading never guesses: every outcome has a class of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace ascope {

struct TreeNote;

enum class RecordClass {
  absent,
  tombstone,  // deleted: true
  ours,       // ascope.v = 1, doc matches, inner document parses, its type is known
  foreign,    // readable, but written by another program (no ascope, or doc differs)
  newer,      // ascope.v > 1: never rewritten
  corrupt,    // JSON broken, unknown type, no json
};
std::string_view to_string(RecordClass value);

struct HeadRef {
  std::string snapshot;  // snapshot id
  std::string format;    // "tar" | "chunks"
  std::string object;    // store key
  std::uint64_t size_bytes = 0;
  std::string sha256;
  std::string version;  // ETag or ""
  std::string store;    // the snapshot store's URL as shown
  bool operator==(const HeadRef&) const = default;
};

struct LiveMark {
  std::string backend;
  std::optional<std::string> bound;  // host id, for host-bound sandboxes
  std::string tree;
  std::optional<std::string> sandbox;  // the provider's id
  std::string since;                   // RFC 3339
  bool clean = false;                  // nothing ran since the head was committed
  bool operator==(const LiveMark&) const = default;
};

struct AuxRef {
  std::string key;
  std::string sha256;
  bool operator==(const AuxRef&) const = default;
};

// What is ours in a record.
struct SlotMeta {
  std::string realm;
  std::uint64_t rev = 0;
  std::uint64_t fence = 0;
  std::string writer;  // 64 random bits as hex, fresh at every write
  std::optional<HeadRef> head;
  std::optional<LiveMark> live;
  std::optional<AuxRef> aux;
};

struct SlotRecord {
  RecordClass kind = RecordClass::absent;
  std::string bytes;          // exactly as read: the compare token. Empty if absent
  std::string document_text;  // the inner "json" string, as read
  Json document;              // parsed; null unless ours or foreign
  std::optional<SlotMeta> meta;
  std::string problem;  // for corrupt, foreign, newer: why, for messages
};

// Classifies `bytes` (nullopt = absent). Never fails.
SlotRecord parse_record(const std::optional<std::string>& bytes);
// The bytes of a record with this document and meta; fills meta.writer (fresh) and computes doc.
std::string build_record(const std::string& document_text, bool deleted, SlotMeta& meta);

// ---- AgentScope's document (reference 3)
// --------------------------------------------------------------------------

// Parses a document's text. As parse_json, but for one old habit of AgentScope: before v2.0.0 it wrote the
// discriminator "type" of `snapshot` twice; twice the same is taken as once.
Result<Json> parse_document(std::string_view text);
// The backends whose documents we know: AgentScope's five and ours.
bool is_known_document_type(std::string_view type);
// The strict check of a document: known type ("bubblewrap", "command", docker, kubernetes, daytona, e2b,
// agentrun), known keys and types everywhere. Error `corrupt` names the key.
Result<void> check_document(const Json& document);
// A new document of `type`; base fields in AgentScope's order, "manifest" last. "workspaceProjectionHash" and
// "workspaceRootReady" are null and false unless they stand in `backend_fields`.
Json make_document(std::string_view type, std::string_view session_id, const Json& backend_fields,
                   const Json& snapshot, const Json& manifest);

// ---- aux: what is large (protocols 1.1)
// ---------------------------------------------------------------------------

// One committed snapshot in a slot's history, newest first in Aux::history.
struct HistoryItem {
  std::string snapshot;
  std::string format;
  std::string object;
  std::uint64_t size_bytes = 0;
  std::string sha256;
  std::string version;
  // Where what lies outside of the workspace root is: of format tar a second object ("<id>.roots.tar"), of
  // format chunks `object` again; "" if there is nothing.
  std::string roots_object;
  std::string roots_sha256;
  std::uint64_t roots_size_bytes = 0;
  std::string time;    // RFC 3339
  std::string kind;    // "run", "snapshot", "stop", "safety", "stranded", "import", "restore", "external"
  std::string parent;  // snapshot id or ""
  std::uint64_t rev = 0;
  std::uint64_t fence = 0;
  std::string host;
  std::string tree;
  std::uint64_t files = 0;
  std::uint64_t content_bytes = 0;
  std::uint64_t added_bytes = 0;  // that the save wrote to the store
  std::vector<std::string> tags;
  Json notes = Json::array();  // what was skipped or changed while read
};

struct Aux {
  std::string slot;                  // full written name (protocols 1.4: too long names)
  std::vector<HistoryItem> history;  // newest first; holds head, its ancestors, stranded ones
  std::string undo;                  // snapshot id that `undo` goes back to, "" if none
  Json projection = Json::object();  // what was last projected (manifest_json in projection.h)
  Json entries = Json::object();     // entry path → digest as last applied (protocols 5, product 5)
  Json extra = Json::object();       // room for others; kept as it is
};
// As it stands in HistoryItem::notes, manifests and receipts.
Json note_json(const TreeNote& note);
Result<TreeNote> note_of_json(const Json& note);
std::string dump_aux(const Aux& aux);
Result<Aux> parse_aux(std::string_view bytes);

}  // namespace ascope
