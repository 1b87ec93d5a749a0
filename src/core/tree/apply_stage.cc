// SPDX-License-Identifier: Apache-2.0
#include "core/tree/apply_stage.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <unistd.h>

#include "core/tree/beneath.h"

namespace ascope {

namespace {

constexpr std::size_t kMostChanges = 100'000;
constexpr std::size_t kBufferBytes = 256U << 10U;

mode_t type_bits(EntryType type) {
  switch (type) {
    case EntryType::directory:
      return S_IFDIR;
    case EntryType::symlink:
      return S_IFLNK;
    case EntryType::fifo:
      return S_IFIFO;
    case EntryType::socket:
      return S_IFSOCK;
    case EntryType::char_device:
      return S_IFCHR;
    case EntryType::block_device:
      return S_IFBLK;
    case EntryType::file:
    case EntryType::hardlink:
      break;
  }
  return S_IFREG;
}

// Compares the content of an open file with ascending pieces of another.
class Comparison {
 public:
  explicit Comparison(int fd) : fd_(fd), buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

  // True if the file has zeros from the last end to `offset`.
  Result<bool> zeros_to(std::uint64_t offset) {
    while (at_ < offset) {
      const off_t data = ::lseek(fd_, static_cast<off_t>(at_), SEEK_DATA);
      if (data < 0 && errno == ENXIO) {
        at_ = offset;
        break;
      }
      at_ = data < 0 ? at_ : std::min(offset, static_cast<std::uint64_t>(data));
      ASCOPE_TRY_ASSIGN(const std::size_t count, fill(offset - at_));
      if (count == 0 && at_ < offset) {
        return false;
      }
      if (std::any_of(buffer_.get(), buffer_.get() + count, [](char c) { return c != '\0'; })) {
        return false;
      }
      at_ += count;
    }
    return true;
  }
  Result<bool> equals(const DataBlock& block) {
    ASCOPE_TRY_ASSIGN(const bool zeros, zeros_to(block.offset));
    if (!zeros) {
      return false;
    }
    ByteView rest = block.bytes;
    while (!rest.empty()) {
      ASCOPE_TRY_ASSIGN(const std::size_t count, fill(rest.size()));
      if (count == 0 || std::memcmp(buffer_.get(), rest.data(), count) != 0) {
        return false;
      }
      at_ += count;
      rest.remove_prefix(count);
    }
    return true;
  }

 private:
  Result<std::size_t> fill(std::uint64_t most) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(most, kBufferBytes));
    const ssize_t count = want == 0 ? 0 : ::pread(fd_, buffer_.get(), want, static_cast<off_t>(at_));
    if (count < 0) {
      return errno_error("reading a file to compare it", errno);
    }
    return static_cast<std::size_t>(count);
  }

  int fd_;
  std::uint64_t at_ = 0;
  std::unique_ptr<char[]> buffer_;
};

}  // namespace

std::string stage_file(std::uint64_t number) {
  return std::to_string(number);
}

void ApplyState::change(char what, const std::string& path) {
  if (options.dry_run && report.changes.size() < kMostChanges) {
    report.changes.emplace_back(what, path);
  }
}

void ApplyState::note_failures(const std::string& path) {
  for (; failures.owners > 0; --failures.owners) {
    admission.count_owner_not_set();
  }
  if (!failures.xattrs.empty()) {
    admission.notes().add(path, "extended attributes not restored: " + failures.xattrs);
    failures.xattrs.clear();
  }
}

Result<Stager::Found> Stager::look(const std::string& path) {
  Found found;
  found.name = last_part(path);
  found.parent = folders_.folder(parent_path(path));
  if (found.parent < 0) {
    const int error = -found.parent;
    // EACCES: an owner without rights of root cannot look there yet; what cannot be seen differs.
    if (error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES) {
      return found;
    }
    return errno_error("opening the folder of '" + path + "'", error);
  }
  const char* name = path.empty() ? "." : found.name.c_str();
  if (::fstatat(found.parent, name, &found.info, AT_SYMLINK_NOFOLLOW) == 0) {
    found.exists = true;
    return found;
  }
  if (errno == ENOENT || errno == EACCES) {
    return found;
  }
  return errno_error("looking at '" + path + "'", errno);
}

Result<void> Stager::take(TreeEntry& entry, TreeSource& source) {
  ASCOPE_TRY_ASSIGN(Found found, look(entry.path));
  if (found.exists && entry.type != EntryType::hardlink &&
      (found.info.st_mode & S_IFMT) != type_bits(entry.type)) {
    state_.change('T', entry.path);
    found.exists = false;
  } else if (!found.exists) {
    state_.change('A', entry.path);
  }
  switch (entry.type) {
    case EntryType::directory:
      return take_folder(entry, found);
    case EntryType::file:
      return take_file(entry, found, source);
    case EntryType::hardlink:
      return take_link(entry, found);
    default:
      return take_special(entry, found);
  }
}

Result<void> Stager::keep(const TreeEntry& entry, const Found& found, const XattrList& xattrs) {
  state_.admission.set_mark(entry.path, mark::kKept);
  if (!metadata_differs(found.info, xattrs, entry)) {
    ++state_.report.unchanged;
    return ok();
  }
  ++state_.report.metadata;
  state_.change('P', entry.path);
  if (state_.plan != nullptr) {
    ASCOPE_TRY(state_.plan->add(PlanAction::metadata, 0, entry));
  }
  return ok();
}

Result<void> Stager::replace(const TreeEntry& entry, const Found& found, PlanAction action,
                             std::uint64_t number) {
  ++state_.report.written;
  if (found.exists) {
    state_.change('M', entry.path);
  }
  if (state_.plan != nullptr) {
    ASCOPE_TRY(state_.plan->add(action, number, entry));
  }
  return ok();
}

Result<void> Stager::take_folder(const TreeEntry& entry, const Found& found) {
  if (found.exists && !state_.admission.is_asked_for(entry.path)) {
    return ok();  // only on the way to what is
  }
  if (found.exists) {
    XattrList xattrs;
    Opened opened = open_beneath(found.parent, found.name, O_PATH | O_DIRECTORY);
    if (opened.error == EXDEV) {
      state_.admission.notes().add(entry.path, "another file system, left alone");
      return ok();
    }
    if (opened.error == 0) {
      ASCOPE_TRY_ASSIGN(xattrs, read_xattrs(proc_path(opened.fd.get()), nullptr));
    }
    if (metadata_differs(found.info, xattrs, entry)) {
      ++state_.report.metadata;
      state_.change('P', entry.path);
    } else {
      ++state_.report.unchanged;
    }
  }
  if (state_.plan != nullptr) {
    ASCOPE_TRY(state_.plan->add(PlanAction::folder, 0, entry));
  }
  return ok();
}

bool Stager::is_claimed(const struct stat& info) const {
  return info.st_nlink > 1 && claimed_.contains({info.st_dev, info.st_ino});
}

Result<void> Stager::take_file(const TreeEntry& entry, const Found& found, TreeSource& source) {
  UniqueFd existing;
  XattrList xattrs;
  if (found.exists && static_cast<std::uint64_t>(found.info.st_size) == entry.size_bytes &&
      !is_claimed(found.info)) {
    const Opened opened = open_beneath(found.parent, found.name, O_PATH);
    if (opened.error == 0) {
      const std::string place = proc_path(opened.fd.get());
      existing = UniqueFd(::open(place.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
      if (existing.is_open()) {
        ASCOPE_TRY_ASSIGN(xattrs, read_xattrs(place, nullptr));
      }
    }
  }
  const std::uint64_t number = next_number_;
  ASCOPE_TRY_ASSIGN(const bool same, compare_or_stage(entry, existing.get(), source, number));
  if (!same) {
    ++next_number_;
    return replace(entry, found, PlanAction::rename, number);
  }
  if (found.info.st_nlink > 1) {
    claimed_.emplace(found.info.st_dev, found.info.st_ino);
  }
  return keep(entry, found, xattrs);
}

Result<bool> Stager::compare_or_stage(const TreeEntry& entry, int existing, TreeSource& source,
                                      std::uint64_t number) {
  std::optional<Comparison> comparison;
  if (existing >= 0) {
    comparison.emplace(existing);
  }
  NewFile staged;
  bool differs = existing < 0;
  const bool writes = !state_.options.dry_run;
  const auto begin_stage = [&](std::uint64_t same_bytes) -> Result<void> {
    differs = true;
    state_.report.bytes_written += entry.size_bytes;
    if (!writes) {
      return ok();
    }
    ASCOPE_TRY(staged.create(state_.stage.get(), stage_file(number), entry));
    return same_bytes > 0 ? staged.copy_from(existing, same_bytes) : ok();
  };
  if (differs) {
    ASCOPE_TRY(begin_stage(0));
  }
  std::uint64_t same_bytes = 0;
  while (writes || !differs) {
    ASCOPE_TRY_ASSIGN(const std::optional<DataBlock> block, source.read());
    if (!block) {
      break;
    }
    if (!differs) {
      ASCOPE_TRY_ASSIGN(const bool equal, comparison->equals(*block));
      if (equal) {
        same_bytes = block->offset + block->bytes.size();
        continue;
      }
      ASCOPE_TRY(begin_stage(same_bytes));
    }
    if (writes) {
      ASCOPE_TRY(staged.write(*block));
    }
  }
  if (!differs) {
    ASCOPE_TRY_ASSIGN(const bool zeros, comparison->zeros_to(entry.size_bytes));
    if (zeros) {
      return true;
    }
    ASCOPE_TRY(begin_stage(same_bytes));
  }
  if (writes) {
    ASCOPE_TRY(staged.finish(entry, state_.failures));
    state_.note_failures(entry.path);
  }
  return false;
}

Result<void> Stager::take_link(const TreeEntry& entry, const Found& found) {
  if (found.exists && state_.admission.mark_of(entry.link_target) == mark::kKept) {
    const std::uint64_t device = found.info.st_dev;
    const std::uint64_t inode = found.info.st_ino;
    ASCOPE_TRY_ASSIGN(const Found target, look(entry.link_target));
    if (target.exists && target.info.st_dev == device && target.info.st_ino == inode) {
      state_.admission.set_mark(entry.path, mark::kKept);
      ++state_.report.unchanged;
      return ok();
    }
  }
  return replace(entry, found, PlanAction::link, next_number_++);
}

Result<void> Stager::take_special(const TreeEntry& entry, const Found& found) {
  bool same = found.exists;
  if (same && entry.type == EntryType::symlink) {
    char target[4097];
    const ssize_t count = ::readlinkat(found.parent, found.name.c_str(), target, sizeof target);
    same = count >= 0 && entry.link_target == std::string_view(target, static_cast<std::size_t>(count));
  } else if (same && entry.type != EntryType::fifo) {
    same = found.info.st_rdev == entry.device;
  }
  if (same) {
    return keep(entry, found, {});
  }
  const std::uint64_t number = next_number_++;
  if (!state_.options.dry_run) {
    ASCOPE_TRY_ASSIGN(const bool made,
                      make_special(state_.stage.get(), stage_file(number), entry, state_.failures));
    if (!made) {
      state_.admission.set_mark(entry.path, mark::kLeftOut);
      state_.admission.notes().add(entry.path, "device skipped: not permitted");
      return ok();
    }
    state_.note_failures(entry.path);
  }
  return replace(entry, found, PlanAction::rename, number);
}

}  // namespace ascope
