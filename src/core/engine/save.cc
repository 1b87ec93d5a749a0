// SPDX-License-Identifier: Apache-2.0
#include "core/engine/save.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/random.h"
#include "core/engine/entries.h"
#include "core/engine/tree_scan.h"

namespace ascope {

namespace {

constexpr std::string_view kIgnoreFile = ".ascopeignore";
constexpr std::uint64_t kMaxIgnoreBytes = 64U << 10U;

void keep_notes(Receipt& receipt, HistoryItem& item, const std::vector<TreeNote>& notes) {
  constexpr std::size_t kMax = 100;
  for (std::size_t i = 0; i < notes.size() && i < kMax; ++i) {
    receipt.notes.push_back(notes[i]);
    item.notes.push_back(note_json(notes[i]));
  }
  if (notes.size() > kMax) {
    receipt.notes.push_back({"", fmt::format("and {} more", notes.size() - kMax)});
  }
}

// What the repository has noted, into the receipt.
Result<void> tell_notes(Receipt& receipt, const HistoryItem& item) {
  for (const Json& note : item.notes) {
    ASCOPE_TRY_ASSIGN(TreeNote one, note_of_json(note));
    receipt.notes.push_back(std::move(one));
  }
  return ok();
}

// The lines of an ignore file that are patterns: no comments, no blank ones, ends trimmed.
std::vector<std::string> ignore_patterns(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t last = line.find_last_not_of(" \t\r");
    line = last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
    if (!line.empty() && line.front() != '#') {
      out.emplace_back(line);
    }
  }
  return out;
}

// What the workspace's own .ascopeignore says; none is no pattern. A link is not followed.
Result<std::vector<std::string>> read_ignore_file(const OpContext& ctx, Toolbox& files,
                                                  const Profile& profile) {
  TreeSelection selection;
  selection.roots = {profile.workspace_root + "/" + std::string(kIgnoreFile)};
  selection.relative_to = profile.workspace_root;
  ASCOPE_TRY_ASSIGN(const auto reader, files.read_tree(ctx, selection));
  TreeEntry entry;
  std::string text;
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool more, reader->next(entry));
    if (!more) {
      return ignore_patterns(text);
    }
    if (entry.path != kIgnoreFile || entry.type != EntryType::file) {
      continue;
    }
    if (entry.size_bytes > kMaxIgnoreBytes) {
      return make_error(ErrorKind::config,
                        fmt::format("'{}' of the workspace has {} bytes, more than {}", kIgnoreFile,
                                    entry.size_bytes, kMaxIgnoreBytes),
                        "shorten it inside the sandbox, or use workspace.exclude of the profile");
    }
    text.assign(entry.size_bytes, '\0');
    while (true) {
      ASCOPE_TRY_ASSIGN(const auto block, reader->read());
      if (!block) {
        break;
      }
      if (block->offset <= text.size()) {
        text.replace(block->offset, block->bytes.size(), block->bytes);
      }
    }
  }
}

}  // namespace

Result<std::vector<std::string>> excluded_patterns(const OpContext& ctx, Toolbox& files,
                                                   const Profile& profile) {
  std::vector<std::string> patterns = profile.exclude;
  ASCOPE_TRY_ASSIGN(const auto ignored, read_ignore_file(ctx, files, profile));
  patterns.insert(patterns.end(), ignored.begin(), ignored.end());
  return patterns;
}

Result<TreeSelection> workspace_selection(const OpContext& ctx, Toolbox& files, const Profile& profile) {
  TreeSelection selection;
  selection.roots = {profile.workspace_root};
  selection.relative_to = profile.workspace_root;
  for (const auto& path : excluded_entry_paths(profile)) {
    selection.skip.push_back(profile.workspace_root + "/" + path);
  }
  ASCOPE_TRY_ASSIGN(selection.exclude, excluded_patterns(ctx, files, profile));
  return selection;
}

TreeSelection other_selection(const Profile& profile) {
  TreeSelection selection;
  selection.relative_to = "/";
  selection.exclude = profile.exclude;
  const std::string& root = profile.workspace_root;
  if (profile.persist_all) {
    selection.roots = {"/"};
    selection.skip = {root};
    return selection;
  }
  for (const auto& path : profile.persist) {
    const bool inside = path == root || path.starts_with(root + "/");
    if (!inside) {
      selection.roots.push_back(path);
      selection.skip = {root};
    }
  }
  return selection;
}

const HistoryItem* find_item(const Aux& aux, std::string_view snapshot) {
  const auto it = std::find_if(aux.history.begin(), aux.history.end(),
                               [&](const HistoryItem& item) { return item.snapshot == snapshot; });
  return it == aux.history.end() ? nullptr : &*it;
}

Result<SavedTree> save_tree(EngineServices& services, const OpContext& ctx, SlotSession& session,
                            Sandbox& sandbox, const ResourceInfo& info, const HistoryItem* parent,
                            std::string_view kind, ParentCheck parent_check, Receipt& receipt) {
  PhaseTimer timer(receipt, "snapshot", *ctx.clock);
  const Profile& profile = services.profile();
  ASCOPE_TRY_ASSIGN(Repository * repository, services.repository());
  ASCOPE_TRY_ASSIGN(const TreeProbe probe, sandbox.files().probe(ctx, profile.workspace_root));
  if (!probe.exists) {
    return make_error(
        ErrorKind::not_found,
        fmt::format("workspace root '{}' does not exist in the sandbox", profile.workspace_root),
        "'ascope-sandbox start' puts the last snapshot back");
  }
  if (probe.marked) {
    return make_error(ErrorKind::incomplete, "a restore was not finished in this workspace",
                      "'ascope-sandbox start' finishes it");
  }
  std::unique_ptr<Toolbox::Freeze> freeze;
  const Millis frozen_at = ctx.clock->boottime();
  if (profile.freeze != "never") {
    ASCOPE_TRY_ASSIGN(freeze, sandbox.files().freeze(ctx));
  }
  SandboxTrees trees(services, ctx, sandbox.files(), info.tree, parent);
  SaveRequest request;
  request.id = random_uuid();
  request.parent = parent;
  request.read_parent = parent_check == ParentCheck::read;
  ASCOPE_TRY_ASSIGN(request.origin, snapshot_origin(services, ctx, session));
  ASCOPE_TRY(trees.fill(request));
  ASCOPE_TRY(session.note_pending(request.id, request.origin.realm));
  ASCOPE_TRY(services.step("before-objects"));
  auto saved = repository->save(ctx, request);
  if (freeze) {
    if (!freeze->holds()) {
      receipt.warnings.emplace_back(
          "what runs in the sandbox went on before all was saved: the files saved may be of different "
          "moments");
    }
    freeze.reset();
    receipt.frozen = ctx.clock->boottime() - frozen_at;
  } else if (profile.freeze != "never") {
    const auto now = sandbox.info(ctx);
    if (now && now->phase == SandboxPhase::running) {
      receipt.warnings.emplace_back(
          "what runs in the sandbox could not be held while it was saved: the files saved may be of "
          "different "
          "moments");
    }
  }
  if (!saved) {
    return std::move(saved).error().within("saving the workspace");
  }
  ASCOPE_TRY(services.step("after-objects"));
  receipt.saved = Json{{"read_bytes", saved->read_bytes}, {"stored_bytes", saved->stored_bytes}};
  SavedTree out{saved->changed, std::move(saved->item)};
  if (out.changed) {
    ASCOPE_TRY_ASSIGN(const HostFacts host, services.host());
    out.item.time = format_time(ctx.clock->wall());
    out.item.kind = kind;
    out.item.parent = parent == nullptr ? "" : parent->snapshot;
    out.item.rev = session.record().meta ? session.record().meta->rev + 1 : 1;
    out.item.fence = session.fence();
    out.item.host = host.name;
    out.item.tree = info.tree;
    ASCOPE_TRY(tell_notes(receipt, out.item));
    keep_notes(receipt, out.item, trees.notes());
  }
  trees.keep(out.item.snapshot);
  return out;
}

Result<SnapshotOrigin> snapshot_origin(EngineServices& services, const OpContext& ctx,
                                       const SlotSession& session) {
  ASCOPE_TRY_ASSIGN(const HostFacts host, services.host());
  SnapshotOrigin origin;
  ASCOPE_TRY_ASSIGN(origin.realm, store_realm(services, ctx));
  origin.slot = session.slot().written();
  origin.rev = session.record().meta ? session.record().meta->rev + 1 : 1;
  origin.fence = session.fence();
  origin.time = format_time(ctx.clock->wall());
  origin.host = host.name;
  return origin;
}

HeadRef head_ref(const EngineServices& services, const HistoryItem& item) {
  return {item.snapshot,
          item.format,
          item.object,
          item.size_bytes,
          item.sha256,
          item.version,
          services.profile().snapshot_store};
}

Result<LiveMark> live_mark(EngineServices& services, const OpContext& ctx, const ResourceInfo& info,
                           bool clean) {
  LiveMark live;
  live.backend = services.backend_kind().name;
  if (services.backend_kind().host_bound) {
    ASCOPE_TRY_ASSIGN(const HostFacts host, services.host());
    live.bound = host.id;
  }
  live.tree = info.tree;
  live.sandbox = info.id;
  live.since = format_time(ctx.clock->wall());
  live.clean = clean;
  return live;
}

Result<Json> snapshot_document(const EngineServices& services, const std::string& snapshot_id) {
  if (snapshot_id.empty()) {
    return Json{{"type", "noop"}, {"id", "noop"}};
  }
  // AgentScope's form: "local" carries its folder, everything else is "remote" (reference 3.8). The folder
  // is shown, never obeyed, by us; a Java agent on the same machine reads it.
  ASCOPE_TRY_ASSIGN(const StoreUrl url, parse_store_url(services.profile().snapshot_store));
  if (url.scheme != "local") {
    return Json{{"type", "remote"}, {"id", snapshot_id}};
  }
  const std::string folder = url.path.empty() ? services.state_dir() + "/snapshots" : url.path;
  return Json{{"type", "local"}, {"basePath", folder}, {"id", snapshot_id}};
}

Result<std::string> slot_document(EngineServices& services, const SlotRecord& present,
                                  const ResourceInfo* info, const std::string& snapshot_id, bool owned,
                                  const std::string& projection_hash) {
  const Profile& profile = services.profile();
  std::string session_id;
  if (present.document.is_object()) {
    if (auto id = get_optional_string(present.document, "sessionId"); id && *id) {
      session_id = **id;
    }
  }
  if (session_id.empty()) {
    session_id = random_uuid();
  }
  ASCOPE_TRY_ASSIGN(const Json snapshot, snapshot_document(services, snapshot_id));
  const Json fields = services.backend_kind().document_fields({info, &profile.settings, owned});
  Json document =
      make_document(services.backend_kind().name, session_id, fields, snapshot, manifest_document(profile));
  document["workspaceProjectionHash"] = projection_hash.empty() ? Json(nullptr) : Json(projection_hash);
  document["workspaceRootReady"] = info != nullptr;
  ASCOPE_TRY(check_document(document));
  return dump_json(document);
}

}  // namespace ascope
