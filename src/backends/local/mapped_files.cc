// SPDX-License-Identifier: Apache-2.0
#include "backends/local/mapped_files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "core/base/file.h"

namespace ascope::local {

namespace {

constexpr std::size_t kMaxMapsBytes = 64U << 20U;
constexpr int kMostLooks = 5;

std::string_view next_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

std::string proc_folder(pid_t pid) {
  return "/proc/" + std::to_string(pid);
}

// A process that is gone has nothing; nullopt: it is there and does not let us look.
std::optional<std::string> read_proc(const std::string& path) {
  auto text = read_file(path, kMaxMapsBytes);
  if (text) {
    return std::move(*text);
  }
  const int error = text.error().os_error;
  return error == ENOENT || error == ESRCH ? std::optional<std::string>("") : std::nullopt;
}

// nullopt where the kernel does not list children.
std::optional<std::set<pid_t>> descendants(pid_t root) {
  std::set<pid_t> out;
  std::vector<pid_t> todo{root};
  while (!todo.empty()) {
    const std::string folder = proc_folder(todo.back()) + "/task";
    todo.pop_back();
    const auto threads = list_dir(folder);
    if (!threads) {
      continue;  // it ended
    }
    for (const std::string& thread : *threads) {
      const auto listed = read_file(fmt::format("{}/{}/children", folder, thread), kMaxMapsBytes);
      if (!listed) {
        const auto there = path_exists("/proc/self/task/" + std::to_string(::gettid()) + "/children");
        if (!there || !*there) {
          return std::nullopt;
        }
        continue;
      }
      std::string_view rest = *listed;
      for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
        pid_t child = 0;
        std::from_chars(word.data(), word.data() + word.size(), child);
        if (child > 0 && out.insert(child).second) {
          todo.push_back(child);
        }
      }
    }
  }
  return out;
}

}  // namespace

void add_mapped_files(std::string_view maps, std::set<std::uint64_t>& inodes) {
  // 7f0000000000-7f0000001000 rw-s 00000000 fe:00 1234   /path
  while (!maps.empty()) {
    std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    next_word(line);
    const std::string_view rights = next_word(line);
    if (rights.size() != 4 || rights[3] != 's') {
      continue;
    }
    // A mapping that is not writable now may have been, or become so: its file was opened for writing or not,
    // which maps does not tell.
    next_word(line);
    next_word(line);
    const std::string_view number = next_word(line);
    std::uint64_t inode = 0;
    std::from_chars(number.data(), number.data() + number.size(), inode);
    if (inode != 0) {
      inodes.insert(inode);
    }
  }
}

namespace {

using Found = std::optional<std::set<std::uint64_t>>;
using ListProcesses = std::optional<std::set<pid_t>> (*)(pid_t guest);

// nullopt where a process does not let us look.
std::optional<std::set<pid_t>> namespace_members(pid_t guest) {
  struct stat its{};
  const auto look = [](pid_t pid, struct stat& info) {
    return ::stat((proc_folder(pid) + "/ns/pid").c_str(), &info) == 0;
  };
  std::optional<std::set<pid_t>> out = descendants(guest);
  const auto names = list_dir("/proc");
  if (!out || !names) {
    return std::nullopt;
  }
  if (!look(guest, its)) {
    return errno == ENOENT || errno == ESRCH ? out : std::nullopt;
  }
  for (const std::string& name : *names) {
    pid_t pid = 0;
    struct stat info{};
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size() && pid != guest &&
        look(pid, info) && info.st_ino == its.st_ino) {
      out->insert(pid);
    }
  }
  return out;
}

Result<Found> mapped_files(pid_t guest, ListProcesses list) {
  std::optional<std::set<pid_t>> before = list(guest);
  for (int look = 0; before && look < kMostLooks; ++look) {
    std::set<std::uint64_t> inodes;
    for (const pid_t pid : *before) {
      const auto maps = read_proc(proc_folder(pid) + "/maps");
      if (!maps) {
        return Found();
      }
      add_mapped_files(*maps, inodes);
    }
    const auto after = list(guest);
    if (after == before) {
      return Found(std::move(inodes));
    }
    before = after;
  }
  return Found();
}

}  // namespace

Result<std::optional<std::set<std::uint64_t>>> mapped_files_below(pid_t guest) {
  return mapped_files(guest, descendants);
}

Result<std::optional<std::set<std::uint64_t>>> mapped_files_beside(pid_t guest) {
  return mapped_files(guest, namespace_members);
}

}  // namespace ascope::local
