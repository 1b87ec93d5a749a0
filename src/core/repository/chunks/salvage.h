// SPDX-License-Identifier: Apache-2.0
// The entries of a damaged manifest that can still be read whole, and what cannot be named.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/repository/chunks/entry_reader.h"

namespace ascope::chunks {

// Something that cannot be read: an entry, or with `until` all entries from `path` up to that path; without
// one behind, `until` is empty and `is_range` set.
struct LostEntry {
  std::string path;
  bool is_range = false;
  std::string until;
  std::string what;
};

struct SalvagedEntry {
  TreeEntry entry;
  std::vector<ChunkRef> refs;  // all of a file; `pack` counts in the root's list
};

// Walks one part, forward. Pages are read one by one, and those that cannot be read are passed over; a file
// of which a part lies in such a page is lost, a hard link to something lost too. Folders whose own entry is
// lost are made up where something in them is left. Memory: a page, and the references of one file.
class Salvage {
 public:
  // `manifest` and `pages`, which is one of its lists, outlive it.
  Salvage(const Access& access, const Manifest& manifest, const std::vector<PageRef>& pages);

  // The next entry; false: the end. An `unavailable` store is an error, damage is none.
  Result<bool> next(const OpContext& ctx, SalvagedEntry& out);
  // The content of the last entry cannot be read: hard links to it are lost too.
  void lose(const std::string& path, std::string what);
  // So far, in the order in which it was met.
  [[nodiscard]] const std::vector<LostEntry>& lost() const { return lost_; }

 private:
  // The next record; nullopt: the end. `gap_` tells that a page before it was lost.
  Result<std::optional<PageRecord>> advance(const OpContext& ctx);
  Result<bool> open_page(const OpContext& ctx, const PageRef& page);
  Result<bool> take_entry(const OpContext& ctx, PageRecord record, SalvagedEntry& out);
  bool take_data(PageRecord& record, SalvagedEntry& out);
  [[nodiscard]] bool is_lost(const std::string& path) const;
  // Made-up folders that lead to `path`, into ready_.
  void lead_to(const std::string& path);

  const Access& access_;
  const Manifest& manifest_;
  const std::vector<PageRef>& pages_;
  std::map<PackName, std::uint32_t> pack_of_;
  FrameDecompressor decompressor_;
  std::size_t next_page_ = 0;
  std::optional<PageReader> page_;
  std::vector<std::uint32_t> page_packs_;
  bool gap_ = false;
  std::optional<PageRecord> ahead_;
  std::vector<std::string> folders_;  // that the present entry lies in
  std::string last_path_;
  bool any_ = false;
  std::vector<SalvagedEntry> ready_;  // to be given, the last first
  std::vector<LostEntry> lost_;
  std::set<std::string> lost_paths_;
};

}  // namespace ascope::chunks
