// SPDX-License-Identifier: Apache-2.0
#include "core/engine/gather.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/repository/tar.h"

namespace ascope {

namespace {

// Name under Aux::extra of the external sandbox that a slot is bound to.
constexpr const char* kExternalKey = "external";

void add_evidence(Receipt& receipt, std::string fact, std::string_view value, std::string detail) {
  receipt.evidence.push_back({std::move(fact), std::string(value), std::move(detail)});
}

class Gatherer {
 public:
  Gatherer(EngineServices& services, const OpContext& ctx, const SlotKey& slot, const SlotView& view,
           const StartOptions& options, Receipt& receipt, Gathered& out)
      : services_(services),
        ctx_(ctx),
        slot_(slot),
        view_(view),
        options_(options),
        receipt_(receipt),
        out_(out) {}

  Result<void> gather() {
    out_.facts.allow_loss = options_.allow_loss;
    state_fact();
    ASCOPE_TRY_ASSIGN(const HostFacts host, services_.host());
    live_fact(host);
    find_sandbox(host);
    probe_workspace();
    ASCOPE_TRY(snapshot_fact());
    compare_settings();
    return ok();
  }

 private:
  [[nodiscard]] const std::optional<LiveMark>& live() const {
    static const std::optional<LiveMark> kNone;
    return view_.record.meta ? view_.record.meta->live : kNone;
  }

  void state_fact() {
    const SlotRecord& record = view_.record;
    std::string detail;
    switch (record.kind) {
      case RecordClass::absent:
        out_.facts.state = StateFact::absent;
        detail = "the state store has no record of the slot";
        break;
      case RecordClass::tombstone:
        out_.facts.state = StateFact::tombstone;
        detail = "the slot was removed";
        break;
      case RecordClass::ours:
        out_.facts.state = StateFact::ours;
        detail = fmt::format("revision {}, fence {}", record.meta->rev, record.meta->fence);
        break;
      case RecordClass::foreign:
        out_.facts.state = StateFact::foreign;
        detail = record.problem;
        break;
      case RecordClass::newer:
        out_.facts.state = StateFact::newer;
        detail = record.problem;
        break;
      case RecordClass::corrupt:
        out_.facts.state = StateFact::corrupt;
        detail = record.problem;
        break;
    }
    if (record.kind == RecordClass::ours || record.kind == RecordClass::foreign) {
      const auto type = get_string(record.document, "type");
      if (type && *type != services_.backend_kind().name) {
        out_.facts.state = StateFact::other_backend;
        detail += fmt::format("; made by backend '{}'", *type);
      }
      out_.priority = 3;
    }
    add_evidence(receipt_, "record", to_string(out_.facts.state), detail);
  }

  void live_fact(const HostFacts& host) {
    if (!live()) {
      add_evidence(receipt_, "live", to_string(LiveFact::no), "no sandbox holds work of this slot");
      return;
    }
    if (live()->clean) {
      add_evidence(receipt_, "live", to_string(LiveFact::no), "nothing ran since the head was saved");
      return;
    }
    const bool here = !live()->bound || *live()->bound == host.id;
    out_.facts.live = here ? LiveFact::here : LiveFact::elsewhere;
    out_.lost_since = live()->since;
    add_evidence(receipt_, "live", to_string(out_.facts.live),
                 fmt::format("tree {} may hold unsaved work since {}{}", live()->tree, live()->since,
                             here ? "" : " on host " + *live()->bound));
  }

  // The sandbox the record names, if it can be on this machine; else whatever carries the slot's label.
  void find_sandbox(const HostFacts& host) {
    auto backend = services_.backend();
    if (!backend) {
      return sandbox_unknown(backend.error());
    }
    auto listed = (*backend)->list(ctx_, &slot_);
    if (!listed) {
      return sandbox_unknown(listed.error());
    }
    const bool reachable = live() && live()->backend == services_.backend_kind().name &&
                           (!live()->bound || *live()->bound == host.id);
    std::string wanted = reachable ? live()->sandbox.value_or("") : "";
    std::vector<ResourceInfo> usable;
    for (auto& info : *listed) {
      if (!info.ready && info.id != wanted) {
        out_.leftovers.push_back(std::move(info));
      } else {
        usable.push_back(std::move(info));
      }
    }
    if (wanted.empty() && !usable.empty()) {
      wanted = std::max_element(usable.begin(), usable.end(), [](const auto& a, const auto& b) {
                 return a.created < b.created;
               })->id;
    }
    if (wanted.empty()) {
      out_.facts.sandbox = live() ? SandboxFact::gone : SandboxFact::none;
      add_evidence(receipt_, "sandbox", to_string(out_.facts.sandbox),
                   "the provider has none with the slot's label");
      return;
    }
    attach(**backend, wanted);
  }

  void attach(Backend& backend, const std::string& id) {
    auto sandbox = backend.attach(ctx_, id);
    if (!sandbox) {
      if (sandbox.error().kind == ErrorKind::not_found) {
        out_.facts.sandbox = SandboxFact::gone;
        add_evidence(receipt_, "sandbox", to_string(out_.facts.sandbox),
                     fmt::format("'{}' does not exist any more", id));
        return;
      }
      return sandbox_unknown(sandbox.error());
    }
    auto info = (*sandbox)->info(ctx_);
    if (!info) {
      return sandbox_unknown(info.error());
    }
    switch (info->phase) {
      case SandboxPhase::running:
        out_.facts.sandbox = SandboxFact::alive;
        break;
      case SandboxPhase::stopped:
        out_.facts.sandbox = SandboxFact::stopped;
        break;
      case SandboxPhase::gone:
        out_.facts.sandbox = SandboxFact::gone;
        break;
      case SandboxPhase::moving:
        out_.facts.sandbox = SandboxFact::moving;
        break;
    }
    if (info->slot != slot_.store_name()) {
      // A record may say anything; the label of the resource decides whose it is.
      out_.facts.sandbox = SandboxFact::not_ours;
      add_evidence(receipt_, "sandbox", to_string(out_.facts.sandbox),
                   fmt::format("'{}' belongs to another slot", id));
      return;
    }
    receipt_.sandbox = info->id;
    receipt_.tree = info->tree;
    add_evidence(receipt_, "sandbox", to_string(out_.facts.sandbox),
                 fmt::format("'{}' is {}", info->id, to_string(info->phase)));
    if (info->phase != SandboxPhase::gone) {
      out_.sandbox = std::move(*sandbox);
      out_.info = std::move(*info);
    }
  }

  void sandbox_unknown(const Error& error) {
    out_.facts.sandbox = SandboxFact::unknown;
    out_.sandbox_problem = error;
    add_evidence(receipt_, "sandbox", to_string(out_.facts.sandbox), error.message);
  }

  void probe_workspace() {
    const std::string& root = services_.profile().workspace_root;
    if (!out_.sandbox || out_.facts.sandbox == SandboxFact::moving) {
      add_evidence(receipt_, "workspace", to_string(out_.facts.work), "there is no tree to look at");
      return;
    }
    auto probe = out_.sandbox->files().probe(ctx_, root);
    if (!probe) {
      out_.facts.work = WorkFact::unknown;
      add_evidence(receipt_, "workspace", to_string(out_.facts.work), probe.error().message);
      return;
    }
    std::string detail;
    if (!probe->exists) {
      out_.facts.work = WorkFact::lost;
      detail = fmt::format("'{}' does not exist in tree {}", root, out_.info->tree);
    } else if (probe->marked) {
      out_.facts.work = WorkFact::partial;
      detail = "a restore was not finished in it";
    } else if (out_.info->tree.empty()) {
      out_.facts.work = WorkFact::unmarked;
      detail = "the tree carries no id of ours";
    } else if (live() && live()->tree == out_.info->tree) {
      out_.facts.work = WorkFact::current;
      detail = fmt::format("the record names tree {}", out_.info->tree);
    } else {
      // Without a list of what a snapshot holds on this disk, every other tree is taken as holding work
      // (protocols 6).
      out_.facts.work = WorkFact::stale_dirty;
      detail = fmt::format("tree {} is not the one the record names ({})", out_.info->tree,
                           live() ? live()->tree : "none");
    }
    add_evidence(receipt_, "workspace", to_string(out_.facts.work), detail);
  }

  Result<void> snapshot_fact() {
    if (!services_.has_snapshots()) {
      add_evidence(receipt_, "snapshot", to_string(out_.facts.snapshot), "snapshots.store is none");
      return ok();
    }
    auto item = head_item(services_, ctx_, view_);
    if (!item) {
      snapshot_error(item.error());
      return ok();
    }
    out_.head = std::move(*item);
    auto repository = services_.repository();
    if (!repository) {
      snapshot_error(repository.error());
      return ok();
    }
    if (!out_.head) {
      return never_or_unreadable();
    }
    // Who goes on over a loss must not be stopped by damage that only the bytes show.
    auto health = (*repository)->check(ctx_, *out_.head, options_.allow_loss);
    if (!health) {
      snapshot_error(health.error());
      return ok();
    }
    set_health(*health);
    return ok();
  }

  // No snapshot is named; the store is asked all the same where there is no record, for "never" needs proof
  // (N1).
  Result<void> never_or_unreadable() {
    if (out_.facts.state == StateFact::absent) {
      ASCOPE_TRY_ASSIGN(BlobStore * blobs, services_.blobs());
      if (auto asked = blobs->stat(ctx_, "probe"); !asked) {
        snapshot_error(asked.error());
        return ok();
      }
    }
    add_evidence(receipt_, "snapshot", to_string(out_.facts.snapshot), "the slot never had one");
    return ok();
  }

  void set_health(SnapshotHealth health) {
    std::string detail = fmt::format("'{}' in {}", out_.head->snapshot, services_.profile().snapshot_store);
    switch (health) {
      case SnapshotHealth::usable:
        out_.facts.snapshot = SnapshotFact::usable;
        break;
      case SnapshotHealth::missing:
        out_.facts.snapshot = SnapshotFact::missing;
        break;
      case SnapshotHealth::corrupt:
        out_.facts.snapshot = SnapshotFact::corrupt;
        break;
      case SnapshotHealth::overwritten:
        // Only programs that know this document type write over its object; anything else is damage.
        out_.facts.snapshot = foreign_overwrote() ? SnapshotFact::foreign_newer : SnapshotFact::corrupt;
        detail += ": another size or version than was saved";
        break;
    }
    add_evidence(receipt_, "snapshot", to_string(out_.facts.snapshot), detail);
  }

  // A whole, readable tar that is not the one we saved, under a document that Java agents know.
  bool foreign_overwrote() {
    const auto type = get_string(view_.record.document, "type");
    if (!type || *type == "bubblewrap" || *type == "command") {
      return false;
    }
    auto blobs = services_.blobs();
    if (!blobs) {
      return false;
    }
    auto fresh = describe_object(ctx_, **blobs, out_.head->snapshot);
    auto repository = services_.repository();
    if (!fresh || !repository) {
      return false;
    }
    auto source = (*repository)->open(ctx_, *fresh, SnapshotPart::workspace);
    TreeEntry entry;
    while (source) {
      auto more = (*source)->next(entry);
      if (!more) {
        return false;
      }
      if (!*more) {
        out_.head = std::move(*fresh);
        return true;
      }
    }
    return false;
  }

  void snapshot_error(const Error& error) {
    switch (error.kind) {
      case ErrorKind::not_found:
        out_.facts.snapshot = SnapshotFact::missing;
        break;
      case ErrorKind::corrupt:
        out_.facts.snapshot = SnapshotFact::corrupt;
        break;
      default:
        out_.facts.snapshot = SnapshotFact::store_down;
        break;
    }
    out_.snapshot_problem = error;
    add_evidence(receipt_, "snapshot", to_string(out_.facts.snapshot), error.message);
  }

  void compare_settings() {
    const SandboxSettings& wanted = services_.profile().settings;
    if (!out_.info || out_.info->settings_digest == wanted.digest()) {
      return;
    }
    const auto now = wanted.describe();
    const auto& before = out_.info->settings;
    const auto value = [](const std::map<std::string, std::string>& all, const std::string& key) {
      const auto it = all.find(key);
      return it == all.end() || it->second.empty() ? std::string("(unset)") : it->second;
    };
    std::map<std::string, std::string> keys = before;
    keys.insert(now.begin(), now.end());
    for (const auto& [key, unused] : keys) {
      if (value(before, key) != value(now, key)) {
        out_.replaced_settings.push_back(
            fmt::format("{}: {} → {}", key, value(before, key), value(now, key)));
      }
    }
  }

  EngineServices& services_;
  const OpContext& ctx_;
  const SlotKey& slot_;
  const SlotView& view_;
  const StartOptions& options_;
  Receipt& receipt_;
  Gathered& out_;
};

// Priority 1 needs no table: the sandbox is used as it is (product 5).
Result<void> gather_external(EngineServices& services, const OpContext& ctx, const std::string& id,
                             Receipt& receipt, Gathered& out) {
  ASCOPE_TRY_ASSIGN(Backend * backend, services.backend());
  auto sandbox = backend->attach(ctx, id);
  if (!sandbox) {
    return std::move(sandbox).error().within("external sandbox '" + id + "'");
  }
  ASCOPE_TRY_ASSIGN(ResourceInfo info, (*sandbox)->info(ctx));
  if (info.phase != SandboxPhase::running) {
    return make_error(ErrorKind::not_found,
                      fmt::format("external sandbox '{}' is {}", id, to_string(info.phase)),
                      "start it with the commands that own it; it is never started or stopped from here");
  }
  out.priority = 1;
  out.sandbox = std::move(*sandbox);
  receipt.sandbox = info.id;
  receipt.tree = info.tree;
  add_evidence(receipt, "sandbox", "external", fmt::format("'{}' is running and is used as it is", id));
  out.info = std::move(info);
  return ok();
}

}  // namespace

std::string external_id(const SlotView& view, const StartOptions& options) {
  if (!options.external.empty()) {
    return options.external;
  }
  const auto it = view.aux.extra.find(kExternalKey);
  return it != view.aux.extra.end() && it->is_string() && view.record.kind == RecordClass::ours
             ? it->get<std::string>()
             : std::string();
}

Result<std::optional<HistoryItem>> head_item(EngineServices& services, const OpContext& ctx,
                                             const SlotView& view) {
  const auto& meta = view.record.meta;
  if (view.record.kind == RecordClass::ours) {
    if (!meta->head) {
      return std::optional<HistoryItem>{};
    }
    for (const auto& item : view.aux.history) {
      if (item.snapshot == meta->head->snapshot) {
        return std::optional<HistoryItem>(item);
      }
    }
    return make_error(ErrorKind::internal, "the head is not in the history that was read");
  }
  if (view.record.kind == RecordClass::foreign) {
    const auto snapshot = view.record.document.find("snapshot");
    if (snapshot == view.record.document.end() || !snapshot->is_object()) {
      return std::optional<HistoryItem>{};
    }
    const auto type = get_string(*snapshot, "type");
    const auto id = get_string(*snapshot, "id");
    if (!type || !id || *type == "noop") {
      return std::optional<HistoryItem>{};
    }
    ASCOPE_TRY_ASSIGN(BlobStore * blobs, services.blobs());
    auto item = describe_object(ctx, *blobs, *id);
    if (!item && item.error().kind == ErrorKind::not_found) {
      // A Java agent names the id before its first save; without an object there never was a snapshot. One of
      // ours in chunks is no object that it knows.
      const auto known = std::find_if(view.aux.history.begin(), view.aux.history.end(),
                                      [&](const HistoryItem& old) { return old.snapshot == *id; });
      if (known == view.aux.history.end()) {
        return std::optional<HistoryItem>{};
      }
      if (known->format != "tar") {
        return std::optional<HistoryItem>(*known);
      }
    }
    if (!item) {
      return std::move(item).error();
    }
    return std::optional<HistoryItem>(std::move(*item));
  }
  if (view.record.kind == RecordClass::absent && !view.aux.history.empty()) {
    return std::optional<HistoryItem>(view.aux.history.front());
  }
  return std::optional<HistoryItem>{};
}

Result<SlotView> view_from_state(EngineServices& services, const OpContext& ctx, const SlotView& present,
                                 std::string_view text) {
  ASCOPE_TRY_ASSIGN(Json document, parse_document(text));
  if (document.is_object() && document.contains("json")) {
    ASCOPE_TRY_ASSIGN(const std::string inner, get_string(document, "json"));
    ASCOPE_TRY_ASSIGN(document, parse_document(inner));
  }
  SlotView view;
  view.aux = present.aux;
  view.record = present.record;
  view.record.kind = RecordClass::ours;
  view.record.document = document;
  view.record.document_text = dump_json(document);
  SlotMeta meta = present.record.meta.value_or(SlotMeta{});
  meta.head.reset();
  meta.live.reset();
  view.record.meta = meta;
  SlotView foreign = view;
  foreign.record.kind = RecordClass::foreign;
  ASCOPE_TRY_ASSIGN(const auto item, head_item(services, ctx, foreign));
  if (item) {
    view.record.meta->head = HeadRef{item->snapshot,
                                     item->format,
                                     item->object,
                                     item->size_bytes,
                                     item->sha256,
                                     item->version,
                                     services.profile().snapshot_store};
    view.aux.history.insert(view.aux.history.begin(), *item);
  }
  ASCOPE_TRY_ASSIGN(const auto sandbox, get_optional_string(document, services.backend_kind().id_field));
  if (sandbox) {
    LiveMark live;
    live.backend = services.backend_kind().name;
    ASCOPE_TRY_ASSIGN(const HostFacts host, services.host());
    live.bound = services.backend_kind().host_bound ? std::optional<std::string>(host.id) : std::nullopt;
    live.tree = *sandbox;
    live.sandbox = *sandbox;
    live.clean = true;
    view.record.meta->live = live;
  }
  return view;
}

Result<Gathered> gather_start(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                              const SlotView& view, const StartOptions& options, Receipt& receipt) {
  PhaseTimer timer(receipt, "gather", *ctx.clock);
  Gathered out;
  if (const std::string id = external_id(view, options); !id.empty()) {
    ASCOPE_TRY(gather_external(services, ctx, id, receipt, out));
    receipt.priority = 1;
    receipt.branch = "external";
    receipt.rule = "E1";
    receipt.why = "an external sandbox was given: it is used as it is";
    return out;
  }
  ASCOPE_TRY(Gatherer(services, ctx, slot, view, options, receipt, out).gather());
  if (!options.from_state.empty()) {
    out.priority = 2;
  }
  out.decision = plan_start(out.facts);
  if (!out.decision.branch && out.decision.refusal == ErrorKind::store_unavailable && out.snapshot_problem &&
      out.snapshot_problem->kind == ErrorKind::denied) {
    // A key, not the store, is what is amiss.
    out.decision.refusal = ErrorKind::denied;
    out.decision.why = out.snapshot_problem->message;
    out.decision.hint = out.snapshot_problem->hint;
  }
  if (!out.decision.branch && out.decision.refusal == ErrorKind::backend_unavailable && out.sandbox_problem) {
    out.decision.why += ": " + out.sandbox_problem->message;
    if (!out.sandbox_problem->hint.empty()) {
      out.decision.hint = out.sandbox_problem->hint;
    }
  }
  receipt.priority = out.priority;
  receipt.rule = out.decision.rule;
  receipt.why = out.decision.why;
  receipt.rejected = out.decision.rejected;
  receipt.branch = out.decision.branch ? std::string(1, branch_letter(*out.decision.branch)) : "";
  receipt.replaced_settings = out.replaced_settings;
  receipt.parent = out.head ? out.head->snapshot : "";
  return out;
}

}  // namespace ascope
