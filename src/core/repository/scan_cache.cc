// SPDX-License-Identifier: Apache-2.0
#include "core/repository/scan_cache.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/path_order.h"

namespace ascope {

namespace {

using chunks::FieldReader;
using chunks::put_fixed;
using chunks::put_text;
using chunks::put_varint;

constexpr std::string_view kMagic{"ASSC\x01", 5};
constexpr std::size_t kBlockBytes = 64U << 10U;
constexpr std::size_t kMaxBlockBytes = kBlockBytes + (128U << 10U);  // one path more than full
constexpr std::size_t kDigestBytes = 8;
constexpr std::size_t kBlockHeadBytes = 4 + kDigestBytes;
constexpr std::size_t kMaxIdBytes = 64;
constexpr std::size_t kFileHeadBytes = 5 + 1 + kMaxIdBytes + 8;  // before its digest
constexpr std::size_t kMaxPathBytes = 64U << 10U;
constexpr std::int64_t kSecond = 1'000'000'000;
// A file's times come from the clock of the kernel's tick, 1 to 10 ms long; several of them for a tick that
// comes late.
constexpr std::int64_t kTickGrain = 100'000'000;
// Of file systems that keep whole seconds (FAT: two).
constexpr std::int64_t kSecondGrain = 2 * kSecond;

std::string digest(ByteView bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish().substr(0, kDigestBytes);
}

struct Seen {
  std::uint64_t inode = 0;
  std::int64_t ctime_ns = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t size_bytes = 0;
  bool operator==(const Seen&) const = default;
};

Seen seen(const TreeEntry& entry) {
  return {entry.inode, entry.ctime_ns, entry.mtime_ns, entry.size_bytes};
}

// Touched so late before `started_ns` that a later change may carry the same time.
bool is_racy(std::int64_t ctime_ns, std::int64_t started_ns) {
  const std::int64_t grain = ctime_ns % kSecond == 0 ? kSecondGrain : kTickGrain;
  return ctime_ns > started_ns - grain;
}

std::string file_head(const std::string& snapshot, std::int64_t started_ns) {
  std::string head(kMagic);
  put_fixed(head, snapshot.size(), 1);
  head += snapshot;
  head.resize(kFileHeadBytes - 8, '\0');
  put_fixed(head, static_cast<std::uint64_t>(started_ns), 8);
  return head + digest(head);
}

}  // namespace

// ---- reading ----

struct ScanCache::State {
  UniqueFd file;
  std::int64_t started_ns = 0;
  std::string block;
  std::size_t used = 0;
  bool ended = true;
  // The entry at hand.
  bool has_entry = false;
  SnapshotPart part = SnapshotPart::workspace;
  std::string path;
  Seen stat;

  bool read_exactly(char* to, std::size_t bytes) {
    while (bytes > 0) {
      const auto count = read_some(file.get(), std::span(to, bytes));
      if (!count || *count == 0) {
        return false;
      }
      to += *count;
      bytes -= *count;
    }
    return true;
  }

  bool next_block() {
    std::string head(kBlockHeadBytes, '\0');
    if (!read_exactly(head.data(), head.size())) {
      return false;
    }
    const std::uint32_t bytes = FieldReader(head).u32();
    if (bytes == 0 || bytes > kMaxBlockBytes) {
      return false;
    }
    block.resize(bytes);
    used = 0;
    return read_exactly(block.data(), bytes) && digest(block) == std::string_view(head).substr(4);
  }

  bool open(const std::string& name, const std::string& snapshot) {
    auto opened = open_file(name, O_RDONLY);
    if (!opened) {
      return false;
    }
    file = std::move(*opened);
    std::string head(kFileHeadBytes + kDigestBytes, '\0');
    if (!read_exactly(head.data(), head.size()) ||
        digest(ByteView(head).substr(0, kFileHeadBytes)) != ByteView(head).substr(kFileHeadBytes)) {
      return false;
    }
    started_ns = static_cast<std::int64_t>(FieldReader(ByteView(head).substr(kFileHeadBytes - 8)).fixed(8));
    return head == file_head(snapshot, started_ns);
  }

  void next_entry() {
    has_entry = false;
    if (used == block.size() && !next_block()) {
      ended = true;
      return;
    }
    FieldReader fields(ByteView(block).substr(used));
    part = fields.u8() == 0 ? SnapshotPart::workspace : SnapshotPart::roots;
    const auto shared = static_cast<std::size_t>(fields.varint(path.size()));
    const ByteView rest = fields.text(kMaxPathBytes);
    stat.inode = fields.fixed(8);
    stat.ctime_ns = static_cast<std::int64_t>(fields.fixed(8));
    stat.mtime_ns = static_cast<std::int64_t>(fields.fixed(8));
    stat.size_bytes = fields.fixed(8);
    if (!fields.good()) {
      ended = true;
      return;
    }
    path.resize(shared);
    path += rest;
    used = block.size() - fields.left();
    has_entry = true;
  }

  // <0 while the entry at hand comes before the asked one.
  [[nodiscard]] int position(SnapshotPart asked, std::string_view wanted) const {
    if (part != asked) {
      return part < asked ? -1 : 1;
    }
    const auto order = chunks::order_of_paths(path, wanted);
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
};

ScanCache::ScanCache(const std::string& path, const std::string& snapshot)
    : state_(std::make_unique<State>()) {
  state_->ended =
      path.empty() || snapshot.empty() || snapshot.size() > kMaxIdBytes || !state_->open(path, snapshot);
}
ScanCache::~ScanCache() = default;

bool ScanCache::is_usable() const {
  return !state_->ended;
}

bool ScanCache::same(SnapshotPart part, const TreeEntry& entry) {
  State& state = *state_;
  while (!state.ended && (!state.has_entry || state.position(part, entry.path) < 0)) {
    state.next_entry();
  }
  return !state.ended && state.position(part, entry.path) == 0 && state.stat == seen(entry) &&
         entry.ctime_ns != 0 && !is_racy(entry.ctime_ns, state.started_ns);
}

// ---- writing ----

struct ScanRecorder::State {
  std::string path;
  std::string temporary;
  std::optional<std::int64_t> started_ns;
  UniqueFd file;
  std::string block;
  std::string last_path;
  Result<void> outcome = ok();

  Result<void> open() {
    temporary = path + "." + random_hex(8) + ".tmp";
    ASCOPE_TRY_ASSIGN(file, open_file(temporary, O_WRONLY | O_CREAT | O_EXCL));
    struct stat info{};
    if (::fstat(file.get(), &info) != 0) {
      return errno_error("looking at '" + temporary + "'", errno);
    }
    started_ns = started_ns.value_or(info.st_ctim.tv_sec * kSecond + info.st_ctim.tv_nsec);
    return write_all(file.get(), std::string(kFileHeadBytes + kDigestBytes, '\0'));
  }
  Result<void> put_block() {
    std::string bytes;
    put_fixed(bytes, block.size(), 4);
    bytes += digest(block);
    bytes += block;
    block.clear();
    last_path.clear();
    return write_all(file.get(), bytes);
  }
};

ScanRecorder::ScanRecorder(std::string path, std::optional<std::int64_t> started_ns)
    : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
  state_->started_ns = started_ns;
  state_->outcome = state_->open();
}

ScanRecorder::~ScanRecorder() {
  if (!state_->temporary.empty()) {
    (void)remove_file(state_->temporary);  // nothing to be done about it here; gc removes what is left
  }
}

void ScanRecorder::add(SnapshotPart part, const TreeEntry& entry) {
  State& state = *state_;
  if (!state.outcome) {
    return;
  }
  const auto end =
      std::mismatch(state.last_path.begin(), state.last_path.end(), entry.path.begin(), entry.path.end());
  const auto shared = static_cast<std::size_t>(end.first - state.last_path.begin());
  put_fixed(state.block, part == SnapshotPart::workspace ? 0 : 1, 1);
  put_varint(state.block, shared);
  put_text(state.block, std::string_view(entry.path).substr(shared));
  const Seen stat = seen(entry);
  put_fixed(state.block, stat.inode, 8);
  put_fixed(state.block, static_cast<std::uint64_t>(stat.ctime_ns), 8);
  put_fixed(state.block, static_cast<std::uint64_t>(stat.mtime_ns), 8);
  put_fixed(state.block, stat.size_bytes, 8);
  state.last_path = entry.path;
  if (state.block.size() >= kBlockBytes) {
    state.outcome = state.put_block();
  }
}

Result<void> ScanRecorder::finish(const std::string& snapshot) {
  State& state = *state_;
  ASCOPE_TRY(std::exchange(state.outcome, ok()));
  if (!state.block.empty()) {
    ASCOPE_TRY(state.put_block());
  }
  const std::string head = file_head(snapshot, *state.started_ns);
  if (::pwrite(state.file.get(), head.data(), head.size(), 0) != static_cast<ssize_t>(head.size())) {
    return errno_error("writing '" + state.temporary + "'", errno);
  }
  ASCOPE_TRY(state.file.close());
  // Not synced: after a power cut the digests tell what is whole.
  if (::rename(state.temporary.c_str(), state.path.c_str()) != 0) {
    return errno_error("renaming '" + state.temporary + "'", errno);
  }
  state.temporary.clear();
  return ok();
}

}  // namespace ascope
