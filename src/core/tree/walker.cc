// SPDX-License-Identifier: Apache-2.0
#include "core/tree/walker.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <unordered_set>

#include "core/tree/beneath.h"
#include "core/tree/file_reader.h"
#include "core/tree/notes.h"
#include "core/tree/xattrs.h"

namespace ascope {

namespace {

constexpr std::uint32_t kIdRange = 65536;
constexpr std::uint32_t kNobody = 65534;

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// The part of `path` before its next slash behind `begin`.
std::string component(std::string_view path, std::size_t begin) {
  return std::string(path.substr(begin, path.find('/', begin) - begin));
}

class DiskWalker final : public TreeWalker {
 public:
  DiskWalker(UniqueFd root, WalkOptions options)
      : root_(std::move(root)),
        options_(std::move(options)),
        skip_(options_.skip_paths.begin(), options_.skip_paths.end()),
        descent_(root_.get()) {
    std::sort(options_.start.begin(), options_.start.end());
  }

  Result<bool> next(TreeEntry& entry) override;
  Result<std::optional<DataBlock>> read() override { return file_.read(); }
  [[nodiscard]] const std::vector<TreeNote>& notes() const override { return notes_.all(); }

 private:
  Result<bool> start(TreeEntry& entry);
  // Looks at path(); true if `entry` is to be yielded.
  Result<bool> visit(const char* name, TreeEntry& entry);
  bool may_yield(const char* name, const Opened& opened);
  Result<bool> fill(UniqueFd fd, const struct stat& info, TreeEntry& entry);
  Result<bool> fill_file(UniqueFd fd, const struct stat& info, TreeEntry& entry);
  Result<bool> fill_link(int fd, TreeEntry& entry);
  Result<void> enter(UniqueFd fd, const struct stat& info, TreeEntry& entry);
  bool is_known_inode(const struct stat& info, TreeEntry& entry);
  void fill_ids(const struct stat& info, TreeEntry& entry);
  void add_xattrs(Result<XattrList> found, bool lists, TreeEntry& entry);
  // True if the name is a regular file of this mount, described by `info`; not opened.
  bool is_plain_file(const char* name, struct stat& info) const;
  // True while path() only leads to a start path.
  [[nodiscard]] bool leads_to_start() const;
  [[nodiscard]] bool is_start(std::string_view path) const;
  [[nodiscard]] std::vector<std::string> start_names() const;
  void finish_file();
  void note(std::string what) { notes_.add(descent_.path(), std::move(what)); }

  struct Links {
    std::string path;
    std::uint64_t left = 0;
  };

  UniqueFd root_;
  WalkOptions options_;
  std::unordered_set<std::string> skip_;
  Descent descent_;
  FileReader file_;
  std::string file_path_;
  NoteList notes_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Links> linked_;
  bool started_ = false;
  bool foreign_id_noted_ = false;
};

Result<bool> DiskWalker::next(TreeEntry& entry) {
  finish_file();
  if (!started_) {
    started_ = true;
    ASCOPE_TRY_ASSIGN(const bool yields, start(entry));
    if (yields) {
      return true;
    }
  }
  while (!descent_.empty()) {
    Descent::Level& level = descent_.level();
    if (level.next == level.names.size()) {
      if (!descent_.leave()) {
        note("moved away while it was read; what it held may be missing");
      }
      continue;
    }
    const char* name = level.names.at(level.next++);
    descent_.child(name);
    ASCOPE_TRY_ASSIGN(const bool yields, visit(name, entry));
    if (yields) {
      return true;
    }
  }
  return false;
}

Result<bool> DiskWalker::start(TreeEntry& entry) {
  struct stat info{};
  Opened top = open_beneath(root_.get(), "", O_PATH | O_DIRECTORY);
  if (top.error != 0 || ::fstat(top.fd.get(), &info) != 0) {
    return errno_error("opening the root of a tree", top.error != 0 ? top.error : errno);
  }
  ASCOPE_TRY_ASSIGN(const bool filled, fill(std::move(top.fd), info, entry));
  if (!filled) {
    return make_error(ErrorKind::denied, "the root of the tree cannot be read");
  }
  return options_.include_root;
}

// No start, and below none.
bool DiskWalker::leads_to_start() const {
  if (options_.start.empty()) {
    return false;
  }
  for (std::string_view path = descent_.path();; path = path.substr(0, path.rfind('/'))) {
    if (is_start(path)) {
      return false;
    }
    if (path.find('/') == std::string_view::npos) {
      return !is_start("");
    }
  }
}

bool DiskWalker::is_start(std::string_view path) const {
  return std::binary_search(options_.start.begin(), options_.start.end(), path);
}

std::vector<std::string> DiskWalker::start_names() const {
  const std::string prefix = descent_.path().empty() ? "" : descent_.path() + "/";
  std::vector<std::string> names;
  for (auto at = std::lower_bound(options_.start.begin(), options_.start.end(), prefix);
       at != options_.start.end() && at->starts_with(prefix); ++at) {
    names.push_back(component(*at, prefix.size()));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<bool> DiskWalker::visit(const char* name, TreeEntry& entry) {
  if (!skip_.empty() && skip_.contains(descent_.path())) {
    return false;
  }
  if (!check_tree_path(descent_.path(), false)) {
    note("path longer than 64 KiB, left out");
    return false;
  }
  const bool from_start = descent_.level().flag;
  if (struct stat plain{}; !options_.file_xattrs && !from_start && is_plain_file(name, plain)) {
    return exclude_matches(options_.exclude, descent_.path(), false) ? Result<bool>(false)
                                                                     : fill(UniqueFd(), plain, entry);
  }
  Opened opened = open_beneath(descent_.level().fd.get(), name, O_PATH);
  if (opened.error == ENOENT && from_start) {
    if (options_.start_may_vanish) {
      return false;
    }
    return make_error(ErrorKind::not_found, "'" + descent_.path() + "' does not exist");
  }
  if (opened.error == ENOENT || opened.error == EXDEV) {
    note(opened.error == ENOENT ? "vanished while the folder was read" : "another file system, left out");
    return false;
  }
  struct stat info{};
  if (opened.error != 0 || ::fstat(opened.fd.get(), &info) != 0) {
    return errno_error("looking at '" + descent_.path() + "'", opened.error != 0 ? opened.error : errno);
  }
  if (from_start && leads_to_start() && !S_ISDIR(info.st_mode)) {
    if (options_.start_may_vanish) {
      return false;
    }
    return make_error(ErrorKind::not_found, "'" + descent_.path() + "' is not a folder");
  }
  if (!options_.exclude.empty() &&
      exclude_matches(options_.exclude, descent_.path(), S_ISDIR(info.st_mode))) {
    return false;
  }
  return fill(std::move(opened.fd), info, entry);
}

bool DiskWalker::is_plain_file(const char* name, struct stat& info) const {
  struct statx seen{};
  if (::statx(descent_.level().fd.get(), name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS,
              &seen) != 0 ||
      !S_ISREG(seen.stx_mode) || (seen.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0 ||
      (seen.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
    return false;
  }
  const auto time = [](const statx_timestamp& from) { return timespec{from.tv_sec, from.tv_nsec}; };
  info.st_mode = seen.stx_mode;
  info.st_nlink = seen.stx_nlink;
  info.st_uid = seen.stx_uid;
  info.st_gid = seen.stx_gid;
  info.st_dev = ::makedev(seen.stx_dev_major, seen.stx_dev_minor);
  info.st_ino = seen.stx_ino;
  info.st_size = static_cast<off_t>(seen.stx_size);
  info.st_mtim = time(seen.stx_mtime);
  info.st_ctim = time(seen.stx_ctime);
  return true;
}

void DiskWalker::fill_ids(const struct stat& info, TreeEntry& entry) {
  const auto inside = [&](std::uint32_t id, const auto& from, const auto& to) {
    if (from && to && id == *from) {
      return *to;
    }
    if (options_.id_base == 0) {
      return id;
    }
    if (id >= options_.id_base && id - options_.id_base < kIdRange) {
      return id - options_.id_base;
    }
    if (!foreign_id_noted_) {
      foreign_id_noted_ = true;
      note("owner " + std::to_string(id) +
           " is not of this sandbox's ids (and perhaps others); kept as 65534");
    }
    return kNobody;
  };
  entry.uid = inside(info.st_uid, options_.map_from_uid, options_.map_to_uid);
  entry.gid = inside(info.st_gid, options_.map_from_gid, options_.map_to_gid);
}

Result<bool> DiskWalker::fill(UniqueFd fd, const struct stat& info, TreeEntry& entry) {
  entry = TreeEntry{};
  entry.path = descent_.path();
  entry.mode = info.st_mode & 07777U;
  entry.mtime_ns = nanoseconds(info.st_mtim);
  entry.ctime_ns = nanoseconds(info.st_ctim);
  entry.inode = info.st_ino;
  fill_ids(info, entry);
  if (S_ISSOCK(info.st_mode)) {
    note("socket skipped");
    return false;
  }
  if (info.st_nlink > 1 && !S_ISDIR(info.st_mode) && is_known_inode(info, entry)) {
    return true;
  }
  switch (info.st_mode & S_IFMT) {
    case S_IFREG:
      return fill_file(std::move(fd), info, entry);
    case S_IFDIR:
      entry.type = EntryType::directory;
      ASCOPE_TRY(enter(std::move(fd), info, entry));
      return true;
    case S_IFLNK:
      return fill_link(fd.get(), entry);
    case S_IFIFO:
      entry.type = EntryType::fifo;
      return true;
    default:
      entry.type = S_ISBLK(info.st_mode) ? EntryType::block_device : EntryType::char_device;
      entry.device = info.st_rdev;
      return true;
  }
}

bool DiskWalker::is_known_inode(const struct stat& info, TreeEntry& entry) {
  const auto [found, is_new] = linked_.try_emplace({info.st_dev, info.st_ino});
  if (is_new) {
    found->second = {descent_.path(), info.st_nlink - 1};
    return false;
  }
  entry.type = EntryType::hardlink;
  entry.link_target = found->second.path;
  if (--found->second.left == 0) {
    linked_.erase(found);
  }
  return true;
}

Result<bool> DiskWalker::fill_file(UniqueFd fd, const struct stat& info, TreeEntry& entry) {
  entry.type = EntryType::file;
  entry.size_bytes = static_cast<std::uint64_t>(info.st_size);
  bool lists = false;
  if (info.st_size == 0 || options_.metadata_only) {
    if (options_.file_xattrs) {
      Result<XattrList> found = read_xattrs(proc_path(fd.get()), &lists);
      add_xattrs(std::move(found), lists, entry);
    }
    return true;
  }
  Result<void> opened = file_.open(fd.get(), info, entry);
  if (!opened) {
    note(std::move(opened).error().message + "; left out");
    linked_.erase({info.st_dev, info.st_ino});
    return false;
  }
  Result<XattrList> found = read_xattrs(file_.descriptor(), &lists);
  add_xattrs(std::move(found), lists, entry);
  file_path_ = descent_.path();
  return true;
}

Result<bool> DiskWalker::fill_link(int fd, TreeEntry& entry) {
  entry.type = EntryType::symlink;
  char target[4097];
  const ssize_t count = ::readlinkat(fd, "", target, sizeof target);
  if (count < 0) {
    return errno_error("reading the link '" + entry.path + "'", errno);
  }
  entry.link_target.assign(target, static_cast<std::size_t>(count));
  return true;
}

void DiskWalker::add_xattrs(Result<XattrList> found, bool lists, TreeEntry& entry) {
  if (!found) {
    note("extended attributes not kept: " + found.error().message);
    return;
  }
  if (lists) {
    note("access control list not kept");
  }
  entry.xattrs = std::move(*found);
}

Result<void> DiskWalker::enter(UniqueFd fd, const struct stat& info, TreeEntry& entry) {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  const std::string place = proc_path(fd.get());
  int restore_mode = -1;
  UniqueFd readable(::open(place.c_str(), flags));
  // An owner without rights of root cannot look into a folder of mode 000: it is opened up while we are in
  // it.
  if ((info.st_mode & 0500U) != 0500U && ::geteuid() != 0 && info.st_uid == ::geteuid() &&
      ::chmod(place.c_str(), (info.st_mode & 07777U) | 0500U) == 0) {
    restore_mode = static_cast<int>(info.st_mode & 07777U);
    readable = UniqueFd(::open(place.c_str(), flags));
  }
  bool lists = false;
  Result<XattrList> found =
      readable.is_open() ? read_xattrs(readable.get(), &lists) : read_xattrs(place, &lists);
  add_xattrs(std::move(found), lists, entry);
  NameList names;
  const bool only_leads = leads_to_start();
  if (only_leads) {
    names.assign(start_names());
  } else if (!readable.is_open()) {
    note(std::string("folder cannot be read, what it holds is left out: ") + std::strerror(errno));
    return ok();
  } else {
    ASCOPE_TRY(names.read(readable.get()));
  }
  ASCOPE_TRY(descent_.enter(readable.is_open() ? std::move(readable) : std::move(fd), std::move(names)));
  descent_.level().restore_mode = restore_mode;
  descent_.level().flag = only_leads;
  return ok();
}

void DiskWalker::finish_file() {
  if (file_.close()) {
    notes_.add(file_path_, "changed while it was read");
  }
}

}  // namespace

Result<std::unique_ptr<TreeWalker>> walk_tree(UniqueFd root, WalkOptions options) {
  for (const std::string& path : options.start) {
    ASCOPE_TRY(check_tree_path(path, true));
  }
  return std::unique_ptr<TreeWalker>(std::make_unique<DiskWalker>(std::move(root), std::move(options)));
}

}  // namespace ascope
