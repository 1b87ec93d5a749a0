// SPDX-License-Identifier: Apache-2.0
#include "core/engine/entries.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/engine/entry_content.h"
#include "core/projection/skills.h"
#include "core/projection/workspace_view.h"

namespace ascope {

namespace {

// Clones made for one pass; gone with it.
class ScratchFolders {
 public:
  explicit ScratchFolders(std::string parent) : parent_(std::move(parent)) {}
  ScratchFolders(const ScratchFolders&) = delete;
  ScratchFolders& operator=(const ScratchFolders&) = delete;
  ~ScratchFolders() {
    for (const auto& folder : folders_) {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
  }
  std::string next() {
    folders_.push_back(parent_ + "/entry-" + random_hex(8));
    return folders_.back();
  }

 private:
  std::string parent_;
  std::vector<std::string> folders_;
};

struct Known {
  std::string declared;
  std::string content;  // "" = never written by us
  std::uint64_t size_bytes = 0;
};

// What the workspace holds at an entry.
struct Present {
  std::string digest;                // "" = more bytes than asked for
  std::vector<std::string> files;    // all that is no folder
  std::vector<std::string> folders;  // descending: what is deeper first
};

class EntryWriter {
 public:
  EntryWriter(const OpContext& ctx, const Profile& profile, const std::string& cache_dir, EntryPass pass,
              Json& digests, Toolbox& files)
      : ctx_(ctx),
        profile_(profile),
        cache_dir_(cache_dir),
        pass_(pass),
        digests_(digests),
        files_(files),
        excluded_(excluded_entry_paths(profile)),
        scratch_(cache_dir + "/git"),
        cache_(cache_dir + "/entries/" + sources_digest(profile) + ".json", *ctx.clock) {}

  Result<Json> run() {
    ASCOPE_TRY(check_mounts());
    std::vector<EntryContent> contents;
    ConcernedPaths concerned;
    for (const auto& entry : profile_.entries) {
      ASCOPE_TRY_ASSIGN(EntryContent content, read_entry(entry, cache_));
      contents.push_back(std::move(content));
      if (entry.kind != EntryKind::bind_mount) {
        concerned[entry.path];
      }
    }
    if (concerned.empty()) {
      forget_undeclared();
      return std::move(actions_);
    }
    StatCache unused("", *ctx_.clock);
    ASCOPE_TRY_ASSIGN(view_,
                      view_workspace(ctx_, files_, profile_.workspace_root, concerned, excluded_, unused));
    for (std::size_t i = 0; i < contents.size(); ++i) {
      if (profile_.entries[i].kind != EntryKind::bind_mount) {
        ASCOPE_TRY(decide(profile_.entries[i], contents[i]));
      }
    }
    ASCOPE_TRY(write());
    forget_undeclared();
    for (auto& [path, digest] : written_) {
      digests_[path] = std::move(digest);
    }
    cache_.save();
    return std::move(actions_);
  }

 private:
  static std::string sources_digest(const Profile& profile) {
    Sha256 hash;
    for (const auto& entry : profile.entries) {
      hash.update(entry.source + "\n");
    }
    return hash.finish_hex().substr(0, 32);
  }

  // What lies below a mount point would be written to the host.
  Result<void> check_mounts() {
    for (const auto& entry : profile_.entries) {
      ASCOPE_TRY(check_tree_path(entry.path, false));
      if (entry.kind != EntryKind::bind_mount && is_within(entry.path, excluded_)) {
        return make_error(ErrorKind::config, "workspace.entries: '" + entry.path + "' lies in a bind mount",
                          "put it into the folder of the host that is mounted");
      }
    }
    return ok();
  }

  [[nodiscard]] std::optional<Known> known(const std::string& path) const {
    if (!digests_.is_object() || !digests_.contains(path)) {
      return std::nullopt;
    }
    const Json& row = digests_[path];
    if (!row.is_object() || !row.contains("declared") || !row["declared"].is_string() ||
        !row.contains("content") || !row["content"].is_string() || !row.contains("size") ||
        !row["size"].is_number_unsigned()) {
      return std::nullopt;
    }
    return Known{row["declared"].get<std::string>(), row["content"].get<std::string>(),
                 row["size"].get<std::uint64_t>()};
  }

  void act(const std::string& path, std::string_view action, std::string_view reason) {
    actions_.push_back(
        Json{{"path", bytes_json(path)}, {"action", std::string(action)}, {"reason", std::string(reason)}});
  }

  Result<void> decide(const WorkspaceEntry& entry, EntryContent& content) {
    const auto item = view_.find(entry.path);
    const bool exists = item != view_.end();
    if (entry.ephemeral) {
      return take(entry, content, "ephemeral");
    }
    if (pass_ == EntryPass::all) {
      return take(entry, content, "new workspace");
    }
    if (pass_ == EntryPass::missing && !exists) {
      return take(entry, content, "not in the snapshot");
    }
    const auto before = known(entry.path);
    if (!before) {
      return exists ? adopt(entry, content, item->second) : take(entry, content, "new entry");
    }
    if (before->declared == content.declared) {
      act(entry.path, "unchanged", "");
      return ok();
    }
    if (!exists) {
      act(entry.path, "kept", "removed in the workspace");
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const Present present, read_present(entry, before->size_bytes));
    if (before->content.empty() || present.digest != before->content) {
      act(entry.path, "kept", "changed in the workspace");
      return ok();
    }
    ASCOPE_TRY(take(entry, content, "its declaration changed"));
    remove_rest(present);
    return ok();
  }

  static std::uint64_t total_bytes(const EntryContent& content) {
    std::uint64_t total = 0;
    for (const auto& item : content.items) {
      total += item.entry.type == EntryType::file ? item.entry.size_bytes : 0;
    }
    return total;
  }

  static Json row_of(const EntryContent& content, bool ours) {
    return {{"declared", content.declared},
            {"content", ours ? content.content : ""},
            {"size", total_bytes(content)}};
  }

  // Something is there that we never wrote: ours from now on if it is the same, else the agent's.
  Result<void> adopt(const WorkspaceEntry& entry, const EntryContent& content, const WorkspaceItem& item) {
    bool same = entry.kind == EntryKind::dir && item.type == EntryType::directory;
    if (!same && !content.content.empty()) {
      ASCOPE_TRY_ASSIGN(const Present present, read_present(entry, total_bytes(content)));
      same = present.digest == content.content;
    }
    written_[entry.path] = row_of(content, same);
    act(entry.path, same ? "unchanged" : "kept", same ? "" : "was there already");
    return ok();
  }

  Result<void> take(const WorkspaceEntry& entry, EntryContent& content, std::string_view reason) {
    if (entry.kind == EntryKind::git_repo) {
      ASCOPE_TRY(make_dirs(cache_dir_ + "/git"));
      const std::string folder = scratch_.next();
      auto fetched = fetch_git(ctx_, entry.url, entry.ref, cache_dir_, folder, true);
      if (!fetched) {
        return std::move(fetched).error().within("workspace.entries: '" + entry.path + "'");
      }
      StatCache unused("", *ctx_.clock);
      ASCOPE_TRY(add_folder(entry, folder, unused, content));
    }
    written_[entry.path] = row_of(content, true);
    for (auto& item : content.items) {
      if (is_within(item.entry.path, excluded_)) {
        continue;  // a mount of its own lies here
      }
      items_.insert_or_assign(item.entry.path, std::move(item));
    }
    act(entry.path, "written", reason);
    for (const auto& note : content.notes) {
      act(note.path, "kept", note.what);
    }
    return ok();
  }

  // Of what we wrote before and nobody touched, what is not part of the new content.
  void remove_rest(const Present& present) {
    const auto goes = [this](const std::string& path, bool is_folder) {
      const auto item = items_.find(path);
      return item == items_.end() || (item->second.entry.type == EntryType::directory) != is_folder;
    };
    for (const auto& path : present.files) {
      if (goes(path, false)) {
        options_.remove.push_back(path);
        removed_.insert(path);
      }
    }
    for (const auto& path : present.folders) {
      if (goes(path, true)) {
        options_.remove.push_back(path);
        removed_.insert(path);
      }
    }
  }

  // Reads no more than `limit` bytes: with more it is not what we wrote, and a sparse file of the agent's may
  // claim any size.
  Result<Present> read_present(const WorkspaceEntry& entry, std::uint64_t limit) {
    TreeSelection selection;
    selection.roots = {profile_.workspace_root + "/" + entry.path};
    selection.relative_to = profile_.workspace_root;
    for (const auto& path : excluded_) {
      selection.skip.push_back(profile_.workspace_root + "/" + path);
    }
    for (const auto& other : profile_.entries) {
      if (other.path.starts_with(entry.path + "/")) {
        selection.skip.push_back(profile_.workspace_root + "/" + other.path);
      }
    }
    ASCOPE_TRY_ASSIGN(const auto reader, files_.read_tree(ctx_, selection));
    Present present;
    ContentDigest digest;
    TreeEntry found;
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, reader->next(found));
      if (!more) {
        break;
      }
      if (found.path != entry.path && !found.path.starts_with(entry.path + "/")) {
        continue;  // a folder above
      }
      const std::string below = found.path == entry.path ? "" : found.path.substr(entry.path.size() + 1);
      std::string value = found.link_target;
      if (found.type == EntryType::file && !ContentDigest::is_ignored(below)) {
        if (found.size_bytes > limit) {
          return Present{};
        }
        limit -= found.size_bytes;
        ASCOPE_TRY_ASSIGN(value, hash_content(ctx_, *reader, found));
      } else if (found.type == EntryType::hardlink) {
        const bool within = found.link_target.starts_with(entry.path + "/");
        value = within ? digest.file_sha256(found.link_target.substr(entry.path.size() + 1)) : "";
      }
      digest.add(below, found.type, (found.mode & 0100U) != 0, value);
      (found.type == EntryType::directory ? present.folders : present.files).push_back(found.path);
    }
    // A dir entry is the folder alone, whatever lies in it.
    if (entry.kind == EntryKind::dir) {
      digest = {};
      digest.add("", view_.at(entry.path).type, false, "");
    }
    std::sort(present.folders.rbegin(), present.folders.rend());
    present.digest = digest.finish();
    return present;
  }

  // What the agent put where a folder must be, or a folder where something else must be, moves aside.
  Result<void> make_room(const TreeItem& item) {
    std::vector<std::string> folders = parents_of(item.entry.path);
    for (const auto& folder : folders) {
      const auto there = view_.find(folder);
      if (there != view_.end() && there->second.type != EntryType::directory) {
        return move_aside(folder);
      }
    }
    const auto there = view_.find(item.entry.path);
    const bool wants_folder = item.entry.type == EntryType::directory;
    if (there != view_.end() && (there->second.type == EntryType::directory) != wants_folder) {
      return move_aside(item.entry.path);
    }
    return ok();
  }

  Result<void> move_aside(const std::string& path) {
    if (removed_.contains(path) || !moved_.insert(path).second) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(std::string aside, free_aside_name(ctx_, files_, profile_.workspace_root, path));
    act(path, "kept", "moved to '" + aside + "'");
    options_.rename.emplace_back(path, std::move(aside));
    return ok();
  }

  Result<void> write() {
    if (items_.empty()) {
      return ok();
    }
    std::map<std::string, TreeItem> all;
    for (auto& [path, item] : items_) {
      ASCOPE_TRY(make_room(item));
      for (const auto& parent : parents_of(path)) {
        const auto there = view_.find(parent);
        if (there == view_.end() || there->second.type != EntryType::directory) {
          TreeItem folder;
          folder.entry.path = parent;
          folder.entry.type = EntryType::directory;
          folder.entry.mode = 0755;
          folder.entry.mtime_ns = item.entry.mtime_ns;
          all.try_emplace(parent, std::move(folder));
        }
      }
      all.insert_or_assign(path, std::move(item));
    }
    std::vector<TreeItem> ordered;
    ordered.reserve(all.size());
    for (auto& [path, item] : all) {
      ordered.push_back(std::move(item));
    }
    options_.mode = ApplyMode::overlay;
    options_.skip_paths = excluded_;
    ItemSource source(std::move(ordered));
    ASCOPE_TRY_ASSIGN(const ApplyReport report,
                      files_.apply(ctx_, profile_.workspace_root, source, options_));
    for (const auto& note : report.notes) {
      act(note.path, "written", note.what);
    }
    return ok();
  }

  void forget_undeclared() {
    std::set<std::string> declared;
    for (const auto& entry : profile_.entries) {
      declared.insert(entry.path);
    }
    Json rest = Json::object();
    if (digests_.is_object()) {
      for (const auto& [path, digest] : digests_.items()) {
        if (declared.contains(path)) {
          rest[path] = digest;
        }
      }
    }
    digests_ = std::move(rest);
  }

  const OpContext& ctx_;
  const Profile& profile_;
  const std::string& cache_dir_;
  EntryPass pass_;
  Json& digests_;
  Toolbox& files_;
  std::vector<std::string> excluded_;
  ScratchFolders scratch_;
  StatCache cache_;
  WorkspaceView view_;
  std::map<std::string, TreeItem> items_;
  std::set<std::string> moved_, removed_;
  std::map<std::string, Json> written_;
  ApplyOptions options_;
  Json actions_ = Json::array();
};

}  // namespace

Result<Json> apply_entries(const OpContext& ctx, const Profile& profile, const std::string& cache_dir,
                           EntryPass pass, Json& digests, Toolbox& files) {
  return EntryWriter(ctx, profile, cache_dir, pass, digests, files).run();
}

std::vector<std::string> excluded_entry_paths(const Profile& profile) {
  std::vector<std::string> paths;
  for (const auto& entry : profile.entries) {
    if (entry.kind == EntryKind::bind_mount) {
      paths.push_back(entry.path);
    }
  }
  return paths;
}

}  // namespace ascope
