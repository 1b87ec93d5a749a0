// SPDX-License-Identifier: Apache-2.0
// A sandbox's file tools over a map in memory: path → entry and content. As strict as the real ones: parents
// must be folders, a folder that is not empty is not removed, nothing is moved over what is there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/backend.h"

namespace ascope {

class FakeToolbox final : public Toolbox {
 public:
  struct Node {
    TreeEntry entry;
    std::string content;
  };

  FakeToolbox() { make_folder("/workspace"); }

  // ---- what a test does as the agent, with absolute paths; parents are made
  void write(const std::string& path, const std::string& content, std::uint32_t mode = 0644) {
    make_parents(path);
    put(path, EntryType::file, mode).content = content;
    nodes_[path].entry.size_bytes = content.size();
  }
  void make_folder(const std::string& path) {
    make_parents(path);
    put(path, EntryType::directory, 0755);
  }
  void make_link(const std::string& path, const std::string& target) {
    make_parents(path);
    put(path, EntryType::symlink, 0777).entry.link_target = target;
  }
  void remove(const std::string& path) {
    std::erase_if(nodes_,
                  [&](const auto& item) { return item.first == path || item.first.starts_with(path + "/"); });
  }
  // Every later write happens this much later.
  void set_time(std::int64_t ns) { now_ns_ = ns; }

  // ---- what a test looks at
  [[nodiscard]] bool has(const std::string& path) const { return nodes_.contains(path); }
  [[nodiscard]] std::string content(const std::string& path) const {
    const auto it = nodes_.find(path);
    return it == nodes_.end() ? "<missing>" : it->second.content;
  }
  [[nodiscard]] const std::map<std::string, Node>& nodes() const { return nodes_; }
  std::uint64_t content_reads = 0;  // files whose content was asked for
  std::uint64_t entries_read = 0;
  std::uint64_t applies = 0;
  std::vector<std::string> roots_read;

  // ---- Toolbox
  Result<TreeProbe> probe(const OpContext& /*ctx*/, const std::string& root) override {
    TreeProbe probe;
    probe.exists = nodes_.contains(root);
    const auto below = nodes_.lower_bound(root + "/");
    probe.empty = below == nodes_.end() || !below->first.starts_with(root + "/");
    probe.marked = mark_.has_value();
    probe.mark = mark_.value_or("");
    return probe;
  }

  Result<std::unique_ptr<TreeReader>> read_tree(const OpContext& /*ctx*/,
                                                const TreeSelection& selection) override {
    auto reader = std::make_unique<Reader>(*this, selection.metadata_only);
    std::set<std::string> taken;
    for (const auto& root : selection.roots) {
      roots_read.push_back(root);
      for (const auto& [path, node] : nodes_) {
        if ((path != root && !path.starts_with(root + "/")) || is_skipped(path, selection.skip) ||
            !taken.insert(path).second) {
          continue;
        }
        Node copy = node;
        copy.entry.path = path.substr(std::min(path.size(), selection.relative_to.size() + 1));
        reader->nodes.push_back(std::move(copy));
      }
    }
    return std::unique_ptr<TreeReader>(std::move(reader));
  }

  Result<ApplyReport> apply(const OpContext& /*ctx*/, const std::string& root, TreeSource& source,
                            const ApplyOptions& options) override {
    ++applies;
    ApplyReport report;
    if (!nodes_.contains(root)) {
      make_folder(root);
    }
    for (const auto& path : options.remove) {
      remove_one(root + "/" + path, report);
    }
    for (const auto& [from, to] : options.rename) {
      ASCOPE_TRY(rename_one(root + "/" + from, root + "/" + to));
    }
    TreeEntry entry;
    std::set<std::string> written{root};
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, source.next(entry));
      if (!more) {
        break;
      }
      ASCOPE_TRY(check_tree_path(entry.path, true));
      const std::string path = entry.path.empty() ? root : root + "/" + entry.path;
      std::string content;
      if (entry.type == EntryType::file) {
        ASCOPE_TRY_ASSIGN(content, read_content(source, entry));
      }
      if (is_skipped(entry.path, options.skip_paths)) {
        continue;
      }
      ASCOPE_TRY(lay(path, entry, std::move(content), report));
      written.insert(path);
    }
    if (options.mode == ApplyMode::exact) {
      std::erase_if(nodes_, [&](const auto& item) {
        return item.first.starts_with(root + "/") && !written.contains(item.first) &&
               !is_skipped(item.first.substr(root.size() + 1), options.skip_paths);
      });
    }
    return report;
  }

  Result<void> set_mark(const OpContext& /*ctx*/, const std::string& /*root*/,
                        const std::optional<std::string>& mark) override {
    mark_ = mark;
    return ok();
  }
  Result<std::optional<std::set<std::uint64_t>>> mapped_files(const OpContext& /*ctx*/) override {
    return std::optional(std::set<std::uint64_t>());
  }
  Result<std::unique_ptr<Freeze>> freeze(const OpContext& /*ctx*/) override {
    return std::unique_ptr<Freeze>{};
  }

 private:
  class Reader final : public TreeReader {
   public:
    Reader(FakeToolbox& owner, bool metadata_only) : owner_(owner), metadata_only_(metadata_only) {}
    Result<bool> next(TreeEntry& entry) override {
      if (next_ == nodes.size()) {
        return false;
      }
      entry = nodes[next_++].entry;
      ++owner_.entries_read;
      read_ = false;
      return true;
    }
    Result<std::optional<DataBlock>> read() override {
      if (metadata_only_) {
        return make_error(ErrorKind::internal, "read() after metadata_only");
      }
      const Node& node = nodes[next_ - 1];
      if (read_ || node.content.empty()) {
        return std::optional<DataBlock>{};
      }
      read_ = true;
      ++owner_.content_reads;
      return std::optional<DataBlock>(DataBlock{0, node.content});
    }
    [[nodiscard]] const std::vector<TreeNote>& notes() const override { return notes_; }
    std::vector<Node> nodes;

   private:
    FakeToolbox& owner_;
    bool metadata_only_;
    std::size_t next_ = 0;
    bool read_ = false;
    std::vector<TreeNote> notes_;
  };

  static std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static bool is_skipped(const std::string& path, const std::vector<std::string>& skip) {
    for (const auto& place : skip) {
      if (path == place || path.starts_with(place + "/")) {
        return true;
      }
    }
    return false;
  }

  void make_parents(const std::string& path) {
    if (const std::string above = parent(path); !above.empty() && !nodes_.contains(above)) {
      make_folder(above);
    }
  }

  Node& put(const std::string& path, EntryType type, std::uint32_t mode) {
    Node node;
    node.entry.type = type;
    node.entry.mode = mode;
    node.entry.uid = node.entry.gid = 1000;
    node.entry.inode = ++inode_;
    node.entry.mtime_ns = node.entry.ctime_ns = ++now_ns_;
    return nodes_[path] = std::move(node);
  }

  void remove_one(const std::string& path, ApplyReport& report) {
    const auto below = nodes_.lower_bound(path + "/");
    const bool holds = below != nodes_.end() && below->first.starts_with(path + "/");
    if (!holds && nodes_.erase(path) != 0) {
      ++report.removed;
    }
  }

  Result<void> rename_one(const std::string& from, const std::string& to) {
    if (nodes_.contains(to)) {
      return make_error(ErrorKind::conflict, "'" + to + "' is there already");
    }
    std::map<std::string, Node> moved;
    for (auto it = nodes_.begin(); it != nodes_.end();) {
      if (it->first == from || it->first.starts_with(from + "/")) {
        moved[to + it->first.substr(from.size())] = std::move(it->second);
        it = nodes_.erase(it);
      } else {
        ++it;
      }
    }
    nodes_.merge(moved);
    return ok();
  }

  static Result<std::string> read_content(TreeSource& source, const TreeEntry& entry) {
    std::string content(static_cast<std::size_t>(entry.size_bytes), '\0');
    while (true) {
      ASCOPE_TRY_ASSIGN(const auto block, source.read());
      if (!block) {
        return content;
      }
      content.replace(static_cast<std::size_t>(block->offset), block->bytes.size(), block->bytes);
    }
  }

  Result<void> lay(const std::string& path, const TreeEntry& entry, std::string content,
                   ApplyReport& report) {
    const auto above = nodes_.find(parent(path));
    if (path != "/workspace" && (above == nodes_.end() || above->second.entry.type != EntryType::directory)) {
      return make_error(ErrorKind::corrupt, "'" + parent(path) + "' is no folder");
    }
    const auto old = nodes_.find(path);
    if (old != nodes_.end() && old->second.entry.type != entry.type) {
      remove(path);
    }
    if (entry.type == EntryType::directory && nodes_.contains(path)) {
      nodes_[path].entry.mode = entry.mode;
      return ok();
    }
    Node& node = put(path, entry.type, entry.mode);
    node.content = std::move(content);
    node.entry.size_bytes = node.content.size();
    node.entry.link_target = entry.link_target;
    ++report.written;
    return ok();
  }

  std::optional<std::string> mark_;
  std::map<std::string, Node> nodes_;
  std::uint64_t inode_ = 0;
  std::int64_t now_ns_ = 1'000;
};

}  // namespace ascope
