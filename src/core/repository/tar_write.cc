// SPDX-License-Identifier: Apache-2.0
// Writes pax tar (POSIX.1-2001; sparse files as GNU's format 1.0) so that the same entries give the same
// bytes. A pax header stands only where the plain header cannot say it, for readers that know no pax.
#include <algorithm>
#include <array>
#include <cstring>
#include <sys/sysmacros.h>

#include "core/repository/compress.h"
#include "core/repository/tar.h"
#include "core/repository/tar_header.h"

namespace ascope {

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kFlushBytes = 256U << 10U;
constexpr std::uint64_t kMaxOctal11 = 0777'7777'7777;  // what 11 octal digits hold: 8 GiB − 1
constexpr std::uint64_t kMaxOctal7 = 0777'7777;
constexpr std::size_t kNameField = 100;
constexpr std::size_t kPrefixField = 155;

std::size_t padding(std::uint64_t size) {
  return static_cast<std::size_t>((kBlock - size % kBlock) % kBlock);
}

// One "LENGTH KEY=VALUE\n" record; LENGTH counts itself.
void add_record(std::string& out, std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) {
    length = std::to_string(length).size() + rest;
  }
  out += std::to_string(length) + " ";
  out += key;
  out += '=';
  out += value;
  out += '\n';
}

// Seconds with a fraction as pax has them, "-4.876543211".
std::string pax_time(std::int64_t nanoseconds) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const bool negative = nanoseconds < 0;
  const std::uint64_t whole =
      negative ? 0 - static_cast<std::uint64_t>(nanoseconds) : static_cast<std::uint64_t>(nanoseconds);
  std::string out = (negative ? "-" : "") + std::to_string(whole / kSecond);
  std::string fraction = std::to_string(kSecond + whole % kSecond).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return fraction.empty() ? out : out + "." + fraction;
}

class Header {
 public:
  Header() {
    bytes_.fill('\0');
    put(257, std::string_view("ustar\0"
                              "00",
                              8));
  }
  void put(std::size_t at, std::string_view value) {
    std::memcpy(bytes_.data() + at, value.data(), value.size());
  }
  // `width` - 1 octal digits and a NUL.
  void octal(std::size_t at, std::size_t width, std::uint64_t value) {
    for (std::size_t i = width - 1; i-- > 0; value >>= 3U) {
      bytes_[at + i] = static_cast<char>('0' + (value & 7U));
    }
  }
  void name(std::string_view value) { put(0, value.substr(0, kNameField)); }
  // Splits at a slash into prefix and name; false if that does not fit.
  bool split_name(std::string_view value) {
    if (value.size() <= kNameField) {
      name(value);
      return true;
    }
    const std::size_t least = value.size() - kNameField - 1;
    const std::size_t slash = value.find('/', least);
    if (slash > kPrefixField || slash + 1 == value.size() || slash == 0) {
      return false;
    }
    put(345, value.substr(0, slash));
    name(value.substr(slash + 1));
    return true;
  }
  ByteView finish() {
    put(148, "        ");
    unsigned sum = 0;
    for (const char c : bytes_) {
      sum += static_cast<unsigned char>(c);
    }
    octal(148, 7, sum);
    bytes_[154] = '\0';
    return {bytes_.data(), bytes_.size()};
  }

 private:
  std::array<char, kBlock> bytes_;
};

char type_flag(EntryType type) {
  switch (type) {
    case EntryType::hardlink:
      return '1';
    case EntryType::symlink:
      return '2';
    case EntryType::char_device:
      return '3';
    case EntryType::block_device:
      return '4';
    case EntryType::directory:
      return '5';
    case EntryType::fifo:
      return '6';
    case EntryType::file:
    case EntryType::socket:
      break;
  }
  return '0';
}

// The text of GNU's sparse map 1.0: count, then offset and length of each, padded to a block.
std::string sparse_map(const TreeEntry& entry) {
  const bool ends_in_hole =
      entry.extents.empty() || entry.extents.back().offset + entry.extents.back().length != entry.size_bytes;
  std::string out = std::to_string(entry.extents.size() + (ends_in_hole ? 1 : 0)) + "\n";
  for (const Extent& one : entry.extents) {
    out += std::to_string(one.offset) + "\n" + std::to_string(one.length) + "\n";
  }
  if (ends_in_hole) {
    out += std::to_string(entry.size_bytes) + "\n0\n";
  }
  out.append(padding(out.size()), '\0');
  return out;
}

class TarWriter {
 public:
  explicit TarWriter(ByteSink& sink) : sink_(sink) {}

  Result<TarStats> write(TreeSource& source) {
    std::string mark;
    add_record(mark, "comment", kTarMark);
    extended('g', "global", mark);
    TreeEntry entry;
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, source.next(entry));
      if (!more) {
        break;
      }
      if (entry.type == EntryType::socket) {
        stats_.notes.push_back({entry.path, "socket skipped"});
        continue;
      }
      ASCOPE_TRY(member(entry, source));
    }
    pending_.append(2 * kBlock, '\0');
    ASCOPE_TRY(flush());
    return std::move(stats_);
  }

 private:
  Result<void> member(const TreeEntry& entry, TreeSource& source);
  void extended(char type, std::string_view name, const std::string& records);
  Result<void> content(const TreeEntry& entry, TreeSource& source);
  Result<void> zeros(std::uint64_t count);
  Result<void> take(ByteView bytes) {
    if (bytes.size() >= kFlushBytes) {
      ASCOPE_TRY(flush());
      return sink_.write(bytes);
    }
    pending_ += bytes;
    return pending_.size() >= kFlushBytes ? flush() : ok();
  }
  Result<void> flush() {
    Result<void> done = sink_.write(pending_);
    pending_.clear();
    return done;
  }

  ByteSink& sink_;
  std::string pending_;
  TarStats stats_;
};

void TarWriter::extended(char type, std::string_view name, const std::string& records) {
  Header header;
  header.name("./PaxHeaders/" + std::string(name.substr(0, 80)));
  header.octal(100, 8, 0644);
  header.octal(108, 8, 0);
  header.octal(116, 8, 0);
  header.octal(124, 12, records.size());
  header.octal(136, 12, 0);
  header.put(156, std::string_view(&type, 1));
  pending_ += header.finish();
  pending_ += records;
  pending_.append(padding(records.size()), '\0');
}

Result<void> TarWriter::member(const TreeEntry& entry, TreeSource& source) {
  Header header;
  std::string records;
  std::string name = "./" + entry.path;
  if (entry.type == EntryType::directory && !entry.path.empty()) {
    name += '/';
  }
  const std::string map = entry.sparse ? sparse_map(entry) : "";
  std::uint64_t stored = entry.type == EntryType::file ? entry.size_bytes : 0;
  if (entry.sparse) {
    stored = map.size();
    for (const Extent& one : entry.extents) {
      stored += one.length;
    }
    add_record(records, "GNU.sparse.major", "1");
    add_record(records, "GNU.sparse.minor", "0");
    add_record(records, "GNU.sparse.name", name);
    add_record(records, "GNU.sparse.realsize", std::to_string(entry.size_bytes));
    const std::size_t slash = name.rfind('/');
    header.name(("./GNUSparseFile.0/" + name.substr(slash + 1)).substr(0, kNameField));
  } else if (!header.split_name(name)) {
    header.name(name);
    add_record(records, "path", name);
  }
  const std::string link = entry.type == EntryType::hardlink ? "./" + entry.link_target : entry.link_target;
  header.put(157, std::string_view(link).substr(0, kNameField));
  if (link.size() > kNameField) {
    add_record(records, "linkpath", link);
  }
  const auto number = [&](std::size_t at, std::size_t width, std::uint64_t most, std::string_view key,
                          std::uint64_t value) {
    header.octal(at, width, value <= most ? value : 0);
    if (value > most) {
      add_record(records, key, std::to_string(value));
    }
  };
  header.octal(100, 8, entry.mode);
  number(108, 8, kMaxOctal7, "uid", entry.uid);
  number(116, 8, kMaxOctal7, "gid", entry.gid);
  number(124, 12, kMaxOctal11, "size", stored);
  const bool plain_time = entry.mtime_ns >= 0 && entry.mtime_ns % 1'000'000'000 == 0;
  header.octal(136, 12, entry.mtime_ns < 0 ? 0 : static_cast<std::uint64_t>(entry.mtime_ns / 1'000'000'000));
  if (!plain_time) {
    add_record(records, "mtime", pax_time(entry.mtime_ns));
  }
  header.put(156, std::string(1, type_flag(entry.type)));
  header.octal(329, 8, ::major(entry.device) & kMaxOctal7);
  header.octal(337, 8, ::minor(entry.device) & kMaxOctal7);
  for (const auto& [key, value] : entry.xattrs) {
    if (key.find('=') == std::string::npos) {
      add_record(records, "SCHILY.xattr." + key, value);
    } else {
      stats_.notes.push_back({entry.path, "extended attribute '" + key + "' not kept: '=' in its name"});
    }
  }
  if (!records.empty()) {
    std::string all;
    if (!is_utf8(name) || !is_utf8(link)) {
      add_record(all, "hdrcharset", "BINARY");
    }
    extended('x', std::string_view(entry.path).substr(entry.path.rfind('/') + 1), all + records);
  }
  ASCOPE_TRY(take(header.finish()));
  stats_.files += entry.type == EntryType::directory ? 0 : 1;
  if (entry.type != EntryType::file) {
    return ok();
  }
  stats_.content_bytes += entry.size_bytes;
  ASCOPE_TRY(take(map));
  ASCOPE_TRY(content(entry, source));
  return zeros(padding(stored));
}

Result<void> TarWriter::zeros(std::uint64_t count) {
  while (count > 0) {
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(count, kFlushBytes));
    pending_.append(now, '\0');
    count -= now;
    if (pending_.size() >= kFlushBytes) {
      ASCOPE_TRY(flush());
    }
  }
  return ok();
}

// The data of each extent in turn; what the source does not give of it is zeros.
Result<void> TarWriter::content(const TreeEntry& entry, TreeSource& source) {
  const std::vector<Extent> whole = {{0, entry.size_bytes}};
  const std::vector<Extent>& extents = entry.sparse ? entry.extents : whole;
  std::size_t index = 0;
  std::uint64_t at = extents.empty() ? 0 : extents[0].offset;
  while (entry.size_bytes > 0) {
    ASCOPE_TRY_ASSIGN(std::optional<DataBlock> block, source.read());
    if (!block) {
      break;
    }
    while (!block->bytes.empty()) {
      while (index < extents.size() && block->offset >= extents[index].offset + extents[index].length) {
        ASCOPE_TRY(zeros(extents[index].offset + extents[index].length - at));
        ++index;
        at = index < extents.size() ? extents[index].offset : 0;
      }
      if (index == extents.size() || block->offset < at) {
        return make_error(ErrorKind::internal, "data of '" + entry.path + "' lies where its map has a hole");
      }
      ASCOPE_TRY(zeros(block->offset - at));
      const std::uint64_t room = extents[index].offset + extents[index].length - block->offset;
      const ByteView now = block->bytes.substr(
          0, static_cast<std::size_t>(std::min<std::uint64_t>(room, block->bytes.size())));
      ASCOPE_TRY(take(now));
      at = block->offset + now.size();
      block->offset = at;
      block->bytes.remove_prefix(now.size());
    }
  }
  for (; index < extents.size(); ++index) {
    at = std::max(at, extents[index].offset);
    ASCOPE_TRY(zeros(extents[index].offset + extents[index].length - at));
    at = 0;
  }
  return ok();
}

}  // namespace

Result<TarStats> write_tar(TreeSource& source, ByteSink& sink, TarCompression compression) {
  if (compression == TarCompression::none) {
    return TarWriter(sink).write(source);
  }
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<FinishedSink> compressed, compressing_sink(sink, compression));
  ASCOPE_TRY_ASSIGN(TarStats stats, TarWriter(*compressed).write(source));
  ASCOPE_TRY(compressed->finish());
  return stats;
}

}  // namespace ascope
