// SPDX-License-Identifier: Apache-2.0
#include "cli/snapshot_common.h"

#include <fmt/format.h>

#include "core/base/units.h"

namespace ascope {

bool ChosenSnapshot::is_head() const {
  return view.record.meta && view.record.meta->head && view.record.meta->head->snapshot == item.snapshot;
}

Result<SlotView> read_known_slot(App& app, const SlotKey& slot) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(SlotView view, read_slot(*services, app.ctx(), slot));
  const RecordClass kind = view.record.kind;
  if (kind == RecordClass::absent || (kind == RecordClass::tombstone && view.aux.history.empty())) {
    return make_error(ErrorKind::not_found, "there is no slot " + slot.written(),
                      "'ascope-sandbox ls' lists the slots there are");
  }
  ASCOPE_TRY(require_readable(slot, view.record));
  if (view.aux_lost) {
    app.out().warn("the history of " + slot.written() + " is lost; only its head is known");
  }
  return view;
}

Result<ChosenSnapshot> choose_snapshot(App& app, const std::string& text) {
  using Parts = std::pair<SlotKey, std::string>;
  ASCOPE_TRY_ASSIGN(Parts parts, app.slot_and_snapshot(text));
  ASCOPE_TRY_ASSIGN(SlotView view, read_known_slot(app, parts.first));
  const std::optional<HeadRef> head = view.record.meta ? view.record.meta->head : std::nullopt;
  ASCOPE_TRY_ASSIGN(HistoryItem item, find_snapshot(view.aux, head, parts.second));
  return ChosenSnapshot{std::move(parts.first), std::move(view), std::move(item)};
}

Json snapshot_json(const SlotKey& slot, const HistoryItem& item, bool is_head) {
  Json out;
  out["schema"] = "ascope.snapshot/1";
  out["slot"] = slot.written();
  out["snapshot"] = item.snapshot;
  out["head"] = is_head;
  out["kind"] = item.kind;
  out["time"] = item.time;
  out["tags"] = item.tags;
  out["parent"] = item.parent.empty() ? Json() : Json(item.parent);
  out["format"] = item.format;
  out["object"] = item.object;
  out["size_bytes"] = item.size_bytes;
  out["sha256"] = item.sha256;
  out["roots_object"] = item.roots_object.empty() ? Json() : Json(item.roots_object);
  out["roots_size_bytes"] = item.roots_size_bytes;
  out["roots_sha256"] = item.roots_object.empty() ? Json() : Json(item.roots_sha256);
  out["files"] = item.files;
  out["content_bytes"] = item.content_bytes;
  out["added_bytes"] = item.added_bytes;
  out["rev"] = item.rev;
  out["fence"] = std::to_string(item.fence);
  out["host"] = item.host;
  out["tree"] = item.tree.empty() ? Json() : Json(item.tree);
  out["notes"] = item.notes;
  return out;
}

std::vector<std::string> snapshot_row(const HistoryItem& item, bool is_head) {
  std::string tags;
  for (const std::string& tag : item.tags) {
    tags += (tags.empty() ? "" : ",") + tag;
  }
  return {item.snapshot,
          item.time,
          item.kind,
          format_size(item.content_bytes),
          format_size(item.added_bytes),
          std::to_string(item.files),
          (is_head ? "head" : "") + std::string(is_head && !tags.empty() ? "," : "") + tags};
}

std::string_view to_string(SnapshotHealth health) {
  switch (health) {
    case SnapshotHealth::usable:
      return "usable";
    case SnapshotHealth::missing:
      return "missing";
    case SnapshotHealth::corrupt:
      return "corrupt";
    case SnapshotHealth::overwritten:
      return "overwritten";
  }
  return "corrupt";
}

Result<SnapshotPath> parse_snapshot_path(App& app, const std::string& text) {
  SnapshotPath out;
  std::string rest = text;
  if (text.starts_with('/')) {
    ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
    const std::string& root = services->profile().workspace_root;
    if (text == root || text.starts_with(root + "/")) {
      rest = text.substr(root.size());
    } else {
      out.part = SnapshotPart::roots;
    }
  }
  for (std::size_t begin = 0; begin <= rest.size();) {
    const std::size_t end = std::min(rest.find('/', begin), rest.size());
    const std::string part = rest.substr(begin, end - begin);
    if (!part.empty() && part != ".") {
      out.path += (out.path.empty() ? "" : "/") + part;
    }
    begin = end + 1;
  }
  if (const Result<void> checked = check_tree_path(out.path, true); !checked) {
    return make_error(ErrorKind::usage, checked.error().message);
  }
  return out;
}

std::string shown_path(SnapshotPart part, const std::string& path) {
  if (part == SnapshotPart::roots) {
    return "/" + path;
  }
  return path.empty() ? "." : path;
}

Json problems_json(const std::vector<SnapshotProblem>& problems) {
  Json out = Json::array();
  for (const SnapshotProblem& one : problems) {
    out.push_back(Json{{"object", one.object}, {"missing", one.missing}, {"what", one.what}});
  }
  return out;
}

Result<void> verify_snapshot(App& app, const HistoryItem& item) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(Repository * repository, services->repository());
  ASCOPE_TRY_ASSIGN(const SnapshotHealth health, repository->check(app.ctx(), item, true));
  if (health == SnapshotHealth::usable) {
    return ok();
  }
  return make_error(health == SnapshotHealth::missing ? ErrorKind::not_found : ErrorKind::corrupt,
                    fmt::format("snapshot '{}' is {} in the store", item.snapshot, to_string(health)),
                    "'ascope-sandbox snapshot check' tells what is left");
}

Result<std::unique_ptr<TreeSource>> open_part(App& app, const HistoryItem& item, SnapshotPart part,
                                              const std::vector<std::string>& paths) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(Repository * repository, services->repository());
  return paths.empty() ? repository->open(app.ctx(), item, part)
                       : repository->open_paths(app.ctx(), item, part, paths);
}

Result<std::vector<std::pair<SlotKey, SlotView>>> read_all_slots(App& app) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(StateStore * state, services->state());
  ASCOPE_TRY_ASSIGN(const std::vector<std::string> names, state->slots(app.ctx()));
  std::vector<std::pair<SlotKey, SlotView>> out;
  for (const std::string& name : names) {
    const SlotKey slot = SlotKey::from_store_name(name);
    ASCOPE_TRY_ASSIGN(SlotView view, read_slot(*services, app.ctx(), slot));
    out.emplace_back(slot, std::move(view));
  }
  return out;
}

Result<void> change_history(App& app, const Args& args, const SlotKey& slot, Receipt& receipt,
                            const std::function<Result<void>(SlotSession& session)>& change) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(const LockOptions lock, app.lock_options(args));
  SessionOptions options;
  options.wait = lock.wait;
  options.lease_token = lock.lease_token;
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<SlotSession> session,
                    SlotSession::open(*services, app.ctx(), slot, options, receipt));
  if (session->record().kind != RecordClass::ours) {
    return make_error(
        ErrorKind::unsupported,
        "the state of " + slot.written() + " is not ours to write: " + session->record().problem,
        "'ascope-sandbox snapshot " + slot.written() + "' saves it anew");
  }
  ASCOPE_TRY(session->claim(app.ctx(), receipt));
  ASCOPE_TRY(change(*session));
  const SlotRecord& record = session->record();
  SlotSession::Change commit;
  commit.document = record.document_text;
  commit.head = record.meta->head;
  commit.live = record.meta->live;
  ASCOPE_TRY(session->commit(app.ctx(), commit, receipt));
  receipt.snapshot = commit.head ? commit.head->snapshot : "";
  return session->close(app.ctx());
}

}  // namespace ascope
