// SPDX-License-Identifier: Apache-2.0
// Puts entries that come in any order into path order, through sorted runs in a file without a name: memory
// does not grow with the tree. A hard link may come to stand before its target; then the two change places.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/repository/chunks/part_writer.h"

namespace ascope::chunks {

class EntrySpool final : public EntrySink {
 public:
  // `folder` holds the file; `packs` outlives the spool.
  EntrySpool(std::string folder, const std::vector<PackName>& packs)
      : folder_(std::move(folder)), packs_(packs) {}

  Result<void> add(const OpContext& ctx, const TreeEntry& entry, const std::vector<ChunkRef>& refs) override;
  // Gives all entries in order. `number` turns a pack's name into its number.
  Result<void> replay(const OpContext& ctx, const std::map<PackName, std::uint32_t>& number, EntrySink& into);

 private:
  // An entry in its stored form: a page of its own (page.h).
  struct Item {
    std::string path;
    std::string page;
  };
  class RunReader;
  struct Replay;

  void note_link(TreeEntry& entry);
  Result<void> write_run();
  Result<std::map<std::string, std::string>> fetch_exchanged();

  std::string folder_;
  const std::vector<PackName>& packs_;
  UniqueFd fd_;
  std::uint64_t end_ = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs_;  // begin and end
  std::vector<Item> items_;
  std::size_t bytes_ = 0;
  std::map<std::string, std::string> target_of_;   // hard link → the entry that is no link
  std::map<std::string, std::string> first_link_;  // that entry → its first link in path order
};

}  // namespace ascope::chunks
