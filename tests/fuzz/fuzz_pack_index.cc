// SPDX-License-Identifier: Apache-2.0
// A pack's index, behind u32 end of the frames and u8 encrypted or not; the same bytes as a frame of zstd.
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/frame.h"
#include "core/repository/chunks/pack.h"
#include "fuzz/fuzz.h"

using namespace ascope;          // NOLINT(google-build-using-namespace)
using namespace ascope::chunks;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FieldReader fields(fuzz::view(data, size));
  const std::uint32_t end = fields.u32();
  const bool encrypted = (fields.u8() & 1U) != 0;
  const ByteView rest = fields.bytes_of(fields.left());
  FrameDecompressor decompressor;
  static_cast<void>(
      decompressor.unpack(Codec::zstd, std::string(rest), end % (kMaxRawBytes + 2)).has_value());
  const Result<PackIndex> index = PackIndex::parse(rest, end, encrypted);
  if (!index) {
    fuzz::expect(index.error().kind == ErrorKind::corrupt);
    return 0;
  }
  for (const PackIndex::Chunk& chunk : index->chunks()) {
    const FrameRef& frame = index->frames().at(chunk.frame);
    fuzz::expect(is_sane(frame) && std::uint64_t{frame.offset} + frame.stored <= end);
    fuzz::expect(std::uint64_t{chunk.at} + chunk.raw <= frame.raw);
    fuzz::expect(index->find(chunk.id).has_value());
    fuzz::expect(index->has({chunk.id, 0, frame, chunk.at, chunk.raw}));
  }
  return 0;
}
