// SPDX-License-Identifier: Apache-2.0
// Reads ustar, pax and GNU tar (long names, sparse files of all its formats) of hostile origin.
#include <algorithm>
#include <limits>
#include <sys/sysmacros.h>

#include "core/repository/tar.h"
#include "core/repository/tar_header.h"
#include "core/tree/path_set.h"

namespace ascope {

namespace {

constexpr std::size_t kBufferBytes = 256U << 10U;
constexpr std::uint64_t kMaxPaxBytes = 16U << 20U;    // a sparse map may lie in it
constexpr std::uint64_t kMaxNameBytes = 128U << 10U;  // of GNU's long names
constexpr std::uint8_t kFileMark = 1;
constexpr std::uint8_t kFolderMark = 2;

Error corrupt(std::string message) {
  return make_error(ErrorKind::corrupt, std::move(message));
}
Error cut(const std::string& where) {
  return corrupt("the archive is cut" + (where.empty() ? std::string() : " in '" + where + "'"));
}

std::size_t padding(std::uint64_t size) {
  return static_cast<std::size_t>((kTarBlock - size % kTarBlock) % kTarBlock);
}

// "./a//b/." → "a/b". `corrupt` if it is absolute or check_tree_path refuses it.
Result<std::string> clean_path(std::string_view path, bool root_ok) {
  if (path.starts_with('/')) {
    return corrupt("member '" + std::string(path) + "' is absolute");
  }
  std::string out;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") {
      out += out.empty() ? "" : "/";
      out += part;
    }
    begin = end + 1;
  }
  if (out.empty() && path.empty()) {
    return corrupt("a member without a name");
  }
  ASCOPE_TRY(check_tree_path(out, root_ok));
  return out;
}

class TarReader final : public TreeSource {
 public:
  explicit TarReader(std::unique_ptr<ByteSource> bytes) : bytes_(std::move(bytes)) {}

  Result<bool> next(TreeEntry& entry) override;
  Result<std::optional<DataBlock>> read() override;

 private:
  // Makes at least `count` bytes available in the buffer, or fewer at the end of the bytes.
  Result<std::size_t> ahead(std::size_t count);
  Result<void> take(std::uint64_t count, std::string& out);
  Result<void> skip(std::uint64_t count);
  Result<bool> header(TarHeader& out);
  Result<void> check_end();
  Result<std::string> long_text(const TarHeader& header, std::uint64_t most);
  // Deals with headers that only describe the member after them; false for a member.
  Result<bool> describes_next(const TarHeader& header);
  Result<bool> begin_member(const TarHeader& header, TreeEntry& entry);
  Result<void> set_type(const TarHeader& header, TreeEntry& entry);
  Result<void> set_fields(const TarHeader& header, TreeEntry& entry);
  Result<void> set_sparse(const TarHeader& header, TreeEntry& entry);
  Result<void> read_gnu_map(const TarHeader& header, TreeEntry& entry, std::vector<Extent>& map);
  Result<void> read_text_map(std::vector<Extent>& map);
  Result<void> check_map(TreeEntry& entry, const std::vector<Extent>& map);
  Result<void> remember(const TreeEntry& entry);

  std::unique_ptr<ByteSource> bytes_;
  std::string buffer_;
  std::size_t used_ = 0;
  std::string block_;

  PaxFields pax_;
  bool has_pax_ = false;
  PaxFields global_;
  std::optional<std::string> long_name_, long_link_;

  std::string member_;
  std::uint64_t stored_left_ = 0;  // of the member's data in the archive
  std::size_t pad_ = 0;
  std::vector<Extent> extents_;  // where it goes
  std::size_t extent_ = 0;
  std::uint64_t extent_used_ = 0;
  bool done_ = false;
  PathSet seen_;
};

Result<std::size_t> TarReader::ahead(std::size_t count) {
  while (buffer_.size() - used_ < count) {
    buffer_.erase(0, used_);
    used_ = 0;
    const std::size_t have = buffer_.size();
    buffer_.resize(have + kBufferBytes);
    Result<std::size_t> got = bytes_->read(std::span(buffer_).subspan(have));
    buffer_.resize(have + (got ? *got : 0));
    if (!got) {
      return got;
    }
    if (*got == 0) {
      break;
    }
  }
  return buffer_.size() - used_;
}

Result<void> TarReader::take(std::uint64_t count, std::string& out) {
  out.clear();
  while (out.size() < count) {
    ASCOPE_TRY_ASSIGN(const std::size_t have, ahead(1));
    if (have == 0) {
      return cut(member_);
    }
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(have, count - out.size()));
    out.append(buffer_, used_, now);
    used_ += now;
  }
  return ok();
}

Result<void> TarReader::skip(std::uint64_t count) {
  while (count > 0) {
    ASCOPE_TRY_ASSIGN(const std::size_t have, ahead(1));
    if (have == 0) {
      return cut(member_);
    }
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(have, count));
    used_ += now;
    count -= now;
  }
  return ok();
}

Result<void> TarReader::check_end() {
  ASCOPE_TRY_ASSIGN(std::size_t have, ahead(kTarBlock));
  if (have < kTarBlock) {
    return corrupt("the archive is cut: its second end block is missing");
  }
  while (have > 0) {
    const ByteView rest = ByteView(buffer_).substr(used_);
    if (rest.find_first_not_of('\0') != ByteView::npos) {
      return corrupt("the archive has something behind its end");
    }
    used_ = buffer_.size();
    ASCOPE_TRY_ASSIGN(have, ahead(1));
  }
  return ok();
}

// false at the end blocks.
Result<bool> TarReader::header(TarHeader& out) {
  ASCOPE_TRY_ASSIGN(const std::size_t have, ahead(kTarBlock));
  if (have < kTarBlock) {
    return have == 0 ? corrupt("the archive is cut: it has no end blocks") : cut("");
  }
  block_.assign(buffer_, used_, kTarBlock);
  used_ += kTarBlock;
  if (block_.find_first_not_of('\0') == std::string::npos) {
    ASCOPE_TRY(check_end());
    return false;
  }
  ASCOPE_TRY_ASSIGN(out, parse_tar_header(block_));
  return true;
}

Result<std::string> TarReader::long_text(const TarHeader& header, std::uint64_t most) {
  if (header.size_bytes > most) {
    return corrupt("a header that describes the next member is " + std::to_string(header.size_bytes) +
                   " bytes long");
  }
  std::string out;
  ASCOPE_TRY(take(header.size_bytes, out));
  ASCOPE_TRY(skip(padding(header.size_bytes)));
  return out;
}

Result<bool> TarReader::describes_next(const TarHeader& header) {
  const auto name = [&](std::optional<std::string>& out) -> Result<bool> {
    ASCOPE_TRY_ASSIGN(std::string text, long_text(header, kMaxNameBytes));
    out = text.substr(0, text.find('\0'));
    return true;
  };
  switch (header.type) {
    case 'L':
      return name(long_name_);
    case 'K':
      return name(long_link_);
    case 'x':
    case 'X': {
      ASCOPE_TRY_ASSIGN(const std::string records, long_text(header, kMaxPaxBytes));
      ASCOPE_TRY(parse_pax_records(records, pax_));
      has_pax_ = true;
      return true;
    }
    case 'g': {
      ASCOPE_TRY_ASSIGN(const std::string records, long_text(header, kMaxPaxBytes));
      ASCOPE_TRY(parse_pax_records(records, global_));
      if (global_.path || global_.link || global_.size_bytes || global_.is_sparse) {
        return corrupt("a global pax header that names or sizes all members");
      }
      return true;
    }
    case 'V':  // volume label
      ASCOPE_TRY(skip(header.size_bytes + padding(header.size_bytes)));
      return true;
    default:
      return false;
  }
}

Result<bool> TarReader::next(TreeEntry& entry) {
  if (done_) {
    return false;
  }
  ASCOPE_TRY(skip(stored_left_));
  ASCOPE_TRY(skip(pad_));
  stored_left_ = 0;
  pad_ = 0;
  pax_ = PaxFields{};
  has_pax_ = false;
  long_name_.reset();
  long_link_.reset();
  bool described = false;
  while (true) {
    TarHeader one;
    ASCOPE_TRY_ASSIGN(const bool more, header(one));
    if (!more) {
      done_ = true;
      return described ? Result<bool>(corrupt("the archive ends where a described member should come"))
                       : false;
    }
    ASCOPE_TRY_ASSIGN(const bool only_describes, describes_next(one));
    if (!only_describes) {
      return begin_member(one, entry);
    }
    described = one.type != 'g' && one.type != 'V';
  }
}

Result<void> TarReader::set_type(const TarHeader& header, TreeEntry& entry) {
  switch (header.type) {
    case '0':
    case '7':
    case 'S':
      entry.type = EntryType::file;
      break;
    case '1':
      entry.type = EntryType::hardlink;
      break;
    case '2':
      entry.type = EntryType::symlink;
      break;
    case '3':
      entry.type = EntryType::char_device;
      break;
    case '4':
      entry.type = EntryType::block_device;
      break;
    case '5':
    case 'D':
      entry.type = EntryType::directory;
      break;
    case '6':
      entry.type = EntryType::fifo;
      break;
    default:
      return corrupt("member '" + header.name + "' is of an unknown type");
  }
  return ok();
}

Result<void> TarReader::set_fields(const TarHeader& header, TreeEntry& entry) {
  const auto pick = [&](const auto& own, const auto& all, std::uint64_t plain) {
    return own ? *own : all ? *all : plain;
  };
  const std::uint64_t uid = pick(pax_.uid, global_.uid, header.uid);
  const std::uint64_t gid = pick(pax_.gid, global_.gid, header.gid);
  constexpr std::uint64_t kMostId = std::numeric_limits<std::uint32_t>::max() - 1;
  if (uid > kMostId || gid > kMostId) {
    return corrupt("member '" + member_ + "' has an impossible owner");
  }
  entry.uid = static_cast<std::uint32_t>(uid);
  entry.gid = static_cast<std::uint32_t>(gid);
  entry.mode = header.mode;
  constexpr std::int64_t kMostSeconds = std::numeric_limits<std::int64_t>::max() / 1'000'000'000 - 1;
  const std::int64_t seconds = std::clamp(header.mtime, -kMostSeconds, kMostSeconds);
  entry.mtime_ns = pax_.mtime_ns      ? *pax_.mtime_ns
                   : global_.mtime_ns ? *global_.mtime_ns
                                      : seconds * 1'000'000'000;
  if (entry.type == EntryType::char_device || entry.type == EntryType::block_device) {
    const std::uint64_t major_number = pick(pax_.device_major, global_.device_major, header.device_major);
    const std::uint64_t minor_number = pick(pax_.device_minor, global_.device_minor, header.device_minor);
    entry.device = makedev(static_cast<unsigned>(major_number & 0xffffffffU),
                           static_cast<unsigned>(minor_number & 0xffffffffU));
  }
  entry.xattrs = std::move(pax_.xattrs);
  std::sort(entry.xattrs.begin(), entry.xattrs.end());
  std::size_t xattr_bytes = 0;
  for (const auto& [name, value] : entry.xattrs) {
    xattr_bytes += name.size() + value.size();
  }
  return xattr_bytes <= kMaxXattrBytes
             ? ok()
             : Result<void>(corrupt("member '" + member_ + "' has too many attributes"));
}

Result<bool> TarReader::begin_member(const TarHeader& header, TreeEntry& entry) {
  entry = TreeEntry{};
  const std::string raw = pax_.sparse_name ? *pax_.sparse_name
                          : pax_.path      ? *pax_.path
                          : long_name_     ? *long_name_
                                           : header.name;
  member_ = raw;
  ASCOPE_TRY(set_type(header, entry));
  if (entry.type == EntryType::file && raw.ends_with('/')) {
    entry.type = EntryType::directory;  // of tars before POSIX
  }
  ASCOPE_TRY_ASSIGN(entry.path, clean_path(raw, entry.type == EntryType::directory));
  ASCOPE_TRY(set_fields(header, entry));
  stored_left_ = pax_.size_bytes ? *pax_.size_bytes : header.size_bytes;
  if (stored_left_ > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - kTarBlock) {
    return corrupt("member '" + raw + "' has an impossible size");
  }
  const std::string link = pax_.link ? *pax_.link : long_link_ ? *long_link_ : header.link;
  if (entry.type == EntryType::symlink) {
    entry.link_target = link;
  } else if (entry.type == EntryType::hardlink) {
    ASCOPE_TRY_ASSIGN(entry.link_target, clean_path(link, false));
  }
  // Only a file has data; a hard link may in pax (its target's again), a folder in GNU's incremental
  // archives.
  const bool may_have_data =
      entry.type == EntryType::file || header.type == 'D' || (header.type == '1' && has_pax_);
  stored_left_ = may_have_data ? stored_left_ : 0;
  pad_ = padding(stored_left_);
  extents_.clear();
  extent_ = 0;
  extent_used_ = 0;
  if (entry.type == EntryType::file) {
    entry.size_bytes = stored_left_;
    extents_ = {{0, stored_left_}};
    if (header.type == 'S' || pax_.is_sparse) {
      ASCOPE_TRY(set_sparse(header, entry));
    }
  }
  ASCOPE_TRY(remember(entry));
  return true;
}

Result<void> TarReader::remember(const TreeEntry& entry) {
  if (seen_.find(entry.path)) {
    return corrupt("member '" + entry.path + "' comes twice");
  }
  if (entry.type == EntryType::hardlink && seen_.find(entry.link_target) != kFileMark) {
    return corrupt("member '" + entry.path + "' is a hard link to '" + entry.link_target +
                   "', which is no file before it");
  }
  seen_.set(entry.path, entry.type == EntryType::directory ? kFolderMark : kFileMark);
  return ok();
}

Result<void> TarReader::set_sparse(const TarHeader& header, TreeEntry& entry) {
  std::vector<Extent> map;
  if (header.type == 'S') {
    ASCOPE_TRY(read_gnu_map(header, entry, map));
  } else {
    if (!pax_.real_size) {
      return corrupt("sparse member '" + member_ + "' has no size");
    }
    entry.size_bytes = *pax_.real_size;
    if (pax_.sparse_major == "1" && pax_.sparse_minor == "0") {
      ASCOPE_TRY(read_text_map(map));
    } else if (pax_.sparse_major.empty() || pax_.sparse_major == "0") {
      map = std::move(pax_.sparse_map);
    } else {
      return corrupt("sparse member '" + member_ + "' is of an unknown format");
    }
  }
  return check_map(entry, map);
}

Result<void> TarReader::read_gnu_map(const TarHeader& header, TreeEntry& entry, std::vector<Extent>& map) {
  const auto pairs = [&](ByteView block, std::size_t at, int count) {
    for (int i = 0; i < count; ++i, at += 24) {
      if (block[at] == '\0') {
        return true;
      }
      const auto offset = tar_number(block.substr(at, 12));
      const auto length = tar_number(block.substr(at + 12, 12));
      if (!offset || !length || *offset < 0 || *length < 0 || map.size() == kMaxExtents) {
        return false;
      }
      map.push_back({static_cast<std::uint64_t>(*offset), static_cast<std::uint64_t>(*length)});
    }
    return true;
  };
  const auto real_size = tar_number(header.block.substr(483, 12));
  bool good = real_size && *real_size >= 0 && pairs(header.block, 386, 4);
  bool extended = header.block[482] != '\0';
  std::string block;
  while (good && extended) {
    ASCOPE_TRY(take(kTarBlock, block));
    good = pairs(block, 0, 21);
    extended = block[504] != '\0';
  }
  if (!good) {
    return corrupt("sparse member '" + member_ + "' has an impossible map");
  }
  entry.size_bytes = static_cast<std::uint64_t>(*real_size);
  return ok();
}

// Format 1.0: the map is text at the beginning of the data, padded to a block.
Result<void> TarReader::read_text_map(std::vector<Extent>& map) {
  std::uint64_t used = 0;
  const auto number = [&]() -> Result<std::uint64_t> {
    std::string digits;
    while (digits.size() <= 20) {
      ASCOPE_TRY_ASSIGN(const std::size_t have, ahead(1));
      if (have == 0) {
        return cut(member_);
      }
      if (used == stored_left_) {
        break;
      }
      const char c = buffer_[used_++];
      ++used;
      if (c == '\n') {
        const auto value = decimal(digits);
        return value ? Result<std::uint64_t>(*value)
                     : corrupt("sparse member '" + member_ + "' has an impossible map");
      }
      digits += c;
    }
    return corrupt("sparse member '" + member_ + "' has an impossible map");
  };
  ASCOPE_TRY_ASSIGN(const std::uint64_t count, number());
  if (count > kMaxExtents) {
    return corrupt("sparse member '" + member_ + "' has too many pieces");
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    ASCOPE_TRY_ASSIGN(const std::uint64_t offset, number());
    ASCOPE_TRY_ASSIGN(const std::uint64_t length, number());
    map.push_back({offset, length});
  }
  const std::size_t pad = padding(used);
  if (pad > stored_left_ - used) {
    return corrupt("sparse member '" + member_ + "' has an impossible map");
  }
  ASCOPE_TRY(skip(pad));
  stored_left_ -= used + pad;
  return ok();
}

Result<void> TarReader::check_map(TreeEntry& entry, const std::vector<Extent>& map) {
  std::uint64_t end = 0;
  std::uint64_t total = 0;
  extents_.clear();
  for (const Extent& one : map) {
    if (one.offset < end || one.offset > entry.size_bytes || one.length > entry.size_bytes - one.offset) {
      return corrupt("sparse member '" + member_ + "' has an impossible map");
    }
    end = one.offset + one.length;
    total += one.length;
    if (one.length > 0) {
      extents_.push_back(one);
    }
  }
  if (total != stored_left_) {
    return corrupt("the map of sparse member '" + member_ + "' does not fit its data");
  }
  entry.sparse = true;
  entry.extents = extents_;
  return ok();
}

Result<std::optional<DataBlock>> TarReader::read() {
  while (extent_ < extents_.size() && extent_used_ == extents_[extent_].length) {
    ++extent_;
    extent_used_ = 0;
  }
  if (extent_ >= extents_.size() || stored_left_ == 0) {
    return std::optional<DataBlock>();
  }
  const Extent& extent = extents_[extent_];
  if (used_ == buffer_.size()) {
    used_ = 0;
    buffer_.clear();
  }
  ASCOPE_TRY_ASSIGN(const std::size_t have, ahead(1));
  if (have == 0) {
    return cut(member_);
  }
  const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(have, extent.length - extent_used_));
  const DataBlock block{extent.offset + extent_used_, ByteView(buffer_).substr(used_, now)};
  used_ += now;
  extent_used_ += now;
  stored_left_ -= now;
  return std::optional<DataBlock>(block);
}

}  // namespace

std::unique_ptr<TreeSource> read_plain_tar(std::unique_ptr<ByteSource> bytes) {
  return std::make_unique<TarReader>(std::move(bytes));
}

}  // namespace ascope
