// SPDX-License-Identifier: Apache-2.0
#include "core/projection/host_tree.h"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <memory>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/hash.h"

namespace ascope {

namespace {

constexpr std::size_t kMaxGitFileBytes = 64U << 10U;

// A descriptor below `root`, or -1 with errno. Never outside: EXDEV for a link or ".." that would leave.
int open_beneath(int root, const std::string& relative, std::uint64_t flags, std::uint64_t resolve) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve;
  while (true) {
    const long fd = ::syscall(SYS_openat2, root, relative.empty() ? "." : relative.c_str(), &how, sizeof how);
    if (fd >= 0 || (errno != EINTR && errno != EAGAIN)) {
      return static_cast<int>(fd);
    }
  }
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::string join(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

// Decodes one code point of well-formed UTF-8 at `i`.
std::uint32_t code_point(std::string_view text, std::size_t& i) {
  const auto lead = static_cast<unsigned char>(text[i++]);
  if (lead < 0x80) {
    return lead;
  }
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  std::uint32_t value = lead & (0x3FU >> static_cast<unsigned>(more));
  for (int k = 0; k < more; ++k) {
    value = (value << 6U) | (static_cast<unsigned char>(text[i++]) & 0x3FU);
  }
  return value;
}

// Walks one source folder into a HostTree.
class Collector {
 public:
  Collector(std::shared_ptr<HostFolder> folder, std::string prefix, HostTree& tree)
      : folder_(std::move(folder)), prefix_(std::move(prefix)), tree_(tree) {}

  Result<void> include(const std::string& relative) {
    struct stat info{};
    const UniqueFd fd(open_beneath(folder_->fd(), relative, O_PATH | O_NOFOLLOW, RESOLVE_NO_SYMLINKS));
    if (!fd.is_open()) {
      if (errno == ENOENT || errno == ENOTDIR) {
        return ok();
      }
      if (errno == EXDEV || errno == ELOOP) {
        refuse(relative, "lies behind a link");
        return ok();
      }
      return failed(relative, errno);
    }
    if (::fstatat(fd.get(), "", &info, AT_EMPTY_PATH) != 0) {
      return failed(relative, errno);
    }
    ASCOPE_TRY(add(relative, info));
    while (!folders_.empty()) {
      const std::string next = std::move(folders_.back());
      folders_.pop_back();
      ASCOPE_TRY(walk(next));
    }
    return ok();
  }

 private:
  Error failed(const std::string& relative, int errno_value) const {
    return errno_error("reading '" + join(folder_->path(), relative) + "'", errno_value);
  }

  void refuse(const std::string& relative, std::string reason) {
    tree_.refused.push_back({prefix_ + relative, std::move(reason)});
  }

  Result<void> walk(const std::string& relative) {
    UniqueFd fd(open_beneath(folder_->fd(), relative, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS));
    if (!fd.is_open()) {
      if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) {
        return ok();  // gone, or replaced, since its name was read
      }
      if (errno == ENAMETOOLONG) {
        refuse(relative, "the path is too long");
        return ok();
      }
      return failed(relative, errno);
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(fd.get()), &::closedir);
    if (!dir) {
      return failed(relative, errno);
    }
    static_cast<void>(fd.release());
    std::vector<std::string> names;
    while (true) {
      errno = 0;
      const dirent* item = ::readdir(dir.get());
      if (item == nullptr) {
        if (errno != 0) {
          return failed(relative, errno);
        }
        break;
      }
      names.emplace_back(item->d_name);
    }
    std::sort(names.begin(), names.end());
    for (const auto& name : names) {
      struct stat info{};
      if (name == "." || name == "..") {
        continue;
      }
      if (::fstatat(::dirfd(dir.get()), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) {
          continue;
        }
        return failed(join(relative, name), errno);
      }
      ASCOPE_TRY(add(join(relative, name), info));
    }
    return ok();
  }

  Result<void> add(const std::string& relative, const struct stat& info) {
    if (S_ISDIR(info.st_mode)) {
      folders_.push_back(relative);
    } else if (S_ISLNK(info.st_mode)) {
      return add_link(relative);
    } else if (S_ISREG(info.st_mode)) {
      return add_file(relative, info);
    } else {
      refuse(relative, "a special file");
    }
    return ok();
  }

  Result<void> add_link(const std::string& relative) {
    const UniqueFd fd(open_beneath(folder_->fd(), relative, O_PATH, 0));
    struct stat info{};
    if (!fd.is_open()) {
      switch (errno) {
        case EXDEV:
          refuse(relative, "a link that leaves the source");
          return ok();
        case ENOENT:
        case ENOTDIR:
          refuse(relative, "a link to nothing");
          return ok();
        case ELOOP:
          refuse(relative, "a link that leads in a circle");
          return ok();
        default:
          return failed(relative, errno);
      }
    }
    if (::fstatat(fd.get(), "", &info, AT_EMPTY_PATH) != 0) {
      return failed(relative, errno);
    }
    if (!S_ISREG(info.st_mode)) {
      refuse(relative, S_ISDIR(info.st_mode) ? "a link to a folder" : "a link to a special file");
      return ok();
    }
    return add_file(relative, info);
  }

  Result<void> add_file(const std::string& relative, const struct stat& info) {
    const std::string path = prefix_ + relative;
    if (auto checked = check_tree_path(path, false); !checked) {
      refuse(relative, checked.error().message);
      return ok();
    }
    if (path.starts_with(".ascope-") && path.find('/') == std::string::npos) {
      refuse(relative, "a name of ours");
      return ok();
    }
    HostFile file;
    file.folder = folder_;
    file.relative = relative;
    file.mode = (info.st_mode & S_IXUSR) != 0 ? 0755 : 0644;
    file.stat = {static_cast<std::uint64_t>(info.st_size), nanoseconds(info.st_mtim),
                 nanoseconds(info.st_ctim), static_cast<std::uint64_t>(info.st_ino)};
    if ((relative == ".git" || relative.ends_with("/.git")) && file.stat.size_bytes <= kMaxGitFileBytes) {
      ASCOPE_TRY(look_at_git_file(relative));
    }
    tree_.files.insert_or_assign(path, std::move(file));
    return ok();
  }

  // A submodule's or worktree's `.git` is a file that names a folder; where that is not projected, Git will
  // not work inside.
  Result<void> look_at_git_file(const std::string& relative) {
    ASCOPE_TRY_ASSIGN(UniqueFd fd, folder_->open_regular(relative));
    FdSource source(std::move(fd));
    ASCOPE_TRY_ASSIGN(std::string text, read_all(source, kMaxGitFileBytes));
    constexpr std::string_view kKey = "gitdir: ";
    if (!text.starts_with(kKey)) {
      return ok();
    }
    text = text.substr(kKey.size(), text.find('\n') - kKey.size());
    const auto parent = (std::filesystem::path(folder_->path()) / relative).parent_path();
    const std::string target = absolute_path(text, parent.string());
    if (text.starts_with('/') || !(target + "/").starts_with(folder_->path() + "/")) {
      tree_.notes.push_back(
          {prefix_ + relative, "names a Git folder outside the source: Git will not find it"});
    }
    return ok();
  }

  std::shared_ptr<HostFolder> folder_;
  std::string prefix_;
  HostTree& tree_;
  std::vector<std::string> folders_;
};

}  // namespace

Result<std::shared_ptr<HostFolder>> HostFolder::open(const std::string& path) {
  auto fd = open_file(path, O_PATH | O_DIRECTORY);
  if (!fd) {
    if (fd.error().kind == ErrorKind::denied) {
      return std::move(fd).error();
    }
    return make_error(ErrorKind::config, "folder '" + path + "' does not exist or is no folder");
  }
  return std::shared_ptr<HostFolder>(new HostFolder(path, std::move(fd).value()));
}

Result<UniqueFd> HostFolder::open_regular(const std::string& relative) const {
  const std::string name = join(path_, relative);
  const UniqueFd place(open_beneath(fd_.get(), relative, O_PATH, 0));
  if (!place.is_open()) {
    Error error = errno_error("opening '" + name + "'", errno);
    if (errno == ENOENT || errno == ENOTDIR || errno == EXDEV || errno == ELOOP) {
      error.kind = ErrorKind::not_found;
    }
    return error;
  }
  struct stat info{};
  if (::fstatat(place.get(), "", &info, AT_EMPTY_PATH) != 0) {
    return errno_error("looking at '" + name + "'", errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return make_error(ErrorKind::not_found, "'" + name + "' is no regular file");
  }
  return open_file("/proc/self/fd/" + std::to_string(place.get()), O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

Result<void> collect_host_files(const std::shared_ptr<HostFolder>& folder,
                                const std::vector<std::string>& include, const std::string& prefix,
                                HostTree& tree) {
  Collector collector(folder, prefix, tree);
  for (const auto& item : include) {
    if (item.find_first_not_of(" \t") == std::string::npos) {
      continue;
    }
    std::string relative = std::filesystem::path(item).lexically_normal().string();
    while (relative.ends_with('/')) {
      relative.pop_back();
    }
    if (item.front() == '/' || relative == ".." || relative.starts_with("../") ||
        relative.find('\0') != std::string::npos) {
      return make_error(ErrorKind::config,
                        "workspace.projection.include: '" + item + "' leaves the source folder",
                        "name paths relative to workspace.projection.source");
    }
    ASCOPE_TRY(collector.include(relative == "." ? "" : relative));
  }
  return ok();
}

Result<void> hash_host_files(HostTree& tree, StatCache& cache) {
  for (auto it = tree.files.begin(); it != tree.files.end();) {
    auto& [path, file] = *it;
    if (auto known = cache.find(StatCache::Side::host, path, file.stat)) {
      file.sha256 = std::move(*known);
      ++it;
      continue;
    }
    auto fd = file.folder->open_regular(file.relative);
    if (!fd) {
      if (fd.error().kind == ErrorKind::not_found) {
        it = tree.files.erase(it);  // gone since the walk
        continue;
      }
      return std::move(fd).error();
    }
    FdSource source(std::move(fd).value());
    HashingSource hashed(source);
    class Null final : public ByteSink {
     public:
      Result<void> write(ByteView /*data*/) override { return ok(); }
    } null;
    ASCOPE_TRY(copy(hashed, null));
    file.sha256 = hashed.finish_hex();
    if (hashed.size_bytes() == file.stat.size_bytes) {
      cache.put(StatCache::Side::host, path, file.stat, file.sha256);
    }
    file.stat.size_bytes = hashed.size_bytes();
    ++it;
  }
  return ok();
}

bool utf16_less(std::string_view a, std::string_view b) {
  if (!is_utf8(a) || !is_utf8(b)) {
    return a < b;
  }
  // In UTF-16 what lies beyond U+FFFF begins with D800–DBFF and so sorts before U+E000–U+FFFF.
  const auto rank = [](std::uint32_t point) {
    return point >= 0x10000 ? point - 0x10000 + 0xD800 : point >= 0xE000 ? point + 0x200000 : point;
  };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const std::uint32_t x = rank(code_point(a, i));
    const std::uint32_t y = rank(code_point(b, j));
    if (x != y) {
      return x < y;
    }
  }
  return i == a.size() && j < b.size();
}

Result<std::string> projection_hash(const HostTree& tree, StatCache& cache) {
  std::vector<const std::pair<const std::string, HostFile>*> files;
  Sha256 list;
  for (const auto& item : tree.files) {
    files.push_back(&item);
    list.update(item.first);
    list.update(std::string_view("\0", 1));
    list.update(item.second.sha256);
  }
  const std::string list_digest = list.finish_hex();
  if (auto known = cache.find_source(list_digest)) {
    return *known;
  }
  std::sort(files.begin(), files.end(),
            [](const auto* a, const auto* b) { return utf16_less(a->first, b->first); });
  Sha256 hash;
  class Feed final : public ByteSink {
   public:
    explicit Feed(Sha256& to) : to_(to) {}
    Result<void> write(ByteView data) override {
      to_.update(data);
      return ok();
    }

   private:
    Sha256& to_;
  } feed(hash);
  bool stable = true;
  for (const auto* item : files) {
    hash.update(item->first);
    hash.update(std::string_view("\0", 1));
    ASCOPE_TRY_ASSIGN(UniqueFd fd, item->second.folder->open_regular(item->second.relative));
    FdSource source(std::move(fd));
    HashingSource hashed(source);
    ASCOPE_TRY(copy(hashed, feed));
    stable = hashed.finish_hex() == item->second.sha256 && stable;
  }
  const std::string result = hash.finish_hex();
  if (stable) {
    cache.put_source(list_digest, result);
  }
  return result;
}

}  // namespace ascope
