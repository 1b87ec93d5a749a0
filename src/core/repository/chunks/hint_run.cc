// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/hint_run.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/repository/chunks/fields.h"

namespace ascope::chunks {

namespace {

constexpr ByteView kMagic = "ASHR";
constexpr std::size_t kRecordBytes = kIdBytes + 4;
constexpr std::size_t kMaxFilterBytes = 4U << 20U;
constexpr std::uint64_t kFilterBitsEach = 10;
constexpr std::uint32_t kMaxNames = 1U << 20U;
constexpr std::uint64_t kProbeRecords = 128;
constexpr std::size_t kMergeRecords = 2048;

Result<std::string> read_at(int fd, std::uint64_t offset, std::size_t count) {
  std::string out(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    const ssize_t got = ::pread(fd, out.data() + have, count - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return got < 0 ? errno_error("reading cached hints", errno)
                     : make_error(ErrorKind::corrupt, "a file of cached hints is cut");
    }
    have += static_cast<std::size_t>(got);
  }
  return out;
}

void filter_bits(const ChunkId& id, std::uint64_t bits, std::uint64_t (&out)[4]) {
  FieldReader fields(id.view().substr(4));
  for (std::uint64_t& bit : out) {
    bit = fields.u32() % bits;
  }
}

void add_to_filter(const ChunkId& id, std::string& filter) {
  std::uint64_t bits[4];
  filter_bits(id, filter.size() * 8, bits);
  for (const std::uint64_t bit : bits) {
    char& byte = filter[static_cast<std::size_t>(bit / 8)];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | (1U << (bit % 8)));
  }
}

std::size_t filter_size(std::uint64_t records) {
  return static_cast<std::size_t>(
      std::clamp<std::uint64_t>(records * kFilterBitsEach / 8, 64, kMaxFilterBytes));
}

std::string run_header(const std::vector<PackName>& sources, const std::vector<PackName>& packs,
                       const std::string& filter, std::uint64_t records) {
  std::string out(kMagic);
  put_fixed(out, 1, 1);
  for (const auto* names : {&sources, &packs}) {
    put_fixed(out, names->size(), 4);
    for (const PackName& one : *names) {
      out += one.view();
    }
  }
  put_fixed(out, filter.size(), 4);
  out += filter;
  put_fixed(out, records, 8);
  return out;
}

void append_record(std::string& out, const Hint& hint) {
  out += hint.id.view();
  put_fixed(out, hint.pack, 4);
}

Result<std::vector<PackName>> read_names(int fd, std::uint64_t& at) {
  ASCOPE_TRY_ASSIGN(const std::string size, read_at(fd, at, 4));
  const std::uint32_t count = FieldReader(size).u32();
  if (count > kMaxNames) {
    return make_error(ErrorKind::corrupt, "a file of cached hints is damaged");
  }
  ASCOPE_TRY_ASSIGN(const std::string bytes, read_at(fd, at + 4, count * kNameBytes));
  at += 4 + bytes.size();
  std::vector<PackName> out;
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(PackName::of(ByteView(bytes).substr(i * kNameBytes, kNameBytes)));
  }
  return out;
}

}  // namespace

Result<HintRun> HintRun::open(const std::string& path) {
  HintRun out;
  out.path_ = path;
  ASCOPE_TRY_ASSIGN(out.fd_, open_file(path, O_RDONLY));
  const int fd = out.fd_.get();
  ASCOPE_TRY_ASSIGN(const std::string magic, read_at(fd, 0, 5));
  if (magic != std::string(kMagic) + '\x01') {
    return make_error(ErrorKind::corrupt, "'" + path + "' is no file of cached hints");
  }
  std::uint64_t at = magic.size();
  ASCOPE_TRY_ASSIGN(out.sources_, read_names(fd, at));
  ASCOPE_TRY_ASSIGN(out.packs_, read_names(fd, at));
  ASCOPE_TRY_ASSIGN(const std::string size, read_at(fd, at, 4));
  const std::uint32_t filter_bytes = FieldReader(size).u32();
  if (filter_bytes == 0 || filter_bytes > kMaxFilterBytes) {
    return make_error(ErrorKind::corrupt, "'" + path + "' is damaged");
  }
  ASCOPE_TRY_ASSIGN(out.filter_, read_at(fd, at + 4, filter_bytes));
  at += 4 + filter_bytes;
  ASCOPE_TRY_ASSIGN(const std::string count, read_at(fd, at, 8));
  out.records_ = FieldReader(count).fixed(8);
  out.begin_ = at + 8;
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    return errno_error("looking at cached hints", errno);
  }
  const auto records_bytes = static_cast<std::uint64_t>(info.st_size) - out.begin_;
  if (records_bytes % kRecordBytes != 0 || records_bytes / kRecordBytes != out.records_) {
    return make_error(ErrorKind::corrupt, "'" + path + "' is damaged");
  }
  return out;
}

bool HintRun::may_have(const ChunkId& id) const {
  std::uint64_t bits[4];
  filter_bits(id, filter_.size() * 8, bits);
  return std::all_of(std::begin(bits), std::end(bits), [&](std::uint64_t bit) {
    return ((static_cast<unsigned char>(filter_[static_cast<std::size_t>(bit / 8)]) >> (bit % 8)) & 1U) != 0;
  });
}

Result<std::vector<Hint>> HintRun::read(std::uint64_t from, std::size_t count) const {
  count = static_cast<std::size_t>(std::min<std::uint64_t>(count, records_ - std::min(from, records_)));
  ASCOPE_TRY_ASSIGN(const std::string bytes,
                    read_at(fd_.get(), begin_ + from * kRecordBytes, count * kRecordBytes));
  std::vector<Hint> out;
  FieldReader fields(bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const ChunkId id = ChunkId::of(fields.bytes_of(kIdBytes));
    out.push_back({id, fields.u32()});
  }
  return out;
}

Result<void> HintRun::find(const ChunkId& id, std::vector<PackName>& out) const {
  if (records_ == 0 || !may_have(id)) {
    return ok();
  }
  // The first record that is not before `id` is in [low, high].
  std::uint64_t low = 0;
  std::uint64_t high = records_;
  while (high - low > kProbeRecords) {
    const std::uint64_t middle = low + (high - low) / 2;
    ASCOPE_TRY_ASSIGN(const std::vector<Hint> one, read(middle, 1));
    (one.front().id < id ? low : high) = one.front().id < id ? middle + 1 : middle;
  }
  ASCOPE_TRY_ASSIGN(const std::vector<Hint> probe, read(low, static_cast<std::size_t>(high - low)));
  low += static_cast<std::uint64_t>(
      std::lower_bound(probe.begin(), probe.end(), id,
                       [](const Hint& hint, const ChunkId& want) { return hint.id < want; }) -
      probe.begin());
  constexpr std::size_t kMostPacks = 8;
  ASCOPE_TRY_ASSIGN(const std::vector<Hint> same, read(low, kMostPacks));
  for (const Hint& hint : same) {
    if (hint.id != id) {
      break;
    }
    if (hint.pack < packs_.size()) {
      out.push_back(packs_[hint.pack]);
    }
  }
  return ok();
}

Result<void> write_cache_file(const std::string& path, ByteView data) {
  const std::string draft = path + ".tmp." + random_hex(8);
  ASCOPE_TRY_ASSIGN(UniqueFd fd, open_file(draft, O_WRONLY | O_CREAT | O_EXCL));
  Result<void> done = write_all(fd.get(), data);
  if (done) {
    done = fd.close();
  }
  if (done && ::rename(draft.c_str(), path.c_str()) != 0) {
    done = errno_error("naming '" + path + "'", errno);
  }
  if (!done) {
    ::unlink(draft.c_str());
  }
  return done;
}

Result<void> write_hint_run(const std::string& path, const std::vector<PackName>& sources,
                            const std::vector<PackName>& packs, std::vector<Hint> hints) {
  std::sort(hints.begin(), hints.end(), [](const Hint& a, const Hint& b) { return a.id < b.id; });
  std::string filter(filter_size(hints.size()), '\0');
  for (const Hint& hint : hints) {
    add_to_filter(hint.id, filter);
  }
  std::string bytes = run_header(sources, packs, filter, hints.size());
  for (const Hint& hint : hints) {
    append_record(bytes, hint);
  }
  return write_cache_file(path, bytes);
}

namespace {

// A run being read from its front.
struct Cursor {
  const HintRun* run = nullptr;
  std::vector<std::uint32_t> pack_of;  // its packs in the merged list
  std::vector<Hint> block;
  std::size_t at = 0;
  std::uint64_t next = 0;

  Result<bool> fill() {
    if (at == block.size()) {
      ASCOPE_TRY_ASSIGN(block, run->read(next, kMergeRecords));
      next += block.size();
      at = 0;
    }
    return at < block.size();
  }
};

}  // namespace

Result<void> merge_hint_runs(const std::string& path, const std::vector<const HintRun*>& runs) {
  std::vector<PackName> sources;
  std::vector<PackName> packs;
  std::map<PackName, std::uint32_t> known;
  std::vector<Cursor> cursors;
  std::uint64_t records = 0;
  for (const HintRun* run : runs) {
    sources.insert(sources.end(), run->sources().begin(), run->sources().end());
    Cursor cursor;
    cursor.run = run;
    for (const PackName& pack : run->packs()) {
      const auto [found, fresh] = known.try_emplace(pack, static_cast<std::uint32_t>(packs.size()));
      if (fresh) {
        packs.push_back(pack);
      }
      cursor.pack_of.push_back(found->second);
    }
    records += run->size();
    cursors.push_back(std::move(cursor));
  }
  std::string filter(filter_size(records), '\0');
  const std::size_t header_bytes = run_header(sources, packs, filter, records).size();
  const std::string draft = path + ".tmp." + random_hex(8);
  ASCOPE_TRY_ASSIGN(UniqueFd fd, open_file(draft, O_RDWR | O_CREAT | O_EXCL));
  const auto write = [&]() -> Result<void> {
    if (::lseek(fd.get(), static_cast<off_t>(header_bytes), SEEK_SET) < 0) {
      return errno_error("writing cached hints", errno);
    }
    std::string buffer;
    while (true) {
      Cursor* least = nullptr;
      for (Cursor& cursor : cursors) {
        ASCOPE_TRY_ASSIGN(const bool more, cursor.fill());
        if (more && (least == nullptr || cursor.block[cursor.at].id < least->block[least->at].id)) {
          least = &cursor;
        }
      }
      if (least == nullptr) {
        break;
      }
      const Hint& hint = least->block[least->at++];
      append_record(buffer,
                    {hint.id, hint.pack < least->pack_of.size() ? least->pack_of[hint.pack] : UINT32_MAX});
      add_to_filter(hint.id, filter);
      if (buffer.size() >= (256U << 10U)) {
        ASCOPE_TRY(write_all(fd.get(), buffer));
        buffer.clear();
      }
    }
    ASCOPE_TRY(write_all(fd.get(), buffer));
    if (::lseek(fd.get(), 0, SEEK_SET) < 0) {
      return errno_error("writing cached hints", errno);
    }
    ASCOPE_TRY(write_all(fd.get(), run_header(sources, packs, filter, records)));
    ASCOPE_TRY(fd.close());
    return ::rename(draft.c_str(), path.c_str()) == 0
               ? ok()
               : Result<void>(errno_error("naming '" + path + "'", errno));
  };
  Result<void> done = write();
  if (!done) {
    ::unlink(draft.c_str());
  }
  return done;
}

}  // namespace ascope::chunks
