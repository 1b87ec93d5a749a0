// SPDX-License-Identifier: Apache-2.0
// Packs: immutable objects of some MiB that hold the chunks. Little endian:
//
//   header   "ASPK" · u8 version (1) · u8 flags (1 = encrypted) · u16 0 · salt[32] (random)
//   frames   one behind the other, from byte 40, without gaps
//   index    for each frame, in order: u32 offset · u32 stored bytes · u32 raw bytes · u8 codec (0 as it is,
//            1 zstd) · u32 count · count × ( chunk id[32] · u32 raw bytes )
//   trailer  u32 index offset · u32 index bytes as stored · u32 chunks in all · SHA-256 of the index as
//   stored ·
//            "ASPX"
//
// The format as a whole has its version in "repo": a pack with another than 1 is damaged.
//
// A frame's chunks lie back to back in it when unpacked: their raw bytes add up to the frame's, at most 8
// MiB. Encrypted (key.h): the object's key has the label "pack"; a frame is sealed under the number of its
// offset, with additional data "frame" · u32 offset · u32 raw bytes · u8 codec; the index under the number of
// its offset, with "index" · u32 offset · u32 chunks. Stored bytes count the tag.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/repository/chunks/key.h"
#include "core/repository/chunks/store_access.h"
#include "core/repository/chunks/types.h"

namespace ascope::chunks {

inline constexpr std::size_t kPackHeaderBytes = 40;
inline constexpr std::size_t kPackTrailerBytes = 48;
inline constexpr std::uint64_t kMaxPackBytes = std::uint64_t{1} << 30U;  // of what we read
inline constexpr std::size_t kMaxIndexBytes = 64U << 20U;

inline constexpr std::string_view kPacksFolder = "packs/";

// A chunk in a frame, in the order in which they lie.
struct ChunkPart {
  ChunkId id;
  std::uint32_t raw = 0;
};

struct FinishedPack {
  PackName name;
  std::uint64_t size_bytes = 0;
  std::vector<std::string> pieces;  // the object, in order
  std::string index;                // in plain form
};

// A pack being filled, in memory.
class PackBuilder {
 public:
  explicit PackBuilder(const RepositoryKey& key);
  // REQUIRES: the parts' raw bytes add up to `raw`.
  Result<FrameRef> add(Codec codec, std::string packed, std::uint32_t raw,
                       const std::vector<ChunkPart>& parts);
  [[nodiscard]] const PackName& name() const { return name_; }
  // As large as it would be if it were finished now.
  [[nodiscard]] std::uint64_t size_bytes() const;
  Result<FinishedPack> finish();

 private:
  PackName name_;
  ObjectKey key_;
  std::vector<std::string> pieces_;
  std::uint64_t offset_ = kPackHeaderBytes;
  std::string index_;
  std::uint32_t chunks_ = 0;
};

// A source over a finished pack, which outlives it.
class PackSource final : public ByteSource {
 public:
  explicit PackSource(const FinishedPack& pack) : pack_(pack) {}
  Result<std::size_t> read(std::span<char> buffer) override;

 private:
  const FinishedPack& pack_;
  std::size_t piece_ = 0;
  std::size_t used_ = 0;
};

// What a pack's own index says.
class PackIndex {
 public:
  struct Chunk {
    ChunkId id;
    std::uint32_t frame = 0;
    std::uint32_t at = 0;
    std::uint32_t raw = 0;
  };
  // Strict: the frames fill [40, frames_end), every number is in its range. `corrupt` without a name.
  static Result<PackIndex> parse(ByteView plain, std::uint64_t frames_end, bool encrypted);

  [[nodiscard]] const std::vector<FrameRef>& frames() const { return frames_; }
  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }
  // ref.pack is left 0.
  [[nodiscard]] std::optional<ChunkRef> find(const ChunkId& id) const;
  // True if the chunk lies where `ref` says.
  [[nodiscard]] bool has(const ChunkRef& ref) const;

 private:
  [[nodiscard]] std::size_t first_of(const ChunkId& id) const;

  std::vector<FrameRef> frames_;
  std::vector<Chunk> chunks_;  // in the order in which they lie
  std::vector<std::uint32_t> by_id_;
};

struct PackInfo {
  std::uint64_t size_bytes = 0;
  PackIndex index;
  ObjectKey key;
};
// Reads and checks header, trailer and index. `not_found`, or `corrupt` with the object's name.
Result<PackInfo> read_pack(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                           const PackName& name);
// The key that a pack's frames are read with: reads the header.
Result<ObjectKey> read_pack_key(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                                const PackName& name);
// A frame as it lies in the pack → what is left to unpack. `corrupt` without a name.
Result<std::string> open_frame(const ObjectKey& key, const FrameRef& frame, std::string stored);

}  // namespace ascope::chunks
