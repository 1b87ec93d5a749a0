// SPDX-License-Identifier: Apache-2.0
#include "core/projection/decide.h"

#include <algorithm>
#include <set>

namespace ascope {

namespace {

class Decider {
 public:
  Decider(const HostTree& host, const ProjectionManifest& last, const WorkspaceView& workspace,
          bool keep_agent, ProjectionPlan& plan)
      : host_(host), last_(last), workspace_(workspace), keep_agent_(keep_agent), plan_(plan) {}

  void run() {
    for (const auto& [path, file] : host_.files) {
      for (auto& parent : parents_of(path)) {
        host_folders_.insert(std::move(parent));
      }
    }
    for (const auto& [path, file] : last_) {
      if (!host_.files.contains(path)) {
        decide_gone(path, file);
      }
    }
    for (const auto& [path, file] : host_.files) {
      decide_present(path, file);
    }
    for (const auto& note : host_.refused) {
      add(ProjectionAction::refuse, note.path, note.what);
    }
    list_removals();
    std::sort(plan_.steps.begin(), plan_.steps.end(),
              [](const ProjectionStep& a, const ProjectionStep& b) { return a.path < b.path; });
    plan_.folders.assign(folders_.begin(), folders_.end());
  }

 private:
  ProjectionStep& add(ProjectionAction action, const std::string& path, std::string reason) {
    plan_.steps.push_back({action, path, {}, {}, std::move(reason), {}});
    return plan_.steps.back();
  }

  [[nodiscard]] const WorkspaceItem* at(const std::string& path) const {
    const auto it = workspace_.find(path);
    return it == workspace_.end() ? nullptr : &it->second;
  }

  static bool is_same(const WorkspaceItem& item, const ProjectedFile& file) {
    return item.type == EntryType::file && item.sha256 == file.sha256 && item.mode == file.mode;
  }

  void decide_gone(const std::string& path, const ProjectedFile& last) {
    const WorkspaceItem* item = at(path);
    if (item == nullptr || (item->type == EntryType::directory && host_folders_.contains(path))) {
      return;
    }
    if (is_same(*item, last)) {
      add(ProjectionAction::remove, path, "gone from the host");
      removed_.insert(path);
    } else {
      add(ProjectionAction::keep_removed, path, "gone from the host, changed in the workspace");
    }
  }

  void decide_present(const std::string& path, const HostFile& file) {
    const ProjectedFile now{file.mode, file.stat.size_bytes, file.sha256};
    const auto it = last_.find(path);
    const WorkspaceItem* item = at(path);
    plan_.next[path] = now;
    if (item == nullptr || is_emptied_folder(path, *item)) {
      copy_missing(path, file, now);
      return;
    }
    if (is_same(*item, now)) {
      fill(add(ProjectionAction::keep, path, "the same"), file, now);
    } else if (it != last_.end() && is_same(*item, it->second)) {
      fill(add(ProjectionAction::copy, path, "changed on the host"), file, now);
    } else if (it != last_.end() && it->second == now) {
      fill(add(ProjectionAction::keep, path, "changed in the workspace"), file, now);
    } else {
      conflict(path, file, now);
    }
  }

  void conflict(const std::string& path, const HostFile& file, const ProjectedFile& now) {
    if (keep_agent_) {
      fill(add(ProjectionAction::keep_conflict, path, "changed on both sides"), file, now);
      return;
    }
    ProjectionStep& step = add(ProjectionAction::replace_conflict, path, "changed on both sides");
    fill(step, file, now);
    step.aside = aside_name(path);
  }

  static void fill(ProjectionStep& step, const HostFile& file, const ProjectedFile& now) {
    step.source = file.folder == nullptr ? "" : file.folder->path() + "/" + file.relative;
    step.file = now;
  }

  void copy_missing(const std::string& path, const HostFile& file, const ProjectedFile& now) {
    for (const auto& parent : parents_of(path)) {
      const WorkspaceItem* item = at(parent);
      if (item == nullptr || item->type == EntryType::directory || removed_.contains(parent)) {
        continue;
      }
      if (keep_agent_) {
        fill(add(ProjectionAction::keep_conflict, path, "the workspace has no folder '" + parent + "'"), file,
             now);
        return;
      }
      move_aside(parent);
      break;
    }
    for (auto& parent : parents_of(path)) {
      const WorkspaceItem* item = at(parent);
      if (item == nullptr || item->type != EntryType::directory) {
        folders_.insert(std::move(parent));
      }
    }
    fill(add(ProjectionAction::copy, path, "missing in the workspace"), file, now);
  }

  // Makes room for a folder where the agent put something else.
  void move_aside(const std::string& path) {
    if (!moved_.insert(path).second) {
      return;
    }
    const auto it = std::find_if(plan_.steps.begin(), plan_.steps.end(),
                                 [&path](const ProjectionStep& step) { return step.path == path; });
    ProjectionStep& step = it != plan_.steps.end()
                               ? *it
                               : add(ProjectionAction::replace_conflict, path, "the host has a folder here");
    step.aside = aside_name(path);
  }

  // A folder at a file's place of which nothing stays once what we put there is removed.
  [[nodiscard]] bool is_emptied_folder(const std::string& path, const WorkspaceItem& item) const {
    if (item.type != EntryType::directory) {
      return false;
    }
    bool held_ours = false;
    const std::string below = path + "/";
    for (auto it = workspace_.lower_bound(below); it != workspace_.end() && it->first.starts_with(below);
         ++it) {
      if (removed_.contains(it->first)) {
        held_ours = true;
      } else if (it->second.type != EntryType::directory || !has_removed_below(it->first)) {
        return false;
      }
    }
    return held_ours;
  }

  [[nodiscard]] bool has_removed_below(const std::string& folder) const {
    const auto it = removed_.lower_bound(folder + "/");
    return it != removed_.end() && it->starts_with(folder + "/");
  }

  std::string aside_name(const std::string& path) {
    for (std::size_t n = 1;; ++n) {
      std::string aside = aside_candidate(path, n);
      const bool taken = workspace_.contains(aside) || host_.files.contains(aside) || last_.contains(aside) ||
                         host_folders_.contains(aside);
      if (!taken && asides_.insert(aside).second) {
        return aside;
      }
    }
  }

  void list_removals() {
    std::set<std::string> emptied;
    for (const auto& path : removed_) {
      plan_.remove.push_back(path);
      for (auto& parent : parents_of(path)) {
        if (!host_folders_.contains(parent)) {
          emptied.insert(std::move(parent));
        }
      }
    }
    // Descending order names a folder after what it holds.
    plan_.remove.insert(plan_.remove.end(), emptied.rbegin(), emptied.rend());
  }

  const HostTree& host_;
  const ProjectionManifest& last_;
  const WorkspaceView& workspace_;
  bool keep_agent_;
  ProjectionPlan& plan_;
  std::set<std::string> host_folders_, removed_, moved_, asides_, folders_;
};

}  // namespace

void decide_projection(const HostTree& host, const ProjectionManifest& last, const WorkspaceView& workspace,
                       bool keep_agent, ProjectionPlan& plan) {
  Decider(host, last, workspace, keep_agent, plan).run();
}

}  // namespace ascope
