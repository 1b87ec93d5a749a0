// SPDX-License-Identifier: Apache-2.0
#include "core/tree/apply_place.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/tree/beneath.h"
#include "core/tree/prune.h"

namespace ascope {

void Placer::give_up() {
  for (auto at = lifted_.rbegin(); at != lifted_.rend(); ++at) {
    const Opened opened = open_beneath(state_.root, at->first, O_PATH | O_DIRECTORY);
    if (opened.error == 0) {
      ::chmod(proc_path(opened.fd.get()).c_str(), at->second);
    }
  }
}

Result<void> Placer::attempt(const std::string& path, std::string_view what,
                             const std::function<int()>& call) {
  if (call() == 0) {
    return ok();
  }
  if (errno == EACCES && ::geteuid() != 0) {
    ASCOPE_TRY(lift(path));
    if (call() == 0) {
      return ok();
    }
  }
  return errno_error(std::string(what) + " '" + path + "'", errno);
}

Result<void> Placer::lift(const std::string& path) {
  folders_.clear();
  std::size_t end = 0;
  while (true) {
    const std::string part = path.substr(0, end);
    const Opened opened = open_beneath(state_.root, part, O_PATH | O_DIRECTORY);
    struct stat info{};
    if (opened.error != 0 || ::fstat(opened.fd.get(), &info) != 0) {
      return errno_error("opening '" + part + "'", opened.error != 0 ? opened.error : errno);
    }
    if ((info.st_mode & 0700U) != 0700U) {
      if (::chmod(proc_path(opened.fd.get()).c_str(), (info.st_mode & 07777U) | 0700U) != 0) {
        return errno_error("opening up '" + part + "'", errno);
      }
      if (part.empty() || state_.admission.mark_of(part) != mark::kFolder) {
        lifted_.emplace_back(part, info.st_mode & 07777U);
      }
    }
    if (end == path.size()) {
      return ok();
    }
    end = std::min(path.find('/', end + 1), path.size());
  }
}

Result<int> Placer::folder_for(const std::string& path) {
  const std::string parent(parent_path(path));
  int fd = folders_.folder(parent);
  if (fd == -EACCES && ::geteuid() != 0) {
    ASCOPE_TRY(lift(std::string(parent_path(parent))));
    fd = folders_.folder(parent);
  }
  if (fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR) {
    ASCOPE_TRY(make_folder(parent));
    fd = folders_.folder(parent);
  }
  if (fd < 0) {
    return errno_error("opening '" + parent + "'", -fd);
  }
  return fd;
}

Result<void> Placer::make_folder(const std::string& path) {
  if (path.empty()) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(const int parent, folder_for(path));
  const std::string name = last_part(path);
  struct stat info{};
  if (::fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return ok();
    }
    ASCOPE_TRY(attempt(std::string(parent_path(path)), "replacing what is in",
                       [&] { return ::unlinkat(folders_.folder(parent_path(path)), name.c_str(), 0); }));
  }
  const bool named = state_.admission.mark_of(path) == mark::kFolder;
  ASCOPE_TRY(attempt(std::string(parent_path(path)), "making a folder in", [&] {
    return ::mkdirat(folders_.folder(parent_path(path)), name.c_str(), named ? kNewFolder : kImplicitFolder);
  }));
  if (!named && state_.options.set_owner && state_.options.id_base != 0 &&
      ::fchownat(folders_.folder(parent_path(path)), name.c_str(), state_.options.id_base,
                 state_.options.id_base, AT_SYMLINK_NOFOLLOW) != 0) {
    state_.admission.count_owner_not_set();
  }
  return ok();
}

Result<void> Placer::put_in_place(const std::string& stage_name, const std::string& path) {
  ASCOPE_TRY(folder_for(path));
  const std::string parent(parent_path(path));
  const std::string name = last_part(path);
  const auto rename = [&] {
    return ::renameat(state_.stage.get(), stage_name.c_str(), folders_.folder(parent), name.c_str());
  };
  if (rename() == 0) {
    return ok();
  }
  if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST) {
    ASCOPE_TRY(remove_whole(folders_.folder(parent), name));
  }
  return attempt(parent, "putting '" + name + "' in place in", rename);
}

Result<void> Placer::link_in_place(const PlanRecord& record) {
  const TreeEntry& entry = record.entry;
  const int from = targets_.folder(parent_path(entry.link_target));
  if (from < 0) {
    return errno_error("opening the folder of '" + entry.link_target + "'", -from);
  }
  const std::string target = last_part(entry.link_target);
  ASCOPE_TRY_ASSIGN(const int parent, folder_for(entry.path));
  const bool staged = state_.stage.is_open();
  const std::string name = staged ? stage_file(record.number) : last_part(entry.path);
  if (::linkat(from, target.c_str(), staged ? state_.stage.get() : parent, name.c_str(), 0) != 0) {
    return errno_error("linking '" + entry.path + "' to '" + entry.link_target + "'", errno);
  }
  return staged ? put_in_place(name, entry.path) : ok();
}

Result<void> Placer::set_in_place(const TreeEntry& entry) {
  ASCOPE_TRY_ASSIGN(const int parent, folder_for(entry.path));
  const std::string name = last_part(entry.path);
  if (entry.type != EntryType::file && entry.type != EntryType::directory) {
    ASCOPE_TRY(set_special_metadata(parent, name, entry, state_.failures));
  } else {
    const Opened opened = open_beneath(parent, entry.path.empty() ? "" : name, O_PATH);
    if (opened.error != 0) {
      return errno_error("opening '" + entry.path + "'", opened.error);
    }
    ASCOPE_TRY(set_metadata(opened.fd.get(), entry, state_.failures));
  }
  state_.note_failures(entry.path);
  return ok();
}

Result<void> Placer::finish_folders(ApplyPlan& plan) {
  ASCOPE_TRY(plan.flush());
  PlanRecord record;
  for (auto at = folder_places_.rbegin(); at != folder_places_.rend(); ++at) {
    std::uint64_t place = *at;
    ASCOPE_TRY(plan.read(place, record));
    ASCOPE_TRY(set_in_place(record.entry));
  }
  for (auto at = lifted_.rbegin(); at != lifted_.rend(); ++at) {
    const Opened opened = open_beneath(state_.root, at->first, O_PATH | O_DIRECTORY);
    const bool named = state_.admission.mark_of(at->first) == mark::kFolder;
    if (opened.error == 0 && !named) {
      ::chmod(proc_path(opened.fd.get()).c_str(), at->second);
    }
  }
  return ok();
}

}  // namespace ascope
