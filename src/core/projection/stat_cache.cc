// SPDX-License-Identifier: Apache-2.0
#include "core/projection/stat_cache.h"

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"

namespace ascope {

namespace {

constexpr std::int64_t kGrainNs = 2'000'000'000;
constexpr std::string_view kSchema = "ascope.stat-cache/1";
constexpr const char* kSideNames[] = {"host", "workspace"};

}  // namespace

StatCache::StatCache(std::string path, const Clock& clock)
    : path_(std::move(path)),
      settled_ns_(
          std::chrono::duration_cast<std::chrono::nanoseconds>(clock.wall().time_since_epoch()).count() -
          kGrainNs) {
  if (!path_.empty()) {
    load();
  }
}

void StatCache::load() {
  auto text = read_file(path_);
  if (!text) {
    if (text.error().kind != ErrorKind::not_found) {
      log("projection", LogLevel::warn, "stat cache: {}", text.error().message);
    }
    return;
  }
  auto parsed = parse_json(*text);
  try {
    if (!parsed || parsed->at("schema") != kSchema) {
      log("projection", LogLevel::warn, "stat cache '{}' is of another form: made anew", path_);
      return;
    }
    for (std::size_t side = 0; side < 2; ++side) {
      for (const auto& row : parsed->at(kSideNames[side])) {
        Known known;
        known.stat = {row.at(1).get<std::uint64_t>(), row.at(2).get<std::int64_t>(),
                      row.at(3).get<std::int64_t>(), row.at(4).get<std::uint64_t>()};
        known.sha256 = row.at(5).get<std::string>();
        old_[side].emplace(row.at(0).get<std::string>(), std::move(known));
      }
    }
    list_digest_ = parsed->at("source").at("list").get<std::string>();
    source_hash_ = parsed->at("source").at("hash").get<std::string>();
  } catch (const Json::exception&) {
    log("projection", LogLevel::warn, "stat cache '{}' is damaged: made anew", path_);
    old_[0].clear();
    old_[1].clear();
    list_digest_.clear();
  }
}

std::optional<std::string> StatCache::find(Side side, const std::string& path, const FileStat& stat) const {
  const auto index = static_cast<std::size_t>(side);
  const auto it = old_[index].find(path);
  if (stat.ctime_ns == 0 || it == old_[index].end() || !(it->second.stat == stat)) {
    return std::nullopt;
  }
  new_[index].insert_or_assign(path, it->second);
  return it->second.sha256;
}

void StatCache::put(Side side, const std::string& path, const FileStat& stat, const std::string& sha256) {
  if (stat.ctime_ns != 0 && stat.ctime_ns < settled_ns_ && stat.mtime_ns < settled_ns_ && is_utf8(path)) {
    new_[static_cast<std::size_t>(side)].insert_or_assign(path, Known{stat, sha256});
  }
}

std::optional<std::string> StatCache::find_source(const std::string& list_digest) const {
  return list_digest == list_digest_ ? std::optional<std::string>(source_hash_) : std::nullopt;
}

void StatCache::put_source(const std::string& list_digest, const std::string& hash) {
  list_digest_ = list_digest;
  source_hash_ = hash;
  source_changed_ = true;
}

void StatCache::save() {
  if (path_.empty() || (!source_changed_ && new_[0] == old_[0] && new_[1] == old_[1])) {
    return;
  }
  Json json{{"schema", kSchema}};
  for (std::size_t side = 0; side < 2; ++side) {
    Json files = Json::array();  // not an object: a lookup in an ordered one is linear
    for (const auto& [name, known] : new_[side]) {
      files.push_back(Json::array({name, known.stat.size_bytes, known.stat.mtime_ns, known.stat.ctime_ns,
                                   known.stat.inode, known.sha256}));
    }
    json[kSideNames[side]] = std::move(files);
  }
  json["source"] = Json{{"list", list_digest_}, {"hash", source_hash_}};
  const auto slash = path_.rfind('/');
  Result<void> written = make_dirs(path_.substr(0, slash));
  if (written) {
    written = write_file_atomic(path_, dump_json(json));
  }
  if (!written) {
    log("projection", LogLevel::warn, "stat cache: {}", written.error().message);
  }
}

}  // namespace ascope
