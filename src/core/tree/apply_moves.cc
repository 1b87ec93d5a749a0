// SPDX-License-Identifier: Apache-2.0
#include "core/tree/apply_moves.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ascope {

namespace {

class Moves {
 public:
  Moves(const ApplyOptions& options, const Admission& admission, FolderCache& folders, const Attempt& attempt,
        ApplyReport& report)
      : options_(options), admission_(admission), folders_(folders), attempt_(attempt), report_(report) {}

  Result<void> run() {
    for (const auto& path : options_.remove) {
      ASCOPE_TRY(check_tree_path(path, false));
    }
    for (const auto& [from, to] : options_.rename) {
      ASCOPE_TRY(check_tree_path(from, false));
      ASCOPE_TRY(check_tree_path(to, false));
    }
    for (const auto& path : options_.remove) {
      ASCOPE_TRY(remove(path));
    }
    for (const auto& [from, to] : options_.rename) {
      if (!options_.dry_run) {
        ASCOPE_TRY(rename(from, to));
      }
    }
    folders_.clear();
    return ok();
  }

 private:
  // False if nothing is there: its folder is missing, or behind a link, or no folder.
  Result<bool> look(const std::string& path, struct stat& info) {
    const std::string parent(parent_path(path));
    const int folder = folders_.folder(parent);
    if (folder == -ENOENT || folder == -ENOTDIR || folder == -ELOOP) {
      return false;
    }
    if (folder < 0 && folder != -EACCES) {
      return errno_error("opening '" + parent + "'", -folder);
    }
    bool missing = false;
    ASCOPE_TRY(attempt_(parent, "looking into", [&] {
      const int fd = folders_.folder(parent);
      const int status = fd < 0 ? -1 : ::fstatat(fd, last_part(path).c_str(), &info, AT_SYMLINK_NOFOLLOW);
      missing = status != 0 && fd >= 0 && errno == ENOENT;
      if (fd < 0) {
        errno = -fd;
      }
      return missing ? 0 : status;
    }));
    return !missing;
  }

  Result<void> remove(const std::string& path) {
    struct stat info{};
    if (admission_.is_skipped(path)) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const bool there, look(path, info));
    if (!there) {
      return ok();
    }
    const bool is_folder = S_ISDIR(info.st_mode);
    bool left = false;
    if (!options_.dry_run) {
      const std::string parent(parent_path(path));
      ASCOPE_TRY(attempt_(parent, "removing '" + path + "' from", [&] {
        const int status =
            ::unlinkat(folders_.folder(parent), last_part(path).c_str(), is_folder ? AT_REMOVEDIR : 0);
        left = status != 0 && is_folder && (errno == ENOTEMPTY || errno == EEXIST || errno == EBUSY);
        return left || (status != 0 && errno == ENOENT) ? 0 : status;
      }));
    }
    if (is_folder) {
      folders_.clear();
    }
    if (!left) {
      ++report_.removed;
      if (options_.dry_run) {
        report_.changes.emplace_back('D', path);
      }
    }
    return ok();
  }

  Result<void> rename(const std::string& from, const std::string& to) {
    struct stat info{};
    if (admission_.is_skipped(from) || admission_.is_skipped(to)) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const bool there, look(from, info));
    if (!there) {
      return ok();
    }
    const std::string old_parent(parent_path(from));
    const std::string new_parent(parent_path(to));
    FolderCache targets = FolderCache(folders_.root());
    bool taken = false;
    ASCOPE_TRY(attempt_(new_parent, "moving '" + from + "' into", [&] {
      const int target = targets.folder(new_parent);
      if (target < 0) {
        errno = -target;
        return -1;
      }
      const int status = ::renameat2(folders_.folder(old_parent), last_part(from).c_str(), target,
                                     last_part(to).c_str(), RENAME_NOREPLACE);
      taken = status != 0 && errno == EEXIST;
      return taken ? 0 : status;
    }));
    folders_.clear();
    return taken ? Result<void>(make_error(ErrorKind::conflict, "'" + to + "' is there already")) : ok();
  }

  const ApplyOptions& options_;
  const Admission& admission_;
  FolderCache& folders_;
  const Attempt& attempt_;
  ApplyReport& report_;
};

}  // namespace

Result<void> apply_moves(const ApplyOptions& options, const Admission& admission, FolderCache& folders,
                         const Attempt& attempt, ApplyReport& report) {
  return Moves(options, admission, folders, attempt, report).run();
}

}  // namespace ascope
