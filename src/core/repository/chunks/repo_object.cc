// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/repo_object.h"

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/random.h"
#include "core/repository/chunks/fields.h"
#include "core/repository/chunks/manifest_check.h"

namespace ascope::chunks {

namespace {

constexpr std::string_view kMagic = "ASRP";
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kMaxBytes = 64U << 10U;
constexpr std::size_t kIdDigits = 32;
constexpr std::size_t kIdRandomBytes = 16;

Error bad(std::string_view why) {
  return make_error(ErrorKind::corrupt, std::string(why));
}

Result<std::uint32_t> chunk_size(const Json& chunker, std::string_view name) {
  ASCOPE_TRY_ASSIGN(const std::int64_t value, get_int(chunker, name));
  return value < 0 || value > UINT32_MAX ? Result<std::uint32_t>(bad("has a damaged chunker"))
                                         : static_cast<std::uint32_t>(value);
}

Result<OpenedRepo> unlock(const std::string& object, const Secret& master) {
  ASCOPE_TRY_ASSIGN(RepoObject repo, decode_repo(object));
  if (!repo.encrypted) {
    return master.empty()
               ? Result<OpenedRepo>(OpenedRepo{RepositoryKey(), repo.id, repo.sizes})
               : make_error(ErrorKind::denied, "the snapshot store is not encrypted, but a key is given",
                            "leave the key out, or use another store or prefix");
  }
  if (master.empty()) {
    return make_error(ErrorKind::denied, "the snapshot store is encrypted, and no key is given",
                      "give the key that it was made with");
  }
  RepositoryKey key(master, repo.id);
  if (key.check() != repo.check) {
    return make_error(ErrorKind::denied, "the key is not the snapshot store's",
                      "give the key that it was made with");
  }
  return OpenedRepo{std::move(key), repo.id, repo.sizes};
}

// One of the two objects, if it is as it was written.
struct RepoBytes {
  std::string bytes;
  std::optional<SnapshotProblem> problem;  // then there are no bytes
};

Result<RepoBytes> read_repo(const OpContext& ctx, StoreAccess& store, std::string_view object) {
  const std::string name(object);
  Result<std::string> bytes = store.read(ctx, name, kMaxBytes);
  Error wrong;
  if (bytes) {
    Result<RepoObject> repo = decode_repo(*bytes);
    if (repo) {
      return RepoBytes{std::move(*bytes), std::nullopt};
    }
    wrong = in_object(name, std::move(repo).error());
  } else {
    wrong = std::move(bytes).error();
  }
  ASCOPE_TRY_ASSIGN(SnapshotProblem problem, problem_of(name, std::move(wrong)));
  return RepoBytes{"", std::move(problem)};
}

// What can be done about "repo" being missing or damaged.
Result<std::string> mend_hint(const OpContext& ctx, StoreAccess& store) {
  ASCOPE_TRY_ASSIGN(const RepoBytes copy, read_repo(ctx, store, kRepoCopy));
  return copy.problem ? std::string("put it back from a copy of the store")
                      : std::string("'ascope-sandbox snapshot repair' puts it back");
}

Result<bool> has_snapshots(const OpContext& ctx, StoreAccess& store) {
  ASCOPE_TRY_ASSIGN(const std::vector<BlobInfo> snapshots, store.list(ctx, "snapshots/"));
  return !snapshots.empty();
}

Result<std::string> put_or_read(const OpContext& ctx, StoreAccess& store, std::string_view object,
                                const std::string& bytes) {
  ViewSource source(bytes);
  ASCOPE_TRY_ASSIGN(const std::optional<BlobInfo> put, store.put(ctx, std::string(object), source));
  return put ? Result<std::string>(bytes) : store.read(ctx, std::string(object), kMaxBytes);
}

// REQUIRES: no snapshots. Whoever puts the copy first has the say.
Result<std::string> create_repo(const OpContext& ctx, StoreAccess& store, const Secret& master,
                                const ChunkSizes& sizes) {
  RepoObject repo;
  repo.id = random_hex(kIdRandomBytes);
  repo.sizes = sizes;
  repo.encrypted = !master.empty();
  repo.check = repo.encrypted ? RepositoryKey(master, repo.id).check() : "";
  ASCOPE_TRY_ASSIGN(const std::string copy, put_or_read(ctx, store, kRepoCopy, encode_repo(repo)));
  if (Result<RepoObject> good = decode_repo(copy); !good) {
    return in_object(std::string(kRepoCopy), std::move(good).error())
        .with_hint("remove it: the store is empty");
  }
  return put_or_read(ctx, store, kRepoObject, copy);
}

Result<void> replace(const OpContext& ctx, StoreAccess& store, std::string_view object,
                     const std::string& bytes) {
  const std::string name(object);
  ASCOPE_TRY(store.remove(ctx, name));
  ASCOPE_TRY_ASSIGN(const std::optional<BlobInfo> put, store.put_bytes(ctx, name, bytes));
  return put ? ok()
             : Result<void>(make_error(ErrorKind::conflict,
                                       "object '" + name + "' was put by another command meanwhile",
                                       "run the repair again"));
}

}  // namespace

std::string encode_repo(const RepoObject& repo) {
  std::string out(kMagic);
  put_fixed(out, kVersion, 1);
  put_fixed(out, repo.encrypted ? 1 : 0, 1);
  put_fixed(out, 0, 2);
  Json json;
  json["id"] = repo.id;
  json["chunker"] = Json{{"min", repo.sizes.min}, {"avg", repo.sizes.avg}, {"max", repo.sizes.max}};
  json["check"] = repo.check;
  out += dump_json(json);
  out += sha256(out);
  return out;
}

Result<RepoObject> decode_repo(const std::string& object) {
  if (object.size() < kHeaderBytes + kDigestBytes) {
    return bad("is cut");
  }
  const ByteView before = ByteView(object).substr(0, object.size() - kDigestBytes);
  FieldReader fields(before);
  if (fields.bytes_of(4) != kMagic) {
    return bad("is not what its name says");
  }
  if (sha256(before) != ByteView(object).substr(before.size())) {
    return bad("is damaged: its SHA-256 differs");
  }
  const std::uint8_t version = fields.u8();
  const std::uint8_t flags = fields.u8();
  const std::uint64_t zero = fields.fixed(2);
  if (version > kVersion) {
    return make_error(ErrorKind::unsupported, "was written by a newer version", "upgrade ascope-sandbox");
  }
  if (version != kVersion || flags > 1 || zero != 0) {
    return bad("has a damaged header");
  }
  ASCOPE_TRY_ASSIGN(const Json json, parse_json(before.substr(kHeaderBytes)));
  RepoObject out;
  out.encrypted = flags == 1;
  ASCOPE_TRY_ASSIGN(out.id, get_string(json, "id"));
  ASCOPE_TRY_ASSIGN(out.check, get_string(json, "check"));
  const auto chunker = json.find("chunker");
  if (chunker == json.end() || !chunker->is_object()) {
    return bad("has a damaged chunker");
  }
  ASCOPE_TRY_ASSIGN(out.sizes.min, chunk_size(*chunker, "min"));
  ASCOPE_TRY_ASSIGN(out.sizes.avg, chunk_size(*chunker, "avg"));
  ASCOPE_TRY_ASSIGN(out.sizes.max, chunk_size(*chunker, "max"));
  if (!are_sane(out.sizes) || out.id.size() != kIdDigits ||
      out.id.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return bad("has a field out of its range");
  }
  return out;
}

Result<OpenedRepo> open_repo(const OpContext& ctx, StoreAccess& store, const Secret& master, bool create,
                             const ChunkSizes& sizes) {
  const std::string name(kRepoObject);
  Result<std::string> bytes = store.read(ctx, name, kMaxBytes);
  if (!bytes && bytes.error().kind == ErrorKind::not_found) {
    ASCOPE_TRY_ASSIGN(const bool lost, has_snapshots(ctx, store));
    if (lost) {
      ASCOPE_TRY_ASSIGN(std::string hint, mend_hint(ctx, store));
      return make_error(ErrorKind::corrupt,
                        "object '" + name + "' is missing, though the store has snapshots", std::move(hint));
    }
    if (create) {
      bytes = create_repo(ctx, store, master, sizes);
    }
  }
  if (!bytes) {
    return std::move(bytes).error();
  }
  Result<OpenedRepo> out = unlock(*bytes, master);
  if (!out && out.error().kind == ErrorKind::corrupt) {
    ASCOPE_TRY_ASSIGN(const std::string hint, mend_hint(ctx, store));
    return in_object(name, std::move(out).error()).with_hint(hint);
  }
  if (!out && out.error().kind != ErrorKind::denied) {
    return in_object(name, std::move(out).error());
  }
  return out;
}

Result<std::vector<SnapshotProblem>> repo_problems(const OpContext& ctx, StoreAccess& store) {
  std::vector<SnapshotProblem> out;
  ASCOPE_TRY_ASSIGN(const RepoBytes repo, read_repo(ctx, store, kRepoObject));
  ASCOPE_TRY_ASSIGN(const RepoBytes copy, read_repo(ctx, store, kRepoCopy));
  const bool missing = repo.problem && repo.problem->missing;
  if (missing && (copy.problem ? copy.problem->missing : true)) {
    ASCOPE_TRY_ASSIGN(const bool lost, has_snapshots(ctx, store));
    if (!lost) {  // a save may have been killed before it had put the first of the two, or the second
      return out;
    }
  }
  for (const RepoBytes* one : {&repo, &copy}) {
    if (one->problem) {
      out.push_back(*one->problem);
    }
  }
  if (out.empty() && repo.bytes != copy.bytes) {
    const std::string name(kRepoCopy);
    out.push_back(
        {name, false, "object '" + name + "' is not the same as '" + std::string(kRepoObject) + "'"});
  }
  return out;
}

Result<std::vector<SnapshotProblem>> mend_repo(const OpContext& ctx, StoreAccess& store) {
  ASCOPE_TRY_ASSIGN(std::vector<SnapshotProblem> problems, repo_problems(ctx, store));
  if (problems.empty()) {
    return problems;
  }
  if (problems.size() > 1) {
    return make_error(ErrorKind::corrupt, problems[0].what + "; " + problems[1].what,
                      "put one of them back from a copy of the store");
  }
  const bool is_copy = problems[0].object == kRepoCopy;
  ASCOPE_TRY_ASSIGN(const RepoBytes good, read_repo(ctx, store, is_copy ? kRepoObject : kRepoCopy));
  if (good.problem) {
    return make_error(ErrorKind::corrupt, good.problem->what, "run the repair again");
  }
  ASCOPE_TRY(replace(ctx, store, is_copy ? kRepoCopy : kRepoObject, good.bytes));
  return problems;
}

}  // namespace ascope::chunks
