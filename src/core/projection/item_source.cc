// SPDX-License-Identifier: Apache-2.0
#include "core/projection/item_source.h"

#include <memory>

#include "core/base/hash.h"

namespace ascope {

namespace {

constexpr std::uint64_t kHeldBytes = 8U << 20U;
constexpr std::size_t kBlockBytes = 256U << 10U;

Error changed_error(const std::string& path) {
  return make_error(ErrorKind::conflict, "file '" + path + "' changed on the host while it was copied",
                    "run the command again");
}

}  // namespace

struct ItemSource::Stream {
  UniqueFd fd;
  Sha256 hash;
  std::uint64_t offset = 0;
  std::string buffer = std::string(kBlockBytes, '\0');
  bool ended = false;
};

Result<void> ItemSource::load(TreeItem& item) {
  ASCOPE_TRY_ASSIGN(UniqueFd fd, item.open());
  if (item.entry.size_bytes > kHeldBytes) {
    stream_ = std::make_shared<Stream>();
    stream_->fd = std::move(fd);
    return ok();
  }
  FdSource source(std::move(fd));
  auto bytes = read_all(source, kHeldBytes);
  if (!bytes) {
    return bytes.error().kind == ErrorKind::corrupt ? changed_error(item.entry.path)
                                                    : std::move(bytes).error();
  }
  if (!item.sha256.empty() && sha256_hex(*bytes) != item.sha256) {
    return changed_error(item.entry.path);
  }
  item.entry.size_bytes = bytes->size();
  content_ = std::move(bytes).value();
  content_read_ = content_.empty();
  return ok();
}

Result<bool> ItemSource::next(TreeEntry& entry) {
  stream_.reset();
  content_.clear();
  content_read_ = true;
  if (next_ == items_.size()) {
    return false;
  }
  TreeItem& item = items_[next_++];
  if (item.entry.type == EntryType::file) {
    if (item.open) {
      ASCOPE_TRY(load(item));
    } else {
      content_ = std::move(item.content);
      content_read_ = content_.empty();
      item.entry.size_bytes = content_.size();
    }
  }
  entry = item.entry;
  return true;
}

Result<std::optional<DataBlock>> ItemSource::read() {
  if (stream_) {
    return read_streamed();
  }
  if (content_read_) {
    return std::optional<DataBlock>{};
  }
  content_read_ = true;
  return std::optional<DataBlock>(DataBlock{0, content_});
}

Result<std::optional<DataBlock>> ItemSource::read_streamed() {
  Stream& stream = *stream_;
  const TreeItem& item = items_[next_ - 1];
  if (stream.ended) {
    return std::optional<DataBlock>{};
  }
  ASCOPE_TRY_ASSIGN(const std::size_t count, read_some(stream.fd.get(), stream.buffer));
  if (count == 0) {
    stream.ended = true;
    const bool same_content = item.sha256.empty() || stream.hash.finish_hex() == item.sha256;
    if (stream.offset != item.entry.size_bytes || !same_content) {
      return changed_error(item.entry.path);
    }
    return std::optional<DataBlock>{};
  }
  if (count > item.entry.size_bytes - stream.offset) {
    return changed_error(item.entry.path);
  }
  const DataBlock block{stream.offset, std::string_view(stream.buffer).substr(0, count)};
  stream.hash.update(block.bytes);
  stream.offset += count;
  return std::optional<DataBlock>(block);
}

}  // namespace ascope
