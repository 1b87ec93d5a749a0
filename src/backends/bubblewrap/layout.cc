// SPDX-License-Identifier: Apache-2.0
#include "backends/bubblewrap/layout.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "core/base/file.h"

namespace ascope::bwrap {

namespace {

constexpr const char* kSystemFolders[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
// Of /etc only what programs need to find libraries, certificates, names of services and the time zone.
constexpr const char* kEtcPlaces[] = {"/etc/ld.so.cache",     "/etc/ld.so.conf",
                                      "/etc/ld.so.conf.d",    "/etc/alternatives",
                                      "/etc/ssl/certs",       "/etc/ssl/openssl.cnf",
                                      "/etc/ca-certificates", "/etc/ca-certificates.conf",
                                      "/etc/pki/tls/certs",   "/etc/pki/ca-trust/extracted",
                                      "/etc/crypto-policies", "/etc/localtime",
                                      "/etc/mime.types",      "/etc/services",
                                      "/etc/protocols",       "/etc/fonts",
                                      "/etc/terminfo",        "/etc/magic"};
constexpr const char* kNetworkPlaces[] = {"/etc/resolv.conf", "/etc/hosts"};
// What `rootfs: DIR` brings besides its system folders.
constexpr const char* kRootfsFolders[] = {"/etc", "/opt"};
constexpr const char* kGenerated[] = {"/etc/passwd", "/etc/group", "/etc/hostname", "/etc/hosts"};
// Places the guest or the kernel fills; nothing of the profile may be bound there.
constexpr const char* kOwnPlaces[] = {"/proc", "/dev", "/tmp", "/run", "/sys"};

bool is_below(std::string_view path, std::string_view folder) {
  return path == folder || (path.size() > folder.size() && path.substr(0, folder.size()) == folder &&
                            path[folder.size()] == '/');
}

// Adds `inside` from below `base` if it is there: a link as a link, else a bind of what it leads to.
void add_system(const std::string& base, const std::string& inside, bool keep_link, Layout& layout) {
  const std::string source = base + inside;
  struct stat info{};
  if (::lstat(source.c_str(), &info) != 0) {
    return;
  }
  if (S_ISLNK(info.st_mode) && keep_link) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlink(source.c_str(), target.data(), target.size() - 1);
    if (length > 0) {
      layout.links.emplace_back(inside, std::string(target.data(), static_cast<std::size_t>(length)));
    }
    return;
  }
  std::array<char, PATH_MAX> real{};
  if (::realpath(source.c_str(), real.data()) == nullptr || ::stat(real.data(), &info) != 0) {
    return;
  }
  if (S_ISDIR(info.st_mode) || S_ISREG(info.st_mode)) {
    layout.system.push_back({real.data(), inside, true, S_ISDIR(info.st_mode)});
  }
}

Result<void> add_mounts(const SandboxSettings& settings, Layout& layout) {
  for (const MountSpec& mount : settings.mounts) {
    struct stat info{};
    if (::stat(mount.host_path.c_str(), &info) != 0) {
      return make_error(ErrorKind::config, "mount '" + mount.host_path + "' does not exist on this host",
                        "create it, or take it out of the profile");
    }
    const std::string place = absolute_path(mount.path, "/");
    for (const char* own : kOwnPlaces) {
      if (place == "/" || (is_below(place, own) && std::string_view(own) != "/tmp")) {
        return make_error(ErrorKind::unsupported, "nothing can be mounted at '" + place + "' in the sandbox");
      }
    }
    for (const Bind& other : layout.system) {
      if (is_below(place, other.target)) {
        return make_error(ErrorKind::unsupported,
                          "'" + place + "' lies in a read-only system folder of the sandbox",
                          "mount it elsewhere, for example below '/workspace'");
      }
    }
    for (const Bind& other : layout.mounts) {
      if (is_below(place, other.target) || is_below(other.target, place)) {
        return make_error(ErrorKind::unsupported,
                          "mounts '" + other.target + "' and '" + place + "' lie in each other");
      }
    }
    layout.mounts.push_back({mount.host_path, place, mount.read_only, S_ISDIR(info.st_mode)});
  }
  return ok();
}

Result<void> write_inside(int root, const std::string& path, std::string_view text,
                          const std::optional<Owner>& owner) {
  const auto slash = path.rfind('/');
  ASCOPE_TRY_ASSIGN(const UniqueFd folder, make_inside(root, path.substr(0, slash), owner));
  UniqueFd fd(::openat(folder.get(), path.c_str() + slash + 1,
                       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.is_open()) {
    return errno_error("writing '" + path + "' of the sandbox", errno);
  }
  if (auto written = write_all(fd.get(), text); !written) {
    return std::move(written).error().within("writing '" + path + "' of the sandbox");
  }
  if (::fchmod(fd.get(), 0644) != 0 || (owner && ::fchown(fd.get(), owner->uid, owner->gid) != 0)) {
    return errno_error("writing '" + path + "' of the sandbox", errno);
  }
  return fd.close();
}

struct NewFolder {
  const char* path;
  mode_t mode;
  std::uint32_t owner;
};

Result<void> make_folder(int root, const Meta& meta, const NewFolder& wanted) {
  ASCOPE_TRY_ASSIGN(const UniqueFd fd, make_inside(root, wanted.path, host_owner(meta, 0)));
  const auto owner = host_owner(meta, wanted.owner);
  if ((owner && ::fchown(fd.get(), owner->uid, owner->gid) != 0) || ::fchmod(fd.get(), wanted.mode) != 0) {
    return errno_error(std::string("making '") + wanted.path + "' of the sandbox", errno);
  }
  return ok();
}

// Makes `name` in `folder` what it must be: a folder, an empty file, or a link with the text `target`.
enum class PlaceType { folder, file, link };
Result<void> make_place(int folder, const std::string& name, PlaceType type, const std::string& target,
                        const std::optional<Owner>& owner) {
  struct stat info{};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    const bool right = (type == PlaceType::folder && S_ISDIR(info.st_mode)) ||
                       (type == PlaceType::file && S_ISREG(info.st_mode));
    std::array<char, PATH_MAX> text{};
    const bool same_link = type == PlaceType::link && S_ISLNK(info.st_mode) &&
                           ::readlinkat(folder, name.c_str(), text.data(), text.size() - 1) > 0 &&
                           target == text.data();
    if (right || same_link) {
      return ok();
    }
    if (::unlinkat(folder, name.c_str(), S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0) != 0) {
      return errno_error("clearing '" + name + "' in the sandbox's tree", errno);
    }
  } else if (errno != ENOENT) {
    return errno_error("looking at '" + name + "' in the sandbox's tree", errno);
  }
  // What we cover is no change of the agent's: the folder keeps its time, or the next save would find one.
  struct stat around{};
  int result = ::fstat(folder, &around);
  if (result != 0) {
    return errno_error("looking at the sandbox's tree", errno);
  }
  if (type == PlaceType::folder) {
    result = ::mkdirat(folder, name.c_str(), 0755);
  } else if (type == PlaceType::link) {
    result = ::symlinkat(target.c_str(), folder, name.c_str());
  } else {
    const UniqueFd fd(
        ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444));
    result = fd.is_open() ? 0 : -1;
  }
  if (result != 0 ||
      (owner && ::fchownat(folder, name.c_str(), owner->uid, owner->gid, AT_SYMLINK_NOFOLLOW) != 0)) {
    return errno_error("making '" + name + "' in the sandbox's tree", errno);
  }
  const struct timespec times[] = {around.st_atim, around.st_mtim};
  if (::futimens(folder, times) != 0) {
    return errno_error("setting the time of a folder in the sandbox's tree", errno);
  }
  return ok();
}

Result<void> prepare_place(int root, const std::string& place, PlaceType type, const std::string& target,
                           const std::optional<Owner>& owner) {
  UniqueFd folder(::openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (std::size_t at = 1; at < place.size();) {
    const auto slash = std::min(place.find('/', at), place.size());
    const std::string name = place.substr(at, slash - at);
    const bool last = slash == place.size();
    ASCOPE_TRY(make_place(folder.get(), name, last ? type : PlaceType::folder, target, owner));
    if (!last) {
      folder =
          UniqueFd(::openat(folder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
      if (!folder.is_open()) {
        return errno_error("opening '" + place.substr(0, slash) + "' in the sandbox's tree", errno);
      }
    }
    at = slash + 1;
  }
  return ok();
}

}  // namespace

std::optional<Owner> host_owner(const Meta& meta, std::uint32_t id_inside) {
  if (!meta.id_base) {
    return std::nullopt;
  }
  return Owner{*meta.id_base + id_inside, *meta.id_base + id_inside};
}

Result<Layout> plan_layout(const SandboxSettings& settings) {
  Layout layout;
  const bool of_host = settings.rootfs == "host";
  const std::string base = of_host ? std::string() : settings.rootfs;
  for (const char* folder : kSystemFolders) {
    add_system(base, folder, true, layout);
  }
  if (layout.system.empty()) {
    return make_error(ErrorKind::config, "root folder '" + settings.rootfs + "' has no '/usr'");
  }
  if (of_host) {
    for (const char* place : kEtcPlaces) {
      add_system(base, place, std::string_view(place) == "/etc/localtime", layout);
    }
    if (settings.network == "host") {
      for (const char* place : kNetworkPlaces) {
        add_system(base, place, false, layout);
      }
    }
  } else {
    for (const char* folder : kRootfsFolders) {
      add_system(base, folder, true, layout);
    }
    for (const char* place : kGenerated) {
      struct stat info{};
      if (::lstat((base + place).c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
        layout.generated.emplace_back(place);
      }
    }
  }
  ASCOPE_TRY(add_mounts(settings, layout));
  return layout;
}

std::vector<std::string> covered_places(const Layout& layout) {
  std::vector<std::string> out(std::begin(kOwnPlaces), std::end(kOwnPlaces));
  for (const auto* list : {&layout.system, &layout.mounts}) {
    for (const Bind& bind : *list) {
      out.push_back(bind.target);
    }
  }
  return out;
}

Result<UniqueFd> open_inside(int root, const std::string& path) {
  const std::string relative = path.size() > 1 ? path.substr(1) : ".";
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, root, relative.c_str(), &how, sizeof how)));
  if (!fd.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) {
      return make_error(ErrorKind::not_found, "no folder '" + path + "' in the sandbox");
    }
    return errno_error("opening '" + path + "' of the sandbox", errno);
  }
  return fd;
}

Result<UniqueFd> make_inside(int root, const std::string& path, const std::optional<Owner>& owner) {
  if (path.size() > 1) {
    auto present = open_inside(root, path);
    if (present || present.error().kind != ErrorKind::not_found) {
      return present;
    }
    ASCOPE_TRY(prepare_place(root, path, PlaceType::folder, {}, owner));
  }
  return open_inside(root, path);
}

Result<void> make_tree(const Folder& folder, const Meta& meta, const SandboxSettings& settings) {
  if (::mkdirat(folder.fd(), "root", 0755) != 0) {
    return errno_error("making '" + folder.path() + "/root'", errno);
  }
  ASCOPE_TRY_ASSIGN(const UniqueFd root, folder.open_root());
  const auto owner = host_owner(meta, 0);
  if (::fchmod(root.get(), 0755) != 0 || (owner && ::fchown(root.get(), owner->uid, owner->gid) != 0)) {
    return errno_error("making '" + folder.path() + "/root'", errno);
  }
  for (const NewFolder& wanted :
       {NewFolder{"/etc", 0755, 0}, NewFolder{"/home", 0755, 0}, NewFolder{"/opt", 0755, 0},
        NewFolder{"/mnt", 0755, 0}, NewFolder{"/srv", 0755, 0}, NewFolder{"/var", 0755, 0},
        NewFolder{"/var/tmp", 01777, 0}, NewFolder{"/var/lib", 0755, 0}, NewFolder{"/var/cache", 0755, 0},
        NewFolder{"/var/log", 0755, 0}, NewFolder{"/root", 0700, 0},
        NewFolder{"/home/agent", 0755, kAgentId}}) {
    ASCOPE_TRY(make_folder(root.get(), meta, wanted));
  }
  ASCOPE_TRY(make_folder(root.get(), meta, {settings.workspace_root.c_str(), 0755, kAgentId}));
  ASCOPE_TRY(prepare_place(root.get(), "/var/run", PlaceType::link, "/run", owner));
  const char* shell = ::access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
  const std::string passwd =
      std::string("root:x:0:0:root:/root:") + shell +
      "\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:" + shell +
      "\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
  ASCOPE_TRY(write_inside(root.get(), "/etc/passwd", passwd, owner));
  ASCOPE_TRY(write_inside(root.get(), "/etc/group",
                          "root:x:0:\ndaemon:x:1:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n", owner));
  ASCOPE_TRY(write_inside(root.get(), "/etc/hostname", "sandbox\n", owner));
  ASCOPE_TRY(write_inside(root.get(), "/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 sandbox\n::1 localhost\n",
                          owner));
  return write_inside(
      root.get(), "/etc/nsswitch.conf",
      "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
      owner);
}

Result<void> prepare_places(const Folder& folder, const Meta& meta, const Layout& layout) {
  ASCOPE_TRY_ASSIGN(const UniqueFd root, folder.open_root());
  const auto owner = host_owner(meta, 0);
  for (const char* place : kOwnPlaces) {
    ASCOPE_TRY(prepare_place(root.get(), place, PlaceType::folder, {}, owner));
  }
  for (const Bind& bind : layout.system) {
    ASCOPE_TRY(prepare_place(root.get(), bind.target, bind.is_folder ? PlaceType::folder : PlaceType::file,
                             {}, owner));
  }
  for (const std::string& place : layout.generated) {
    ASCOPE_TRY(prepare_place(root.get(), place, PlaceType::file, {}, owner));
  }
  for (const auto& [place, target] : layout.links) {
    ASCOPE_TRY(prepare_place(root.get(), place, PlaceType::link, target, owner));
  }
  for (const Bind& bind : layout.mounts) {
    if (is_below(bind.target, "/tmp")) {
      continue;  // in the sandbox's own tmpfs: nothing of the tree is touched
    }
    ASCOPE_TRY(prepare_place(root.get(), bind.target, bind.is_folder ? PlaceType::folder : PlaceType::file,
                             {}, host_owner(meta, kAgentId)));
  }
  return ok();
}

}  // namespace ascope::bwrap
