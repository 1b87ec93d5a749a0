// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/random.h"

namespace ascope {

namespace {

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

Error path_error(std::string_view verb, const std::string& path, int errno_value) {
  Error error = errno_error(std::string(verb) + " '" + path + "'", errno_value);
  if (errno_value == ENOENT) {
    error.kind = ErrorKind::not_found;
  }
  return error;
}

// Writes `data` to a fresh temporary file in the folder of `path`, synced; returns the temporary's path.
Result<std::string> write_temp(const std::string& path, ByteView data, mode_t mode) {
  const auto slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  std::string temp = parent_of(path) + "/." + name.substr(0, 64) + "." + random_hex(8) + ".tmp";
  ASCOPE_TRY_ASSIGN(UniqueFd fd, open_file(temp, O_WRONLY | O_CREAT | O_EXCL, mode));
  const auto finish = [&]() -> Result<void> {
    ASCOPE_TRY(write_all(fd.get(), data));
    if (::fsync(fd.get()) != 0) {
      return errno_error("fsync", errno);
    }
    return fd.close();
  };
  auto written = finish();
  if (!written) {
    ::unlink(temp.c_str());
    return std::move(written).error().within("writing '" + path + "'");
  }
  return temp;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  ASCOPE_TRY_ASSIGN(UniqueFd fd, open_file(path, O_RDONLY));
  FdSource source(std::move(fd));
  auto bytes = read_all(source, limit);
  if (!bytes) {
    return std::move(bytes).error().within("reading '" + path + "'");
  }
  return bytes;
}

Result<void> write_file_atomic(const std::string& path, ByteView data, mode_t mode) {
  ASCOPE_TRY_ASSIGN(const std::string temp, write_temp(path, data, mode));
  if (::rename(temp.c_str(), path.c_str()) != 0) {
    const int saved = errno;
    ::unlink(temp.c_str());
    return write_failure(path_error("replacing", path, saved));
  }
  return sync_dir(parent_of(path));
}

Result<bool> create_file(const std::string& path, ByteView data, mode_t mode) {
  ASCOPE_TRY_ASSIGN(const std::string temp, write_temp(path, data, mode));
  const int rc = ::link(temp.c_str(), path.c_str());
  const int saved = errno;
  ::unlink(temp.c_str());
  if (rc != 0) {
    if (saved == EEXIST) {
      return false;
    }
    return write_failure(path_error("creating", path, saved));
  }
  ASCOPE_TRY(sync_dir(parent_of(path)));
  return true;
}

Result<void> make_dirs(const std::string& path, mode_t mode) {
  if (path.empty() || path == "/" || path == ".") {
    return ok();
  }
  if (::mkdir(path.c_str(), mode) == 0) {
    return ok();
  }
  if (errno == ENOENT) {
    ASCOPE_TRY(make_dirs(parent_of(path), mode));
    if (::mkdir(path.c_str(), mode) == 0) {
      return ok();
    }
  }
  const int saved = errno;
  struct stat info{};
  if (saved == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return ok();
  }
  return write_failure(errno_error("making folder '" + path + "'", saved == EEXIST ? ENOTDIR : saved));
}

Result<bool> path_exists(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) {
    return true;
  }
  if (errno == ENOENT || errno == ENOTDIR) {
    return false;
  }
  return errno_error("looking at '" + path + "'", errno);
}

Result<std::vector<std::string>> list_dir(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), &::closedir);
  if (!dir) {
    return path_error("listing", path, errno);
  }
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) {
      if (errno != 0) {
        return path_error("listing", path, errno);
      }
      break;
    }
    std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<void> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return write_failure(errno_error("removing '" + path + "'", errno));
  }
  return ok();
}

Result<UniqueFd> open_file(const std::string& path, int flags, mode_t mode) {
  while (true) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    if (fd >= 0) {
      return UniqueFd(fd);
    }
    if (errno != EINTR) {
      Error error = path_error("opening", path, errno);
      return (flags & O_ACCMODE) == O_RDONLY ? error : write_failure(std::move(error));
    }
  }
}

Result<void> sync_dir(const std::string& path) {
  ASCOPE_TRY_ASSIGN(const UniqueFd fd, open_file(path, O_RDONLY | O_DIRECTORY));
  if (::fsync(fd.get()) != 0 && errno != EINVAL) {
    return errno_error("fsync of folder '" + path + "'", errno);
  }
  return ok();
}

std::string absolute_path(std::string_view path, std::string_view base) {
  std::string out = (std::filesystem::path(base) / std::filesystem::path(path)).lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') {
    out.pop_back();
  }
  return out;
}

}  // namespace ascope
