// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/bytes.h"
#include "guest/applets.h"
#include "guest/wire.h"

namespace ascope::guest {

namespace {

constexpr std::uint32_t kMaxReported = 100000;  // notes and changes, as ApplyReport bounds them

void encode_list(Encoder<std::string>& to, const std::vector<std::string>& list) {
  to.u32(static_cast<std::uint32_t>(list.size()));
  for (const std::string& item : list) {
    to.str(item);
  }
}

bool decode_list(Decoder& from, std::vector<std::string>& list) {
  const std::uint32_t count = from.u32();
  for (std::uint32_t i = 0; i < count && from.ok(); ++i) {
    list.emplace_back(from.str());
  }
  return from.ok();
}

}  // namespace

std::vector<std::string> encode_unpack(const std::string& root, const ApplyOptions& options, bool asks) {
  std::string bytes;
  Encoder<std::string> to(bytes);
  to.str(root);
  to.u8(static_cast<std::uint8_t>(options.mode));
  to.u8(options.set_owner ? 1 : 0);
  to.u8(options.allow_setid ? 1 : 0);
  to.u8(options.allow_devices ? 1 : 0);
  to.u8(options.dry_run ? 1 : 0);
  for (const auto& id : {options.own_uid, options.own_gid}) {
    to.u8(id ? 1 : 0);
    to.u32(id.value_or(0));
  }
  encode_list(to, options.skip_paths);
  encode_list(to, options.spare);
  encode_list(to, options.only);
  encode_list(to, options.remove);
  to.u32(static_cast<std::uint32_t>(options.rename.size()));
  for (const auto& [old_path, new_path] : options.rename) {
    to.str(old_path);
    to.str(new_path);
  }
  if (asks) {
    to.u8(1);
  }
  // An argument holds no NUL: hex.
  return {"unpack", to_hex(bytes)};
}

bool decode_unpack(const std::vector<std::string>& argv, std::string& root, ApplyOptions& options,
                   bool& asks) {
  if (argv.size() != 2) {
    return false;
  }
  const auto bytes = from_hex(argv[1]);
  if (!bytes) {
    return false;
  }
  Decoder from(*bytes);
  root = from.str();
  options.mode = static_cast<ApplyMode>(from.u8());
  options.set_owner = from.u8() != 0;
  options.allow_setid = from.u8() != 0;
  options.allow_devices = from.u8() != 0;
  options.dry_run = from.u8() != 0;
  for (auto* id : {&options.own_uid, &options.own_gid}) {
    const bool given = from.u8() != 0;
    const std::uint32_t value = from.u32();
    if (given) {
      *id = value;
    }
  }
  if (!decode_list(from, options.skip_paths) || !decode_list(from, options.spare) ||
      !decode_list(from, options.only) || !decode_list(from, options.remove)) {
    return false;
  }
  const std::uint32_t renames = from.u32();
  for (std::uint32_t i = 0; i < renames && from.ok(); ++i) {
    std::string old_path(from.str());
    options.rename.emplace_back(std::move(old_path), std::string(from.str()));
  }
  asks = from.ok() && !from.at_end() && from.u8() == 1;
  return from.at_end() && !root.empty() && root.front() == '/' && options.mode <= ApplyMode::fresh;
}

Result<void> PieceSink::write(ByteView data) {
  constexpr std::size_t kMostBytes = 1U << 20U;
  while (!data.empty()) {
    const ByteView piece = data.substr(0, kMostBytes);
    std::string header;
    Encoder<std::string>(header).u32(static_cast<std::uint32_t>(piece.size()));
    ASCOPE_TRY(inner_.write(header));
    ASCOPE_TRY(inner_.write(piece));
    data.remove_prefix(piece.size());
  }
  return ok();
}

Result<void> PieceSink::finish() {
  return inner_.write(std::string_view("\0\0\0\0", 4));
}

Result<std::size_t> PieceSource::read(std::span<char> buffer) {
  while (left_ == 0 && !ended_) {
    char header[4];
    for (std::size_t have = 0; have < sizeof header;) {
      ASCOPE_TRY_ASSIGN(const std::size_t count, inner_.read({header + have, sizeof header - have}));
      if (count == 0) {
        return make_error(ErrorKind::corrupt, "a stream of pieces was cut");
      }
      have += count;
    }
    left_ = Decoder({header, sizeof header}).u32();
    ended_ = left_ == 0;
  }
  if (ended_ || buffer.empty()) {
    return std::size_t{0};
  }
  ASCOPE_TRY_ASSIGN(const std::size_t count, inner_.read(buffer.first(std::min(left_, buffer.size()))));
  if (count == 0) {
    return make_error(ErrorKind::corrupt, "a stream of pieces was cut");
  }
  left_ -= count;
  return count;
}

std::string encode_pack(const PackRequest& request) {
  std::string bytes;
  Encoder<std::string> to(bytes);
  to.str(request.base);
  encode_list(to, request.roots);
  encode_list(to, request.skip);
  encode_list(to, request.exclude);
  to.u8(request.metadata_only ? 1 : 0);
  to.u8(request.file_xattrs ? 1 : 0);
  return bytes;
}

bool decode_pack(std::string_view bytes, PackRequest& request) {
  Decoder from(bytes);
  request.base = from.str();
  if (!decode_list(from, request.roots) || !decode_list(from, request.skip) ||
      !decode_list(from, request.exclude)) {
    return false;
  }
  request.metadata_only = from.u8() != 0;
  request.file_xattrs = from.u8() != 0;
  return from.at_end() && !request.base.empty() && request.base.front() == '/';
}

std::string encode_place(const PlaceReply& reply) {
  std::string bytes;
  Encoder<std::string> to(bytes);
  to.str(reply.problem);
  to.u8(reply.exists ? 1 : 0);
  to.u8(reply.empty ? 1 : 0);
  to.u32(reply.uid);
  to.u32(reply.gid);
  to.str(reply.user);
  to.str(reply.home);
  return bytes;
}

bool decode_place(std::string_view bytes, PlaceReply& reply) {
  Decoder from(bytes);
  reply.problem = from.str();
  reply.exists = from.u8() != 0;
  reply.empty = from.u8() != 0;
  reply.uid = from.u32();
  reply.gid = from.u32();
  reply.user = from.str();
  reply.home = from.str();
  return from.at_end();
}

std::string encode_reply(const Result<ApplyReport>& reply) {
  std::string out;
  Encoder<std::string> to(out);
  to.u8(reply ? 1 : 0);
  if (!reply) {
    to.u8(static_cast<std::uint8_t>(reply.error().kind));
    to.str(reply.error().message);
    to.str(reply.error().hint);
    return out;
  }
  const ApplyReport& report = *reply;
  for (const std::uint64_t value : {report.written, report.unchanged, report.removed, report.metadata,
                                    report.bytes_written, report.owners_not_set}) {
    to.u64(value);
  }
  to.u32(static_cast<std::uint32_t>(report.notes.size()));
  for (const TreeNote& note : report.notes) {
    to.str(note.path);
    to.str(note.what);
  }
  to.u32(static_cast<std::uint32_t>(report.changes.size()));
  for (const auto& [kind, path] : report.changes) {
    to.u8(static_cast<std::uint8_t>(kind));
    to.str(path);
  }
  return out;
}

Result<ApplyReport> decode_reply(std::string_view bytes) {
  const auto broken = [] { return make_error(ErrorKind::corrupt, "the guest's report cannot be read"); };
  Decoder from(bytes);
  if (from.u8() == 0) {
    const std::uint8_t kind = from.u8();
    std::string message(from.str());
    std::string hint(from.str());
    if (!from.at_end() || kind > static_cast<std::uint8_t>(ErrorKind::internal)) {
      return broken();
    }
    return make_error(static_cast<ErrorKind>(kind), std::move(message), std::move(hint));
  }
  ApplyReport report;
  for (std::uint64_t* value : {&report.written, &report.unchanged, &report.removed, &report.metadata,
                               &report.bytes_written, &report.owners_not_set}) {
    *value = from.u64();
  }
  const std::uint32_t notes = from.u32();
  if (notes > kMaxReported + 1) {
    return broken();
  }
  for (std::uint32_t i = 0; i < notes && from.ok(); ++i) {
    std::string path(from.str());
    report.notes.push_back({std::move(path), std::string(from.str())});
  }
  const std::uint32_t changes = from.u32();
  if (changes > kMaxReported + 1) {
    return broken();
  }
  for (std::uint32_t i = 0; i < changes && from.ok(); ++i) {
    const char kind = static_cast<char>(from.u8());
    report.changes.emplace_back(kind, std::string(from.str()));
  }
  if (!from.at_end()) {
    return broken();
  }
  return report;
}

}  // namespace ascope::guest
