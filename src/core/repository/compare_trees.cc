// SPDX-License-Identifier: Apache-2.0
#include "core/repository/compare_trees.h"

#include <algorithm>
#include <map>

#include "core/base/hash.h"
#include "core/tree/entry_codec.h"

namespace ascope {

namespace {

constexpr std::size_t kPage = 4096;

// Digest of a file's logical content: pages of zeros are left out, so that holes equal zeros.
class ContentDigest {
 public:
  void add(const DataBlock& block) {
    std::uint64_t at = block.offset;
    ByteView rest = block.bytes;
    while (!rest.empty()) {
      if (at / kPage != number_ || page_.empty()) {
        flush();
        number_ = at / kPage;
        page_.assign(kPage, '\0');
      }
      const auto inside = static_cast<std::size_t>(at % kPage);
      const std::size_t count = std::min(kPage - inside, rest.size());
      page_.replace(inside, count, rest.substr(0, count));
      at += count;
      rest.remove_prefix(count);
    }
  }
  std::string finish() {
    flush();
    return hash_.finish();
  }

 private:
  void flush() {
    if (page_.find_first_not_of('\0') != std::string::npos) {
      std::string number;
      put_number(number, number_, 8);
      hash_.update(number);
      hash_.update(page_);
    }
    page_.clear();
  }

  Sha256 hash_;
  std::string page_;
  std::uint64_t number_ = 0;
};

struct Print {
  EntryType type = EntryType::file;
  std::string content;
  std::string metadata;
  bool seen = false;
};

Result<Print> print_of(TreeSource& source, const TreeEntry& entry) {
  Print out;
  out.type = entry.type;
  if (entry.type == EntryType::file) {
    ContentDigest digest;
    while (true) {
      ASCOPE_TRY_ASSIGN(const std::optional<DataBlock> block, source.read());
      if (!block) {
        break;
      }
      digest.add(*block);
    }
    out.content = digest.finish() + std::to_string(entry.size_bytes);
  } else {
    out.content = entry.link_target + "\n" + std::to_string(entry.device);
  }
  if (entry.type != EntryType::hardlink) {  // its metadata is its target's
    TreeEntry bare;
    bare.mode = entry.type == EntryType::symlink ? 0 : entry.mode;
    bare.uid = entry.uid;
    bare.gid = entry.gid;
    bare.mtime_ns = entry.type == EntryType::directory ? 0 : entry.mtime_ns;
    bare.xattrs = entry.xattrs;
    std::string bytes;
    encode_entry(bare, bytes);
    Sha256 hash;
    hash.update(bytes);
    out.metadata = hash.finish();
  }
  return out;
}

}  // namespace

Result<std::vector<TreeChange>> compare_trees(const OpContext& ctx, TreeSource& before, TreeSource& after) {
  std::map<std::string, Print> known;
  TreeEntry entry;
  while (true) {
    ASCOPE_TRY(ctx.check("comparing trees"));
    ASCOPE_TRY_ASSIGN(const bool more, before.next(entry));
    if (!more) {
      break;
    }
    ASCOPE_TRY_ASSIGN(Print print, print_of(before, entry));
    known.insert_or_assign(entry.path, std::move(print));
  }
  std::vector<TreeChange> out;
  while (true) {
    ASCOPE_TRY(ctx.check("comparing trees"));
    ASCOPE_TRY_ASSIGN(const bool more, after.next(entry));
    if (!more) {
      break;
    }
    ASCOPE_TRY_ASSIGN(const Print print, print_of(after, entry));
    const auto found = known.find(entry.path);
    if (found == known.end()) {
      out.emplace_back('A', entry.path);
      continue;
    }
    found->second.seen = true;
    if (found->second.type != print.type) {
      out.emplace_back('T', entry.path);
    } else if (found->second.content != print.content) {
      out.emplace_back('M', entry.path);
    } else if (found->second.metadata != print.metadata) {
      out.emplace_back('P', entry.path);
    }
  }
  for (const auto& [path, print] : known) {
    if (!print.seen) {
      out.emplace_back('D', path);
    }
  }
  std::erase_if(out, [](const TreeChange& one) { return one.second.empty(); });
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return out;
}

}  // namespace ascope
