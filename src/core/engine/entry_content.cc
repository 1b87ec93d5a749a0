// SPDX-License-Identifier: Apache-2.0
#include "core/engine/entry_content.h"

#include <chrono>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/projection/host_tree.h"
#include "core/tree/walker.h"

namespace ascope {

namespace {

Error entry_error(const WorkspaceEntry& entry, const std::string& what) {
  return make_error(ErrorKind::config, "workspace.entries: '" + entry.path + "': " + what,
                    "correct the entry in the profile");
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Fields one after another, each with its length, so that no two lists look the same.
std::string digest_fields(std::initializer_list<std::string_view> fields) {
  Sha256 hash;
  for (const auto field : fields) {
    hash.update(std::to_string(field.size()) + ":");
    hash.update(field);
  }
  return hash.finish_hex();
}

std::string mode_text(const WorkspaceEntry& entry) {
  return entry.mode ? std::to_string(*entry.mode) : "";
}

TreeItem make_item(std::string path, EntryType type, std::uint32_t mode) {
  TreeItem item;
  item.entry.path = std::move(path);
  item.entry.type = type;
  item.entry.mode = mode;
  item.entry.mtime_ns = now_ns();
  return item;
}

class NullSink final : public ByteSink {
 public:
  Result<void> write(ByteView /*data*/) override { return ok(); }
};

Result<std::string> hash_fd(UniqueFd fd) {
  FdSource source(std::move(fd));
  HashingSource hashed(source);
  NullSink null;
  ASCOPE_TRY(copy(hashed, null));
  return hashed.finish_hex();
}

Result<UniqueFd> open_local_file(const WorkspaceEntry& entry, struct stat& info) {
  auto fd = open_file(entry.source, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!fd) {
    return fd.error().kind == ErrorKind::not_found
               ? entry_error(entry, "file '" + entry.source + "' does not exist")
               : std::move(fd).error();
  }
  if (::fstat(fd->get(), &info) != 0) {
    return errno_error("looking at '" + entry.source + "'", errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return entry_error(entry, "'" + entry.source + "' is no regular file");
  }
  return fd;
}

FileStat file_stat(const struct stat& info) {
  const auto ns = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {static_cast<std::uint64_t>(info.st_size), ns(info.st_mtim), ns(info.st_ctim),
          static_cast<std::uint64_t>(info.st_ino)};
}

Result<void> read_local_file(const WorkspaceEntry& entry, StatCache& cache, EntryContent& out) {
  struct stat info{};
  ASCOPE_TRY_ASSIGN(UniqueFd fd, open_local_file(entry, info));
  const FileStat stat = file_stat(info);
  std::string sha256;
  if (auto known = cache.find(StatCache::Side::host, entry.source, stat)) {
    sha256 = std::move(*known);
  } else {
    ASCOPE_TRY_ASSIGN(sha256, hash_fd(std::move(fd)));
    cache.put(StatCache::Side::host, entry.source, stat, sha256);
  }
  const std::uint32_t mode = entry.mode.value_or((info.st_mode & S_IXUSR) != 0 ? 0755 : 0644);
  TreeItem item = make_item(entry.path, EntryType::file, mode);
  item.entry.size_bytes = stat.size_bytes;
  item.sha256 = sha256;
  item.open = [entry]() -> Result<UniqueFd> {
    struct stat ignored{};
    return open_local_file(entry, ignored);
  };
  out.declared = digest_fields({"local_file", mode_text(entry), std::to_string(mode & 0100U), sha256});
  ContentDigest digest;
  digest.add("", EntryType::file, (mode & 0100U) != 0, sha256);
  out.content = digest.finish();
  out.items.push_back(std::move(item));
  return ok();
}

// One entry of a host folder as an item; nothing for what is neither file, folder nor link.
Result<void> add_tree_entry(const WorkspaceEntry& entry, const TreeEntry& found,
                            const std::shared_ptr<HostFolder>& folder, StatCache& cache,
                            ContentDigest& digest, EntryContent& out) {
  const std::string path = found.path.empty() ? entry.path : entry.path + "/" + found.path;
  ASCOPE_TRY(check_tree_path(path, false));
  const bool executable = (found.mode & 0100U) != 0;
  switch (found.type) {
    case EntryType::directory:
      digest.add(found.path, found.type, false, "");
      out.items.push_back(make_item(path, EntryType::directory, 0755));
      return ok();
    case EntryType::symlink: {
      digest.add(found.path, found.type, false, found.link_target);
      TreeItem item = make_item(path, EntryType::symlink, 0777);
      item.entry.link_target = found.link_target;
      out.items.push_back(std::move(item));
      return ok();
    }
    case EntryType::file:
    case EntryType::hardlink:
      break;
    default:
      out.notes.push_back({path, "special file left out"});
      return ok();
  }
  ASCOPE_TRY_ASSIGN(UniqueFd fd, folder->open_regular(found.path));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return errno_error("looking at '" + folder->path() + "/" + found.path + "'", errno);
  }
  const FileStat stat = file_stat(info);
  const std::string key = folder->path() + "/" + found.path;
  TreeItem item = make_item(path, EntryType::file, executable ? 0755 : 0644);
  if (auto known = cache.find(StatCache::Side::host, key, stat)) {
    item.sha256 = std::move(*known);
  } else {
    ASCOPE_TRY_ASSIGN(item.sha256, hash_fd(std::move(fd)));
    cache.put(StatCache::Side::host, key, stat, item.sha256);
  }
  item.entry.size_bytes = stat.size_bytes;
  item.open = [folder, relative = found.path] { return folder->open_regular(relative); };
  digest.add(found.path, EntryType::file, executable, item.sha256);
  out.items.push_back(std::move(item));
  return ok();
}

}  // namespace

void ContentDigest::add(const std::string& path, EntryType type, bool executable, const std::string& value) {
  if (is_ignored(path)) {
    return;
  }
  char letter = 'o';
  switch (type) {
    case EntryType::file:
    case EntryType::hardlink:
      letter = executable ? 'x' : 'f';
      break;
    case EntryType::directory:
      letter = 'd';
      break;
    case EntryType::symlink:
      letter = 'l';
      break;
    default:
      break;
  }
  rows_[path] = {letter, value};
}

std::string ContentDigest::finish() const {
  Sha256 hash;
  for (const auto& [path, row] : rows_) {
    hash.update(std::string(1, row.type) + std::to_string(path.size()) + ":" + path +
                std::to_string(row.value.size()) + ":" + row.value);
  }
  return hash.finish_hex();
}

std::string ContentDigest::file_sha256(const std::string& path) const {
  const auto it = rows_.find(path);
  return it == rows_.end() || (it->second.type != 'f' && it->second.type != 'x') ? "" : it->second.value;
}

Result<void> add_folder(const WorkspaceEntry& entry, const std::string& folder, StatCache& cache,
                        EntryContent& content) {
  auto opened = HostFolder::open(folder);
  if (!opened) {
    return opened.error().kind == ErrorKind::config
               ? entry_error(entry, "folder '" + folder + "' does not exist or is no folder")
               : std::move(opened).error();
  }
  ASCOPE_TRY_ASSIGN(UniqueFd root, open_file(folder, O_RDONLY | O_DIRECTORY));
  ASCOPE_TRY_ASSIGN(const auto walker, walk_tree(std::move(root), WalkOptions{}));
  ContentDigest digest;
  TreeEntry found;
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool more, walker->next(found));
    if (!more) {
      break;
    }
    auto added = add_tree_entry(entry, found, *opened, cache, digest, content);
    if (!added) {
      return std::move(added).error().within("workspace.entries: '" + entry.path + "'");
    }
  }
  content.notes.insert(content.notes.end(), walker->notes().begin(), walker->notes().end());
  content.content = digest.finish();
  return ok();
}

Result<EntryContent> read_entry(const WorkspaceEntry& entry, StatCache& cache) {
  EntryContent out;
  ContentDigest digest;
  switch (entry.kind) {
    case EntryKind::file: {
      const std::uint32_t mode = entry.mode.value_or(0644);
      const std::string sha256 = sha256_hex(entry.content);
      out.declared = digest_fields({"file", mode_text(entry), sha256});
      digest.add("", EntryType::file, (mode & 0100U) != 0, sha256);
      out.content = digest.finish();
      out.items.push_back(make_item(entry.path, EntryType::file, mode));
      out.items.back().content = entry.content;
      out.items.back().entry.size_bytes = entry.content.size();
      break;
    }
    case EntryKind::dir:
      out.declared = digest_fields({"dir", mode_text(entry)});
      digest.add("", EntryType::directory, false, "");
      out.content = digest.finish();
      out.items.push_back(make_item(entry.path, EntryType::directory, entry.mode.value_or(0755)));
      break;
    case EntryKind::local_file:
      ASCOPE_TRY(read_local_file(entry, cache, out));
      break;
    case EntryKind::local_dir:
      ASCOPE_TRY(add_folder(entry, entry.source, cache, out));
      out.declared = digest_fields({"local_dir", out.content});
      break;
    case EntryKind::git_repo:
      out.declared = digest_fields({"git_repo", entry.url, entry.ref});
      break;
    case EntryKind::bind_mount:
      break;
  }
  return out;
}

}  // namespace ascope
