// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/manifest_check.h"

#include <algorithm>

namespace ascope::chunks {

namespace {

constexpr std::size_t kMostProblems = 1000;

class Checker {
 public:
  Checker(const OpContext& ctx, const Access& access, const Manifest& manifest)
      : ctx_(ctx), access_(access), manifest_(manifest), directory_(*access.store, *access.key) {}

  Result<std::vector<SnapshotProblem>> run(bool read_data);

 private:
  Result<void> check_packs();
  Result<void> check_pages(const std::vector<PageRef>& pages);
  Result<void> check_ref(const ChunkRef& ref);
  Result<void> check_data(const std::vector<PageRef>& pages);
  Result<void> load(std::vector<ChunkRef>& group);
  Result<void> add(const std::string& object, Error error);
  void add(SnapshotProblem problem);
  [[nodiscard]] bool is_bad(std::uint32_t pack) const { return bad_packs_.contains(pack); }

  const OpContext& ctx_;
  const Access& access_;
  const Manifest& manifest_;
  PackDirectory directory_;
  FrameDecompressor decompressor_;
  std::set<std::uint32_t> bad_packs_;    // missing, or of another size, or without an index
  std::set<std::uint32_t> moved_packs_;  // gone, but others took over
  std::vector<SnapshotProblem> problems_;
};

void Checker::add(SnapshotProblem problem) {
  const bool known = std::any_of(problems_.begin(), problems_.end(), [&](const SnapshotProblem& one) {
    return one.object == problem.object && one.what == problem.what;
  });
  if (!known && problems_.size() < kMostProblems) {
    problems_.push_back(std::move(problem));
  }
}

Result<void> Checker::add(const std::string& object, Error error) {
  ASCOPE_TRY_ASSIGN(SnapshotProblem problem, problem_of(object, std::move(error)));
  add(std::move(problem));
  return ok();
}

Result<void> Checker::check_packs() {
  for (std::size_t i = 0; i < manifest_.root.packs.size(); ++i) {
    ASCOPE_TRY(ctx_.check("checking a snapshot"));
    const PackUse& use = manifest_.root.packs[i];
    const auto number = static_cast<std::uint32_t>(i);
    const std::string object = pack_key(use.name);
    Result<const PackInfo*> pack = directory_.pack(ctx_, use.name);
    if (!pack) {
      bad_packs_.insert(number);
      ASCOPE_TRY(add(object, std::move(pack).error()));
    } else if (*pack == nullptr) {
      ASCOPE_TRY_ASSIGN(const std::vector<PackName> heirs, read_moved(ctx_, *access_.store, use.name));
      (heirs.empty() ? bad_packs_ : moved_packs_).insert(number);
      if (heirs.empty()) {
        add(SnapshotProblem{object, true, "the store has no object '" + object + "'"});
      }
    } else if ((*pack)->size_bytes != use.size_bytes) {
      bad_packs_.insert(number);
      add(SnapshotProblem{object, false, "object '" + object + "' has another size than was stored"});
    }
  }
  return ok();
}

Result<void> Checker::check_ref(const ChunkRef& ref) {
  const PackName& name = manifest_.root.packs[ref.pack].name;
  if (is_bad(ref.pack)) {
    return ok();
  }
  if (moved_packs_.contains(ref.pack)) {
    Result<LoadedChunks> loaded = access_.reader->load(ctx_, name, std::span(&ref, 1), decompressor_);
    return loaded ? ok() : add(pack_key(name), std::move(loaded).error());
  }
  ASCOPE_TRY_ASSIGN(const PackInfo* pack, directory_.pack(ctx_, name));
  if (pack == nullptr || !pack->index.has(ref)) {
    add(SnapshotProblem{pack_key(name), false,
                        "object '" + pack_key(name) + "' lacks a chunk that it should hold"});
  }
  return ok();
}

Result<void> Checker::check_pages(const std::vector<PageRef>& pages) {
  for (const PageRef& page : pages) {
    ASCOPE_TRY(check_ref(page.chunk));
  }
  EntryReader entries(*access_.reader, manifest_, pages);
  TreeEntry entry;
  std::vector<ChunkRef> refs;
  while (true) {
    ASCOPE_TRY(ctx_.check("checking a snapshot"));
    Result<bool> more = entries.next(ctx_, entry);
    if (!more) {
      return add(manifest_.object, std::move(more).error());
    }
    if (!*more) {
      return ok();
    }
    while (true) {
      Result<bool> has_refs = entries.next_refs(ctx_, refs);
      if (!has_refs) {
        return add(manifest_.object, std::move(has_refs).error());
      }
      if (!*has_refs) {
        break;
      }
      for (const ChunkRef& ref : refs) {
        ASCOPE_TRY(check_ref(ref));
      }
    }
  }
}

Result<void> Checker::load(std::vector<ChunkRef>& group) {
  if (group.empty()) {
    return ok();
  }
  const PackName& name = manifest_.root.packs[group.front().pack].name;
  Result<LoadedChunks> loaded = access_.reader->load(ctx_, name, group, decompressor_);
  group.clear();
  return loaded ? ok() : add(pack_key(name), std::move(loaded).error());
}

Result<void> Checker::check_data(const std::vector<PageRef>& pages) {
  EntryReader entries(*access_.reader, manifest_, pages);
  TreeEntry entry;
  std::vector<ChunkRef> refs;
  std::vector<ChunkRef> group;
  std::uint64_t raw = 0;
  while (true) {
    ASCOPE_TRY(ctx_.check("checking a snapshot"));
    Result<bool> more = entries.next(ctx_, entry);
    if (!more || !*more) {
      return load(group);  // what is wrong with pages is known by now
    }
    while (true) {
      Result<bool> has_refs = entries.next_refs(ctx_, refs);
      if (!has_refs || !*has_refs) {
        break;
      }
      for (const ChunkRef& ref : refs) {
        if (is_bad(ref.pack)) {
          continue;
        }
        const bool same_frame =
            !group.empty() && group.back().pack == ref.pack && group.back().frame == ref.frame;
        const bool joins = same_frame || (!group.empty() && group.front().pack == ref.pack &&
                                          raw + ref.frame.raw <= kGroupRawBytes &&
                                          can_join(group.front().frame, group.back().frame, ref.frame));
        if (!joins) {
          ASCOPE_TRY(load(group));
          raw = 0;
        }
        raw += same_frame ? 0 : ref.frame.raw;
        group.push_back(ref);
      }
    }
  }
}

Result<std::vector<SnapshotProblem>> Checker::run(bool read_data) {
  ASCOPE_TRY(check_packs());
  for (const auto* pages :
       {&manifest_.root.workspace, manifest_.root.roots ? &*manifest_.root.roots : nullptr}) {
    if (pages != nullptr) {
      ASCOPE_TRY(check_pages(*pages));
      if (read_data) {
        ASCOPE_TRY(check_data(*pages));
      }
    }
  }
  return std::move(problems_);
}

}  // namespace

Result<SnapshotProblem> problem_of(const std::string& object, Error error) {
  const bool missing = error.kind == ErrorKind::not_found;
  if (!missing && error.kind != ErrorKind::corrupt && error.kind != ErrorKind::unsupported) {
    return error;
  }
  // The error names the object that it is about, which may be another than the one that was looked at.
  const std::size_t begin = error.message.find("object '");
  const std::size_t end = begin == std::string::npos ? begin : error.message.find('\'', begin + 8);
  return SnapshotProblem{end == std::string::npos ? object : error.message.substr(begin + 8, end - begin - 8),
                         missing, std::move(error.message)};
}

Result<std::vector<SnapshotProblem>> check_manifest(const OpContext& ctx, const Access& access,
                                                    const Manifest& manifest, bool read_data) {
  return Checker(ctx, access, manifest).run(read_data);
}

Result<std::optional<SnapshotProblem>> check_pack(const OpContext& ctx, const Access& access,
                                                  const PackName& pack, bool read_data) {
  using Outcome = std::optional<SnapshotProblem>;
  const std::string object = pack_key(pack);
  const auto outcome = [&](Error error) -> Result<Outcome> {
    ASCOPE_TRY_ASSIGN(SnapshotProblem problem, problem_of(object, std::move(error)));
    return Outcome(std::move(problem));
  };
  Result<PackInfo> info = read_pack(ctx, *access.store, *access.key, pack);
  if (!info) {
    return outcome(std::move(info).error());
  }
  FrameDecompressor decompressor;
  std::vector<ChunkRef> group;
  const auto& chunks = info->index.chunks();
  for (std::size_t i = 0; read_data && i < chunks.size(); ++i) {
    ASCOPE_TRY(ctx.check("checking a pack"));
    group.push_back({chunks[i].id, 0, info->index.frames()[chunks[i].frame], chunks[i].at, chunks[i].raw});
    if (i + 1 == chunks.size() || chunks[i + 1].frame != chunks[i].frame) {
      Result<LoadedChunks> loaded = access.reader->load(ctx, pack, group, decompressor);
      if (!loaded) {
        return outcome(std::move(loaded).error());
      }
      group.clear();
    }
  }
  return Outcome();
}

}  // namespace ascope::chunks
