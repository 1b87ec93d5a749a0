// SPDX-License-Identifier: Apache-2.0
#include "core/tree/xattrs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/xattr.h>

#include "core/tree/tree.h"

namespace ascope {

namespace {

constexpr std::size_t kMaxValue = 64U << 10U;  // XATTR_SIZE_MAX

bool no_such_thing(int error) {
  return error == ENOTSUP || error == ENODATA || error == ENOSYS;
}

// An inode behind a path or a descriptor.
class Holder {
 public:
  explicit Holder(const std::string& path) : path_(path.c_str()) {}
  explicit Holder(int fd) : fd_(fd) {}
  ssize_t list(char* to, std::size_t size) const {
    return path_ != nullptr ? ::listxattr(path_, to, size) : ::flistxattr(fd_, to, size);
  }
  ssize_t get(const char* name, char* to, std::size_t size) const {
    return path_ != nullptr ? ::getxattr(path_, name, to, size) : ::fgetxattr(fd_, name, to, size);
  }

 private:
  const char* path_ = nullptr;
  int fd_ = -1;
};

Result<std::string> read_names(const Holder& holder) {
  char small[1024];
  ssize_t count = holder.list(small, sizeof small);
  if (count >= 0) {
    return std::string(small, static_cast<std::size_t>(count));
  }
  std::string names;
  if (errno == ERANGE) {
    names.resize(64U << 10U);  // XATTR_LIST_MAX
    count = holder.list(names.data(), names.size());
  }
  if (count < 0) {
    return no_such_thing(errno) ? Result<std::string>(std::string())
                                : Result<std::string>(errno_error("listing extended attributes", errno));
  }
  names.resize(static_cast<std::size_t>(count));
  return names;
}

Result<XattrList> read_all(const Holder& holder, bool* others) {
  ASCOPE_TRY_ASSIGN(const std::string names, read_names(holder));
  XattrList out;
  std::size_t total = 0;
  std::string value;
  for (std::size_t at = 0; at < names.size();) {
    const std::string name(names.c_str() + at);
    at += name.size() + 1;
    if (!is_kept_xattr(name)) {
      if (others != nullptr && name.starts_with("system.posix_acl")) {
        *others = true;
      }
      continue;
    }
    value.resize(kMaxValue);
    const ssize_t count = holder.get(name.c_str(), value.data(), value.size());
    if (count < 0) {
      if (no_such_thing(errno)) {
        continue;  // removed since it was listed
      }
      return errno_error("reading extended attribute '" + name + "'", errno);
    }
    total += name.size() + static_cast<std::size_t>(count);
    if (total > kMaxXattrBytes) {
      return make_error(ErrorKind::corrupt, "more than 512 KiB of extended attributes");
    }
    out.emplace_back(name, value.substr(0, static_cast<std::size_t>(count)));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

bool is_kept_xattr(std::string_view name) {
  return name.starts_with("user.") || name == "security.capability";
}

Result<XattrList> read_xattrs(const std::string& path, bool* others) {
  return read_all(Holder(path), others);
}

Result<XattrList> read_xattrs(int fd, bool* others) {
  return read_all(Holder(fd), others);
}

Result<void> write_xattrs(const std::string& path, const XattrList& present, const XattrList& wanted) {
  for (const auto& [name, value] : present) {
    const bool stays =
        std::any_of(wanted.begin(), wanted.end(), [&](const auto& one) { return one.first == name; });
    if (!stays && ::removexattr(path.c_str(), name.c_str()) != 0 && !no_such_thing(errno)) {
      return errno_error("removing extended attribute '" + name + "'", errno);
    }
  }
  for (const auto& one : wanted) {
    if (std::find(present.begin(), present.end(), one) != present.end()) {
      continue;
    }
    if (::setxattr(path.c_str(), one.first.c_str(), one.second.data(), one.second.size(), 0) != 0) {
      return errno_error("setting extended attribute '" + one.first + "'", errno);
    }
  }
  return ok();
}

}  // namespace ascope
