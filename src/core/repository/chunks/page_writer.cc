// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.h"
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/page.h"
#include "core/repository/chunks/page_format.h"

namespace ascope::chunks {

namespace {

std::size_t shared_bytes(std::string_view a, std::string_view b) {
  std::size_t count = 0;
  while (count < a.size() && count < b.size() && a[count] == b[count]) {
    ++count;
  }
  return count;
}

}  // namespace

bool ends_page(std::string_view path) {
  return sha256(path)[0] == '\0';
}

void PageWriter::entry(const TreeEntry& entry, std::uint64_t chunks) {
  put_fixed(records_, static_cast<std::uint64_t>(entry.type), 1);
  const std::size_t shared = shared_bytes(last_path_, entry.path);
  put_varint(records_, shared);
  put_text(records_, std::string_view(entry.path).substr(shared));
  last_path_ = entry.path;
  put_varint(records_, entry.mode);
  put_varint(records_, entry.uid);
  put_varint(records_, entry.gid);
  put_fixed(records_, static_cast<std::uint64_t>(entry.mtime_ns), 8);
  put_varint(records_, entry.xattrs.size());
  for (const auto& [name, value] : entry.xattrs) {
    put_text(records_, name);
    put_text(records_, value);
  }
  switch (entry.type) {
    case EntryType::file:
      put_varint(records_, entry.size_bytes);
      put_varint(records_, entry.sparse ? 1 + entry.extents.size() : 0);
      put_varint(records_, chunks);
      break;
    case EntryType::symlink:
    case EntryType::hardlink:
      put_text(records_, entry.link_target);
      break;
    case EntryType::char_device:
    case EntryType::block_device:
      put_varint(records_, entry.device);
      break;
    default:
      break;
  }
  ++entries_;
}

void PageWriter::runs(std::span<const Extent> runs) {
  put_fixed(records_, kRunsKind, 1);
  put_varint(records_, runs.size());
  std::uint64_t end = 0;
  for (const Extent& run : runs) {
    put_varint(records_, run.offset - end);
    put_varint(records_, run.length);
    end = run.offset + run.length;
  }
}

void PageWriter::chunks(std::span<const ChunkRef> references) {
  put_fixed(records_, kChunksKind, 1);
  put_varint(records_, references.size());
  for (const ChunkRef& ref : references) {
    put_varint(records_, local_frame(ref));
    put_varint(records_, ref.at);
    put_varint(records_, ref.raw);
    records_ += ref.id.view();
  }
}

std::uint32_t PageWriter::local_frame(const ChunkRef& ref) {
  const auto [pack, new_pack] =
      local_packs_.try_emplace(ref.pack, static_cast<std::uint32_t>(local_packs_.size()));
  if (new_pack) {
    pack_table_ += packs_[ref.pack].view();
  }
  const std::uint64_t place = (std::uint64_t{pack->second} << 32U) | ref.frame.offset;
  const auto [frame, new_frame] =
      local_frames_.try_emplace(place, static_cast<std::uint32_t>(local_frames_.size()));
  if (new_frame) {
    put_varint(frame_table_, pack->second);
    put_varint(frame_table_, ref.frame.offset);
    put_varint(frame_table_, ref.frame.stored);
    put_varint(frame_table_, ref.frame.raw);
    put_fixed(frame_table_, static_cast<std::uint64_t>(ref.frame.codec), 1);
  }
  return frame->second;
}

bool PageWriter::is_full() const {
  return entries_ >= kPageEntries || pack_table_.size() + frame_table_.size() + records_.size() >= kPageBytes;
}

std::string PageWriter::finish() {
  std::string out(kPageMagic);
  put_fixed(out, kPageVersion, 1);
  put_varint(out, local_packs_.size());
  out += pack_table_;
  put_varint(out, local_frames_.size());
  out += frame_table_;
  out += records_;
  pack_table_.clear();
  frame_table_.clear();
  records_.clear();
  local_packs_.clear();
  local_frames_.clear();
  entries_ = 0;
  last_path_.clear();
  return out;
}

}  // namespace ascope::chunks
