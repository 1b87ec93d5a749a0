// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/pack.h"

#include <algorithm>

#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/repository/chunks/fields.h"

namespace ascope::chunks {

namespace {

constexpr ByteView kMagic = "ASPK";
constexpr ByteView kEndMagic = "ASPX";
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kEncrypted = 1;
constexpr std::size_t kPartBytes = kIdBytes + 4;
constexpr std::string_view kLabel = "pack";
constexpr std::size_t kTailGuess = 64U << 10U;

std::string frame_aad(const FrameRef& frame) {
  std::string aad = "frame";
  put_fixed(aad, frame.offset, 4);
  put_fixed(aad, frame.raw, 4);
  put_fixed(aad, static_cast<std::uint64_t>(frame.codec), 1);
  return aad;
}

std::string index_aad(std::uint64_t offset, std::uint32_t chunks) {
  std::string aad = "index";
  put_fixed(aad, offset, 4);
  put_fixed(aad, chunks, 4);
  return aad;
}

Error bad(std::string_view why) {
  return make_error(ErrorKind::corrupt, std::string(why));
}

// The key from a header; `corrupt` without a name.
Result<ObjectKey> key_of_header(ByteView header, const RepositoryKey& key) {
  FieldReader fields(header);
  if (fields.bytes_of(4) != kMagic) {
    return bad("is not a pack");
  }
  const std::uint8_t version = fields.u8();
  const std::uint8_t flags = fields.u8();
  const std::uint64_t zero = fields.fixed(2);
  if (version != kVersion || flags != (key.encrypts() ? kEncrypted : 0) || zero != 0) {
    return bad("has a damaged header");
  }
  return key.object_key(fields.bytes_of(kSaltBytes), kLabel);
}

}  // namespace

PackBuilder::PackBuilder(const RepositoryKey& key) : name_(random_pack_name()) {
  const std::string salt = from_hex(random_hex(kSaltBytes)).value();
  key_ = key.object_key(salt, kLabel);
  std::string header(kMagic);
  put_fixed(header, kVersion, 1);
  put_fixed(header, key.encrypts() ? kEncrypted : 0, 1);
  put_fixed(header, 0, 2);
  header += salt;
  pieces_.push_back(std::move(header));
}

Result<FrameRef> PackBuilder::add(Codec codec, std::string packed, std::uint32_t raw,
                                  const std::vector<ChunkPart>& parts) {
  FrameRef frame;
  frame.offset = static_cast<std::uint32_t>(offset_);
  frame.raw = raw;
  frame.codec = codec;
  ASCOPE_TRY_ASSIGN(std::string stored, key_.seal(frame.offset, frame_aad(frame), std::move(packed)));
  frame.stored = static_cast<std::uint32_t>(stored.size());
  put_fixed(index_, frame.offset, 4);
  put_fixed(index_, frame.stored, 4);
  put_fixed(index_, frame.raw, 4);
  put_fixed(index_, static_cast<std::uint64_t>(codec), 1);
  put_fixed(index_, parts.size(), 4);
  for (const ChunkPart& part : parts) {
    index_ += part.id.view();
    put_fixed(index_, part.raw, 4);
  }
  offset_ += stored.size();
  chunks_ += static_cast<std::uint32_t>(parts.size());
  pieces_.push_back(std::move(stored));
  return frame;
}

std::uint64_t PackBuilder::size_bytes() const {
  return offset_ + index_.size() + key_.overhead() + kPackTrailerBytes;
}

Result<FinishedPack> PackBuilder::finish() {
  FinishedPack out;
  out.name = name_;
  out.size_bytes = size_bytes();
  ASCOPE_TRY_ASSIGN(std::string stored, key_.seal(offset_, index_aad(offset_, chunks_), index_));
  std::string trailer;
  put_fixed(trailer, offset_, 4);
  put_fixed(trailer, stored.size(), 4);
  put_fixed(trailer, chunks_, 4);
  trailer += sha256(stored);
  trailer += kEndMagic;
  out.pieces = std::move(pieces_);
  out.pieces.push_back(std::move(stored));
  out.pieces.push_back(std::move(trailer));
  out.index = std::move(index_);
  return out;
}

Result<std::size_t> PackSource::read(std::span<char> buffer) {
  while (piece_ < pack_.pieces.size()) {
    const std::string& piece = pack_.pieces[piece_];
    const std::size_t count = std::min(buffer.size(), piece.size() - used_);
    if (count > 0) {
      std::copy_n(piece.data() + used_, count, buffer.data());
      used_ += count;
      return count;
    }
    ++piece_;
    used_ = 0;
  }
  return std::size_t{0};
}

Result<PackIndex> PackIndex::parse(ByteView plain, std::uint64_t frames_end, bool encrypted) {
  PackIndex out;
  FieldReader fields(plain);
  std::uint64_t offset = kPackHeaderBytes;
  while (!fields.at_end()) {
    FrameRef frame;
    frame.offset = fields.u32();
    frame.stored = fields.u32();
    frame.raw = fields.u32();
    const std::uint8_t codec = fields.u8();
    frame.codec = static_cast<Codec>(codec);
    const std::uint64_t count = fields.fixed(4);
    const bool fits = fields.good() && frame.offset == offset && is_sane(frame) && codec <= 1 && count > 0 &&
                      count <= fields.left() / kPartBytes && frame.stored <= frames_end - offset &&
                      (codec != 0 || encrypted || frame.stored == frame.raw);
    if (!fits) {
      return bad("has a damaged index");
    }
    std::uint64_t at = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const ChunkId id = ChunkId::of(fields.bytes_of(kIdBytes));
      const std::uint32_t raw = fields.u32();
      out.chunks_.push_back(
          {id, static_cast<std::uint32_t>(out.frames_.size()), static_cast<std::uint32_t>(at), raw});
      at += raw;
      if (raw == 0 || at > frame.raw) {
        return bad("has a damaged index");
      }
    }
    if (at != frame.raw) {
      return bad("has a damaged index");
    }
    out.frames_.push_back(frame);
    offset += frame.stored;
  }
  if (!fields.good() || offset != frames_end) {
    return bad("has a damaged index");
  }
  out.by_id_.resize(out.chunks_.size());
  for (std::size_t i = 0; i < out.by_id_.size(); ++i) {
    out.by_id_[i] = static_cast<std::uint32_t>(i);
  }
  std::sort(out.by_id_.begin(), out.by_id_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return out.chunks_[a].id < out.chunks_[b].id; });
  return out;
}

std::size_t PackIndex::first_of(const ChunkId& id) const {
  const auto found =
      std::lower_bound(by_id_.begin(), by_id_.end(), id,
                       [&](std::uint32_t at, const ChunkId& want) { return chunks_[at].id < want; });
  return static_cast<std::size_t>(found - by_id_.begin());
}

std::optional<ChunkRef> PackIndex::find(const ChunkId& id) const {
  const std::size_t first = first_of(id);
  if (first == by_id_.size() || chunks_[by_id_[first]].id != id) {
    return std::nullopt;
  }
  const Chunk& chunk = chunks_[by_id_[first]];
  return ChunkRef{chunk.id, 0, frames_[chunk.frame], chunk.at, chunk.raw};
}

bool PackIndex::has(const ChunkRef& ref) const {
  for (std::size_t i = first_of(ref.id); i < by_id_.size() && chunks_[by_id_[i]].id == ref.id; ++i) {
    const Chunk& chunk = chunks_[by_id_[i]];
    if (frames_[chunk.frame] == ref.frame && chunk.at == ref.at && chunk.raw == ref.raw) {
      return true;
    }
  }
  return false;
}

Result<PackInfo> read_pack(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                           const PackName& name) {
  const std::string object = pack_key(name);
  ASCOPE_TRY_ASSIGN(const BlobInfo info, store.stat_existing(ctx, object));
  if (info.size_bytes < kPackHeaderBytes + kPackTrailerBytes || info.size_bytes > kMaxPackBytes) {
    return damaged(object, "has the wrong size for a pack");
  }
  PackInfo out;
  out.size_bytes = info.size_bytes;
  ASCOPE_TRY_ASSIGN(out.key, read_pack_key(ctx, store, key, name));
  std::uint64_t begin = info.size_bytes - std::min<std::uint64_t>(info.size_bytes, kTailGuess);
  ASCOPE_TRY_ASSIGN(std::string tail,
                    store.read_range(ctx, object, begin, static_cast<std::size_t>(info.size_bytes - begin)));
  FieldReader trailer(ByteView(tail).substr(tail.size() - kPackTrailerBytes));
  const std::uint32_t offset = trailer.u32();
  const std::uint32_t bytes = trailer.u32();
  const std::uint32_t chunks = trailer.u32();
  const std::string digest(trailer.bytes_of(kIdBytes));
  if (trailer.bytes_of(4) != kEndMagic || offset < kPackHeaderBytes || bytes > kMaxIndexBytes ||
      std::uint64_t{offset} + bytes + kPackTrailerBytes != info.size_bytes) {
    return damaged(object, "has a damaged trailer");
  }
  if (begin > offset) {
    ASCOPE_TRY_ASSIGN(const std::string front,
                      store.read_range(ctx, object, offset, static_cast<std::size_t>(begin - offset)));
    tail.insert(0, front);
    begin = offset;
  }
  std::string stored = tail.substr(static_cast<std::size_t>(offset - begin), bytes);
  if (sha256(stored) != digest) {
    return damaged(object, "has a damaged index");
  }
  Result<std::string> plain = out.key.open(offset, index_aad(offset, chunks), std::move(stored));
  if (!plain) {
    return in_object(object, std::move(plain).error());
  }
  Result<PackIndex> index = PackIndex::parse(*plain, offset, key.encrypts());
  if (!index || index->chunks().size() != chunks) {
    return damaged(object, "has a damaged index");
  }
  out.index = std::move(*index);
  return out;
}

Result<ObjectKey> read_pack_key(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                                const PackName& name) {
  const std::string object = pack_key(name);
  ASCOPE_TRY_ASSIGN(const std::string header, store.read_range(ctx, object, 0, kPackHeaderBytes));
  Result<ObjectKey> out = key_of_header(header, key);
  return out ? std::move(out) : in_object(object, std::move(out).error());
}

Result<std::string> open_frame(const ObjectKey& key, const FrameRef& frame, std::string stored) {
  return key.open(frame.offset, frame_aad(frame), std::move(stored));
}

}  // namespace ascope::chunks
