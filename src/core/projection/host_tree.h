// SPDX-License-Identifier: Apache-2.0
// The host's side of the projection: which files of a folder are taken, and what is refused. Reads by folder
// descriptors and never outside the folder, whatever links lie in it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/projection/stat_cache.h"
#include "core/tree/tree.h"

namespace ascope {

// A host folder that is read by descriptors.
class HostFolder {
 public:
  // `config` if `path` is missing or no folder.
  static Result<std::shared_ptr<HostFolder>> open(const std::string& path);
  [[nodiscard]] const std::string& path() const { return path_; }
  // Opens the regular file `relative`, links that stay inside the folder included. `not_found` if it is gone
  // or none.
  [[nodiscard]] Result<UniqueFd> open_regular(const std::string& relative) const;
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  HostFolder(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
};

struct HostFile {
  std::shared_ptr<HostFolder> folder;
  std::string relative;    // below the folder
  std::uint32_t mode = 0;  // 0755 or 0644
  FileStat stat;
  std::string sha256;  // filled by hash_host_files
};

struct HostTree {
  std::map<std::string, HostFile> files;  // by workspace path
  std::vector<TreeNote> refused;          // by workspace path: links that leave the folder, special files …
  std::vector<TreeNote> notes;
};

// Adds the files below the includes of `folder` to `tree`, under `prefix` ("" or "NAME/"). A missing include
// is skipped, "" too; one that leaves the folder is `config`. Empty folders are not part of a projection.
Result<void> collect_host_files(const std::shared_ptr<HostFolder>& folder,
                                const std::vector<std::string>& include, const std::string& prefix,
                                HostTree& tree);
// Fills sha256, from the cache where the stat data tells that nothing changed.
Result<void> hash_host_files(HostTree& tree, StatCache& cache);
// AgentScope's workspaceProjectionHash over all files (reference 7.3). Remembered in the cache: reads the
// files only when one of them changed.
Result<std::string> projection_hash(const HostTree& tree, StatCache& cache);
// Order by UTF-16 code units, as Java sorts strings; bytes that are not UTF-8 sort as bytes.
bool utf16_less(std::string_view a, std::string_view b);

}  // namespace ascope
