// SPDX-License-Identifier: Apache-2.0
// `local:DIR`: snapshot objects as files of a folder, "<DIR>/<key>". Written to a file without a name (or,
// where the file system has none, ".tmp.<random>" beside it), synced, then linked: a reader never sees a
// part, and nothing is ever overwritten.
#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/object_key.h"
#include "core/store.h"

namespace ascope {

namespace {

constexpr std::size_t kBufferBytes = 1U << 20U;
constexpr std::string_view kTempPrefix = ".tmp.";

Result<void> check_key(std::string_view key) {
  return is_object_key(key) ? ok()
                            : Result<void>(make_error(ErrorKind::internal,
                                                      "'" + std::string(key) + "' is no key of an object"));
}

// Of a read or a look.
Error read_error(const std::string& what, int error) {
  return read_failure(errno_error(what, error));
}

// Of a write: what its own disk or server does wrong is the store's fault, what this user may not do is this
// machine's.
Error store_error(const std::string& what, int error) {
  Error out = write_failure(errno_error(what, error));
  const bool of_the_store = error == EIO || error == ESTALE || error == ENOTCONN || error == ETIMEDOUT ||
                            error == EHOSTDOWN || error == ENODEV || error == ENXIO || error == ELOOP ||
                            error == ENOTDIR;
  if (of_the_store) {
    out.kind = ErrorKind::store_unavailable;
  }
  return out;
}

Error not_a_file(const std::string& path) {
  return make_error(ErrorKind::store_unavailable, "'" + path + "' is not a file",
                    "move it away; 'ascope-sandbox snapshot check' tells what is left");
}

BlobInfo info_of(std::string key, const struct stat& info) {
  BlobInfo out;
  out.key = std::move(key);
  out.size_bytes = static_cast<std::uint64_t>(info.st_size);
  const auto nanoseconds =
      static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  out.version = std::to_string(nanoseconds) + "-" + std::to_string(info.st_size);
  out.modified = std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds(nanoseconds)));
  return out;
}

class RangeSource final : public ByteSource {
 public:
  RangeSource(UniqueFd fd, std::uint64_t length) : fd_(std::move(fd)), left_(length) {}
  Result<std::size_t> read(std::span<char> buffer) override {
    if (left_ < buffer.size()) {
      buffer = buffer.first(static_cast<std::size_t>(left_));
    }
    Result<std::size_t> count =
        buffer.empty() ? Result<std::size_t>(std::size_t{0}) : read_some(fd_.get(), buffer);
    left_ -= count ? *count : 0;
    return count;
  }

 private:
  UniqueFd fd_;
  std::uint64_t left_;
};

class LocalBlobs final : public BlobStore {
 public:
  explicit LocalBlobs(std::string dir) : dir_(std::move(dir)) {}

  Result<std::optional<BlobInfo>> put(const OpContext& ctx, std::string_view key, ByteSource& data) override;
  Result<std::unique_ptr<ByteSource>> get(const OpContext& ctx, std::string_view key, std::uint64_t offset,
                                          std::uint64_t length) override;
  Result<std::optional<BlobInfo>> stat(const OpContext& ctx, std::string_view key) override;
  Result<std::vector<BlobInfo>> list(const OpContext& ctx, std::string_view prefix) override;
  Result<void> remove(const OpContext& ctx, std::string_view key) override;
  [[nodiscard]] bool is_concurrent() const override { return true; }  // nothing but a path is kept

 private:
  // A file being written; `name` is empty where it has none.
  struct Draft {
    UniqueFd fd;
    std::string name;
  };
  [[nodiscard]] std::string path_of(std::string_view key) const { return dir_ + "/" + std::string(key); }
  Result<Draft> open_draft(const std::string& folder) const;
  Result<void> fill(const OpContext& ctx, int fd, ByteSource& data) const;
  // false: something is at `path` already.
  Result<bool> publish(const Draft& draft, const std::string& path) const;
  Result<void> list_folder(const std::string& folder, std::string_view prefix,
                           std::vector<BlobInfo>& out) const;

  std::string dir_;
};

Result<LocalBlobs::Draft> LocalBlobs::open_draft(const std::string& folder) const {
  UniqueFd nameless(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (nameless.is_open()) {
    return Draft{std::move(nameless), ""};
  }
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) {
    return store_error("writing to the snapshot folder '" + folder + "'", errno);
  }
  const std::string name = folder + "/" + std::string(kTempPrefix) + random_hex(16);
  UniqueFd named(::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (!named.is_open()) {
    return store_error("writing to the snapshot folder '" + folder + "'", errno);
  }
  return Draft{std::move(named), name};
}

Result<void> LocalBlobs::fill(const OpContext& ctx, int fd, ByteSource& data) const {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  bool ended = false;
  while (!ended) {
    ASCOPE_TRY(ctx.check("writing to the snapshot folder"));
    std::size_t have = 0;
    while (have < kBufferBytes) {
      ASCOPE_TRY_ASSIGN(const std::size_t count, data.read({buffer.get() + have, kBufferBytes - have}));
      ended = count == 0;
      if (ended) {
        break;
      }
      have += count;
    }
    Result<void> written = write_all(fd, ByteView(buffer.get(), have));
    if (!written) {
      return std::move(written).error().within("the snapshot folder '" + dir_ + "'");
    }
  }
  return ::fsync(fd) == 0 ? ok() : Result<void>(store_error("fsync in '" + dir_ + "'", errno));
}

Result<bool> LocalBlobs::publish(const Draft& draft, const std::string& path) const {
  const std::string from =
      draft.name.empty() ? "/proc/self/fd/" + std::to_string(draft.fd.get()) : draft.name;
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return errno == EEXIST ? Result<bool>(false) : store_error("naming '" + path + "'", errno);
  }
  return true;
}

Result<std::optional<BlobInfo>> LocalBlobs::put(const OpContext& ctx, std::string_view key,
                                                ByteSource& data) {
  ASCOPE_TRY(check_key(key));
  const std::string path = path_of(key);
  const std::string folder = path.substr(0, path.rfind('/'));
  if (auto made = make_dirs(folder); !made) {
    return store_error("making the snapshot folder '" + folder + "'", made.error().os_error);
  }
  ASCOPE_TRY_ASSIGN(Draft draft, open_draft(folder));
  struct stat info{};
  const auto write = [&]() -> Result<bool> {
    ASCOPE_TRY(fill(ctx, draft.fd.get(), data));
    if (::fstat(draft.fd.get(), &info) != 0) {
      return store_error("looking at '" + path + "'", errno);
    }
    return publish(draft, path);
  };
  Result<bool> stored = write();
  if (!draft.name.empty()) {
    ::unlink(draft.name.c_str());
  }
  if (!stored) {
    return std::move(stored).error();
  }
  if (!*stored) {
    return std::optional<BlobInfo>();
  }
  Result<void> closed = draft.fd.close();
  if (closed) {
    closed = sync_dir(folder);
  }
  if (!closed) {
    ::unlink(path.c_str());
    return std::move(closed).error();
  }
  return std::optional<BlobInfo>(info_of(std::string(key), info));
}

Result<std::unique_ptr<ByteSource>> LocalBlobs::get(const OpContext& ctx, std::string_view key,
                                                    std::uint64_t offset, std::uint64_t length) {
  ASCOPE_TRY(ctx.check("reading from the snapshot folder"));
  ASCOPE_TRY(check_key(key));
  UniqueFd fd(::open(path_of(key).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.is_open()) {
    return errno == ENOENT
               ? make_error(ErrorKind::not_found,
                            "the snapshot folder '" + dir_ + "' has no object '" + std::string(key) + "'")
               : read_error("opening '" + path_of(key) + "'", errno);
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return not_a_file(path_of(key));
  }
  if (offset != 0 && ::lseek(fd.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
    return read_error("reading '" + path_of(key) + "'", errno);
  }
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::unique_ptr<ByteSource>(
      std::make_unique<RangeSource>(std::move(fd), length == 0 ? UINT64_MAX : length));
}

Result<std::optional<BlobInfo>> LocalBlobs::stat(const OpContext& ctx, std::string_view key) {
  ASCOPE_TRY(ctx.check("looking into the snapshot folder"));
  ASCOPE_TRY(check_key(key));
  struct stat info{};
  if (::stat(path_of(key).c_str(), &info) != 0) {
    return errno == ENOENT ? Result<std::optional<BlobInfo>>(std::optional<BlobInfo>())
                           : read_error("looking at '" + path_of(key) + "'", errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return not_a_file(path_of(key));
  }
  return std::optional<BlobInfo>(info_of(std::string(key), info));
}

Result<void> LocalBlobs::list_folder(const std::string& folder, std::string_view prefix,
                                     std::vector<BlobInfo>& out) const {
  const std::string path = folder.empty() ? dir_ : dir_ + "/" + folder;
  Result<std::vector<std::string>> names = list_dir(path);
  if (!names) {
    // A folder that nothing was written to yet is empty; anything else is not known to be.
    if (names.error().kind == ErrorKind::not_found) {
      return ok();
    }
    return read_failure(std::move(names).error());
  }
  for (const std::string& name : *names) {
    const std::string key = folder.empty() ? name : folder + "/" + name;
    if (name.starts_with('.') || !check_key(key)) {
      continue;  // temporary files, ours and AgentScope's, and what is no object
    }
    struct stat info{};
    if (::stat((dir_ + "/" + key).c_str(), &info) != 0) {
      if (errno == ENOENT) {
        continue;  // removed meanwhile
      }
      return read_error("looking at '" + dir_ + "/" + key + "'", errno);
    }
    if (S_ISDIR(info.st_mode)) {
      ASCOPE_TRY(list_folder(key, prefix, out));
    } else if (S_ISREG(info.st_mode) && key.starts_with(prefix)) {
      out.push_back(info_of(key, info));
    }
  }
  return ok();
}

Result<std::vector<BlobInfo>> LocalBlobs::list(const OpContext& ctx, std::string_view prefix) {
  ASCOPE_TRY(ctx.check("listing the snapshot folder"));
  std::vector<BlobInfo> out;
  ASCOPE_TRY(list_folder("", prefix, out));
  std::sort(out.begin(), out.end(), [](const BlobInfo& a, const BlobInfo& b) { return a.key < b.key; });
  return out;
}

Result<void> LocalBlobs::remove(const OpContext& ctx, std::string_view key) {
  ASCOPE_TRY(ctx.check("removing from the snapshot folder"));
  ASCOPE_TRY(check_key(key));
  if (::unlink(path_of(key).c_str()) != 0 && errno != ENOENT) {
    return store_error("removing '" + path_of(key) + "'", errno);
  }
  return ok();
}

Result<std::unique_ptr<BlobStore>> open_blobs(const OpContext& /*ctx*/, const StoreUrl& url,
                                              const StoreContext& context) {
  const std::string dir = url.path.empty() ? context.state_dir + "/snapshots" : url.path;
  return std::unique_ptr<BlobStore>(std::make_unique<LocalBlobs>(dir));
}

}  // namespace

extern const StoreKind kLocalStore;
const StoreKind kLocalStore{
    .scheme = "local",
    .summary = "snapshots as files of a folder; without DIR below the state folder",
    .open_blobs = open_blobs,
};

}  // namespace ascope
