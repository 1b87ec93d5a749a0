// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/chunk_reader.h"

#include "core/repository/chunks/markers.h"

namespace ascope::chunks {

namespace {

constexpr unsigned kMaxMoves = 8;        // repacked and repacked again
constexpr std::size_t kKeptMoves = 4;    // indexes of packs that took over, some 100 KiB each
constexpr std::size_t kKeptKeys = 4096;  // 100 bytes each

}  // namespace

bool can_join(const FrameRef& begin, const FrameRef& last, const FrameRef& next) {
  const std::uint64_t end = std::uint64_t{last.offset} + last.stored;
  return next.offset >= end && next.offset - end <= kGroupGapBytes &&
         std::uint64_t{next.offset} + next.stored - begin.offset <= kGroupStoredBytes;
}

Result<ObjectKey> ChunkReader::key_of(const OpContext& ctx, const PackName& pack) {
  if (!key_.encrypts()) {
    return ObjectKey();
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = keys_.find(pack); found != keys_.end()) {
      return found->second;
    }
  }
  ASCOPE_TRY_ASSIGN(ObjectKey key, read_pack_key(ctx, store_, key_, pack));
  const std::lock_guard lock(mutex_);
  if (keys_.size() >= kKeptKeys) {
    keys_.clear();
  }
  return keys_.emplace(pack, std::move(key)).first->second;
}

Result<LoadedChunks> ChunkReader::load(const OpContext& ctx, const PackName& pack,
                                       std::span<const ChunkRef> refs, FrameDecompressor& decompressor) {
  Result<LoadedChunks> loaded = load_from(ctx, pack, refs, decompressor);
  if (loaded || loaded.error().kind != ErrorKind::not_found) {
    return loaded;
  }
  return load_moved(ctx, pack, refs, decompressor, loaded.error());
}

Result<LoadedChunks> ChunkReader::load_from(const OpContext& ctx, const PackName& pack,
                                            std::span<const ChunkRef> refs, FrameDecompressor& decompressor) {
  const std::string object = pack_key(pack);
  ASCOPE_TRY_ASSIGN(const ObjectKey key, key_of(ctx, pack));
  const std::uint32_t begin = refs.front().frame.offset;
  const FrameRef& last = refs.back().frame;
  ASCOPE_TRY_ASSIGN(const std::string bytes,
                    store_.read_range(ctx, object, begin, last.offset - begin + last.stored));
  LoadedChunks out;
  std::vector<std::size_t> frame_of;
  const FrameRef* present = nullptr;
  for (const ChunkRef& ref : refs) {
    if (present == nullptr || *present != ref.frame) {
      present = &ref.frame;
      Result<std::string> raw =
          open_frame(key, ref.frame, bytes.substr(ref.frame.offset - begin, ref.frame.stored));
      if (raw) {
        raw = decompressor.unpack(ref.frame.codec, std::move(raw).value(), ref.frame.raw);
      }
      if (!raw) {
        return in_object(object, std::move(raw).error());
      }
      out.frames.push_back(std::move(raw).value());
    }
    frame_of.push_back(out.frames.size() - 1);
  }
  for (std::size_t i = 0; i < refs.size(); ++i) {
    out.chunks.push_back(ByteView(out.frames[frame_of[i]]).substr(refs[i].at, refs[i].raw));
    if (key_.chunk_id(out.chunks.back()) != refs[i].id) {
      return damaged(
          object, "holds other bytes at " + std::to_string(refs[i].frame.offset) + " than were stored there");
    }
  }
  return out;
}

Result<LoadedChunks> ChunkReader::load_moved(const OpContext& ctx, const PackName& pack,
                                             std::span<const ChunkRef> refs, FrameDecompressor& decompressor,
                                             const Error& missing) {
  LoadedChunks out;
  std::vector<std::uint32_t> at;
  for (const ChunkRef& ref : refs) {
    ASCOPE_TRY_ASSIGN(const auto place, find_moved(ctx, pack, ref.id));
    if (!place || place->ref.raw != ref.raw) {
      return missing;
    }
    ASCOPE_TRY_ASSIGN(LoadedChunks one, load_from(ctx, place->pack, std::span(&place->ref, 1), decompressor));
    out.frames.push_back(std::move(one.frames.front()));
    at.push_back(place->ref.at);
  }
  for (std::size_t i = 0; i < refs.size(); ++i) {
    out.chunks.push_back(ByteView(out.frames[i]).substr(at[i], refs[i].raw));
  }
  return out;
}

Result<std::optional<MovedChunk>> ChunkReader::find_moved(const OpContext& ctx, const PackName& pack,
                                                          const ChunkId& id) {
  ASCOPE_TRY_ASSIGN(std::optional<MovedChunk> found, find_moved(ctx, pack, id, 0));
  if (!found) {  // it may have moved on since we looked
    {
      const std::lock_guard lock(mutex_);
      moved_.clear();
    }
    ASCOPE_TRY_ASSIGN(found, find_moved(ctx, pack, id, 0));
  }
  return found;
}

Result<std::optional<MovedChunk>> ChunkReader::find_moved(const OpContext& ctx, const PackName& pack,
                                                          const ChunkId& id, unsigned depth) {
  using Found = std::optional<MovedChunk>;
  std::vector<PackName> gone;
  {
    const std::lock_guard lock(mutex_);
    auto known = moved_.find(pack);
    if (known == moved_.end()) {
      ASCOPE_TRY_ASSIGN(const std::vector<PackName> names, read_moved(ctx, store_, pack));
      std::vector<std::pair<PackName, PackIndex>> targets;
      for (const PackName& name : names) {
        Result<PackInfo> info = read_pack(ctx, store_, key_, name);
        if (info) {
          targets.emplace_back(name, std::move(info->index));
        } else if (info.error().kind == ErrorKind::not_found) {
          targets.emplace_back(name, PackIndex());  // moved on itself
        } else {
          return std::move(info).error();
        }
      }
      if (moved_.size() >= kKeptMoves) {
        moved_.clear();
      }
      known = moved_.emplace(pack, std::move(targets)).first;
    }
    for (const auto& [name, index] : known->second) {
      if (const std::optional<ChunkRef> ref = index.find(id)) {
        return Found(MovedChunk{name, *ref});
      }
      if (index.frames().empty()) {
        gone.push_back(name);
      }
    }
  }
  for (const PackName& name : gone) {
    if (depth < kMaxMoves) {
      ASCOPE_TRY_ASSIGN(Found found, find_moved(ctx, name, id, depth + 1));
      if (found) {
        return found;
      }
    }
  }
  return Found();
}

}  // namespace ascope::chunks
