// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/hints.h"

#include <algorithm>
#include <map>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/sealed.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kMostRuns = 6;
constexpr std::string_view kRunSuffix = ".run";

std::string runs_folder(const std::string& folder) {
  return folder + "/hints";
}

}  // namespace

std::vector<ChunkId> ids_of_index(ByteView index) {
  std::vector<ChunkId> out;
  FieldReader fields(index);
  while (!fields.at_end()) {
    fields.bytes_of(13);
    const std::uint64_t count = fields.fixed(4);
    for (std::uint64_t i = 0; i < count && fields.good(); ++i) {
      const ByteView id = fields.bytes_of(kIdBytes);
      fields.bytes_of(4);
      if (fields.good()) {
        out.push_back(ChunkId::of(id));
      }
    }
  }
  return out;
}

Result<std::string> encode_hints(const RepositoryKey& key, const std::vector<NamedIndex>& packs) {
  std::string raw;
  for (const NamedIndex& one : packs) {
    raw += one.pack.view();
    put_fixed(raw, one.index.size(), 4);
    raw += one.index;
  }
  return seal_object(key, kHintsMagic, raw);
}

Result<std::uint64_t> put_hint(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                               const std::vector<NamedIndex>& packs) {
  ASCOPE_TRY_ASSIGN(const std::string bytes, encode_hints(key, packs));
  ViewSource source(bytes);
  ASCOPE_TRY(store.put(ctx, std::string(kHintsFolder) + random_hex(kNameBytes), source));
  return std::uint64_t{bytes.size()};
}

Result<std::vector<NamedIndex>> decode_hints(const RepositoryKey& key, const std::string& object) {
  ASCOPE_TRY_ASSIGN(const std::string raw, unseal_object(key, kHintsMagic, object));
  std::vector<NamedIndex> out;
  FieldReader fields(raw);
  while (!fields.at_end()) {
    const ByteView name = fields.bytes_of(kNameBytes);
    const ByteView index = fields.bytes_of(fields.u32());
    if (!fields.good()) {
      return make_error(ErrorKind::corrupt, "is cut");
    }
    out.push_back({PackName::of(name), std::string(index)});
  }
  return out;
}

Result<void> Hints::open_run(const std::string& path, std::vector<HintRun>& into) {
  ASCOPE_TRY_ASSIGN(HintRun run, HintRun::open(path));
  packs_.insert(run.packs().begin(), run.packs().end());
  into.push_back(std::move(run));
  return ok();
}

Result<void> Hints::open_nameless(const std::string& path) {
  Result<void> opened = open_run(path, own_);
  ASCOPE_TRY(remove_file(path));
  return opened;
}

Result<std::set<PackName>> Hints::open_cached(const std::set<PackName>& present) {
  std::set<PackName> covered;
  Result<std::vector<std::string>> names = list_dir(runs_folder(folder_));
  if (!names) {
    return names.error().kind == ErrorKind::not_found ? Result<std::set<PackName>>(covered)
                                                      : std::move(names).error();
  }
  for (const std::string& name : *names) {
    const std::string path = runs_folder(folder_) + "/" + name;
    if (!name.ends_with(kRunSuffix)) {
      continue;
    }
    Result<HintRun> run = HintRun::open(path);
    // Hints are worth nothing if they are wrong; what cannot be used is passed over.
    if (!run && !is_damage(run.error())) {
      return std::move(run).error();
    }
    const auto known = [&](const PackName& source) {
      return present.contains(source) && !covered.contains(source);
    };
    // One whose sources are gone was replaced in the store, or its packs were collected.
    if (!run || !std::all_of(run->sources().begin(), run->sources().end(), known)) {
      ASCOPE_TRY(remove_file(path));
      continue;
    }
    covered.insert(run->sources().begin(), run->sources().end());
    packs_.insert(run->packs().begin(), run->packs().end());
    shared_.push_back(std::move(*run));
  }
  return covered;
}

Result<void> Hints::fetch(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                          const PackName& source) {
  const std::string object = std::string(kHintsFolder) + to_hex(source.view());
  Result<std::string> bytes = store.read(ctx, object, kMaxSealedBytes);
  Result<std::vector<NamedIndex>> packs =
      bytes ? decode_hints(key, *bytes) : Result<std::vector<NamedIndex>>(std::move(bytes).error());
  if (!packs) {
    return is_damage(packs.error()) ? ok() : Result<void>(std::move(packs).error());
  }
  std::vector<PackName> names;
  std::vector<Hint> hints;
  for (const NamedIndex& one : *packs) {
    for (const ChunkId& id : ids_of_index(one.index)) {
      hints.push_back({id, static_cast<std::uint32_t>(names.size())});
    }
    names.push_back(one.pack);
  }
  const std::string path = runs_folder(folder_) + "/" + to_hex(source.view()) + std::string(kRunSuffix);
  ASCOPE_TRY(write_hint_run(path, {source}, names, std::move(hints)));
  return open_shared(path);
}

// Another process may have merged it into one of its own, and removed it, already.
Result<void> Hints::open_shared(const std::string& path) {
  Result<void> opened = open_run(path, shared_);
  return !opened && is_damage(opened.error()) ? ok() : std::move(opened);
}

Result<void> Hints::merge() {
  std::vector<const HintRun*> runs;
  runs.reserve(shared_.size());
  for (const HintRun& run : shared_) {
    runs.push_back(&run);
  }
  const std::string path = runs_folder(folder_) + "/" + random_hex(kNameBytes) + std::string(kRunSuffix);
  ASCOPE_TRY(merge_hint_runs(path, runs));
  for (const HintRun& run : shared_) {
    ASCOPE_TRY(remove_file(run.path()));
  }
  shared_.clear();
  return open_shared(path);
}

Result<void> Hints::load(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key) {
  ASCOPE_TRY(make_dirs(runs_folder(folder_)));
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> objects, store.list(ctx, std::string(kHintsFolder)));
  std::set<PackName> present;
  for (const BlobInfo& one : objects) {
    if (Result<PackName> name = pack_name_from_hex(one.key.substr(kHintsFolder.size()))) {
      present.insert(*name);
    }
  }
  ASCOPE_TRY_ASSIGN(const std::set<PackName> covered, open_cached(present));
  for (const PackName& source : present) {
    if (!covered.contains(source)) {
      ASCOPE_TRY(fetch(ctx, store, key, source));
    }
    if (shared_.size() > kMostRuns) {
      ASCOPE_TRY(merge());
    }
  }
  return ok();
}

Result<void> Hints::add(const std::vector<PackName>& packs, std::vector<Hint> hints) {
  ASCOPE_TRY(make_dirs(folder_));
  const std::string path = folder_ + "/own." + random_hex(kNameBytes);
  ASCOPE_TRY(write_hint_run(path, {}, packs, std::move(hints)));
  ASCOPE_TRY(open_nameless(path));
  if (own_.size() <= kMostRuns) {
    return ok();
  }
  std::vector<const HintRun*> runs;
  runs.reserve(own_.size());
  for (const HintRun& run : own_) {
    runs.push_back(&run);
  }
  const std::string merged = folder_ + "/own." + random_hex(kNameBytes);
  ASCOPE_TRY(merge_hint_runs(merged, runs));
  own_.clear();
  return open_nameless(merged);
}

Result<std::vector<PackName>> Hints::find(const ChunkId& id) const {
  std::vector<PackName> out;
  for (const auto* runs : {&own_, &shared_}) {
    for (const HintRun& run : *runs) {
      ASCOPE_TRY(run.find(id, out));
    }
  }
  return out;
}

}  // namespace ascope::chunks
