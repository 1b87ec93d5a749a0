// SPDX-License-Identifier: Apache-2.0
#include "guest/users.h"

#include <charconv>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ascope::guest {

namespace {

constexpr std::size_t kMaxDatabaseBytes = 1U << 20U;

// The file's beginning; empty if it cannot be read: then it names nobody.
std::string read_database(const char* path) {
  std::string text;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat info{};
  if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (fd >= 0) {
      ::close(fd);
    }
    return text;
  }
  char buffer[4096];
  ssize_t count = 0;
  while (text.size() < kMaxDatabaseBytes && (count = ::read(fd, buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(fd);
  return text;
}

std::string_view take_until(std::string_view& rest, char end) {
  const auto at = std::min(rest.find(end), rest.size());
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return part;
}

bool parse_id(std::string_view text, std::uint32_t& id) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), id);
  return !text.empty() && parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() &&
         id != 0xffffffffU;
}

// Finds the line of a name or, with an empty name, of a uid.
bool find_in_passwd(std::string_view name, uid_t uid, User& user) {
  const std::string text = read_database("/etc/passwd");
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = take_until(rest, '\n');
    const std::string_view line_name = take_until(line, ':');
    take_until(line, ':');
    std::uint32_t line_uid = 0;
    std::uint32_t line_gid = 0;
    if (!parse_id(take_until(line, ':'), line_uid) || !parse_id(take_until(line, ':'), line_gid)) {
      continue;
    }
    if (name.empty() ? line_uid != uid : line_name != name) {
      continue;
    }
    take_until(line, ':');
    user.uid = line_uid;
    user.gid = line_gid;
    user.name = line_name;
    user.home = take_until(line, ':');
    return true;
  }
  return false;
}

void add_groups(User& user) {
  const std::string text = read_database("/etc/group");
  std::string_view rest = text;
  while (!rest.empty() && user.groups.size() < 1024) {
    std::string_view line = take_until(rest, '\n');
    take_until(line, ':');
    take_until(line, ':');
    std::uint32_t gid = 0;
    if (!parse_id(take_until(line, ':'), gid)) {
      continue;
    }
    while (!line.empty()) {
      if (take_until(line, ',') == user.name) {
        user.groups.push_back(gid);
        break;
      }
    }
  }
}

bool find_group(std::string_view name, gid_t& gid) {
  const std::string text = read_database("/etc/group");
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = take_until(rest, '\n');
    const std::string_view line_name = take_until(line, ':');
    take_until(line, ':');
    std::uint32_t found = 0;
    if (line_name == name && parse_id(take_until(line, ':'), found)) {
      gid = found;
      return true;
    }
  }
  return false;
}

bool find_any_user(const GuestConfig& config, std::string_view wanted, User& user) {
  if (wanted.empty() || wanted == config.user) {
    user = User{config.uid, config.gid, config.user, config.home, {}};
    return true;
  }
  std::string_view ids = wanted;
  std::uint32_t uid = 0;
  if (parse_id(take_until(ids, ':'), uid)) {
    std::uint32_t gid = 0;
    if (!ids.empty() && !parse_id(ids, gid) && !find_group(ids, gid)) {
      return false;
    }
    if (!find_in_passwd({}, uid, user)) {
      user = User{uid, uid, std::string(wanted.substr(0, wanted.find(':'))), "/", {}};
    }
    if (!ids.empty()) {
      user.gid = gid;
    }
    return true;
  }
  if (wanted == "root" && !find_in_passwd(wanted, 0, user)) {
    user = User{0, 0, "root", "/root", {}};
    return true;
  }
  std::string_view group = wanted;
  const std::string_view name = take_until(group, ':');
  if (name.empty() || !find_in_passwd(name, 0, user)) {
    return false;
  }
  return group.empty() || parse_id(group, user.gid) || find_group(group, user.gid);
}

}  // namespace

bool find_user(const GuestConfig& config, std::string_view wanted, User& user) {
  if (!find_any_user(config, wanted, user)) {
    return false;
  }
  if (config.one_user) {
    return user.uid == config.uid && user.gid == config.gid;
  }
  add_groups(user);
  return true;
}

}  // namespace ascope::guest
