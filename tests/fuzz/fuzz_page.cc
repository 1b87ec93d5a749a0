// SPDX-License-Identifier: Apache-2.0
// A page of a manifest: whatever it says, it is `corrupt` or within its bounds.
#include "core/repository/chunks/page.h"
#include "fuzz/fuzz.h"

using namespace ascope;          // NOLINT(google-build-using-namespace)
using namespace ascope::chunks;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Result<PageReader> page = PageReader::open(std::string(fuzz::view(data, size)));
  if (!page) {
    fuzz::expect(page.error().kind == ErrorKind::corrupt);
    return 0;
  }
  PageRecord record;
  while (true) {
    const Result<bool> more = page->next(record);
    if (!more) {
      fuzz::expect(more.error().kind == ErrorKind::corrupt);
      return 0;
    }
    if (!*more) {
      return 0;
    }
    if (record.kind == PageRecord::Kind::entry) {
      fuzz::expect(check_tree_path(record.entry.path, true).has_value());
      fuzz::expect(record.runs <= kMaxExtents && record.chunks <= record.entry.size_bytes);
    }
    for (const ChunkRef& ref : record.references) {
      fuzz::expect(is_sane(ref.frame) && ref.pack < page->packs().size());
      fuzz::expect(ref.raw > 0 && std::uint64_t{ref.at} + ref.raw <= ref.frame.raw);
    }
  }
}
