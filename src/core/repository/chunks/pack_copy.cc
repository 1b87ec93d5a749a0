// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/pack_copy.h"

#include <algorithm>

#include "core/repository/chunks/frame_pipeline.h"
#include "core/repository/chunks/hints.h"

namespace ascope::chunks {

Result<PackCopy::Needed> PackCopy::find_needed(const OpContext& ctx, const PackName& pack) {
  ASCOPE_TRY_ASSIGN(const PackInfo info, read_pack(ctx, *access_.store, *access_.key, pack));
  std::vector<std::pair<PackName, PackIndex>> heirs;
  for (const Forwarder& one : forwarders_of(forwarders_, pack)) {
    if (leaving_.contains(one.to)) {
      continue;
    }
    Result<PackInfo> heir = read_pack(ctx, *access_.store, *access_.key, one.to);
    if (heir) {
      heirs.emplace_back(one.to, std::move(heir->index));
    } else if (heir.error().kind != ErrorKind::not_found && heir.error().kind != ErrorKind::corrupt) {
      return std::move(heir).error();
    }
  }
  const std::vector<UsedPlace>& used = used_.of(pack);
  Needed out;
  std::size_t found = 0;
  for (const PackIndex::Chunk& chunk : info.index.chunks()) {
    const ChunkRef ref{chunk.id, 0, info.index.frames()[chunk.frame], chunk.at, chunk.raw};
    const UsedPlace place{ref.frame.offset, ref.at, static_cast<std::uint32_t>(stored_share(ref))};
    if (!std::binary_search(used.begin(), used.end(), place)) {
      continue;
    }
    ++found;
    const auto heir = std::find_if(heirs.begin(), heirs.end(),
                                   [&](const auto& one) { return one.second.find(chunk.id).has_value(); });
    if (heir == heirs.end()) {
      out.to_copy.push_back(ref);
    } else {
      out.heirs.insert(heir->first);
    }
  }
  if (found != used.size()) {
    return damaged(pack_key(pack), "lacks a chunk that it should hold");
  }
  return out;
}

Result<void> PackCopy::copy_frame(const OpContext& ctx, const PackName& pack,
                                  std::span<const ChunkRef> refs) {
  ASCOPE_TRY(ctx.check("copying chunks"));
  ASCOPE_TRY_ASSIGN(const LoadedChunks loaded, access_.reader->load(ctx, pack, refs, decompressor_));
  std::string raw;
  std::vector<ChunkPart> parts;
  for (std::size_t i = 0; i < refs.size(); ++i) {
    raw += loaded.chunks[i];
    parts.push_back({refs[i].id, refs[i].raw});
  }
  const auto raw_bytes = static_cast<std::uint32_t>(raw.size());
  ASCOPE_TRY_ASSIGN(FrameCompressor::Packed packed, compressor_.pack(std::move(raw)));
  ASCOPE_TRY(builder_.add(packed.codec, std::move(packed.bytes), raw_bytes, parts));
  return ok();
}

Result<void> PackCopy::add(const OpContext& ctx, const PackName& pack) {
  ASCOPE_TRY_ASSIGN(const Needed needed, find_needed(ctx, pack));
  const std::span<const ChunkRef> refs(needed.to_copy);
  std::vector<ChunkId> ids;
  for (std::size_t begin = 0, end = 0; begin < refs.size(); begin = end) {
    while (end < refs.size() && refs[end].frame == refs[begin].frame) {
      ids.push_back(refs[end++].id);
    }
    ASCOPE_TRY(copy_frame(ctx, pack, refs.subspan(begin, end - begin)));
  }
  relied_on_.insert(needed.heirs.begin(), needed.heirs.end());
  if (!ids.empty()) {
    moved_.emplace_back(pack, std::move(ids));
  }
  return ok();
}

Result<std::uint64_t> PackCopy::put_forwarder(const OpContext& ctx, const PackName& from,
                                              const std::vector<ChunkId>& ids) {
  ASCOPE_TRY_ASSIGN(const std::string bytes, encode_moved(*access_.key, ids));
  const std::string object = moved_key(from, builder_.name());
  ASCOPE_TRY_ASSIGN(const std::optional<BlobInfo> put, access_.store->put_bytes(ctx, object, bytes));
  return put ? Result<std::uint64_t>(bytes.size())
             : make_error(ErrorKind::conflict, "object '" + object + "' exists already");
}

Result<std::uint64_t> PackCopy::put_forwarders(const OpContext& ctx, const PackName& pack,
                                               const std::vector<ChunkId>& ids) {
  ASCOPE_TRY_ASSIGN(std::uint64_t written, put_forwarder(ctx, pack, ids));
  for (const Forwarder& one : forwarders_) {
    if (one.to == pack) {
      ASCOPE_TRY_ASSIGN(const std::uint64_t more, put_forwarder(ctx, one.from, ids));
      written += more;
    }
  }
  return written;
}

Result<std::uint64_t> PackCopy::publish(const OpContext& ctx) {
  if (moved_.empty()) {
    return std::uint64_t{0};
  }
  ASCOPE_TRY_ASSIGN(const FinishedPack pack, builder_.finish());
  ASCOPE_TRY(put_pack(ctx, *access_.store, pack));
  relied_on_.insert(pack.name);
  std::uint64_t written = pack.size_bytes;
  for (const auto& [from, ids] : moved_) {
    ASCOPE_TRY_ASSIGN(const std::uint64_t more, put_forwarders(ctx, from, ids));
    written += more;
  }
  ASCOPE_TRY_ASSIGN(const std::uint64_t hint,
                    put_hint(ctx, *access_.store, *access_.key, {{pack.name, pack.index}}));
  return written + hint;
}

}  // namespace ascope::chunks
