// SPDX-License-Identifier: Apache-2.0
#include "backends/local/folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/file.h"
#include "core/base/json.h"

namespace ascope::local {

namespace {

constexpr std::size_t kMaxMetaBytes = 4U << 20U;
constexpr const char* kFence = "fence";  // 20 digits, over the number in meta.json where it is higher

Json meta_json(const Meta& meta) {
  Json mounts = Json::array();
  for (const MountSpec& mount : meta.mounts) {
    mounts.push_back({{"host_path", bytes_json(mount.host_path)},
                      {"path", bytes_json(mount.path)},
                      {"read_only", mount.read_only}});
  }
  Json settings = Json::array();
  for (const auto& [key, value] : meta.settings) {
    settings.push_back(Json::array({bytes_json(key), bytes_json(value)}));
  }
  Json facts = Json::array();
  for (const auto& [key, value] : meta.facts) {
    facts.push_back(Json::array({key, bytes_json(value)}));
  }
  return Json{{"schema", "ascope.local-sandbox/1"},
              {"id", meta.id},
              {"slot", bytes_json(meta.slot)},
              {"operation", bytes_json(meta.operation)},
              {"created", meta.created},
              {"host", meta.host},
              {"ready", meta.ready},
              {"fence_seen", meta.fence_seen},
              {"id_base", meta.id_base ? Json(*meta.id_base) : Json(nullptr)},
              {"settings_digest", meta.settings_digest},
              {"settings", settings},
              {"workspace_root", bytes_json(meta.workspace_root)},
              {"mounts", mounts},
              {"facts", facts}};
}

Result<std::string> member_bytes(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) {
    return make_error(ErrorKind::corrupt, std::string("'") + key + "' is missing");
  }
  return json_bytes(object.at(key));
}

Result<void> read_pairs(const Json& json, const char* name, std::map<std::string, std::string>& pairs) {
  const Json empty = Json::array();
  for (const Json& item : json.contains(name) ? json.at(name) : empty) {
    if (!item.is_array() || item.size() != 2) {
      return make_error(ErrorKind::corrupt, fmt::format("'{}' is not a list of pairs", name));
    }
    ASCOPE_TRY_ASSIGN(std::string key, json_bytes(item.at(0)));
    ASCOPE_TRY_ASSIGN(pairs[key], json_bytes(item.at(1)));
  }
  return ok();
}

Result<void> read_lists(const Json& json, Meta& meta) {
  ASCOPE_TRY(read_pairs(json, "settings", meta.settings));
  ASCOPE_TRY(read_pairs(json, "facts", meta.facts));
  const Json empty = Json::array();
  for (const Json& item : json.contains("mounts") ? json.at("mounts") : empty) {
    MountSpec mount;
    ASCOPE_TRY_ASSIGN(mount.host_path, member_bytes(item, "host_path"));
    ASCOPE_TRY_ASSIGN(mount.path, member_bytes(item, "path"));
    ASCOPE_TRY_ASSIGN(mount.read_only, get_bool(item, "read_only"));
    meta.mounts.push_back(std::move(mount));
  }
  return ok();
}

Result<Meta> parse_meta(std::string_view text) {
  ASCOPE_TRY_ASSIGN(const Json json, parse_json(text));
  Meta meta;
  ASCOPE_TRY_ASSIGN(meta.id, get_string(json, "id"));
  ASCOPE_TRY_ASSIGN(meta.slot, member_bytes(json, "slot"));
  ASCOPE_TRY_ASSIGN(meta.operation, member_bytes(json, "operation"));
  ASCOPE_TRY_ASSIGN(meta.created, get_string(json, "created"));
  ASCOPE_TRY_ASSIGN(meta.host, get_string(json, "host"));
  ASCOPE_TRY_ASSIGN(meta.ready, get_bool(json, "ready"));
  ASCOPE_TRY_ASSIGN(const std::int64_t fence, get_int(json, "fence_seen"));
  meta.fence_seen = static_cast<std::uint64_t>(fence);
  if (json.contains("id_base") && !json.at("id_base").is_null()) {
    ASCOPE_TRY_ASSIGN(const std::int64_t base, get_int(json, "id_base"));
    if (base < kRangeIds || base > 0xffff0000LL) {
      return make_error(ErrorKind::corrupt, "'id_base' is out of range");
    }
    meta.id_base = static_cast<std::uint32_t>(base);
  }
  ASCOPE_TRY_ASSIGN(meta.settings_digest, get_string(json, "settings_digest"));
  ASCOPE_TRY_ASSIGN(meta.workspace_root, member_bytes(json, "workspace_root"));
  ASCOPE_TRY(read_lists(json, meta));
  return meta;
}

Result<Run> parse_run(std::string_view text) {
  ASCOPE_TRY_ASSIGN(const Json json, parse_json(text));
  Run run;
  ASCOPE_TRY_ASSIGN(const std::int64_t pid, get_int(json, "pid"));
  ASCOPE_TRY_ASSIGN(const std::int64_t start_time, get_int(json, "start_time"));
  run.pid = static_cast<pid_t>(pid);
  run.start_time = static_cast<std::uint64_t>(start_time);
  ASCOPE_TRY_ASSIGN(run.not_enforced, get_string(json, "not_enforced"));
  const auto cgroups = json.find("cgroups");
  if (cgroups == json.end() || !cgroups->is_array()) {
    return make_error(ErrorKind::corrupt, "'cgroups' is not a list");
  }
  for (const Json& item : *cgroups) {
    ASCOPE_TRY_ASSIGN(std::string path, json_bytes(item));
    run.cgroups.push_back(std::move(path));
  }
  return run;
}

Result<std::string> read_at(int folder, const char* name) {
  UniqueFd fd(::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.is_open()) {
    if (errno == ENOENT) {
      return make_error(ErrorKind::not_found, std::string("no '") + name + "'");
    }
    return errno_error(std::string("opening '") + name + "'", errno);
  }
  FdSource source(std::move(fd));
  return read_all(source, kMaxMetaBytes);
}

}  // namespace

bool is_sandbox_id(std::string_view id) {
  return id.size() == 19 && id.substr(0, 3) == "sb-" &&
         id.find_first_not_of("0123456789abcdef", 3) == std::string_view::npos;
}

Result<Folder> Folder::open(const std::string& dir, const std::string& id) {
  if (!is_sandbox_id(id)) {
    return make_error(ErrorKind::not_found, "no sandbox '" + id + "'");
  }
  Folder folder;
  folder.id_ = id;
  folder.path_ = dir + "/" + id;
  folder.fd_ = UniqueFd(::open(folder.path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder.fd_.is_open()) {
    if (errno == ENOENT) {
      return make_error(ErrorKind::not_found, "no sandbox '" + id + "'");
    }
    Error error = errno_error("opening sandbox folder '" + folder.path_ + "'", errno);
    error.kind = ErrorKind::backend_unavailable;
    return error;
  }
  return folder;
}

Result<Folder> Folder::make(const std::string& dir, const std::string& id) {
  ASCOPE_TRY(make_dirs(dir, 0700));
  const std::string path = dir + "/" + id;
  if (::mkdir(path.c_str(), 0700) != 0) {
    return errno_error("making sandbox folder '" + path + "'", errno);
  }
  return open(dir, id);
}

Result<bool> Folder::exists() const {
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0) {
    return errno_error("looking at '" + path_ + "'", errno);
  }
  return info.st_nlink > 0;
}

Result<UniqueFd> Folder::open_root() const {
  UniqueFd fd(::openat(fd_.get(), "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.is_open()) {
    if (errno == ENOENT) {
      return make_error(ErrorKind::not_found, "the tree of sandbox '" + id_ + "' is gone");
    }
    return errno_error("opening '" + path_ + "/root'", errno);
  }
  return fd;
}

Result<Meta> Folder::read_meta() const {
  auto text = read_at(fd_.get(), "meta.json");
  if (!text && text.error().kind == ErrorKind::not_found) {
    Meta unfinished;
    unfinished.id = id_;
    return unfinished;
  }
  if (!text) {
    return std::move(text).error();
  }
  auto meta = parse_meta(*text);
  if (!meta) {
    return std::move(meta)
        .error()
        .within("'" + path_ + "/meta.json'")
        .with_hint(
            "its files lie in 'root' beside it; with the folder moved away, the next start restores the last "
            "snapshot");
  }
  auto fence = read_at(fd_.get(), kFence);
  if (!fence && fence.error().kind != ErrorKind::not_found) {
    return std::move(fence).error();
  }
  if (fence) {
    std::uint64_t seen = 0;
    std::from_chars(fence->data(), fence->data() + fence->size(), seen);
    meta->fence_seen = std::max(meta->fence_seen, seen);
  }
  return meta;
}

Result<void> Folder::write_fence(std::uint64_t fence) const {
  const UniqueFd fd(::openat(fd_.get(), kFence, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string text = fmt::format("{:020}\n", fence);
  if (!fd.is_open() || ::pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return errno_error("writing '" + path_ + "/" + kFence + "'", errno);
  }
  return ok();
}

Result<void> Folder::write_meta(const Meta& meta) const {
  return write_file_atomic(path_ + "/meta.json", dump_json(meta_json(meta), 1) + "\n");
}

Result<std::optional<Run>> Folder::read_run() const {
  auto text = read_at(fd_.get(), "run.json");
  if (!text) {
    if (text.error().kind == ErrorKind::not_found) {
      return std::optional<Run>();
    }
    return std::move(text).error();
  }
  // Cut by a crash of the machine, after which nothing of then runs any more; or altered, and then whoever
  // listens in the folder is no guest that we know.
  auto run = parse_run(*text);
  return run ? std::optional<Run>(std::move(*run)) : std::optional<Run>();
}

Result<void> Folder::write_run(const Run& run) const {
  Json cgroups = Json::array();
  for (const std::string& path : run.cgroups) {
    cgroups.push_back(bytes_json(path));
  }
  const Json json{{"pid", run.pid},
                  {"start_time", run.start_time},
                  {"not_enforced", run.not_enforced},
                  {"cgroups", cgroups}};
  UniqueFd fd(
      ::openat(fd_.get(), "run.json.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) {
    return errno_error("writing '" + path_ + "/run.json'", errno);
  }
  ASCOPE_TRY(write_all(fd.get(), dump_json(json) + "\n"));
  ASCOPE_TRY(fd.close());
  if (::renameat(fd_.get(), "run.json.new", fd_.get(), "run.json") != 0) {
    return errno_error("writing '" + path_ + "/run.json'", errno);
  }
  return ok();
}

Result<void> Folder::remove_run() const {
  if (::unlinkat(fd_.get(), "run.json", 0) != 0 && errno != ENOENT) {
    return errno_error("removing '" + path_ + "/run.json'", errno);
  }
  return ok();
}

Result<std::optional<std::string>> Folder::read_mark() const {
  auto text = read_at(fd_.get(), "mark");
  if (!text && text.error().kind == ErrorKind::not_found) {
    return std::optional<std::string>();
  }
  return text ? Result(std::optional(std::move(*text))) : std::move(text).error();
}

Result<void> Folder::write_mark(const std::optional<std::string>& mark) const {
  return mark ? write_file_atomic(path_ + "/mark", *mark) : remove_file(path_ + "/mark");
}

Result<UniqueFd> lock_file(const OpContext& ctx, const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) {
    if (errno == ENOENT) {
      return make_error(ErrorKind::not_found, "the sandbox is gone");
    }
    return errno_error("opening '" + path + "'", errno);
  }
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return errno_error("locking '" + path + "'", errno);
    }
    ASCOPE_TRY(ctx.sleep(Millis(2), "waiting for another command on the sandbox"));
  }
  return fd;
}

Result<UniqueFd> Folder::lock(const OpContext& ctx) const {
  ASCOPE_TRY_ASSIGN(UniqueFd fd, lock_file(ctx, path_ + "/lock"));
  ASCOPE_TRY_ASSIGN(const bool still_there, exists());
  if (!still_there) {
    return make_error(ErrorKind::not_found, "the sandbox is gone");
  }
  return fd;
}

Result<void> Folder::remove() const {
  ASCOPE_TRY_ASSIGN(Meta meta, read_meta());
  if (meta.ready) {
    meta.ready = false;
    auto written = write_meta(meta);
    if (!written && (written.error().os_error == ENOSPC || written.error().os_error == EDQUOT)) {
      // What frees a full disk must need no room on it: without meta.json the folder counts as unfinished
      // too.
      written = remove_file(path_ + "/meta.json");
    }
    ASCOPE_TRY(std::move(written));
  }
  auto root = open_root();
  if (root) {
    ASCOPE_TRY(remove_tree_contents(std::move(root).value(), {}));
    if (::unlinkat(fd_.get(), "root", AT_REMOVEDIR) != 0) {
      return errno_error("removing '" + path_ + "/root'", errno);
    }
  } else if (root.error().kind != ErrorKind::not_found) {
    return std::move(root).error();
  }
  ASCOPE_TRY_ASSIGN(const auto names, list_dir(path_));
  for (const std::string& name : names) {
    ASCOPE_TRY(remove_file(path_ + "/" + name));
  }
  if (::rmdir(path_.c_str()) != 0 && errno != ENOENT) {
    return errno_error("removing '" + path_ + "'", errno);
  }
  return ok();
}

}  // namespace ascope::local
