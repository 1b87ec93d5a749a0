// SPDX-License-Identifier: Apache-2.0
// What is known of files by their stat data, so that an unchanged tree is not read again.
//
// File: JSON {"schema":"ascope.stat-cache/1","host":[[path,size,mtime_ns,ctime_ns,inode,sha256]],
// "workspace":[…],"source":{"list":…,"hash":…}}. It is a cache: one that cannot be read or written costs time
// only and is said in the log. Paths that are not UTF-8 are not kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/op_context.h"

namespace ascope {

struct FileStat {
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;  // 0 = not known: never found, never kept
  std::uint64_t inode = 0;
  bool operator==(const FileStat&) const = default;
};

class StatCache {
 public:
  enum class Side : std::uint8_t { host, workspace };

  // `path` "" = kept in memory only. `now` is the wall clock when the look at the files begins: a file
  // touched within two seconds of it (the grain of the coarsest clock in use) may change again without a
  // trace and is not kept.
  StatCache(std::string path, const Clock& clock);
  [[nodiscard]] std::optional<std::string> find(Side side, const std::string& path,
                                                const FileStat& stat) const;
  void put(Side side, const std::string& path, const FileStat& stat, const std::string& sha256);
  // The projection hash last computed for the list of files with this digest.
  [[nodiscard]] std::optional<std::string> find_source(const std::string& list_digest) const;
  void put_source(const std::string& list_digest, const std::string& hash);
  // Writes what was found or put since loading, atomically, if it differs from what was read.
  void save();

 private:
  struct Known {
    FileStat stat;
    std::string sha256;
    bool operator==(const Known&) const = default;
  };
  using Files = std::map<std::string, Known>;
  void load();

  std::string path_;
  std::int64_t settled_ns_;
  Files old_[2];
  mutable Files new_[2];
  std::string list_digest_, source_hash_;
  bool source_changed_ = false;
};

}  // namespace ascope
