// SPDX-License-Identifier: Apache-2.0
#include "store/json_layout.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/slot_key.h"

namespace ascope {

namespace {

constexpr std::size_t kMaxSegment = 255;  // NAME_MAX of every local file system
constexpr std::size_t kMaxEncoded = 191;  // bytes whose Base64 has at most kMaxSegment characters
constexpr std::string_view kSlotPrefix = "sandbox/";
constexpr std::string_view kSafe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
constexpr Millis kLongestWait{30'000};
constexpr Millis kLockPoll{2};

// AgentScope's test for a segment that needs no encoding, but for "." and "..", which it lets pass (D-47).
bool is_plain(std::string_view name) {
  return !name.empty() && name.find_first_not_of(kSafe) == std::string_view::npos && name != "." &&
         name != "..";
}

// The slot whose Base64 form this segment is. Base64 is itself plain, so a segment alone does not tell
// whether it was encoded. What an agent makes for a slot always is, for a slot's name has a '/', and then
// begins like "sandbox/" encoded; a plain session id that does the same by chance cannot be told apart by
// Java either.
std::optional<std::string> decoded_slot(std::string_view segment) {
  if (!segment.starts_with("c2FuZGJveC")) {  // the first 60 of the 64 bits of "sandbox/"
    return std::nullopt;
  }
  auto name = from_base64url(segment);
  if (!name || !name->starts_with(kSlotPrefix) || to_base64url(name.value()) != segment) {
    return std::nullopt;
  }
  return std::move(name).value();
}

Result<std::string> segment_of(std::string_view slot) {
  if (slot.empty()) {
    return make_error(ErrorKind::internal, "a slot without a name");
  }
  if (is_plain(slot) && slot.size() <= kMaxSegment) {
    if (const auto other = decoded_slot(slot)) {
      return make_error(ErrorKind::unsupported,
                        "a json: store keeps '" + std::string(slot) + "' in the folder of '" + *other + "'");
    }
    return std::string(slot);
  }
  return to_base64url(store_name_within(slot, kMaxEncoded));
}

// True if the segment alone gives the name back.
bool says_its_name(const std::string& segment, std::string_view slot) {
  return decoded_slot(segment).value_or(segment) == slot;
}

bool is_java_form(std::string_view file);

void write_java_form(const Json& value, std::size_t indent, std::string& out) {
  if (value.is_array()) {
    out += "[ ";
    for (std::size_t i = 0; i < value.size(); ++i) {
      out += i == 0 ? "" : ", ";
      write_java_form(value[i], indent, out);
    }
    out += value.empty() ? "]" : " ]";
    return;
  }
  if (!value.is_object()) {
    out += dump_json(value);
    return;
  }
  if (value.empty()) {
    out += "{ }";
    return;
  }
  out += "{";
  bool first = true;
  for (const auto& [key, member] : value.items()) {
    out += first ? "\n" : ",\n";
    first = false;
    out.append(indent + 2, ' ');
    out += dump_json(Json(key)) + " : ";
    write_java_form(member, indent + 2, out);
  }
  out += "\n";
  out.append(indent, ' ');
  out += "}";
}

// The Java form of a JSON object.
std::optional<Json> parse_object(std::string_view text) {
  if (text.empty() || text.front() != '{') {
    return std::nullopt;
  }
  auto value = parse_json(text);
  return value && value->is_object() ? std::optional(std::move(value).value()) : std::nullopt;
}

std::string java_form(const Json& value) {
  std::string out;
  write_java_form(value, 0, out);
  return out;
}

bool is_java_form(std::string_view file) {
  const auto value = parse_object(file);
  return value && java_form(*value) == file && dump_json(*value) != file;
}

std::string_view without_newlines(std::string_view text) {
  while (text.ends_with('\n')) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

Result<std::string> JsonLayout::folder(std::string_view slot) const {
  ASCOPE_TRY_ASSIGN(const std::string segment, segment_of(slot));
  return users_ + "/" + segment;
}

Result<std::string> JsonLayout::make_folder(std::string_view slot) const {
  ASCOPE_TRY_ASSIGN(const std::string segment, segment_of(slot));
  std::string path = users_ + "/" + segment;
  ASCOPE_TRY_ASSIGN(const bool exists, path_exists(path));
  if (!exists) {
    ASCOPE_TRY(make_dirs(path));
    ASCOPE_TRY(sync_dir(users_));
    ASCOPE_TRY(sync_dir(users_.substr(0, users_.rfind('/'))));
  }
  if (!says_its_name(segment, slot)) {
    ASCOPE_TRY(create_file(path + "/" + std::string(kSlotNameFile), slot));
  }
  return path;
}

Result<std::string> JsonLayout::slot_of(const std::string& segment) const {
  const auto decoded = decoded_slot(segment);
  if (decoded && decoded->find("/~") == std::string::npos) {
    return *decoded;
  }
  auto full = read_file(users_ + "/" + segment + "/" + std::string(kSlotNameFile));
  if (!full && full.error().kind != ErrorKind::not_found) {
    return std::move(full).error();
  }
  if (full) {
    const auto its_segment = segment_of(full.value());
    if (its_segment && its_segment.value() == segment) {
      return full;
    }
  }
  return decoded.value_or(segment);
}

Result<std::vector<std::string>> JsonLayout::slots() const {
  auto segments = list_dir(users_);
  if (!segments) {
    if (segments.error().kind == ErrorKind::not_found) {
      return std::vector<std::string>{};
    }
    return std::move(segments).error();
  }
  std::vector<std::string> out;
  for (const std::string& segment : segments.value()) {
    ASCOPE_TRY_ASSIGN(const std::string file, json_value_file(users_ + "/" + segment, kRecordKey));
    ASCOPE_TRY_ASSIGN(const bool has_record, path_exists(file));
    if (has_record) {
      ASCOPE_TRY_ASSIGN(std::string slot, slot_of(segment));
      out.push_back(std::move(slot));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<std::string> json_value_file(const std::string& folder, std::string_view key) {
  if (!is_plain(key) || key.front() == '.' || key.size() > kMaxSegment - 5) {
    return make_error(ErrorKind::internal, "state key '" + std::string(key) + "' is no file name");
  }
  return folder + "/" + std::string(key) + ".json";
}

// Three kinds of values: compact objects go to disk in Java form; values that are in Java form already, with
// any number of newlines behind, get one newline more; all others stay. So each file has one value and the
// other way round.
std::string to_java_form(std::string_view value) {
  if (is_java_form(without_newlines(value))) {
    return std::string(value) + "\n";
  }
  const auto object = parse_object(value);
  return object && dump_json(*object) == value ? java_form(*object) : std::string(value);
}

std::string from_java_form(std::string_view file) {
  const std::string_view core = without_newlines(file);
  if (!is_java_form(core)) {
    return std::string(file);
  }
  if (core.size() < file.size()) {
    file.remove_suffix(1);
    return std::string(file);
  }
  return dump_json(*parse_object(core));
}

Result<FolderLock> FolderLock::acquire(const OpContext& ctx, const JsonLayout& layout,
                                       std::string_view slot) {
  const OpContext bounded = ctx.with_timeout(kLongestWait);
  while (true) {
    ASCOPE_TRY(bounded.check("waiting for the lock of a slot's folder"));
    ASCOPE_TRY_ASSIGN(std::string folder, layout.make_folder(slot));
    const std::string path = folder + "/_ascope.lock";
    auto opened = open_file(path, O_RDWR | O_CREAT);
    if (!opened && opened.error().kind == ErrorKind::not_found) {
      continue;  // the folder was removed in between
    }
    if (!opened) {
      return std::move(opened).error();
    }
    UniqueFd fd = std::move(opened).value();
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return errno_error("locking '" + path + "'", errno);
      }
      ASCOPE_TRY(bounded.sleep(kLockPoll, "waiting for '" + path + "'"));
    }
    struct stat held{};
    struct stat named{};
    if (::fstat(fd.get(), &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
        held.st_dev == named.st_dev) {
      return FolderLock(std::move(fd), std::move(folder));
    }
  }
}

}  // namespace ascope
