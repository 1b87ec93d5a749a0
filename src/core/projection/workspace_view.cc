// SPDX-License-Identifier: Apache-2.0
#include "core/projection/workspace_view.h"

#include <algorithm>

#include "core/base/hash.h"

namespace ascope {

namespace {

constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kBatchPaths = 500;  // roots of one reading: bounds the request to the guest
constexpr std::size_t kBatchBytes = 128U << 10U;

std::string joined(const std::string& root, const std::string& path) {
  return root.ends_with('/') ? root + path : root + "/" + path;
}

class Viewer {
 public:
  Viewer(const OpContext& ctx, Toolbox& files, const std::string& root, const ConcernedPaths& concerned,
         const std::vector<std::string>& excluded, StatCache& cache)
      : ctx_(ctx), files_(files), root_(root), concerned_(concerned), excluded_(excluded), cache_(cache) {}

  Result<WorkspaceView> run() {
    std::set<std::string> tops;
    for (const auto& [path, sizes] : concerned_) {
      tops.insert(path.substr(0, path.find('/')));
      for (auto& parent : parents_of(path)) {
        above_.insert(std::move(parent));
      }
    }
    ASCOPE_TRY(each_batch({tops.begin(), tops.end()}, &Viewer::read_entries));
    std::vector<std::string> unknown;
    for (auto& [path, item] : view_) {
      if (item.type != EntryType::file || !concerned_.contains(path)) {
        continue;
      }
      if (auto known = cache_.find(StatCache::Side::workspace, path, item.stat)) {
        item.sha256 = std::move(*known);
      } else if (linked_.contains(path) || concerned_.at(path).contains(item.stat.size_bytes)) {
        unknown.push_back(path);
      }
    }
    ASCOPE_TRY(each_batch(unknown, &Viewer::read_contents));
    return std::move(view_);
  }

 private:
  using Reader = Result<void> (Viewer::*)(const TreeSelection&);

  Result<void> each_batch(const std::vector<std::string>& paths, Reader reader) {
    TreeSelection selection;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      selection.roots.push_back(joined(root_, paths[i]));
      bytes += selection.roots.back().size();
      if (selection.roots.size() == kBatchPaths || bytes >= kBatchBytes || i + 1 == paths.size()) {
        selection.relative_to = root_;
        for (const auto& path : excluded_) {
          selection.skip.push_back(joined(root_, path));
        }
        ASCOPE_TRY((this->*reader)(selection));
        selection = {};
        bytes = 0;
      }
    }
    return ok();
  }

  [[nodiscard]] bool is_of_interest(const std::string& path) const {
    if (concerned_.contains(path) || above_.contains(path) || path.find(".agent") != std::string::npos) {
      return true;
    }
    const auto parents = parents_of(path);
    return std::any_of(parents.begin(), parents.end(),
                       [this](const std::string& parent) { return concerned_.contains(parent); });
  }

  Result<void> read_entries(const TreeSelection& wanted) {
    TreeSelection selection = wanted;
    selection.metadata_only = true;
    ASCOPE_TRY_ASSIGN(const auto reader, files_.read_tree(ctx_, selection));
    TreeEntry entry;
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, reader->next(entry));
      if (!more) {
        return ok();
      }
      if (!is_of_interest(entry.path)) {
        continue;
      }
      WorkspaceItem item;
      item.type = entry.type;
      if (entry.type == EntryType::hardlink) {
        item.type = EntryType::file;
        linked_.insert(entry.path);
      }
      item.mode = item.type == EntryType::file ? ((entry.mode & 0100U) != 0 ? 0755 : 0644) : entry.mode;
      if (entry.type == EntryType::file) {
        item.stat = {entry.size_bytes, entry.mtime_ns, entry.ctime_ns, entry.inode};
      }
      view_.insert_or_assign(entry.path, std::move(item));
    }
  }

  Result<void> read_contents(const TreeSelection& selection) {
    ASCOPE_TRY_ASSIGN(const auto reader, files_.read_tree(ctx_, selection));
    TreeEntry entry;
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, reader->next(entry));
      if (!more) {
        return ok();
      }
      const auto it = view_.find(entry.path);
      const auto sizes = concerned_.find(entry.path);
      if (it == view_.end() || sizes == concerned_.end()) {
        continue;
      }
      WorkspaceItem& item = it->second;
      if (entry.type == EntryType::hardlink) {
        const auto target = view_.find(entry.link_target);
        item.sha256 = target == view_.end() ? "" : target->second.sha256;
      } else if (entry.type != EntryType::file) {
        item.type = entry.type;  // replaced since its entry was read
      } else if (sizes->second.contains(entry.size_bytes)) {
        ASCOPE_TRY_ASSIGN(item.sha256, hash_content(ctx_, *reader, entry));
        const FileStat stat{entry.size_bytes, entry.mtime_ns, entry.ctime_ns, entry.inode};
        if (!linked_.contains(entry.path)) {
          cache_.put(StatCache::Side::workspace, entry.path, stat, item.sha256);
        }
      }
    }
  }

  const OpContext& ctx_;
  Toolbox& files_;
  const std::string& root_;
  const ConcernedPaths& concerned_;
  const std::vector<std::string>& excluded_;
  StatCache& cache_;
  std::set<std::string> above_;
  std::set<std::string> linked_;
  WorkspaceView view_;
};

}  // namespace

Result<std::string> hash_content(const OpContext& ctx, TreeSource& source, const TreeEntry& entry) {
  static constexpr char kZeros[4096] = {};
  Sha256 hash;
  std::uint64_t position = 0;
  const auto fill_to = [&](std::uint64_t end) {
    while (position < end) {
      const std::uint64_t count = std::min<std::uint64_t>(end - position, sizeof kZeros);
      hash.update(std::string_view(kZeros, static_cast<std::size_t>(count)));
      position += count;
    }
  };
  while (true) {
    ASCOPE_TRY(ctx.check("reading the workspace"));
    ASCOPE_TRY_ASSIGN(const std::optional<DataBlock> block, source.read());
    if (!block) {
      break;
    }
    if (block->offset < position || block->offset > entry.size_bytes ||
        block->bytes.size() > entry.size_bytes - block->offset) {
      return make_error(ErrorKind::corrupt, "file '" + entry.path + "' came with blocks out of order");
    }
    fill_to(block->offset);
    hash.update(block->bytes);
    position += block->bytes.size();
  }
  fill_to(entry.size_bytes);
  return hash.finish_hex();
}

std::string aside_candidate(const std::string& path, std::size_t n) {
  const auto slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const std::string ending = n == 1 ? ".agent" : ".agent." + std::to_string(n);
  return parent + path.substr(parent.size()).substr(0, kMaxNameBytes - ending.size()) + ending;
}

Result<std::string> free_aside_name(const OpContext& ctx, Toolbox& files, const std::string& workspace_root,
                                    const std::string& path) {
  std::size_t first = 1;
  while (true) {
    TreeSelection selection;
    selection.metadata_only = true;
    selection.relative_to = workspace_root;
    for (std::size_t n = first; n < first + 8; ++n) {
      selection.roots.push_back(joined(workspace_root, aside_candidate(path, n)));
    }
    std::set<std::string> taken;
    ASCOPE_TRY_ASSIGN(const auto reader, files.read_tree(ctx, selection));
    TreeEntry entry;
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, reader->next(entry));
      if (!more) {
        break;
      }
      taken.insert(entry.path);
    }
    for (std::size_t n = first; n < first + 8; ++n) {
      if (std::string name = aside_candidate(path, n); !taken.contains(name)) {
        return name;
      }
    }
    first += 8;
  }
}

Result<WorkspaceView> view_workspace(const OpContext& ctx, Toolbox& files, const std::string& workspace_root,
                                     const ConcernedPaths& concerned,
                                     const std::vector<std::string>& excluded, StatCache& cache) {
  return Viewer(ctx, files, workspace_root, concerned, excluded, cache).run();
}

std::vector<std::string> parents_of(const std::string& path) {
  std::vector<std::string> parents;
  for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    parents.push_back(path.substr(0, slash));
  }
  return parents;
}

bool is_within(const std::string& path, const std::vector<std::string>& places) {
  return std::any_of(places.begin(), places.end(), [&path](const std::string& place) {
    return path == place || path.starts_with(place + "/");
  });
}

}  // namespace ascope
