// SPDX-License-Identifier: Apache-2.0
#include "core/projection/projection.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>

#include "core/projection/decide.h"
#include "core/projection/item_source.h"

namespace ascope {

namespace {

constexpr std::string_view kSkillsPrefix = ".skills-cache";

Result<HostTree> read_host(const ProjectionRequest& request, StatCache& cache) {
  HostTree tree;
  if (request.source.find("://") != std::string::npos) {
    return make_error(ErrorKind::unsupported,
                      "workspace.projection.source: a store as source is not supported",
                      "name a folder of this host");
  }
  if (!request.source.empty()) {
    auto folder = HostFolder::open(request.source);
    if (!folder) {
      return std::move(folder).error().within("workspace.projection.source");
    }
    ASCOPE_TRY(collect_host_files(*folder, request.include, "", tree));
  }
  if (!request.skills_cache.empty()) {
    tree.files.erase(std::string(kSkillsPrefix));
    ASCOPE_TRY_ASSIGN(const auto folder, HostFolder::open(request.skills_cache));
    ASCOPE_TRY(collect_host_files(folder, {"."}, std::string(kSkillsPrefix) + "/", tree));
  }
  for (auto it = tree.files.begin(); it != tree.files.end();) {
    if (is_within(it->first, request.excluded)) {
      tree.refused.push_back({it->first, "lies in a mount"});
      it = tree.files.erase(it);
    } else {
      ++it;
    }
  }
  ASCOPE_TRY(hash_host_files(tree, cache));
  return tree;
}

// What was refused or lies in a mount now is left as it is: it is not "gone from the host".
ProjectionManifest without_refused(ProjectionManifest last, const HostTree& host,
                                   const std::vector<std::string>& excluded) {
  std::vector<std::string> refused = excluded;
  for (const auto& note : host.refused) {
    refused.push_back(note.path);
  }
  std::erase_if(last, [&refused](const auto& item) { return is_within(item.first, refused); });
  return last;
}

TreeItem folder_item(const std::string& path) {
  TreeItem item;
  item.entry.path = path;
  item.entry.type = EntryType::directory;
  item.entry.mode = 0755;
  return item;
}

// The host file of a step, opened again below its folder.
Result<TreeItem> file_item(const ProjectionRequest& request, const ProjectionStep& step) {
  const bool is_skill = !request.skills_cache.empty() && step.source.starts_with(request.skills_cache + "/");
  const std::string& root = is_skill ? request.skills_cache : request.source;
  if (!step.source.starts_with(root + "/")) {
    return make_error(ErrorKind::internal, "step '" + step.path + "' has a source outside the projection");
  }
  TreeItem item;
  item.entry.path = step.path;
  item.entry.mode = step.file.mode;
  item.entry.size_bytes = step.file.size_bytes;
  item.entry.mtime_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  item.sha256 = step.file.sha256;
  item.open = [root, relative = step.source.substr(root.size() + 1)]() -> Result<UniqueFd> {
    ASCOPE_TRY_ASSIGN(const auto folder, HostFolder::open(root));
    auto fd = folder->open_regular(relative);
    if (!fd && fd.error().kind == ErrorKind::not_found) {
      return make_error(ErrorKind::conflict,
                        "file '" + root + "/" + relative + "' went while it was projected",
                        "run the command again");
    }
    return fd;
  };
  return item;
}

// Decides, and where something at the top of the workspace moves aside, looks whether its new name is free:
// the view holds only the folders concerned. Decides again with twice as many names until one is.
Result<ProjectionPlan> decide_with_free_names(const OpContext& ctx, const ProjectionRequest& request,
                                              const HostTree& host, const ProjectionManifest& known,
                                              WorkspaceView workspace, Toolbox& files) {
  for (std::size_t count = 8;; count *= 2) {
    ProjectionPlan plan;
    decide_projection(host, known, workspace, request.on_conflict == "agent", plan);
    TreeSelection selection;
    selection.metadata_only = true;
    selection.relative_to = request.workspace_root;
    for (const auto& step : plan.steps) {
      if (step.aside.empty() || step.aside.find('/') != std::string::npos) {
        continue;
      }
      for (std::size_t n = 1; n <= count; ++n) {
        selection.roots.push_back(request.workspace_root + "/" + aside_candidate(step.path, n));
      }
    }
    if (selection.roots.empty()) {
      return plan;
    }
    const std::size_t before = workspace.size();
    ASCOPE_TRY_ASSIGN(const auto reader, files.read_tree(ctx, selection));
    TreeEntry entry;
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, reader->next(entry));
      if (!more) {
        break;
      }
      if (entry.path.find('/') == std::string::npos) {
        workspace.try_emplace(entry.path).first->second.type = entry.type;
      }
    }
    if (workspace.size() == before) {
      return plan;
    }
  }
}

bool copies(const ProjectionStep& step) {
  return !step.source.empty() &&
         (step.action == ProjectionAction::copy || step.action == ProjectionAction::replace_conflict);
}

}  // namespace

std::string_view to_string(ProjectionAction action) {
  switch (action) {
    case ProjectionAction::copy:
      return "copy";
    case ProjectionAction::keep:
      return "keep";
    case ProjectionAction::replace_conflict:
      return "replace_conflict";
    case ProjectionAction::keep_conflict:
      return "keep_conflict";
    case ProjectionAction::remove:
      return "remove";
    case ProjectionAction::keep_removed:
      return "keep_removed";
    case ProjectionAction::refuse:
      return "refuse";
  }
  return "?";
}

bool ProjectionPlan::changes() const {
  return std::any_of(steps.begin(), steps.end(), [](const ProjectionStep& step) {
    return copies(step) || step.action == ProjectionAction::remove || !step.aside.empty();
  });
}

Json ProjectionPlan::summary() const {
  std::map<ProjectionAction, std::uint64_t> counts;
  Json copied = Json::array();
  Json removed = Json::array();
  Json conflicts = Json::array();
  Json kept = Json::array();
  Json refused = Json::array();
  Json noted = Json::array();
  for (const auto& step : steps) {
    ++counts[step.action];
    const Json path = bytes_json(step.path);
    if (step.action == ProjectionAction::copy) {
      copied.push_back(path);
    } else if (step.action == ProjectionAction::remove) {
      removed.push_back(path);
    } else if (step.action == ProjectionAction::refuse) {
      refused.push_back({{"path", path}, {"reason", step.reason}});
    }
    if (step.action == ProjectionAction::replace_conflict || step.action == ProjectionAction::keep_conflict ||
        !step.aside.empty()) {
      conflicts.push_back({{"path", path},
                           {"aside", step.aside.empty() ? Json(nullptr) : bytes_json(step.aside)},
                           {"reason", step.reason}});
    } else if (step.action == ProjectionAction::keep_removed) {
      kept.push_back(path);
    }
  }
  for (const auto& note : notes) {
    noted.push_back({{"path", bytes_json(note.path)}, {"what", note.what}});
  }
  Json json = Json::object();
  for (const auto action :
       {ProjectionAction::copy, ProjectionAction::keep, ProjectionAction::replace_conflict,
        ProjectionAction::keep_conflict, ProjectionAction::remove, ProjectionAction::keep_removed,
        ProjectionAction::refuse}) {
    json[std::string(to_string(action))] = counts[action];
  }
  json["source_hash"] = source_hash;
  json["copied"] = std::move(copied);
  json["removed"] = std::move(removed);
  json["conflicts"] = std::move(conflicts);
  json["kept"] = std::move(kept);
  json["refused"] = std::move(refused);
  json["notes"] = std::move(noted);
  return json;
}

Result<ProjectionPlan> plan_projection(const OpContext& ctx, const ProjectionRequest& request,
                                       const ProjectionManifest& last, Toolbox& files) {
  StatCache cache(request.stat_cache, *ctx.clock);
  ASCOPE_TRY_ASSIGN(HostTree host, read_host(request, cache));
  const ProjectionManifest known = without_refused(last, host, request.excluded);
  ConcernedPaths concerned;
  for (const auto& [path, file] : host.files) {
    concerned[path].insert(file.stat.size_bytes);
  }
  for (const auto& [path, file] : known) {
    concerned[path].insert(file.size_bytes);
  }
  ASCOPE_TRY_ASSIGN(const WorkspaceView workspace,
                    view_workspace(ctx, files, request.workspace_root, concerned, request.excluded, cache));
  ASCOPE_TRY_ASSIGN(ProjectionPlan plan, decide_with_free_names(ctx, request, host, known, workspace, files));
  ASCOPE_TRY_ASSIGN(plan.source_hash, projection_hash(host, cache));
  plan.notes = host.notes;
  for (const auto& [path, file] : last) {
    if (!known.contains(path)) {
      plan.next.emplace(path, file);
    }
  }
  cache.save();
  return plan;
}

Result<ApplyReport> apply_projection(const OpContext& ctx, const ProjectionRequest& request,
                                     const ProjectionPlan& plan, Toolbox& files) {
  if (!plan.changes()) {
    return ApplyReport{};
  }
  std::map<std::string, TreeItem> items;  // by path: a folder before what it holds
  for (const auto& folder : plan.folders) {
    items.emplace(folder, folder_item(folder));
  }
  ApplyOptions options;
  options.mode = ApplyMode::overlay;
  options.skip_paths = request.excluded;
  options.remove = plan.remove;
  for (const auto& step : plan.steps) {
    if (!step.aside.empty()) {
      options.rename.emplace_back(step.path, step.aside);
    }
    if (copies(step)) {
      ASCOPE_TRY_ASSIGN(TreeItem item, file_item(request, step));
      items.insert_or_assign(step.path, std::move(item));
    }
  }
  std::vector<TreeItem> ordered;
  ordered.reserve(items.size());
  for (auto& [path, item] : items) {
    ordered.push_back(std::move(item));
  }
  ItemSource source(std::move(ordered));
  return files.apply(ctx, request.workspace_root, source, options);
}

Json manifest_json(const ProjectionManifest& manifest) {
  Json files = Json::array();
  for (const auto& [path, file] : manifest) {
    files.push_back(Json{
        {"path", bytes_json(path)}, {"mode", file.mode}, {"size", file.size_bytes}, {"sha256", file.sha256}});
  }
  return Json{{"files", std::move(files)}};
}

Result<ProjectionManifest> parse_manifest(const Json& json) {
  ProjectionManifest manifest;
  if (json.is_null() || (json.is_object() && json.empty())) {
    return manifest;
  }
  if (!json.is_object() || !json.contains("files") || !json["files"].is_array()) {
    return make_error(ErrorKind::corrupt, "the projection manifest has no list 'files'");
  }
  for (const auto& row : json["files"]) {
    if (!row.is_object() || !row.contains("path")) {
      return make_error(ErrorKind::corrupt, "the projection manifest has a file without 'path'");
    }
    ASCOPE_TRY_ASSIGN(const std::string path, json_bytes(row["path"]));
    ASCOPE_TRY(check_tree_path(path, false));
    ASCOPE_TRY_ASSIGN(const std::int64_t mode, get_int(row, "mode"));
    ASCOPE_TRY_ASSIGN(const std::int64_t size, get_int(row, "size"));
    ASCOPE_TRY_ASSIGN(std::string sha256, get_string(row, "sha256"));
    manifest[path] = {static_cast<std::uint32_t>(mode), static_cast<std::uint64_t>(size), std::move(sha256)};
  }
  return manifest;
}

}  // namespace ascope
