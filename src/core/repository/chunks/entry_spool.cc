// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/entry_spool.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <numeric>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/path_order.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kRunBytes = 6U << 20U;
constexpr std::size_t kReadBytes = 64U << 10U;
constexpr std::size_t kItemOverhead = 96;

Result<UniqueFd> open_nameless(const std::string& folder) {
  ASCOPE_TRY(make_dirs(folder));
  const std::string path = folder + "/spool." + random_hex(8);
  ASCOPE_TRY_ASSIGN(UniqueFd fd, open_file(path, O_RDWR | O_CREAT | O_EXCL));
  ASCOPE_TRY(remove_file(path));
  return fd;
}

// Takes an entry and its chunks out of a page of one entry.
Result<void> unpack(std::string bytes, const std::map<PackName, std::uint32_t>& number, TreeEntry& entry,
                    std::vector<ChunkRef>& refs) {
  ASCOPE_TRY_ASSIGN(PageReader page, PageReader::open(std::move(bytes)));
  PageRecord record;
  refs.clear();
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool more, page.next(record));
    if (!more) {
      return ok();
    }
    if (record.kind == PageRecord::Kind::entry) {
      entry = std::move(record.entry);
    } else if (record.kind == PageRecord::Kind::runs) {
      entry.extents.insert(entry.extents.end(), record.extents.begin(), record.extents.end());
    } else {
      for (ChunkRef ref : record.references) {
        ref.pack = number.at(page.packs()[ref.pack]);
        refs.push_back(ref);
      }
    }
  }
}

}  // namespace

// Reads one run from its front.
class EntrySpool::RunReader {
 public:
  RunReader(int fd, std::uint64_t begin, std::uint64_t end) : fd_(fd), at_(begin), end_(end) {}
  // False at the end of the run.
  Result<bool> next() {
    if (at_ == end_ && used_ == buffer_.size()) {
      return false;
    }
    ASCOPE_TRY_ASSIGN(const std::string sizes, take(8));
    FieldReader fields(sizes);
    const std::uint32_t path_bytes = fields.u32();
    const std::uint32_t page_bytes = fields.u32();
    ASCOPE_TRY_ASSIGN(item.path, take(path_bytes));
    ASCOPE_TRY_ASSIGN(item.page, take(page_bytes));
    return true;
  }
  Item item;

 private:
  Result<std::string> take(std::size_t count) {
    std::string out;
    while (out.size() < count) {
      if (used_ == buffer_.size()) {
        buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kReadBytes, end_ - at_)));
        used_ = 0;
        const ssize_t got = ::pread(fd_, buffer_.data(), buffer_.size(), static_cast<off_t>(at_));
        if (got <= 0) {
          return errno_error("reading entries back", got < 0 ? errno : EIO);
        }
        buffer_.resize(static_cast<std::size_t>(got));
        at_ += static_cast<std::uint64_t>(got);
      }
      const std::size_t now = std::min(count - out.size(), buffer_.size() - used_);
      out.append(buffer_, used_, now);
      used_ += now;
    }
    return out;
  }
  int fd_;
  std::uint64_t at_;
  std::uint64_t end_;
  std::string buffer_;
  std::size_t used_ = 0;
};

void EntrySpool::note_link(TreeEntry& entry) {
  if (entry.type != EntryType::hardlink) {
    return;
  }
  if (const auto found = target_of_.find(entry.link_target); found != target_of_.end()) {
    entry.link_target = found->second;  // a link to a link
  }
  target_of_[entry.path] = entry.link_target;
  const auto [first, fresh] = first_link_.try_emplace(entry.link_target, entry.path);
  if (!fresh && path_before(entry.path, first->second)) {
    first->second = entry.path;
  }
}

Result<void> EntrySpool::add(const OpContext& /*ctx*/, const TreeEntry& entry,
                             const std::vector<ChunkRef>& refs) {
  TreeEntry kept = entry;
  note_link(kept);
  PageWriter writer(packs_);
  writer.entry(kept, refs.size());
  const std::span<const Extent> runs(kept.extents);
  for (std::size_t at = 0; at < runs.size(); at += kRunsARecord) {
    writer.runs(runs.subspan(at, std::min(kRunsARecord, runs.size() - at)));
  }
  const std::span<const ChunkRef> chunks(refs);
  for (std::size_t at = 0; at < chunks.size(); at += kChunksARecord) {
    writer.chunks(chunks.subspan(at, std::min(kChunksARecord, chunks.size() - at)));
  }
  items_.push_back({std::move(kept.path), writer.finish()});
  bytes_ += items_.back().path.size() + items_.back().page.size() + kItemOverhead;
  return bytes_ >= kRunBytes ? write_run() : ok();
}

Result<void> EntrySpool::write_run() {
  if (!fd_.is_open()) {
    ASCOPE_TRY_ASSIGN(fd_, open_nameless(folder_));
  }
  // Entries of one path keep their order. (std::stable_sort is what says so, but clang warns of libstdc++'s.)
  std::vector<std::size_t> order(items_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    const std::string& left = items_[a].path;
    const std::string& right = items_[b].path;
    return left == right ? a < b : path_before(left, right);
  });
  const std::uint64_t begin = end_;
  std::string buffer;
  const auto flush = [&]() -> Result<void> {
    ASCOPE_TRY(write_all(fd_.get(), buffer));
    end_ += buffer.size();
    buffer.clear();
    return ok();
  };
  for (const std::size_t at : order) {
    const Item& item = items_[at];
    put_fixed(buffer, item.path.size(), 4);
    put_fixed(buffer, item.page.size(), 4);
    buffer += item.path;
    buffer += item.page;
    if (buffer.size() >= kReadBytes) {
      ASCOPE_TRY(flush());
    }
  }
  ASCOPE_TRY(flush());
  runs_.emplace_back(begin, end_);
  items_.clear();
  bytes_ = 0;
  return ok();
}

// The entries that change places with their first link.
Result<std::map<std::string, std::string>> EntrySpool::fetch_exchanged() {
  std::erase_if(first_link_, [](const auto& one) { return path_before(one.first, one.second); });
  std::map<std::string, std::string> out;
  if (first_link_.empty()) {
    return out;
  }
  for (const auto& [begin, end] : runs_) {
    RunReader reader(fd_.get(), begin, end);
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, reader.next());
      if (!more) {
        break;
      }
      if (first_link_.contains(reader.item.path)) {
        out.emplace(reader.item.path, std::move(reader.item.page));
      }
    }
  }
  return out;
}

Result<void> EntrySpool::replay(const OpContext& ctx, const std::map<PackName, std::uint32_t>& number,
                                EntrySink& into) {
  ASCOPE_TRY(write_run());
  ASCOPE_TRY_ASSIGN(const auto exchanged, fetch_exchanged());
  std::vector<RunReader> readers;
  readers.reserve(runs_.size());
  for (const auto& [begin, end] : runs_) {
    readers.emplace_back(fd_.get(), begin, end);
  }
  const auto later = [&](std::size_t a, std::size_t b) {
    const auto order = order_of_paths(readers[a].item.path, readers[b].item.path);
    return order != 0 ? order > 0 : a > b;
  };
  std::vector<std::size_t> heap;
  const auto step = [&](std::size_t which) -> Result<void> {
    ASCOPE_TRY_ASSIGN(const bool more, readers[which].next());
    if (more) {
      heap.push_back(which);
      std::push_heap(heap.begin(), heap.end(), later);
    }
    return ok();
  };
  for (std::size_t i = 0; i < readers.size(); ++i) {
    ASCOPE_TRY(step(i));
  }
  TreeEntry entry;
  std::vector<ChunkRef> refs;
  while (!heap.empty()) {
    ASCOPE_TRY(ctx.check("sorting a tree"));
    std::pop_heap(heap.begin(), heap.end(), later);
    const std::size_t which = heap.back();
    heap.pop_back();
    ASCOPE_TRY(unpack(std::move(readers[which].item.page), number, entry, refs));
    ASCOPE_TRY(step(which));
    const std::string path = entry.path;
    const std::string target = entry.type == EntryType::hardlink ? entry.link_target : path;
    const auto moved = first_link_.find(target);
    if (moved != first_link_.end() && path == moved->second) {
      const auto found = exchanged.find(target);
      if (found == exchanged.end()) {
        return make_error(ErrorKind::corrupt,
                          "'" + path + "' is a hard link to '" + target + "', which is not there");
      }
      ASCOPE_TRY(unpack(found->second, number, entry, refs));
      entry.path = path;
    } else if (moved != first_link_.end()) {
      TreeEntry link;
      link.path = path;
      link.type = EntryType::hardlink;
      link.link_target = moved->second;
      link.mode = entry.mode;
      link.uid = entry.uid;
      link.gid = entry.gid;
      link.mtime_ns = entry.mtime_ns;
      entry = std::move(link);
      refs.clear();
    }
    ASCOPE_TRY(into.add(ctx, entry, refs));
  }
  return ok();
}

}  // namespace ascope::chunks
