// SPDX-License-Identifier: Apache-2.0
// A manifest's root: as an object, and the JSON that lies behind its sum.
#include "core/repository/chunks/pack.h"
#include "core/repository/chunks/root.h"
#include "fuzz/fuzz.h"

using namespace ascope;          // NOLINT(google-build-using-namespace)
using namespace ascope::chunks;  // NOLINT(google-build-using-namespace)

namespace {

void check_pages(const ManifestRoot& root, const std::vector<PageRef>& pages) {
  for (const PageRef& page : pages) {
    const ChunkRef& ref = page.chunk;
    fuzz::expect(ref.pack < root.packs.size() && is_sane(ref.frame));
    fuzz::expect(std::uint64_t{ref.frame.offset} + ref.frame.stored <= root.packs[ref.pack].size_bytes);
    fuzz::expect(ref.raw > 0 && std::uint64_t{ref.at} + ref.raw <= ref.frame.raw);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::view(data, size);
  const RepositoryKey key;
  static_cast<void>(decode_root(key, std::string(bytes)).has_value());
  const Result<ManifestRoot> root = parse_root(bytes);
  if (!root) {
    fuzz::expect(root.error().kind == ErrorKind::corrupt);
    return 0;
  }
  check_pages(*root, root->workspace);
  if (root->roots) {
    check_pages(*root, *root->roots);
  }
  // What was read can be written, and reads the same.
  const Result<ManifestRoot> again = decode_root(key, encode_root(key, *root).value());
  fuzz::expect(again.has_value() && again->packs == root->packs && again->workspace == root->workspace);
  return 0;
}
