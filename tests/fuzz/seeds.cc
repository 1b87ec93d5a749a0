// SPDX-License-Identifier: Apache-2.0
// seeds FOLDER: writes valid inputs for each target to FOLDER/NAME/, for the fuzzer to begin with.
#include <cstdio>
#include <cstdlib>

#include "core/base/file.h"
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/pack.h"
#include "core/repository/chunks/page.h"
#include "core/repository/chunks/root.h"
#include "core/repository/chunks/sealed.h"
#include "core/repository/tar.h"
#include "core/tree/entry_codec.h"
#include "core/tree/stream.h"
#include "fakes/memory_tree.h"
#include "guest/wire.h"

using namespace ascope;          // NOLINT(google-build-using-namespace)
using namespace ascope::chunks;  // NOLINT(google-build-using-namespace)

namespace {

std::string folder;

void write(const std::string& target, const std::string& name, const std::string& bytes) {
  const Result<void> made = make_dirs(folder + "/" + target);
  const Result<void> done = made ? write_file_atomic(folder + "/" + target + "/" + name, bytes) : made;
  if (!done) {
    std::fprintf(stderr, "seeds: %s\n", done.error().message.c_str());
    std::exit(1);
  }
}

MemoryTree sample_tree() {
  MemoryTree tree;
  tree.folder("");
  tree.folder("folder");
  tree.file("folder/file", "content").entry.xattrs = {{"user.name", "value"}};
  tree.add(EntryType::hardlink, "folder/link", "folder/file");
  MemoryEntry& sparse = tree.add(EntryType::file, "sparse");
  sparse.entry.size_bytes = 1U << 20U;
  sparse.entry.sparse = true;
  sparse.entry.extents = {{4096, 4}, {100'000, 3}};
  sparse.blocks = {{4096, "some"}, {100'000, "end"}};
  tree.add(EntryType::symlink, "symlink", "../target");
  tree.file(std::string(200, 'z') + "/" + std::string(200, 'n'), "long name");
  return tree;
}

void write_chunks() {
  const RepositoryKey key;
  const ChunkRef ref{key.chunk_id("x"), 0, {40, 100, 200, Codec::zstd}, 0, 7};
  const std::vector<PackName> names = {random_pack_name()};
  PageWriter page(names);
  const MemoryTree tree = sample_tree();
  for (const MemoryEntry& one : tree.entries) {
    const bool has_data = one.entry.type == EntryType::file;
    page.entry(one.entry, has_data ? 1 : 0);
    if (!one.entry.extents.empty()) {
      page.runs(one.entry.extents);
    }
    if (has_data) {
      page.chunks(std::span(&ref, 1));
    }
  }
  write("page", "one", page.finish());

  ManifestRoot root;
  root.id = "00000000-0000-4000-8000-000000000001";
  root.slot = "user/a/b";
  root.packs = {{names[0], 10'000, 100}};
  root.workspace = {{"", ref}, {"folder/\xff", ref}};
  root.roots.emplace();
  const std::string object = encode_root(key, root).value();
  write("root", "object", object);
  write("root", "json", unseal_object(key, kRootMagic, object).value());

  PackBuilder builder(key);
  static_cast<void>(
      builder.add(Codec::raw, "abcdef", 6, {{key.chunk_id("abc"), 3}, {key.chunk_id("def"), 3}}).has_value());
  static_cast<void>(builder.add(Codec::raw, "x", 1, {{key.chunk_id("x"), 1}}).has_value());
  std::string index;
  put_fixed(index, kPackHeaderBytes + 7, 4);
  put_fixed(index, 0, 1);
  write("pack_index", "two", index + builder.finish().value().index);
}

void write_tars() {
  for (const auto& [name, compression] :
       {std::pair("plain", TarCompression::none), std::pair("gzip", TarCompression::gzip),
        std::pair("zstd", TarCompression::zstd)}) {
    MemoryTree tree = sample_tree();
    StringSink sink;
    if (write_tar(tree, sink, compression)) {
      write("tar", name, sink.take());
    }
  }
}

void write_wire() {
  write("wire", "header", std::string(1, '\0') + guest::frame_header(guest::FrameType::exec, 100));
  std::string out = "\x01";
  guest::GuestConfig config;
  config.environment = {{"LANG", "C.UTF-8"}};
  guest::encode(out, config);
  write("wire", "config", out);
  out = "\x02";
  guest::ExecHead head;
  head.job = "job";
  guest::ExecBody body;
  body.argv = {"sh", "-c", "true"};
  body.environment = {{"A", "B"}};
  guest::encode(out, head, body);
  write("wire", "exec", out);
  MemoryTree tree = sample_tree();
  out = "\x03";
  encode_entry(tree.entries[2].entry, out);
  write("wire", "entry", out);
  StringSink sink;
  const std::vector<TreeNote> notes = {{"path", "socket skipped"}};
  if (write_tree_stream(tree, sink, &notes)) {
    write("wire", "stream", "\x04" + sink.take());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: seeds FOLDER\n");
    return 2;
  }
  folder = argv[1];
  write_chunks();
  write_tars();
  write_wire();
  return 0;
}
