// SPDX-License-Identifier: Apache-2.0
#include "core/tree/stream.h"

#include <algorithm>

#include "core/tree/entry_codec.h"

namespace ascope {

namespace {

constexpr ByteView kMagic("ASTS\x01", 5);
constexpr std::size_t kHeaderBytes = 5;
constexpr std::size_t kMaxFrame = 1U << 20U;
constexpr std::size_t kExtentsAFrame = 16384;
constexpr std::size_t kDataAFrame = 512U << 10U;
constexpr std::size_t kFlushBytes = 256U << 10U;

class StreamWriter {
 public:
  explicit StreamWriter(ByteSink& sink) : sink_(sink) { pending_ = kMagic; }

  Result<void> frame(char kind, ByteView first, ByteView second = {}) {
    pending_.push_back(kind);
    put_number(pending_, first.size() + second.size(), 4);
    pending_ += first;
    pending_ += second;
    return pending_.size() >= kFlushBytes ? flush() : ok();
  }
  Result<void> entry(const TreeEntry& entry) {
    for (std::size_t at = 0; at < entry.extents.size(); at += kExtentsAFrame) {
      std::string bytes;
      for (std::size_t i = at; i < std::min(at + kExtentsAFrame, entry.extents.size()); ++i) {
        put_number(bytes, entry.extents[i].offset, 8);
        put_number(bytes, entry.extents[i].length, 8);
      }
      ASCOPE_TRY(frame('S', bytes));
    }
    std::string bytes;
    encode_entry(entry, bytes);
    if (bytes.size() > kMaxFrame) {
      return make_error(ErrorKind::internal, "the entry '" + entry.path + "' is too large for a tree stream");
    }
    return frame('E', bytes);
  }
  Result<void> data(const DataBlock& block) {
    for (std::size_t at = 0; at < block.bytes.size(); at += kDataAFrame) {
      std::string offset;
      put_number(offset, block.offset + at, 8);
      ASCOPE_TRY(frame('D', offset, block.bytes.substr(at, kDataAFrame)));
    }
    return ok();
  }
  Result<void> finish() {
    ASCOPE_TRY(frame('Z', {}));
    return flush();
  }

 private:
  Result<void> flush() {
    Result<void> done = sink_.write(pending_);
    pending_.clear();
    return done;
  }

  ByteSink& sink_;
  std::string pending_;
};

class StreamReader final : public TreeSource {
 public:
  StreamReader(ByteSource& bytes, std::vector<TreeNote>* notes) : bytes_(bytes), notes_(notes) {}

  Result<bool> next(TreeEntry& entry) override;
  Result<std::optional<DataBlock>> read() override;

 private:
  Result<void> begin();
  // Reads exactly `count` bytes more into `out`.
  Result<void> take(std::size_t count, std::string& out);
  // The next frame into kind_ and payload_, notes and extents already dealt with.
  Result<void> advance();
  Result<void> take_extents();
  Result<void> take_note();
  Result<void> check_end();
  [[nodiscard]] static Error bad(std::string_view what) {
    return make_error(ErrorKind::corrupt, "tree stream: " + std::string(what));
  }

  ByteSource& bytes_;
  std::vector<TreeNote>* notes_;
  std::string buffer_;
  std::size_t used_ = 0;
  std::string header_;
  std::string payload_;
  char kind_ = 0;  // of the frame read ahead; 0: none
  bool begun_ = false;
  bool in_file_ = false;
  std::uint64_t file_size_ = 0;
  std::uint64_t offset_ = 0;  // first byte that the next block may have
  std::vector<Extent> extents_;
  std::string data_;
};

Result<void> StreamReader::take(std::size_t count, std::string& out) {
  out.clear();
  while (out.size() < count) {
    if (used_ == buffer_.size()) {
      buffer_.resize(kFlushBytes);
      used_ = 0;
      ASCOPE_TRY_ASSIGN(const std::size_t got, bytes_.read(buffer_));
      buffer_.resize(got);
      if (got == 0) {
        return bad("it is cut");
      }
    }
    const std::size_t now = std::min(count - out.size(), buffer_.size() - used_);
    out.append(buffer_, used_, now);
    used_ += now;
  }
  return ok();
}

Result<void> StreamReader::begin() {
  begun_ = true;
  ASCOPE_TRY(take(kMagic.size(), header_));
  if (header_ != kMagic) {
    return bad("it does not begin as one of version 1 does");
  }
  return ok();
}

Result<void> StreamReader::take_extents() {
  if (payload_.size() % 16 != 0 || extents_.size() + payload_.size() / 16 > kMaxExtents) {
    return bad("a sparse map is too long");
  }
  for (std::size_t at = 0; at < payload_.size(); at += 16) {
    const Extent one{get_number(ByteView(payload_).substr(at), 8),
                     get_number(ByteView(payload_).substr(at + 8), 8)};
    const std::uint64_t least = extents_.empty() ? 0 : extents_.back().offset + extents_.back().length;
    if (one.offset < least || one.length == 0 || one.offset + one.length < one.offset) {
      return bad("a sparse map is not in order");
    }
    extents_.push_back(one);
  }
  return ok();
}

Result<void> StreamReader::take_note() {
  const ByteView payload = payload_;
  const std::size_t path_bytes = payload.size() < 8 ? payload.size() : get_number(payload, 4);
  if (path_bytes > payload.size() - 8 || payload.size() < 8 ||
      get_number(payload.substr(4 + path_bytes), 4) != payload.size() - 8 - path_bytes) {
    return bad("a note is malformed");
  }
  constexpr std::size_t kMostNotes = 10'000;
  if (notes_ != nullptr && notes_->size() < kMostNotes) {
    notes_->push_back(
        {std::string(payload.substr(4, path_bytes)), std::string(payload.substr(8 + path_bytes))});
  }
  return ok();
}

Result<void> StreamReader::advance() {
  if (!begun_) {
    ASCOPE_TRY(begin());
  }
  while (kind_ == 0) {
    ASCOPE_TRY(take(kHeaderBytes, header_));
    const std::uint64_t length = get_number(ByteView(header_).substr(1), 4);
    if (length > kMaxFrame) {
      return bad("a frame is longer than 1 MiB");
    }
    ASCOPE_TRY(take(length, payload_));
    switch (header_[0]) {
      case 'S':
        in_file_ = false;
        ASCOPE_TRY(take_extents());
        break;
      case 'N':
        ASCOPE_TRY(take_note());
        break;
      case 'E':
      case 'D':
      case 'Z':
        kind_ = header_[0];
        break;
      default:
        return bad("a frame of an unknown kind");
    }
    if (kind_ != 'E' && kind_ != 0 && !extents_.empty()) {
      return bad("a sparse map without its entry");
    }
  }
  return ok();
}

Result<void> StreamReader::check_end() {
  char byte = 0;
  if (used_ != buffer_.size()) {
    return bad("there is more behind its end");
  }
  ASCOPE_TRY_ASSIGN(const std::size_t got, bytes_.read({&byte, 1}));
  return got == 0 ? ok() : Result<void>(bad("there is more behind its end"));
}

Result<bool> StreamReader::next(TreeEntry& entry) {
  while (true) {
    ASCOPE_TRY_ASSIGN(const std::optional<DataBlock> skipped, read());
    if (!skipped) {
      break;
    }
  }
  ASCOPE_TRY(advance());
  if (kind_ == 'Z') {
    ASCOPE_TRY(check_end());
    return false;
  }
  if (kind_ == 'D') {
    return bad("data that belongs to no file");
  }
  kind_ = 0;
  ASCOPE_TRY(decode_entry(payload_, entry));
  const bool fits = extents_.empty() || extents_.back().offset + extents_.back().length <= entry.size_bytes;
  if (!fits || (!extents_.empty() && !entry.sparse)) {
    return bad("the sparse map of '" + entry.path + "' does not fit its size");
  }
  entry.extents = std::move(extents_);
  extents_.clear();
  in_file_ = entry.type == EntryType::file;
  file_size_ = entry.size_bytes;
  offset_ = 0;
  return true;
}

Result<std::optional<DataBlock>> StreamReader::read() {
  if (!in_file_) {
    return std::optional<DataBlock>();
  }
  ASCOPE_TRY(advance());
  if (kind_ != 'D') {
    in_file_ = false;
    return std::optional<DataBlock>();
  }
  kind_ = 0;
  if (payload_.size() < 9) {
    return bad("an empty data frame");
  }
  data_.swap(payload_);
  const DataBlock block{get_number(data_, 8), ByteView(data_).substr(8)};
  if (block.offset < offset_ || block.offset > file_size_ || block.bytes.size() > file_size_ - block.offset) {
    return bad("a data frame lies outside of its file");
  }
  offset_ = block.offset + block.bytes.size();
  return std::optional<DataBlock>(block);
}

}  // namespace

Result<void> write_tree_stream(TreeSource& source, ByteSink& sink, const std::vector<TreeNote>* notes) {
  StreamWriter writer(sink);
  TreeEntry entry;
  std::size_t noted = 0;
  // A note follows the entry that it is of; that on how many more there are grows until the end.
  const auto write_notes = [&](bool all) -> Result<void> {
    for (; notes != nullptr && noted < (all ? notes->size() : std::min(notes->size(), kMostTreeNotes));
         ++noted) {
      const TreeNote& one = (*notes)[noted];
      std::string payload;
      put_number(payload, one.path.size(), 4);
      payload += one.path;
      put_number(payload, one.what.size(), 4);
      payload += one.what;
      ASCOPE_TRY(writer.frame('N', payload));
    }
    return ok();
  };
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool more, source.next(entry));
    if (!more) {
      break;
    }
    ASCOPE_TRY(write_notes(false));
    ASCOPE_TRY(writer.entry(entry));
    while (entry.type == EntryType::file) {
      ASCOPE_TRY_ASSIGN(const std::optional<DataBlock> block, source.read());
      if (!block) {
        break;
      }
      ASCOPE_TRY(writer.data(*block));
    }
  }
  ASCOPE_TRY(write_notes(true));
  return writer.finish();
}

std::unique_ptr<TreeSource> read_tree_stream(ByteSource& bytes, std::vector<TreeNote>* notes) {
  return std::make_unique<StreamReader>(bytes, notes);
}

}  // namespace ascope
