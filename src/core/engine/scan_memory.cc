// SPDX-License-Identifier: Apache-2.0
#include "core/engine/scan_memory.h"

#include <string_view>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/repository/chunks/path_order.h"

namespace ascope {

namespace {

std::string scan_folder(const EngineServices& services) {
  return services.cache_dir() + "/scans";
}

}  // namespace

ScanMemory::ScanMemory(EngineServices& services, const std::string& tree, std::string snapshot)
    : folder_(scan_folder(services)),
      path_(tree.empty() ? "" : folder_ + "/" + tree),
      rule_(services.profile().credentials),
      snapshot_(std::move(snapshot)) {}

std::string ScanMemory::label(const std::string& snapshot) const {
  return snapshot.empty() ? "" : snapshot + " " + rule_;
}

void ScanMemory::begin() {
  if (auto made = path_.empty() ? ok() : make_dirs(folder_); !made) {
    log("snapshot", LogLevel::warn, "no notes on scans are kept: {}", made.error().message);
    path_.clear();
  }
  known_ = std::make_unique<ScanCache>(path_, label(snapshot_));
  recorder_ = path_.empty() ? nullptr : std::make_unique<ScanRecorder>(path_);
  mapped_.clear();
  unread_.clear();
}

void ScanMemory::distrust(std::optional<std::set<std::uint64_t>> mapped) {
  if (!mapped) {
    recorder_.reset();
  } else {
    mapped_ = std::move(*mapped);
  }
}

void ScanMemory::record(SnapshotPart part, const TreeEntry& entry, bool read) {
  if (!recorder_ || entry.type != EntryType::file || mapped_.contains(entry.inode)) {
    return;
  }
  if (read && unread_.empty()) {
    recorder_->add(part, entry);
    return;
  }
  TreeEntry seen;
  seen.path = entry.path;
  seen.inode = entry.inode;
  seen.ctime_ns = entry.ctime_ns;
  seen.mtime_ns = entry.mtime_ns;
  seen.size_bytes = entry.size_bytes;
  unread_.emplace_back(part, std::move(seen));
}

void ScanMemory::settle(const std::vector<TreeNote>& notes, const std::optional<std::string>& path) {
  if (!notes.empty()) {
    std::set<std::string_view> noted;
    for (const TreeNote& note : notes) {
      noted.insert(note.path);
    }
    std::erase_if(unread_, [&](const auto& one) { return noted.contains(one.second.path); });
  }
  while (!unread_.empty() && (!path || chunks::path_before(unread_.front().second.path, *path))) {
    if (recorder_) {
      recorder_->add(unread_.front().first, unread_.front().second);
    }
    unread_.pop_front();
  }
}

void ScanMemory::keep(const std::string& snapshot) {
  if (!recorder_) {
    return;
  }
  if (auto kept = recorder_->finish(label(snapshot)); !kept) {
    log("snapshot", LogLevel::warn, "the next snapshot reads every file: {}", kept.error().message);
  }
}

Result<void> remove_scans(EngineServices& services,
                          const std::function<bool(const std::string& tree)>& keep) {
  const std::string folder = scan_folder(services);
  auto names = list_dir(folder);
  if (!names) {
    return names.error().kind == ErrorKind::not_found ? ok() : Result<void>(std::move(names).error());
  }
  for (const std::string& name : *names) {
    // "<tree>", or "<tree>.<random>.tmp" of a writer: one that is at work on a tree that is there goes on.
    if (!keep(name.substr(0, name.find('.')))) {
      ASCOPE_TRY(remove_file(folder + "/" + name));
    }
  }
  return ok();
}

}  // namespace ascope
