// SPDX-License-Identifier: Apache-2.0
#include "core/tree/admission.h"

#include <algorithm>
#include <limits>

#include "core/tree/folder_cache.h"
#include "core/tree/xattrs.h"

namespace ascope {

namespace {

constexpr std::uint32_t kUnset = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kIdRange = 65536;
constexpr std::size_t kMaxTargetBytes = 4095;  // PATH_MAX without its NUL
constexpr std::uint32_t kSetIdBits = 06000;

Error corrupt(std::string message) {
  return make_error(ErrorKind::corrupt, std::move(message));
}

bool is_device(const TreeEntry& entry) {
  return entry.type == EntryType::char_device || entry.type == EntryType::block_device;
}

}  // namespace

Admission::Admission(const ApplyOptions& options)
    : options_(options), skip_(options.skip_paths.begin(), options.skip_paths.end()) {
  for (const std::string& path : options.skip_paths) {
    for (std::string_view up = parent_path(path); !up.empty(); up = parent_path(up)) {
      skip_parents_.insert(std::string(up));
    }
  }
}

bool Admission::is_skipped(std::string_view path) const {
  if (is_within(path, kStageName)) {
    return true;
  }
  for (std::string_view at = path; !skip_.empty() && !at.empty(); at = parent_path(at)) {
    if (skip_.contains(std::string(at))) {
      return true;
    }
  }
  return false;
}

bool Admission::is_asked_for(std::string_view path) const {
  return options_.only.empty() || std::any_of(options_.only.begin(), options_.only.end(),
                                              [&](const std::string& one) { return is_within(path, one); });
}

bool Admission::leads_to_asked(std::string_view path) const {
  return std::any_of(options_.only.begin(), options_.only.end(),
                     [&](const std::string& one) { return is_within(one, path); });
}

Result<void> Admission::check_fields(const TreeEntry& entry) const {
  ASCOPE_TRY(check_tree_path(entry.path, true));
  if (entry.path.empty() && entry.type != EntryType::directory) {
    return corrupt("the root of the tree is not a folder");
  }
  if (entry.size_bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return corrupt("'" + entry.path + "' has an impossible size");
  }
  if (entry.type == EntryType::symlink &&
      (entry.link_target.empty() || entry.link_target.size() > kMaxTargetBytes ||
       entry.link_target.find('\0') != std::string::npos)) {
    return corrupt("link '" + entry.path + "' has an impossible target");
  }
  return ok();
}

Result<void> Admission::check_parents(const std::string& path) {
  std::string_view at = path;
  while (!at.empty()) {
    at = parent_path(at);
    if (at.empty()) {
      break;
    }
    const auto known = seen_.find(at);
    if (known == mark::kFolder || known == mark::kImplicit) {
      break;
    }
    if (known) {
      return corrupt("'" + path + "' lies below '" + std::string(at) + "', which is not a folder");
    }
    seen_.set(at, mark::kImplicit);
  }
  return ok();
}

Result<bool> Admission::check_link(const TreeEntry& entry) {
  const auto target = seen_.find(entry.link_target);
  if (target == mark::kKept || target == mark::kPlaced) {
    return true;
  }
  if (target != mark::kLeftOut) {
    return corrupt("'" + entry.path + "' is a hard link to '" + entry.link_target +
                   "', which no file before it is");
  }
  if (!is_asked_for(entry.link_target)) {
    return make_error(
        ErrorKind::usage,
        "'" + entry.path + "' is a hard link to '" + entry.link_target + "', which was not asked for",
        "name that path too");
  }
  notes_.add(entry.path, "hard link to '" + entry.link_target + "', which was left out");
  return false;
}

bool Admission::may_make(const TreeEntry& entry) {
  if (is_within(entry.path, kStageName) && !entry.path.empty()) {
    notes_.add(entry.path, "left out: the name is reserved");
    return false;
  }
  const bool leads = entry.type == EntryType::directory && leads_to_asked(entry.path);
  if (is_skipped(entry.path) || (!is_asked_for(entry.path) && !leads)) {
    return false;
  }
  if (entry.type == EntryType::socket) {
    notes_.add(entry.path, "socket skipped");
    return false;
  }
  if (is_device(entry) && !options_.allow_devices) {
    notes_.add(entry.path, "device skipped");
    return false;
  }
  if (entry.type != EntryType::directory && holds_skipped(entry.path)) {
    notes_.add(entry.path, "left out: something that is not to be touched lies below it");
    return false;
  }
  return true;
}

void Admission::normalise_owner(TreeEntry& entry) {
  if (!options_.set_owner) {
    const bool other = (options_.own_uid && entry.uid != *options_.own_uid) ||
                       (options_.own_gid && entry.gid != *options_.own_gid);
    owners_not_set_ += other ? 1 : 0;
    entry.uid = kUnset;
    entry.gid = kUnset;
    return;
  }
  if (options_.id_base != 0) {
    owners_not_set_ += entry.uid >= kIdRange || entry.gid >= kIdRange ? 1 : 0;
    entry.uid = entry.uid < kIdRange ? entry.uid + options_.id_base : options_.id_base;
    entry.gid = entry.gid < kIdRange ? entry.gid + options_.id_base : options_.id_base;
  }
}

void Admission::normalise(TreeEntry& entry) {
  normalise_owner(entry);
  entry.mode &= 07777U;
  if (!options_.allow_setid && (entry.mode & kSetIdBits) != 0) {
    entry.mode &= ~kSetIdBits;
    notes_.add(entry.path, "setuid and setgid bits not restored");
  }
  const auto refused = [&](const auto& one) {
    return !is_kept_xattr(one.first) || (one.first == "security.capability" && !options_.allow_setid);
  };
  const auto last = std::remove_if(entry.xattrs.begin(), entry.xattrs.end(), refused);
  if (last != entry.xattrs.end()) {
    entry.xattrs.erase(last, entry.xattrs.end());
    notes_.add(entry.path, "some extended attributes or capabilities not restored");
  }
  std::sort(entry.xattrs.begin(), entry.xattrs.end());
}

Result<bool> Admission::admit(TreeEntry& entry) {
  ASCOPE_TRY(check_fields(entry));
  const bool is_folder = entry.type == EntryType::directory;
  const auto known = seen_.find(entry.path);
  if (known && !(is_folder && known == mark::kImplicit)) {
    return corrupt("'" + entry.path + "' comes twice");
  }
  ASCOPE_TRY(check_parents(entry.path));
  bool makes = may_make(entry);
  if (makes && entry.type == EntryType::hardlink) {
    ASCOPE_TRY_ASSIGN(makes, check_link(entry));
  }
  seen_.set(entry.path, is_folder ? mark::kFolder : makes ? mark::kPlaced : mark::kLeftOut);
  if (makes) {
    normalise(entry);
  }
  return makes;
}

}  // namespace ascope
