// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/frame.h"
#include "core/repository/chunks/pack.h"
#include "fakes/fake_blobs.h"
#include "fakes/sample_bytes.h"

using namespace ascope;          // NOLINT(google-build-using-namespace)
using namespace ascope::chunks;  // NOLINT(google-build-using-namespace)

namespace {

const OpContext kCtx;

struct Stored {
  test::FakeBlobStore blobs;
  StoreAccess store{blobs};
  RepositoryKey key;
  PackName name;
  std::vector<std::string> contents;
  std::vector<ChunkRef> refs;

  [[nodiscard]] std::string object() const { return pack_key(name); }
  std::string& bytes() { return blobs.objects.find(object())->second.bytes; }
};

// Three frames: two small chunks that compress, one that does not, one alone.
void fill(Stored& out, RepositoryKey key) {
  out.key = std::move(key);
  PackBuilder builder(out.key);
  out.name = builder.name();
  FrameCompressor compressor(1);
  const auto add = [&](const std::vector<std::string>& chunks) {
    std::string raw;
    std::vector<ChunkPart> parts;
    for (const std::string& one : chunks) {
      parts.push_back({out.key.chunk_id(one), static_cast<std::uint32_t>(one.size())});
      raw += one;
    }
    const auto size = static_cast<std::uint32_t>(raw.size());
    auto packed = compressor.pack(std::move(raw)).value();
    const FrameRef frame = builder.add(packed.codec, std::move(packed.bytes), size, parts).value();
    std::uint32_t at = 0;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      out.contents.push_back(chunks[i]);
      out.refs.push_back({parts[i].id, 0, frame, at, parts[i].raw});
      at += parts[i].raw;
    }
  };
  add({test::prose(3000, 1), test::prose(500, 2)});
  add({test::noise(1000, 3)});
  add({"x"});
  const std::uint64_t announced = builder.size_bytes();
  const FinishedPack pack = builder.finish().value();
  CHECK(announced == pack.size_bytes);
  PackSource source(pack);
  const auto info = out.blobs.put(kCtx, out.object(), source).value();
  REQUIRE(info.has_value());
  CHECK(info->size_bytes == pack.size_bytes);
}

std::string read_chunk(Stored& from, const ChunkRef& ref) {
  const ObjectKey key = read_pack_key(kCtx, from.store, from.key, from.name).value();
  std::string stored = from.store.read_range(kCtx, from.object(), ref.frame.offset, ref.frame.stored).value();
  FrameDecompressor decompressor;
  const std::string raw =
      decompressor
          .unpack(ref.frame.codec, open_frame(key, ref.frame, std::move(stored)).value(), ref.frame.raw)
          .value();
  return raw.substr(ref.at, ref.raw);
}

void check_round_trip(RepositoryKey key) {
  Stored made;
  fill(made, std::move(key));
  const auto info = read_pack(kCtx, made.store, made.key, made.name);
  REQUIRE_MESSAGE(info.has_value(), (info ? "" : info.error().message));
  CHECK(info->size_bytes == made.bytes().size());
  CHECK(info->index.frames().size() == 3);
  CHECK(info->index.chunks().size() == 4);
  for (std::size_t i = 0; i < made.refs.size(); ++i) {
    CHECK(info->index.find(made.refs[i].id) == made.refs[i]);
    CHECK(read_chunk(made, made.refs[i]) == made.contents[i]);
  }
  CHECK_FALSE(info->index.find(made.key.chunk_id("never stored")).has_value());
  CHECK(made.refs[0].frame.codec == Codec::zstd);
  CHECK(made.refs[2].frame.codec == Codec::raw);
  const bool plain = made.bytes().find(made.contents[2]) != std::string::npos;
  CHECK(plain == !made.key.encrypts());
}

// Every damage to header, index or trailer is found by reading the pack, with its name.
void check_damage(const RepositoryKey& key) {
  Stored made;
  fill(made, key);
  const std::string good = made.bytes();
  const std::size_t frames_end =
      read_pack(kCtx, made.store, made.key, made.name).value().index.frames()[2].offset +
      made.refs[3].frame.stored;
  const auto expect_corrupt = [&](const char* what, std::size_t at) {
    CAPTURE(what);
    CAPTURE(at);
    const auto info = read_pack(kCtx, made.store, made.key, made.name);
    REQUIRE_FALSE(info.has_value());
    CHECK(info.error().kind == ErrorKind::corrupt);
    CHECK(info.error().message.find(made.object()) != std::string::npos);
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    const bool salt = at >= 8 && at < kPackHeaderBytes;
    if ((salt && !key.encrypts()) || (at >= kPackHeaderBytes && at < frames_end)) {
      continue;  // says nothing without a key; frames are checked when they are read
    }
    made.bytes() = good;
    made.bytes()[at] = static_cast<char>(good[at] ^ 0x10);
    expect_corrupt("flip", at);
  }
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    made.bytes() = good.substr(0, cut);
    expect_corrupt("cut", cut);
  }
  made.bytes() = good + "x";
  expect_corrupt("longer", 0);
  made.blobs.objects.clear();
  CHECK(read_pack(kCtx, made.store, made.key, made.name).error().kind == ErrorKind::not_found);
}

RepositoryKey secret_key() {
  return {Secret(std::string(32, 'k')), "0123456789abcdef"};
}

}  // namespace

TEST_CASE("pack: what was put in is found and comes out") {
  check_round_trip(RepositoryKey());
  check_round_trip(secret_key());
}

TEST_CASE("pack: damage to header, index or trailer is found") {
  check_damage(RepositoryKey());
  check_damage(secret_key());
}

TEST_CASE("pack: an encrypted pack opens with its key alone") {
  Stored made;
  fill(made, secret_key());
  for (const RepositoryKey& wrong :
       {RepositoryKey(), RepositoryKey(Secret(std::string(32, 'x')), "0123456789abcdef"),
        RepositoryKey(Secret(std::string(32, 'k')), "fedcba9876543210")}) {
    CHECK(read_pack(kCtx, made.store, wrong, made.name).error().kind == ErrorKind::corrupt);
  }
  const ObjectKey key = read_pack_key(kCtx, made.store, made.key, made.name).value();
  const ChunkRef& ref = made.refs[0];
  const std::string stored =
      made.store.read_range(kCtx, made.object(), ref.frame.offset, ref.frame.stored).value();
  FrameRef moved = ref.frame;
  moved.offset += 1;
  CHECK(open_frame(key, moved, stored).error().kind == ErrorKind::corrupt);
  FrameRef larger = ref.frame;
  larger.raw += 1;
  CHECK(open_frame(key, larger, stored).error().kind == ErrorKind::corrupt);
}

TEST_CASE("pack index: what lies about itself is refused") {
  const ChunkId id = RepositoryKey().chunk_id("x");
  struct Frame {
    std::uint64_t offset, stored, raw, codec, count;
    std::vector<std::uint64_t> parts;
  };
  struct Row {
    const char* name;
    std::vector<Frame> frames;
    std::uint64_t end;
    bool good;
  };
  const std::uint64_t max = kMaxRawBytes;
  const std::vector<Row> rows = {
      {"none", {}, 40, true},
      {"one", {{40, 10, 20, 1, 2, {5, 15}}}, 50, true},
      {"two", {{40, 10, 20, 1, 1, {20}}, {50, 3, 3, 0, 1, {3}}}, 53, true},
      {"largest", {{40, 10, max, 1, 1, {max}}}, 50, true},
      {"too large", {{40, 10, max + 1, 1, 1, {max + 1}}}, 50, false},
      {"gap", {{41, 10, 20, 1, 1, {20}}}, 51, false},
      {"overlap", {{40, 10, 20, 1, 1, {20}}, {49, 4, 4, 0, 1, {4}}}, 53, false},
      {"beyond the end", {{40, 11, 20, 1, 1, {20}}}, 50, false},
      {"end missed", {{40, 10, 20, 1, 1, {20}}}, 51, false},
      {"wraps", {{40, 0xFFFFFFFF, 20, 1, 1, {20}}}, 50, false},
      {"unknown codec", {{40, 10, 20, 2, 1, {20}}}, 50, false},
      {"raw of another size", {{40, 10, 20, 0, 1, {20}}}, 50, false},
      {"no chunks", {{40, 10, 0, 1, 0, {}}}, 50, false},
      {"empty chunk", {{40, 10, 20, 1, 2, {20, 0}}}, 50, false},
      {"parts fall short", {{40, 10, 20, 1, 1, {19}}}, 50, false},
      {"parts exceed", {{40, 10, 20, 1, 2, {20, 1}}}, 50, false},
      {"more announced", {{40, 10, 20, 1, 2, {20}}}, 50, false},
      {"huge count", {{40, 10, 20, 1, 0xFFFFFFFF, {20}}}, 50, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    std::string bytes;
    for (const Frame& frame : row.frames) {
      for (const std::uint64_t number : {frame.offset, frame.stored, frame.raw}) {
        put_fixed(bytes, number, 4);
      }
      put_fixed(bytes, frame.codec, 1);
      put_fixed(bytes, frame.count, 4);
      for (const std::uint64_t raw : frame.parts) {
        bytes += id.view();
        put_fixed(bytes, raw, 4);
      }
    }
    const auto parsed = PackIndex::parse(bytes, row.end, false);
    CHECK(parsed.has_value() == row.good);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      CHECK_FALSE(PackIndex::parse(ByteView(bytes).substr(0, cut), row.end, false).has_value());
    }
  }
}

TEST_CASE("frame: sizes are checked before anything is unpacked") {
  FrameCompressor compressor(1);
  FrameDecompressor decompressor;
  const std::string raw = test::prose(100'000, 1);
  const auto packed = compressor.pack(raw).value();
  REQUIRE(packed.codec == Codec::zstd);
  CHECK(decompressor.unpack(packed.codec, packed.bytes, raw.size()).value() == raw);
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{99'999}, std::uint64_t{100'001},
                                   std::uint64_t{kMaxRawBytes} + 1, UINT64_MAX}) {
    CHECK(decompressor.unpack(packed.codec, packed.bytes, size).error().kind == ErrorKind::corrupt);
  }
  CHECK(decompressor.unpack(packed.codec, packed.bytes, raw.size(), 1000).error().kind == ErrorKind::corrupt);
  for (std::size_t cut = 0; cut < packed.bytes.size(); cut += 97) {
    CHECK_FALSE(decompressor.unpack(packed.codec, packed.bytes.substr(0, cut), raw.size()).has_value());
  }
  CHECK_FALSE(decompressor.unpack(packed.codec, packed.bytes + "x", raw.size()).has_value());
  const std::string solid = test::noise(5000, 1);
  CHECK(compressor.pack(solid).value().codec == Codec::raw);
  CHECK(decompressor.unpack(Codec::raw, solid, solid.size()).value() == solid);
  CHECK_FALSE(decompressor.unpack(Codec::raw, solid, solid.size() - 1).has_value());
  CHECK(compressor.pack("").value().bytes.empty());
}

TEST_CASE("fields: variable-length numbers have one form each") {
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, std::uint64_t{300}, UINT64_MAX}) {
    std::string bytes;
    put_varint(bytes, value);
    FieldReader reader(bytes);
    CHECK(reader.varint() == value);
    CHECK(reader.good());
    CHECK(reader.at_end());
  }
  for (const std::string& bad :
       {std::string("\x80"), std::string("\x80\x00", 2), std::string(10, '\xff') + "\x01",
        std::string(9, '\xff') + "\x02", std::string()}) {
    FieldReader reader(bad);
    CHECK(reader.varint() == 0);
    CHECK_FALSE(reader.good());
  }
  FieldReader limited("\x05");
  CHECK(limited.varint(4) == 0);
  CHECK_FALSE(limited.good());
}
