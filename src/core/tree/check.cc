// SPDX-License-Identifier: Apache-2.0
#include "core/tree/check.h"

#include <algorithm>

#include "core/tree/admission.h"

namespace ascope {

Result<TreeTotals> check_tree(const OpContext& ctx, TreeSource& source) {
  ApplyOptions options;
  options.allow_setid = true;
  options.allow_devices = true;
  Admission admission(options);
  TreeTotals totals;
  TreeEntry entry;
  while (true) {
    ASCOPE_TRY(ctx.check("checking a tree"));
    ASCOPE_TRY_ASSIGN(const bool more, source.next(entry));
    if (!more) {
      return totals;
    }
    ASCOPE_TRY(admission.admit(entry));
    ++totals.entries;
    totals.files += entry.type == EntryType::directory ? 0 : 1;
    std::uint64_t end = 0;
    while (entry.type == EntryType::file) {
      ASCOPE_TRY_ASSIGN(const std::optional<DataBlock> block, source.read());
      if (!block) {
        break;
      }
      if (block->offset < end ||
          block->bytes.size() > entry.size_bytes - std::min(entry.size_bytes, block->offset)) {
        return make_error(ErrorKind::corrupt, "data of '" + entry.path + "' lies outside of its size");
      }
      end = block->offset + block->bytes.size();
    }
    totals.content_bytes += entry.type == EntryType::file ? entry.size_bytes : 0;
  }
}

}  // namespace ascope
