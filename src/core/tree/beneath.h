// SPDX-License-Identifier: Apache-2.0
// Opening below a folder descriptor without following a link or leaving the file system (protocols 4.5).
// Internal to core/tree: answers errno values, since what they mean depends on the caller.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"

namespace ascope {

struct Opened {
  UniqueFd fd;
  int error = 0;  // errno of the failure; ELOOP: a part is a link; EXDEV: another file system
};

// Opens `path` (relative, of any length, "" = `dir` itself) below `dir`. O_CLOEXEC and O_NOFOLLOW are added;
// with O_PATH a link at the end is opened itself. Where openat2(2) is missing or filtered, walks part by part
// and compares mount ids.
Opened open_beneath(int dir, std::string_view path, int flags);

// "/proc/self/fd/N", through which an O_PATH descriptor can be opened or given a mode without its name.
std::string proc_path(int fd);

// Names in a folder, without "." and "..", sorted by bytes; packed, as a folder may hold millions.
class NameList {
 public:
  // Reads all of `dir` (opened for reading) from its start.
  Result<void> read(int dir);
  // Replaces the list by `names` (already sorted).
  void assign(const std::vector<std::string>& names);
  [[nodiscard]] std::size_t size() const { return starts_.size(); }
  [[nodiscard]] const char* at(std::size_t index) const { return bytes_.c_str() + starts_[index]; }

 private:
  Result<void> add(std::string_view name);
  std::string bytes_;  // each with its NUL
  std::vector<std::uint32_t> starts_;
};

// A depth-first way through a tree: the levels from the top down to where we are. Keeps the descriptors of
// the deepest levels only; an upper one is opened again on the way back and must be the same inode.
class Descent {
 public:
  struct Level {
    UniqueFd fd;
    NameList names;
    std::size_t next = 0;
    std::size_t path_bytes = 0;  // length of this folder's path within path()
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    int restore_mode = -1;  // what the folder's mode is put back to when we leave, -1: nothing
    bool flag = false;      // of the caller
  };

  explicit Descent(int top) : top_(top) {}
  ~Descent();
  Descent(const Descent&) = delete;
  Descent& operator=(const Descent&) = delete;

  // Goes into the folder open as `fd` at path() (as left by child()).
  Result<void> enter(UniqueFd fd, NameList names);
  [[nodiscard]] bool empty() const { return levels_.empty(); }
  [[nodiscard]] std::size_t depth() const { return levels_.size(); }
  Level& level() { return levels_.back(); }
  [[nodiscard]] const Level& level() const { return levels_.back(); }
  // Sets path() to that of `name` in the present level.
  void child(const char* name);
  // Sets path() to the present level's own.
  void at_level() { path_.resize(levels_.back().path_bytes); }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Leaves the present level; path() is that of the folder left. false: the level above is no longer the
  // folder it was (moved away meanwhile) and was dropped with all above it that could not be found.
  bool leave();

 private:
  bool reopen(int child);

  int top_;
  std::string path_;
  std::vector<Level> levels_;
};

}  // namespace ascope
