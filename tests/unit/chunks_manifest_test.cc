// SPDX-License-Identifier: Apache-2.0
// Roots and pages as a hostile store may hand them out.
#include <doctest/doctest.h>

#include "core/base/hash.h"
#include "core/repository/chunks/entry_reader.h"
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/page.h"
#include "core/repository/chunks/path_order.h"
#include "core/repository/chunks/repo_object.h"
#include "core/repository/chunks/root.h"
#include "core/repository/chunks/sealed.h"
#include "core/tree/folder_cache.h"
#include "fakes/fake_blobs.h"
#include "fakes/sample_bytes.h"

using namespace ascope;          // NOLINT(google-build-using-namespace)
using namespace ascope::chunks;  // NOLINT(google-build-using-namespace)

namespace {

const OpContext kCtx;

ChunkRef reference(std::uint32_t raw, std::string_view content = "x") {
  ChunkRef ref;
  ref.id = RepositoryKey().chunk_id(content);
  ref.frame = {40, 100, std::max(raw, 100U), Codec::zstd};
  ref.raw = raw;
  return ref;
}

TreeEntry file(std::string path, std::uint64_t size) {
  TreeEntry out;
  out.path = std::move(path);
  out.size_bytes = size;
  return out;
}

// A store of hand-made pages behind a hand-made root.
struct HandMade {
  test::FakeBlobStore blobs;
  StoreAccess store{blobs};
  RepositoryKey key;
  ChunkReader reader{store, key};
  Manifest manifest;
  std::vector<PackName> names{random_pack_name()};

  HandMade() {
    manifest.object = "snapshots/x";
    manifest.root.packs.push_back({names[0], 1U << 20U, 0});
  }
  // Puts a page into a pack of its own.
  void add(const std::string& first, const std::string& page) {
    PackBuilder builder(key);
    FrameCompressor compressor(1);
    auto packed = compressor.pack(page).value();
    const ChunkId id = key.chunk_id(page);
    const auto raw = static_cast<std::uint32_t>(page.size());
    const FrameRef frame = builder.add(packed.codec, std::move(packed.bytes), raw, {{id, raw}}).value();
    const FinishedPack pack = builder.finish().value();
    PackSource source(pack);
    REQUIRE(blobs.put(kCtx, pack_key(pack.name), source).value().has_value());
    const auto number = static_cast<std::uint32_t>(manifest.root.packs.size());
    manifest.root.packs.push_back({pack.name, pack.size_bytes, 0});
    manifest.root.workspace.push_back({first, {id, number, frame, 0, raw}});
  }
  Result<std::vector<std::string>> read() {
    EntryReader entries(reader, manifest, manifest.root.workspace);
    TreeEntry entry;
    std::vector<ChunkRef> refs;
    std::vector<std::string> out;
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool more, entries.next(kCtx, entry));
      if (!more) {
        return out;
      }
      out.push_back(entry.path);
      while (true) {
        ASCOPE_TRY_ASSIGN(const bool has_refs, entries.next_refs(kCtx, refs));
        if (!has_refs) {
          break;
        }
      }
    }
  }
};

}  // namespace

TEST_CASE("manifest: the order of paths is the walker's") {
  const std::vector<std::string> sorted = {"",     "-",   "a",    "a/!",    "a/b",     "a/b/c",    "a/b/d/e",
                                           "a/bc", "a!b", "a-b",  "a.b",    "a.b/c/d", "a0",       "ab",
                                           "ab/c", "b",   "\x7f", "\x80/x", "\xff",    "\xff/\xff"};
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t k = 0; k < sorted.size(); ++k) {
      CAPTURE(sorted[i]);
      CAPTURE(sorted[k]);
      CHECK((order_of_paths(sorted[i], sorted[k]) <=> 0) == (i <=> k));
    }
  }
  CHECK(is_within("a/b", "a"));
  CHECK(is_within("a", "a"));
  CHECK(is_within("a", ""));
  CHECK_FALSE(is_within("a.b", "a"));
  CHECK_FALSE(is_within("a", "a/b"));
}

TEST_CASE("manifest: a page gives back what was written") {
  std::vector<PackName> names = {random_pack_name(), random_pack_name(), random_pack_name()};
  PageWriter writer(names);
  TreeEntry one = file("some/path", 5);
  one.xattrs = {{"user.a", "1"}, {"user.b", ""}};
  one.mtime_ns = INT64_MIN;
  one.mode = 07777;
  one.uid = UINT32_MAX;
  TreeEntry two = file("some/place", 1'000'000);
  two.sparse = true;
  std::vector<ChunkRef> refs = {reference(60), reference(40, "y"), reference(100, "z")};
  refs[1].at = 60;
  refs[2].pack = 2;
  writer.entry(one, 1);
  writer.chunks(std::span(refs).first(1));
  writer.entry(two, 2);
  const std::vector<Extent> runs = {{0, 10}, {100, 30}, {999'900, 100}};
  TreeEntry with_runs = two;
  with_runs.extents = runs;
  writer.runs(runs);
  writer.chunks(std::span(refs).last(2));
  PageReader reader = PageReader::open(writer.finish()).value();
  CHECK(writer.empty());
  REQUIRE(reader.packs().size() == 2);
  CHECK(reader.packs()[1] == names[2]);
  PageRecord record;
  REQUIRE(reader.next(record).value());
  CHECK(record.entry == one);
  CHECK(record.chunks == 1);
  REQUIRE(reader.next(record).value());
  CHECK(record.references == std::vector<ChunkRef>{refs[0]});
  REQUIRE(reader.next(record).value());
  CHECK(record.entry == two);
  REQUIRE(reader.next(record).value());
  CHECK(record.extents == runs);
  REQUIRE(reader.next(record).value());
  REQUIRE(record.references.size() == 2);
  CHECK(record.references[0] == refs[1]);
  CHECK(record.references[1].id == refs[2].id);
  CHECK(record.references[1].pack == 1);
  CHECK_FALSE(reader.next(record).value());
}

TEST_CASE("manifest: no cut or altered page brings anybody down or an unchecked path up") {
  std::vector<PackName> names = {random_pack_name()};
  PageWriter writer(names);
  for (int i = 0; i < 20; ++i) {
    TreeEntry entry = file("folder/file" + std::to_string(100 + i), 100);
    entry.xattrs = {{"user.x", "value"}};
    writer.entry(entry, 1);
    const ChunkRef ref = reference(100, entry.path);
    writer.chunks(std::span(&ref, 1));
  }
  const std::string good = writer.finish();
  const auto walk = [](std::string bytes) {
    auto page = PageReader::open(std::move(bytes));
    PageRecord record;
    std::size_t records = 0;
    while (page) {
      const auto more = page->next(record);
      if (!more || !*more) {
        CHECK((more.has_value() || more.error().kind == ErrorKind::corrupt));
        return more.has_value() ? records : 0;
      }
      ++records;
      if (record.kind == PageRecord::Kind::entry) {
        CHECK(check_tree_path(record.entry.path, true).has_value());
      }
      for (const ChunkRef& ref : record.references) {
        CHECK(is_sane(ref.frame));
        CHECK(std::uint64_t{ref.at} + ref.raw <= ref.frame.raw);
        CHECK(ref.pack < page->packs().size());
      }
    }
    return std::size_t{0};
  };
  CHECK(walk(good) == 40);
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    walk(good.substr(0, cut));
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      walk(std::move(bad));
    }
  }
}

TEST_CASE("manifest: what pages may not say of entries") {
  struct Row {
    const char* name;
    std::function<void(HandMade&, PageWriter&)> write;
    const char* error;  // nullptr: fine
  };
  const ChunkRef ten = reference(10);
  const auto chunk = [](PageWriter& page, const ChunkRef& ref) { page.chunks(std::span(&ref, 1)); };
  const auto typed = [](std::string path, EntryType type, std::string target = "") {
    TreeEntry out = file(std::move(path), 0);
    out.type = type;
    out.link_target = std::move(target);
    return out;
  };
  const auto sparse = [](std::uint64_t size, std::vector<Extent> runs) {
    TreeEntry out = file("a", size);
    out.sparse = true;
    out.extents = std::move(runs);
    return out;
  };
  const std::vector<Row> rows = {
      {"fine", [&](HandMade&, PageWriter& p) { p.entry(file("a", 10), 1), chunk(p, ten); }, nullptr},
      {"twice", [&](HandMade&, PageWriter& p) { p.entry(file("a", 0), 0), p.entry(file("a", 0), 0); },
       "out of order"},
      {"backwards",
       [&](HandMade&, PageWriter& p) {
         p.entry(file("a", 0), 0), p.entry(file("a!", 0), 0), p.entry(file("a/b", 0), 0);
       },
       "out of order"},
      {"below a file",
       [&](HandMade&, PageWriter& p) { p.entry(file("a", 0), 0), p.entry(file("a/b", 0), 0); },
       "below something"},
      {"climbing", [&](HandMade&, PageWriter& p) { p.entry(file("a", 0), 0), p.entry(file("b/../c", 0), 0); },
       "'..'"},
      {"link ahead",
       [&](HandMade&, PageWriter& p) {
         p.entry(file("a", 0), 0), p.entry(typed("b", EntryType::hardlink, "c"), 0);
       },
       "before its target"},
      {"link to itself",
       [&](HandMade&, PageWriter& p) {
         p.entry(file("a", 0), 0), p.entry(typed("b", EntryType::hardlink, "b"), 0);
       },
       "before its target"},
      {"socket",
       [&](HandMade&, PageWriter& p) { p.entry(file("a", 0), 0), p.entry(typed("b", EntryType::socket), 0); },
       "out of its range"},
      {"chunks missing", [&](HandMade&, PageWriter& p) { p.entry(file("a", 10), 1); }, "as many chunks"},
      {"chunks of none", [&](HandMade&, PageWriter& p) { p.entry(file("a", 10), 0); }, "as much data"},
      {"chunks too many",
       [&](HandMade&, PageWriter& p) { p.entry(file("a", 10), 1), chunk(p, ten), chunk(p, ten); },
       "belongs to no entry"},
      {"data too long", [&](HandMade&, PageWriter& p) { p.entry(file("a", 9), 1), chunk(p, ten); },
       "more data"},
      {"data too short", [&](HandMade&, PageWriter& p) { p.entry(file("a", 11), 1), chunk(p, ten); },
       "as much data"},
      {"data of a folder",
       [&](HandMade&, PageWriter& p) { p.entry(typed("a", EntryType::directory), 0), chunk(p, ten); },
       "belongs to no entry"},
      {"outside of the pack",
       [&](HandMade&, PageWriter& p) {
         ChunkRef far = ten;
         far.frame.offset = 1U << 20U;
         p.entry(file("a", 10), 1), chunk(p, far);
       },
       "outside of its pack"},
      {"in the header",
       [&](HandMade&, PageWriter& p) {
         ChunkRef low = ten;
         low.frame.offset = 39;
         p.entry(file("a", 10), 1), chunk(p, low);
       },
       "outside of its pack"},
      {"unknown pack",
       [&](HandMade& h, PageWriter& p) {
         h.names.push_back(random_pack_name());
         ChunkRef other = ten;
         other.pack = 1;
         p.entry(file("a", 10), 1), chunk(p, other);
       },
       "does not have"},
      {"huge frame",
       [&](HandMade&, PageWriter& p) {
         ChunkRef huge = ten;
         huge.frame.stored = 1U << 19U;
         p.entry(file("a", 10), 1), chunk(p, huge);
       },
       "out of its range"},
      {"runs",
       [&](HandMade&, PageWriter& p) {
         const auto e = sparse(100, {{0, 4}, {20, 6}});
         p.entry(e, 1), p.runs(e.extents), chunk(p, ten);
       },
       nullptr},
      {"runs touching",
       [&](HandMade&, PageWriter& p) {
         const auto e = sparse(100, {{0, 4}, {4, 6}});
         p.entry(e, 1), p.runs(e.extents), chunk(p, ten);
       },
       "sparse map"},
      {"runs beyond",
       [&](HandMade&, PageWriter& p) {
         const auto e = sparse(25, {{0, 4}, {20, 6}});
         p.entry(e, 1), p.runs(e.extents), chunk(p, ten);
       },
       "sparse map"},
      {"runs missing",
       [&](HandMade&, PageWriter& p) {
         const auto e = sparse(100, {{0, 4}, {20, 6}});
         p.entry(e, 1), chunk(p, ten);
       },
       "sparse map"},
      {"runs too many",
       [&](HandMade&, PageWriter& p) {
         auto e = sparse(100, {{0, 4}});
         p.entry(e, 1);
         e.extents.push_back({20, 6});
         p.runs(e.extents), chunk(p, ten);
       },
       "sparse map"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    HandMade made;
    PageWriter page(made.names);
    row.write(made, page);
    made.add("a", page.finish());
    const auto read = made.read();
    CHECK(read.has_value() == (row.error == nullptr));
    if (!read && row.error != nullptr) {
      CHECK(read.error().kind == ErrorKind::corrupt);
      CHECK_MESSAGE(read.error().message.find(row.error) != std::string::npos, read.error().message);
      CHECK(read.error().message.find("snapshots/x") != std::string::npos);
    }
  }
}

TEST_CASE("manifest: pages follow one another as the root says") {
  const auto page_of = [](HandMade& made, const std::vector<std::string>& paths) {
    PageWriter page(made.names);
    for (const std::string& path : paths) {
      page.entry(file(path, 0), 0);
    }
    return page.finish();
  };
  HandMade good;
  good.add("a", page_of(good, {"a", "b"}));
  good.add("c", page_of(good, {"c"}));
  CHECK(good.read().value() == std::vector<std::string>{"a", "b", "c"});
  HandMade wrong_first;
  wrong_first.add("b", page_of(wrong_first, {"a"}));
  CHECK(wrong_first.read().error().kind == ErrorKind::corrupt);
  HandMade overlapping;
  overlapping.add("a", page_of(overlapping, {"a", "c"}));
  overlapping.add("b", page_of(overlapping, {"b"}));
  CHECK(overlapping.read().error().kind == ErrorKind::corrupt);
  HandMade orphan;
  PageWriter page(orphan.names);
  const ChunkRef ref = reference(10);
  page.chunks(std::span(&ref, 1));
  orphan.add("", page.finish());
  CHECK(orphan.read().error().kind == ErrorKind::corrupt);
  HandMade no_page;
  no_page.add("a", "not a page");
  CHECK(no_page.read().error().kind == ErrorKind::corrupt);
}

TEST_CASE("manifest: a root gives back what was written, and nothing else") {
  const RepositoryKey key;
  ManifestRoot root;
  root.id = "id";
  root.slot = "user/\xff/b";
  root.realm = "realm";
  root.rev = UINT64_MAX;
  root.fence = UINT64_MAX;
  root.files = 3;
  root.host = "host";
  root.packs = {{random_pack_name(), 1000, 10}, {random_pack_name(), 2000, 2000}};
  ChunkRef ref = reference(50);
  ref.pack = 1;
  root.workspace = {{"", ref}, {"\x80/x", ref}};
  root.roots.emplace();
  const std::string object = encode_root(key, root).value();
  const ManifestRoot back = decode_root(key, object).value();
  CHECK(back.slot == root.slot);
  CHECK(back.rev == root.rev);
  CHECK(back.fence == root.fence);
  CHECK(back.packs == root.packs);
  CHECK(back.workspace == root.workspace);
  CHECK(back.roots == root.roots);

  const std::string text = unseal_object(key, kRootMagic, object).value();
  const Json good = parse_json(text).value();
  struct Row {
    const char* name;
    std::function<void(Json&)> change;
  };
  const std::vector<Row> rows = {
      {"no packs", [](Json& j) { j.erase("packs"); }},
      {"packs of none", [](Json& j) { j["packs"] = Json::array(); }},
      {"pack twice", [](Json& j) { j["packs"].push_back(j["packs"][0]); }},
      {"pack name", [](Json& j) { j["packs"][0]["name"] = "abc"; }},
      {"pack size", [](Json& j) { j["packs"][0]["size"] = -1; }},
      {"pack too large", [](Json& j) { j["packs"][0]["size"] = kMaxPackBytes + 1; }},
      {"used more than there is", [](Json& j) { j["packs"][0]["used"] = 1001; }},
      {"page short", [](Json& j) { j["workspace"][0].erase(8); }},
      {"page pack", [](Json& j) { j["workspace"][0][1] = 2; }},
      {"page offset", [](Json& j) { j["workspace"][0][2] = 39; }},
      {"page beyond", [](Json& j) { j["workspace"][0][2] = 1900; }},
      {"page stored", [](Json& j) { j["workspace"][0][3] = 117; }},
      {"page empty frame", [](Json& j) { j["workspace"][0][4] = 0; }},
      {"page huge", [](Json& j) { j["workspace"][0][4] = kMaxRawBytes + 1; }},
      {"page codec", [](Json& j) { j["workspace"][0][5] = 2; }},
      {"page at", [](Json& j) { j["workspace"][0][6] = 51; }},
      {"page raw", [](Json& j) { j["workspace"][0][7] = 0; }},
      {"page id", [](Json& j) { j["workspace"][0][8] = "00"; }},
      {"page text", [](Json& j) { j["workspace"][0][2] = "40"; }},
      {"page order",
       [](Json& j) {
         j["workspace"][1][0] = "";
         j["workspace"][0][0] = "z";
       }},
      {"page path", [](Json& j) { j["workspace"][1][0] = "../x"; }},
      {"fence", [](Json& j) { j["fence"] = "12x"; }},
      {"rev", [](Json& j) { j["rev"] = 1.5; }},
      {"roots", [](Json& j) { j["roots"] = "none"; }},
      {"totals", [](Json& j) { j["totals"] = 3; }},
      {"list", [](Json& j) { j = Json::array({1, 2}); }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Json bad = good;
    row.change(bad);
    const auto parsed = parse_root(dump_json(bad));
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().kind == ErrorKind::corrupt);
  }
  CHECK(parse_root(dump_json(good)).has_value());
}

TEST_CASE("manifest: names of manifests") {
  const RepositoryKey key;
  const std::string folder = manifest_folder(key, "realm-1", "user/a/b");
  CHECK(folder.starts_with("snapshots/realm-1/"));
  CHECK(folder != manifest_folder(key, "realm-1", "user/a/c"));
  const std::string name = manifest_key(folder, 255, UINT64_MAX, "0000-id", 0);
  CHECK(name == folder + "00000000000000ff-ffffffffffffffff-0000-id");
  CHECK(manifest_key(folder, 1, 2, "id", 3).ends_with("-id.3"));
  const auto parsed = parse_manifest_key(manifest_key(folder, 255, UINT64_MAX, "0000-id", 2));
  REQUIRE(parsed.has_value());
  CHECK(parsed->folder == folder);
  CHECK(parsed->rev == 255);
  CHECK(parsed->fence == UINT64_MAX);
  CHECK(parsed->id == "0000-id");
  for (const char* bad : {"", "snapshots/", "packs/00000000000000ff-ffffffffffffffff-id", "snapshots/a/b/c",
                          "snapshots/a/00000000000000fg-ffffffffffffffff-id",
                          "snapshots/a/00000000000000ff-ffffffffffffffff-"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_manifest_key(bad).has_value());
  }
}

TEST_CASE("manifest: sealed objects keep their kind, their size and their bytes") {
  for (const RepositoryKey& key : {RepositoryKey(), RepositoryKey(Secret(std::string(32, 'k')), "repo")}) {
    const std::string raw = test::prose(5000, 1);
    const std::string object = seal_object(key, kRootMagic, raw).value();
    CHECK(unseal_object(key, kRootMagic, object).value() == raw);
    CHECK(unseal_object(key, kHintsMagic, object).error().kind == ErrorKind::corrupt);
    CHECK(
        unseal_object(RepositoryKey(Secret(std::string(32, 'x')), "repo"), kRootMagic, object).error().kind ==
        ErrorKind::corrupt);
    for (std::size_t at = 0; at < object.size(); ++at) {
      std::string bad = object;
      bad[at] = static_cast<char>(bad[at] ^ 2);
      CHECK(unseal_object(key, kRootMagic, bad).error().kind == ErrorKind::corrupt);
      CHECK(unseal_object(key, kRootMagic, object.substr(0, at)).error().kind == ErrorKind::corrupt);
    }
    CHECK(unseal_object(key, kRootMagic, seal_object(key, kRootMagic, "").value()).value().empty());
  }
  // One that claims to unpack to 4 GiB, with a sum that fits.
  std::string bomb = seal_object(RepositoryKey(), kRootMagic, std::string(1000, 'x')).value();
  bomb.replace(8, 4, std::string(4, '\xff'));
  bomb.resize(bomb.size() - 32);
  bomb += from_hex(sha256_hex(bomb)).value();
  CHECK(unseal_object(RepositoryKey(), kRootMagic, bomb).error().kind == ErrorKind::corrupt);
}

TEST_CASE("manifest: the object of a store") {
  RepoObject repo{std::string(32, 'a'), kDefaultSizes, true, "check"};
  const std::string object = encode_repo(repo);
  const RepoObject back = decode_repo(object).value();
  CHECK(back.id == repo.id);
  CHECK(back.sizes == repo.sizes);
  CHECK(back.encrypted);
  CHECK(back.check == "check");
  for (std::size_t at = 0; at < object.size(); ++at) {
    std::string bad = object;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    CHECK(decode_repo(bad).error().kind == ErrorKind::corrupt);
    CHECK(decode_repo(object.substr(0, at)).error().kind == ErrorKind::corrupt);
  }
  repo.sizes.avg = 1000;
  CHECK(decode_repo(encode_repo(repo)).error().kind == ErrorKind::corrupt);
  repo.sizes = kDefaultSizes;
  repo.id = "../../etc";
  CHECK(decode_repo(encode_repo(repo)).error().kind == ErrorKind::corrupt);
}
