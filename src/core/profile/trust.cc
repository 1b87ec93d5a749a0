// SPDX-License-Identifier: Apache-2.0
#include "core/profile/trust.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/file.h>

#include <fmt/format.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/profile/yaml.h"

namespace ascope {
namespace {

constexpr std::string_view kSchema = "ascope.trust/1";

struct FreeDeleter {
  void operator()(char* memory) const { std::free(memory); }
};

Result<std::string> canonical_path(const std::string& path) {
  const std::unique_ptr<char, FreeDeleter> real(::realpath(path.c_str(), nullptr));
  if (real != nullptr) {
    return std::string(real.get());
  }
  if (errno == ENOENT || errno == ENOTDIR) {
    return make_error(ErrorKind::not_found, fmt::format("there is no file '{}'", path));
  }
  return errno_error(fmt::format("looking at '{}'", path), errno);
}

std::string list_path(const std::string& state_dir) {
  return state_dir + "/trust.json";
}

// Paths are JSON keys, so bytes that are not UTF-8 are written as the text of bytes_json.
std::string path_key(const std::string& path) {
  return is_utf8(path) ? path : dump_json(bytes_json(path));
}

Result<Json> read_list(const std::string& state_dir) {
  const std::string path = list_path(state_dir);
  auto text = read_file(path);
  if (!text && text.error().kind == ErrorKind::not_found) {
    return Json::object();
  }
  if (!text) {
    return std::move(text).error().within("reading the list of trusted profiles");
  }
  auto list = parse_json(*text);
  if (!list || !list->is_object() || list->value("schema", Json()) != kSchema || !list->contains("files") ||
      !list->at("files").is_object()) {
    return make_error(ErrorKind::config, fmt::format("{}: not a list of trusted profiles", path),
                      "remove it; 'ascope-sandbox profile trust FILE' makes a new one");
  }
  return list->at("files");
}

// Reads the list under a lock, lets `change` alter it, and writes it back if it says so.
template <typename Change>
Result<bool> update_list(const std::string& state_dir, Change change) {
  ASCOPE_TRY(make_dirs(state_dir));
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, open_file(state_dir + "/trust.lock", O_RDWR | O_CREAT));
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) {
      return errno_error("locking the list of trusted profiles", errno);
    }
  }
  ASCOPE_TRY_ASSIGN(Json files, read_list(state_dir));
  if (!change(files)) {
    return false;
  }
  Json list = Json::object();
  list["schema"] = kSchema;
  list["files"] = std::move(files);
  ASCOPE_TRY(write_file_atomic(list_path(state_dir), dump_json(list, 2) + "\n"));
  return true;
}

}  // namespace

Result<bool> is_trusted_profile(const std::string& state_dir, const std::string& path,
                                std::string_view text) {
  ASCOPE_TRY_ASSIGN(const std::string real, canonical_path(path));
  ASCOPE_TRY_ASSIGN(const Json files, read_list(state_dir));
  const auto found = files.find(path_key(real));
  return found != files.end() && *found == sha256_hex(text);
}

Result<TrustedProfile> trust_profile(const std::string& state_dir, const std::string& path) {
  TrustedProfile trusted;
  ASCOPE_TRY_ASSIGN(trusted.path, canonical_path(path));
  ASCOPE_TRY_ASSIGN(const std::string text, read_file(trusted.path));
  if (text.size() > kMaxProfileBytes) {
    return make_error(ErrorKind::config, fmt::format("{}: larger than {} bytes", path, kMaxProfileBytes));
  }
  trusted.sha256 = sha256_hex(text);
  ASCOPE_TRY_ASSIGN(trusted.changed, update_list(state_dir, [&](Json& files) {
                      Json& entry = files[path_key(trusted.path)];
                      if (entry == trusted.sha256) {
                        return false;
                      }
                      entry = trusted.sha256;
                      return true;
                    }));
  return trusted;
}

Result<bool> distrust_profile(const std::string& state_dir, const std::string& path) {
  auto real = canonical_path(path);
  const std::string key = path_key(real ? *real : absolute_path(path, "/"));
  return update_list(state_dir, [&](Json& files) { return files.erase(key) > 0; });
}

}  // namespace ascope
