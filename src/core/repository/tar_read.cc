// SPDX-License-Identifier: Apache-2.0
// Reads ustar, pax and GNU tar (long names, sparse files of all its formats) of hostile origin.
#include <algorithm>
#include <limits>
#include <sys/sysmacros.h>

#include "core/repository/tar.h"
#include "core/repository/tar_header.h"
#include "core/repository/tar_input.h"
#include "core/tree/agent.h"
#include "core/tree/path_set.h"

namespace ascope {

namespace {

constexpr std::uint64_t kMaxPaxBytes = 16U << 20U;    // a sparse map may lie in it
constexpr std::uint64_t kMaxNameBytes = 128U << 10U;  // of GNU's long names
constexpr std::uint8_t kFileMark = 1;
constexpr std::uint8_t kFolderMark = 2;

Error corrupt(std::string message) {
  return make_error(ErrorKind::corrupt, std::move(message));
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
  explicit TarReader(std::unique_ptr<ByteSource> bytes) : input_(std::move(bytes)) {}

  Result<bool> next(TreeEntry& entry) override;
  Result<std::optional<DataBlock>> read() override;

 private:
  Result<bool> header(TarHeader& out);
  Result<void> check_end();
  Result<std::string> long_text(const TarHeader& header, std::uint64_t most);
  // Deals with headers that only describe the member after them; false for a member.
  Result<bool> describes_next(const TarHeader& header);
  Result<bool> begin_member(const TarHeader& header, TreeEntry& entry);
  Result<void> set_type(const TarHeader& header, TreeEntry& entry);
  Result<void> set_fields(const TarHeader& header, TreeEntry& entry);
  Result<void> set_sparse(const TarHeader& header, TreeEntry& entry);
  Result<void> remember(const TreeEntry& entry);

  TarInput input_;
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

Result<void> TarReader::check_end() {
  ASCOPE_TRY_ASSIGN(ByteView rest, input_.ahead(kTarBlock));
  if (rest.size() < kTarBlock) {
    return corrupt("the archive is cut: its second end block is missing");
  }
  while (!rest.empty()) {
    if (rest.find_first_not_of('\0') != ByteView::npos) {
      return corrupt("the archive has something behind its end");
    }
    input_.consume(rest.size());
    ASCOPE_TRY_ASSIGN(rest, input_.ahead(1));
  }
  return ok();
}

// false at the end blocks.
Result<bool> TarReader::header(TarHeader& out) {
  ASCOPE_TRY_ASSIGN(const ByteView have, input_.ahead(kTarBlock));
  if (have.size() < kTarBlock) {
    return corrupt(have.empty() ? "the archive is cut: it has no end blocks" : "the archive is cut");
  }
  block_ = have.substr(0, kTarBlock);
  input_.consume(kTarBlock);
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
  ASCOPE_TRY(input_.take(header.size_bytes, out));
  ASCOPE_TRY(input_.skip(tar_padding(header.size_bytes)));
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
      ASCOPE_TRY(input_.skip(header.size_bytes + tar_padding(header.size_bytes)));
      return true;
    default:
      return false;
  }
}

Result<bool> TarReader::next(TreeEntry& entry) {
  if (done_) {
    return false;
  }
  if (Result<void> skipped = input_.skip(stored_left_ + pad_); !skipped) {
    return std::move(skipped).error().within("member '" + member_ + "'");
  }
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
  const bool is_ours = global_.comment == kTarMark;
  entry.uid = is_ours ? static_cast<std::uint32_t>(uid) : kAgentId;
  entry.gid = is_ours ? static_cast<std::uint32_t>(gid) : kAgentId;
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
  pad_ = tar_padding(stored_left_);
  extents_.clear();
  extent_ = 0;
  extent_used_ = 0;
  if (entry.type == EntryType::file) {
    entry.size_bytes = stored_left_;
    extents_ = {{0, stored_left_}};
    if (header.type == 'S' || pax_.is_sparse) {
      if (Result<void> sparse = set_sparse(header, entry); !sparse) {
        return std::move(sparse).error().within("sparse member '" + member_ + "'");
      }
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
    ASCOPE_TRY_ASSIGN(entry.size_bytes, read_gnu_map(header, input_, map));
  } else {
    if (!pax_.real_size) {
      return corrupt("it has no size");
    }
    entry.size_bytes = *pax_.real_size;
    if (pax_.sparse_major == "1" && pax_.sparse_minor == "0") {
      ASCOPE_TRY(read_text_map(input_, stored_left_, map));
    } else if (pax_.sparse_major.empty() || pax_.sparse_major == "0") {
      map = std::move(pax_.sparse_map);
    } else {
      return corrupt("its format is unknown");
    }
  }
  ASCOPE_TRY_ASSIGN(extents_, check_sparse_map(map, entry.size_bytes, stored_left_));
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
  ASCOPE_TRY_ASSIGN(const ByteView have, input_.ahead(1));
  if (have.empty()) {
    return corrupt("the archive is cut in '" + member_ + "'");
  }
  const auto now =
      static_cast<std::size_t>(std::min<std::uint64_t>(have.size(), extent.length - extent_used_));
  const DataBlock block{extent.offset + extent_used_, have.substr(0, now)};
  input_.consume(now);
  extent_used_ += now;
  stored_left_ -= now;
  return std::optional<DataBlock>(block);
}

}  // namespace

std::unique_ptr<TreeSource> read_plain_tar(std::unique_ptr<ByteSource> bytes) {
  return std::make_unique<TarReader>(std::move(bytes));
}

}  // namespace ascope
