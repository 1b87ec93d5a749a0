// SPDX-License-Identifier: Apache-2.0
#include "core/tree/entry_codec.h"

namespace ascope {

namespace {

constexpr std::size_t kMaxTarget = 64U << 10U;
constexpr std::size_t kMaxXattrs = 4096;

void put_string(std::string& out, std::string_view value) {
  put_number(out, value.size(), 4);
  out += value;
}

// Reads fields from the front; after one that does not fit everything is empty and `good` is false.
class Reader {
 public:
  explicit Reader(ByteView rest) : rest_(rest) {}
  std::uint64_t number(unsigned bytes) {
    if (rest_.size() < bytes) {
      fail();
      return 0;
    }
    const std::uint64_t value = get_number(rest_, bytes);
    rest_.remove_prefix(bytes);
    return value;
  }
  std::string string(std::size_t limit) {
    const std::uint64_t size = number(4);
    if (size > limit || size > rest_.size()) {
      fail();
      return {};
    }
    std::string out(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return out;
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  void fail() {
    good_ = false;
    rest_ = {};
  }
  ByteView rest_;
  bool good_ = true;
};

}  // namespace

void put_number(std::string& out, std::uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 255U));
  }
}

std::uint64_t get_number(ByteView data, unsigned bytes) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(data[i])) << (8 * i);
  }
  return value;
}

void encode_entry(const TreeEntry& entry, std::string& out) {
  put_string(out, entry.path);
  put_number(out, static_cast<std::uint64_t>(entry.type), 1);
  put_number(out, entry.mode, 4);
  put_number(out, entry.uid, 4);
  put_number(out, entry.gid, 4);
  put_number(out, static_cast<std::uint64_t>(entry.mtime_ns), 8);
  put_number(out, entry.size_bytes, 8);
  put_string(out, entry.link_target);
  put_number(out, entry.xattrs.size(), 4);
  for (const auto& [name, value] : entry.xattrs) {
    put_string(out, name);
    put_string(out, value);
  }
  put_number(out, entry.device, 8);
  put_number(out, entry.sparse ? 1 : 0, 1);
  put_number(out, static_cast<std::uint64_t>(entry.ctime_ns), 8);
  put_number(out, entry.inode, 8);
}

Result<void> decode_entry(ByteView bytes, TreeEntry& entry) {
  Reader reader(bytes);
  entry = TreeEntry{};
  entry.path = reader.string(kMaxTarget);
  const std::uint64_t type = reader.number(1);
  const std::uint64_t mode = reader.number(4);
  entry.type = static_cast<EntryType>(type);
  entry.mode = static_cast<std::uint32_t>(mode);
  entry.uid = static_cast<std::uint32_t>(reader.number(4));
  entry.gid = static_cast<std::uint32_t>(reader.number(4));
  entry.mtime_ns = static_cast<std::int64_t>(reader.number(8));
  entry.size_bytes = reader.number(8);
  entry.link_target = reader.string(kMaxTarget);
  const std::uint64_t count = reader.number(4);
  if (!reader.good() || count > kMaxXattrs || type > static_cast<std::uint64_t>(EntryType::block_device) ||
      mode > 07777U || entry.size_bytes > static_cast<std::uint64_t>(INT64_MAX)) {
    return make_error(ErrorKind::corrupt, "an entry of a tree stream has a field out of its range");
  }
  for (std::uint64_t i = 0; i < count && reader.good(); ++i) {
    std::string name = reader.string(255);
    std::string value = reader.string(64U << 10U);
    entry.xattrs.emplace_back(std::move(name), std::move(value));
  }
  entry.device = reader.number(8);
  const std::uint64_t sparse = reader.number(1);
  entry.sparse = sparse == 1;
  entry.ctime_ns = static_cast<std::int64_t>(reader.number(8));
  entry.inode = reader.number(8);
  if (!reader.good() || !reader.at_end() || sparse > 1) {
    return make_error(ErrorKind::corrupt, "an entry of a tree stream is cut or has a field out of its range");
  }
  return check_tree_path(entry.path, true);
}

}  // namespace ascope
