// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/page.h"
#include "core/repository/chunks/page_format.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kFrameBytes = 5;  // at least
constexpr std::size_t kRunBytes = 2;    // at least
constexpr std::size_t kChunkBytes = kIdBytes + 3;

Error malformed() {
  return make_error(ErrorKind::corrupt, "has a page with a field out of its range");
}

bool is_entry_kind(std::uint8_t kind) {
  return kind <= static_cast<std::uint8_t>(EntryType::block_device) &&
         kind != static_cast<std::uint8_t>(EntryType::socket);
}

bool read_xattrs(FieldReader& fields, TreeEntry& entry) {
  const std::uint64_t count = fields.varint(kMaxXattrs);
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < count && fields.good(); ++i) {
    std::string name(fields.text(kMaxXattrName));
    std::string value(fields.text(kMaxText));
    bytes += name.size() + value.size();
    if (name.empty() || bytes > kMaxXattrBytes) {
      return false;
    }
    entry.xattrs.emplace_back(std::move(name), std::move(value));
  }
  return fields.good();
}

bool read_runs(FieldReader& fields, std::vector<Extent>& out) {
  const std::uint64_t count = fields.varint(kRunsARecord);
  if (count == 0 || count > fields.left() / kRunBytes) {
    return false;
  }
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t gap = fields.varint(kMaxFileSize - end);
    const std::uint64_t length = fields.varint(kMaxFileSize - end - gap);
    if (!fields.good() || length == 0) {
      return false;
    }
    out.push_back({end + gap, length});
    end += gap + length;
  }
  return true;
}

bool read_chunks(FieldReader& fields, const std::vector<ChunkRef>& frames, std::vector<ChunkRef>& out) {
  const std::uint64_t count = fields.varint(kChunksARecord);
  if (count == 0 || count > fields.left() / kChunkBytes) {
    return false;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t frame = fields.varint();
    if (!fields.good() || frame >= frames.size()) {
      return false;
    }
    ChunkRef ref = frames[static_cast<std::size_t>(frame)];
    ref.at = fields.varint32(ref.frame.raw);
    ref.raw = fields.varint32(ref.frame.raw - ref.at);
    const ByteView id = fields.bytes_of(kIdBytes);
    if (!fields.good() || ref.raw == 0) {
      return false;
    }
    ref.id = ChunkId::of(id);
    out.push_back(ref);
  }
  return true;
}

}  // namespace

Result<PageReader> PageReader::open(std::string bytes) {
  PageReader out;
  out.bytes_ = std::move(bytes);
  FieldReader fields(out.bytes_);
  if (fields.bytes_of(4) != kPageMagic) {
    return make_error(ErrorKind::corrupt, "has a page that is none");
  }
  const std::uint8_t version = fields.u8();
  const std::uint64_t packs = fields.varint();
  if (version != kPageVersion || packs > fields.left() / kNameBytes) {
    return malformed();
  }
  for (std::uint64_t i = 0; i < packs; ++i) {
    out.packs_.push_back(PackName::of(fields.bytes_of(kNameBytes)));
  }
  const std::uint64_t frames = fields.varint();
  if (frames > fields.left() / kFrameBytes) {
    return malformed();
  }
  for (std::uint64_t i = 0; i < frames; ++i) {
    ChunkRef one;
    one.pack = fields.varint32();
    one.frame.offset = fields.varint32();
    one.frame.stored = fields.varint32();
    one.frame.raw = fields.varint32(kMaxRawBytes);
    const std::uint8_t codec = fields.u8();
    one.frame.codec = static_cast<Codec>(codec);
    if (!fields.good() || one.pack >= packs || codec > 1 || !is_sane(one.frame)) {
      return malformed();
    }
    out.frames_.push_back(one);
  }
  if (!fields.good()) {
    return malformed();
  }
  out.at_ = out.bytes_.size() - fields.left();
  return out;
}

Result<void> PageReader::read_entry(FieldReader& fields, EntryType type, PageRecord& record) {
  TreeEntry& entry = record.entry;
  entry.type = type;
  const std::uint64_t shared = fields.varint(last_path_.size());
  entry.path = last_path_.substr(0, static_cast<std::size_t>(shared));
  entry.path += fields.text(kMaxText);
  entry.mode = fields.varint32(kModeBits);
  entry.uid = fields.varint32();
  entry.gid = fields.varint32();
  entry.mtime_ns = static_cast<std::int64_t>(fields.fixed(8));
  if (!read_xattrs(fields, entry)) {
    return malformed();
  }
  if (type == EntryType::file) {
    entry.size_bytes = fields.varint(kMaxFileSize);
    const std::uint64_t runs = fields.varint(1 + kMaxExtents);
    entry.sparse = runs > 0;
    record.runs = runs > 0 ? runs - 1 : 0;
    record.chunks = fields.varint(entry.size_bytes);
  } else if (type == EntryType::symlink || type == EntryType::hardlink) {
    entry.link_target = fields.text(kMaxText);
  } else if (type == EntryType::char_device || type == EntryType::block_device) {
    entry.device = fields.varint();
  }
  if (!fields.good()) {
    return malformed();
  }
  ASCOPE_TRY(check_tree_path(entry.path, type == EntryType::directory));
  if (type == EntryType::hardlink) {
    ASCOPE_TRY(check_tree_path(entry.link_target, false));
  }
  last_path_ = entry.path;
  return ok();
}

Result<bool> PageReader::next(PageRecord& record) {
  if (at_ == bytes_.size()) {
    return false;
  }
  record = PageRecord{};
  FieldReader fields(ByteView(bytes_).substr(at_));
  const std::uint8_t kind = fields.u8();
  if (is_entry_kind(kind)) {
    ASCOPE_TRY(read_entry(fields, static_cast<EntryType>(kind), record));
  } else if (kind == kRunsKind) {
    record.kind = PageRecord::Kind::runs;
    if (!read_runs(fields, record.extents)) {
      return malformed();
    }
  } else if (kind == kChunksKind) {
    record.kind = PageRecord::Kind::chunks;
    if (!read_chunks(fields, frames_, record.references)) {
      return malformed();
    }
  } else {
    return malformed();
  }
  at_ = bytes_.size() - fields.left();
  return true;
}

}  // namespace ascope::chunks
