// SPDX-License-Identifier: Apache-2.0
// The chunk store alone, without a sandbox: what each step costs, and what its constants cost and gain.
//
//   chunks_bench save TREE STORE [OPTION…]      saves the folder TREE as the successor of the last save, if
//   any chunks_bench rescan TREE STORE              as save, believing that nothing changed (metadata only)
//   chunks_bench restore STORE FOLDER           writes the last save to FOLDER, which is empty
//   chunks_bench check STORE                    reads all of the last save
//   chunks_bench cut FILE [OPTION…]             cuts and hashes FILE, stores nothing
// OPTION: --min, --avg, --max (KiB, of a new store), --level, --workers, --pack (MiB), --frame (KiB), --key
//
// Prints one JSON object: milliseconds, bytes, and the peak of resident memory in KiB. STORE is a folder;
// what its last save was stands beside it in STORE.last, the cache in STORE.cache.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/repository/chunks/chunk_repository.h"
#include "core/tree/applier.h"
#include "core/tree/walker.h"
#include "store/stores.h"

namespace {

using namespace ascope;  // NOLINT(google-build-using-namespace)

[[noreturn]] void die(const Error& error) {
  std::fprintf(stderr, "chunks_bench: %s\n", error.message.c_str());
  std::exit(1);
}

template <typename T>
T must(Result<T> result) {
  if (!result) {
    die(result.error());
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(result).value();
  }
}

struct Arguments {
  std::vector<std::string> words;
  ChunkOptions options;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  std::map<std::string, std::uint64_t> numbers;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      out.words.push_back(word);
    } else if (word == "--key") {
      out.options.key = Secret(std::string(32, 'k'));
    } else if (i + 1 < argc) {
      numbers[word] = std::strtoull(argv[++i], nullptr, 10);
    }
  }
  const auto set = [&](const char* name, auto& value, unsigned shift) {
    if (const auto found = numbers.find(name); found != numbers.end()) {
      value = static_cast<std::decay_t<decltype(value)>>(found->second << shift);
    }
  };
  set("--min", out.options.sizes.min, 10);
  set("--avg", out.options.sizes.avg, 10);
  set("--max", out.options.sizes.max, 10);
  set("--level", out.options.pipeline.level, 0);
  set("--workers", out.options.pipeline.workers, 0);
  set("--frame", out.options.pipeline.frame_bytes, 10);
  set("--pack", out.options.pipeline.pack_bytes, 20);
  return out;
}

UniqueFd open_folder(const std::string& path) {
  return must(open_file(path, O_RDONLY | O_DIRECTORY));
}

std::unique_ptr<BlobStore> open_store(const std::string& folder) {
  StoreUrl url;
  url.scheme = "local";
  url.path = folder;
  return must(find_store_kind("local")->open_blobs(OpContext{}, url, StoreContext{folder, "bench"}));
}

// The walker's entries, all of which are said to be unchanged.
class UnchangedScan final : public TreeScan {
 public:
  explicit UnchangedScan(const std::string& folder)
      : folder_(folder), walker_(must(walk_tree(open_folder(folder), {}))) {}
  Result<bool> next(TreeEntry& entry, bool& unchanged) override {
    unchanged = true;
    return walker_->next(entry);
  }
  Result<std::unique_ptr<TreeSource>> read(const std::vector<std::string>& paths) override {
    WalkOptions options;
    options.start = paths;
    ASCOPE_TRY_ASSIGN(auto walker, walk_tree(open_folder(folder_), std::move(options)));
    return std::unique_ptr<TreeSource>(std::move(walker));
  }

 private:
  std::string folder_;
  std::unique_ptr<TreeWalker> walker_;
};

HistoryItem read_last(const std::string& store) {
  HistoryItem item;
  std::ifstream file(store + ".last");
  file >> item.snapshot >> item.object >> item.size_bytes >> item.sha256;
  item.format = "chunks";
  return item;
}

void write_last(const std::string& store, const HistoryItem& item) {
  std::ofstream file(store + ".last");
  file << item.snapshot << '\n' << item.object << '\n' << item.size_bytes << '\n' << item.sha256 << '\n';
}

using Numbers = std::vector<std::pair<std::string, std::uint64_t>>;

Numbers save(ChunkRepository& repository, const std::string& tree, const std::string& store, bool rescan) {
  SaveRequest request;
  request.id = random_uuid();
  request.origin = {"bench", "global", 1, 1, "2026-01-01T00:00:00.000Z", "bench"};
  request.ordered = true;
  const HistoryItem parent = read_last(store);
  request.parent = parent.snapshot.empty() ? nullptr : &parent;
  std::unique_ptr<TreeWalker> walker;
  if (rescan) {
    request.scan = [&](SnapshotPart part) -> Result<std::unique_ptr<TreeScan>> {
      return std::unique_ptr<TreeScan>(part == SnapshotPart::workspace ? std::make_unique<UnchangedScan>(tree)
                                                                       : nullptr);
    };
  } else {
    walker = must(walk_tree(open_folder(tree), {}));
    request.workspace = walker.get();
  }
  const SaveOutcome saved = must(repository.save(OpContext{}, request));
  write_last(store, saved.item);
  return {{"changed", saved.changed ? 1 : 0},          {"files", saved.item.files},
          {"content_bytes", saved.item.content_bytes}, {"new_bytes", saved.new_bytes},
          {"reused_bytes", saved.reused_bytes},        {"stored_bytes", saved.stored_bytes}};
}

Numbers restore(ChunkRepository& repository, const std::string& store, const std::string& folder) {
  const auto source = must(repository.open(OpContext{}, read_last(store), SnapshotPart::workspace));
  ApplyOptions options;
  options.mode = ApplyMode::fresh;
  options.set_owner = ::geteuid() == 0;
  must(make_dirs(folder));
  const ApplyReport report = must(apply_tree(OpContext{}, open_folder(folder), *source, options));
  return {{"written", report.written}, {"bytes_written", report.bytes_written}};
}

Numbers check(ChunkRepository& repository, const std::string& store) {
  const auto problems = must(repository.problems(OpContext{}, read_last(store), true));
  for (const SnapshotProblem& one : problems) {
    std::fprintf(stderr, "%s\n", one.what.c_str());
  }
  return {{"problems", problems.size()}};
}

Numbers cut(const std::string& path, const chunks::ChunkSizes& sizes) {
  const std::string data = must(read_file(path, std::size_t{4} << 30U));
  chunks::Chunker chunker(chunks::make_gear(chunks::kOpenGearSeed), sizes);
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t count = 0;
  for (ByteView rest = data; !rest.empty(); ++count) {
    rest.remove_prefix(chunker.feed(rest).taken);
  }
  const auto middle = std::chrono::steady_clock::now();
  static_cast<void>(sha256_hex(data));
  const auto end = std::chrono::steady_clock::now();
  const auto micros = [](auto from, auto to) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(to - from).count());
  };
  return {{"bytes", data.size()},
          {"chunks", count},
          {"cut_us", micros(begin, middle)},
          {"sha256_us", micros(middle, end)}};
}

std::uint64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t value = 0;
  while (status >> word) {
    if (word == "VmHWM:") {
      status >> value;
    }
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  const std::vector<std::string>& words = arguments.words;
  const std::string what = words.empty() ? "" : words[0];
  const bool saves = what == "save" || what == "rescan";
  if (words.size() < 2 || (words.size() < 3 && (saves || what == "restore"))) {
    std::fprintf(stderr,
                 "chunks_bench: save TREE STORE | rescan TREE STORE | restore STORE FOLDER | check STORE | "
                 "cut FILE\n");
    return 2;
  }
  const std::string store = saves ? words[2] : words[1];
  const auto begin = std::chrono::steady_clock::now();
  Numbers numbers;
  if (what == "cut") {
    numbers = cut(store, arguments.options.sizes);
  } else {
    ChunkOptions options = arguments.options;
    options.cache_dir = store + ".cache";
    const auto blobs = open_store(store);
    const auto repository = make_chunk_repository(*blobs, options);
    numbers = saves               ? save(*repository, words[1], store, what == "rescan")
              : what == "restore" ? restore(*repository, store, words[2])
                                  : check(*repository, store);
  }
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  std::string text = "{\"ms\": " + std::to_string(std::chrono::duration<double, std::milli>(elapsed).count());
  for (const auto& [name, value] : numbers) {
    text += ", \"" + name + "\": " + std::to_string(value);
  }
  std::printf("%s, \"peak_kib\": %llu}\n", text.c_str(), static_cast<unsigned long long>(peak_kib()));
  return 0;
}
