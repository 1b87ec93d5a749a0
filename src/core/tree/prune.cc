// SPDX-License-Identifier: Apache-2.0
#include "core/tree/prune.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "core/tree/applier.h"
#include "core/tree/beneath.h"

namespace ascope {

namespace {

// The last part of a path.
const char* base_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return path.c_str() + (slash == std::string::npos ? 0 : slash + 1);
}

class Pruner {
 public:
  Pruner(int root, const PruneOptions& options, NoteList& notes)
      : root_(root), options_(options), notes_(notes), descent_(root) {}

  Result<void> run() {
    ASCOPE_TRY(enter(open_beneath(root_, "", O_PATH | O_DIRECTORY), false));
    while (!descent_.empty()) {
      Descent::Level& level = descent_.level();
      if (level.next == level.names.size()) {
        ASCOPE_TRY(leave());
        continue;
      }
      const char* name = level.names.at(level.next++);
      descent_.child(name);
      ASCOPE_TRY(visit(level.fd.get(), name));
    }
    return ok();
  }

 private:
  Error failed(std::string_view what, int error) {
    return errno_error(std::string(what) + " '" + descent_.path() + "'", error);
  }

  Result<void> visit(int dir, const char* name) {
    struct stat info{};
    if (::fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno == ENOENT ? ok() : Result<void>(failed("looking at", errno));
    }
    const Verdict verdict = options_.decide(descent_.path(), info);
    if (verdict == Verdict::keep_whole) {
      return ok();
    }
    if (S_ISDIR(info.st_mode)) {
      return enter(open_beneath(dir, name, O_PATH | O_DIRECTORY), verdict == Verdict::remove);
    }
    return verdict == Verdict::remove ? unlink(dir, name, 0) : ok();
  }

  Result<void> unlink(int dir, const char* name, int flags) {
    if (!options_.dry_run && ::unlinkat(dir, name, flags) != 0) {
      if (errno == EBUSY) {
        notes_.add(descent_.path(), "a mount, left alone");
        return ok();
      }
      if ((errno == ENOTEMPTY || errno == EEXIST) && flags == AT_REMOVEDIR) {
        return ok();  // something below it was to be kept
      }
      return errno == ENOENT ? ok() : Result<void>(failed("removing", errno));
    }
    if (options_.removed) {
      options_.removed(descent_.path());
    }
    return ok();
  }

  Result<void> enter(Opened opened, bool remove) {
    if (opened.error == EXDEV) {
      notes_.add(descent_.path(), "another file system, left alone");
      return ok();
    }
    struct stat info{};
    if (opened.error != 0 || ::fstat(opened.fd.get(), &info) != 0) {
      return opened.error == ENOENT ? ok() : Result<void>(failed("opening", opened.error));
    }
    const std::string place = proc_path(opened.fd.get());
    int restore_mode = -1;
    if (!options_.dry_run && ::geteuid() != 0 && (info.st_mode & 0700U) != 0700U &&
        ::chmod(place.c_str(), (info.st_mode & 07777U) | 0700U) == 0 && !remove) {
      restore_mode = static_cast<int>(info.st_mode & 07777U);
    }
    UniqueFd readable(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!readable.is_open()) {
      if (options_.dry_run && errno == EACCES) {
        notes_.add(descent_.path(), "folder cannot be read");
        return remove ? unlink(-1, "", AT_REMOVEDIR) : ok();
      }
      return failed("opening", errno);
    }
    NameList names;
    ASCOPE_TRY(names.read(readable.get()));
    ASCOPE_TRY(descent_.enter(std::move(readable), std::move(names)));
    descent_.level().restore_mode = restore_mode;
    descent_.level().flag = remove;
    return ok();
  }

  Result<void> leave() {
    const bool remove = descent_.level().flag;
    if (!descent_.leave()) {
      return make_error(ErrorKind::conflict,
                        "'" + descent_.path() + "' was moved away while it was being removed");
    }
    return remove ? unlink(descent_.level().fd.get(), base_name(descent_.path()), AT_REMOVEDIR) : ok();
  }

  int root_;
  const PruneOptions& options_;
  NoteList& notes_;
  Descent descent_;
};

}  // namespace

Result<void> prune_tree(int root, const PruneOptions& options, NoteList& notes) {
  return Pruner(root, options, notes).run();
}

Result<void> remove_whole(int parent, const std::string& name) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) {
    return ok();
  }
  if (errno != EISDIR && errno != EPERM) {
    return errno_error("removing '" + name + "'", errno);
  }
  Opened opened = open_beneath(parent, name, O_PATH | O_DIRECTORY);
  if (opened.error != 0) {
    return errno_error("opening '" + name + "'", opened.error);
  }
  PruneOptions all;
  all.decide = [](const std::string& /*path*/, const struct stat& /*info*/) { return Verdict::remove; };
  NoteList notes;
  ASCOPE_TRY(prune_tree(opened.fd.get(), all, notes));
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0) {
    const ErrorKind kind = errno == EBUSY || errno == ENOTEMPTY ? ErrorKind::busy : ErrorKind::io;
    return make_error(kind, "folder '" + name + "' cannot be removed" +
                                (kind == ErrorKind::busy ? ": something is mounted in it" : ""));
  }
  return ok();
}

Result<void> remove_tree_contents(UniqueFd root, const std::vector<std::string>& keep) {
  PruneOptions options;
  options.decide = [&keep](const std::string& path, const struct stat& /*info*/) {
    return std::find(keep.begin(), keep.end(), path) == keep.end() ? Verdict::remove : Verdict::keep_whole;
  };
  NoteList notes;
  ASCOPE_TRY(prune_tree(root.get(), options, notes));
  if (!notes.all().empty()) {
    return make_error(ErrorKind::busy,
                      "'" + notes.all()[0].path + "' could not be removed: " + notes.all()[0].what);
  }
  return ok();
}

}  // namespace ascope
