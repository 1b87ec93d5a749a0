// SPDX-License-Identifier: Apache-2.0
#include "backends/docker/engine_replies.h"

#include <algorithm>

#include <fmt/format.h>

namespace ascope::docker {

namespace {

constexpr std::size_t kMaxShown = 500;
constexpr std::size_t kMaxLayers = 1000;

Result<Json> get_object(const Json& object, const char* key) {
  const Json* found = member(object, key);
  if (found == nullptr || !found->is_object()) {
    return make_error(ErrorKind::corrupt, fmt::format("member '{}' is not an object", key));
  }
  return *found;
}

Result<std::map<std::string, std::string>> get_binds(const Json& container) {
  std::map<std::string, std::string> out;
  const Json* mounts = member(container, "Mounts");
  if (mounts == nullptr) {
    return out;
  }
  if (!mounts->is_array()) {
    return make_error(ErrorKind::corrupt, "member 'Mounts' is not a list");
  }
  for (const Json& mount : *mounts) {
    ASCOPE_TRY_ASSIGN(const auto type, get_optional_string(mount, "Type"));
    ASCOPE_TRY_ASSIGN(const auto source, get_optional_string(mount, "Source"));
    ASCOPE_TRY_ASSIGN(const auto target, get_optional_string(mount, "Destination"));
    if (type == "bind" && source && target) {
      out[*target] = *source;
    }
  }
  return out;
}

bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= 128 &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

}  // namespace

std::string shown_text(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  while (!out.empty() && (out.back() == ' ' || out.back() == '.')) {
    out.pop_back();
  }
  if (text.size() > kMaxShown) {
    // Not in the middle of a character.
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0x80U) != 0) {
      out.pop_back();
    }
    out += "…";
  }
  return is_utf8(out) ? out : fmt::format("({} bytes that are no text)", text.size());
}

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<std::map<std::string, std::string>> get_labels(const Json& object) {
  std::map<std::string, std::string> out;
  const Json* labels = member(object, "Labels");
  if (labels == nullptr) {
    return out;
  }
  if (!labels->is_object()) {
    return make_error(ErrorKind::corrupt, "member 'Labels' is not an object");
  }
  for (const auto& [key, value] : labels->items()) {
    if (!value.is_string()) {
      return make_error(ErrorKind::corrupt, fmt::format("label '{}' is not a string", shown_text(key)));
    }
    out[key] = value.get<std::string>();
  }
  return out;
}

Result<std::string> get_id(const Json& object) {
  ASCOPE_TRY_ASSIGN(std::string id, get_string(object, "Id"));
  if (!is_id(id)) {
    return make_error(ErrorKind::corrupt, fmt::format("'{}' is no container's id", shown_text(id)));
  }
  return id;
}

std::string bare_name(const std::string& name) {
  return name.starts_with('/') ? name.substr(1) : name;
}

Result<ContainerFacts> parse_container(const Json& json) {
  ContainerFacts out;
  ASCOPE_TRY_ASSIGN(out.id, get_id(json));
  ASCOPE_TRY_ASSIGN(const std::string name, get_string(json, "Name"));
  out.name = bare_name(name);
  ASCOPE_TRY_ASSIGN(out.image_id, get_string(json, "Image"));
  ASCOPE_TRY_ASSIGN(out.created, get_string(json, "Created"));
  ASCOPE_TRY_ASSIGN(const Json state, get_object(json, "State"));
  ASCOPE_TRY_ASSIGN(out.status, get_string(state, "Status"));
  ASCOPE_TRY_ASSIGN(out.running, get_bool(state, "Running"));
  ASCOPE_TRY_ASSIGN(out.paused, get_bool(state, "Paused"));
  ASCOPE_TRY_ASSIGN(out.pid, get_int(state, "Pid"));
  ASCOPE_TRY_ASSIGN(out.exit_code, get_int(state, "ExitCode"));
  ASCOPE_TRY_ASSIGN(const auto error, get_optional_string(state, "Error"));
  out.error = error.value_or("");
  ASCOPE_TRY_ASSIGN(const auto started, get_optional_string(state, "StartedAt"));
  out.ever_started = started && !started->empty() && !started->starts_with("0001-");
  if (const Json* killed = member(state, "OOMKilled"); killed != nullptr && killed->is_boolean()) {
    out.oom_killed = killed->get<bool>();
  }
  ASCOPE_TRY_ASSIGN(const Json config, get_object(json, "Config"));
  ASCOPE_TRY_ASSIGN(out.labels, get_labels(config));
  ASCOPE_TRY_ASSIGN(out.binds, get_binds(json));
  return out;
}

Result<ImageFacts> parse_image(const Json& json) {
  ImageFacts out;
  ASCOPE_TRY_ASSIGN(out.id, get_string(json, "Id"));
  ASCOPE_TRY_ASSIGN(const auto os, get_optional_string(json, "Os"));
  ASCOPE_TRY_ASSIGN(const auto architecture, get_optional_string(json, "Architecture"));
  out.platform = os.value_or("linux") + "/" + architecture.value_or("");
  const Json* config = member(json, "Config");
  if (config == nullptr) {
    return out;
  }
  ASCOPE_TRY_ASSIGN(const auto user, get_optional_string(*config, "User"));
  out.user = user.value_or("");
  if (const Json* environment = member(*config, "Env"); environment != nullptr) {
    if (!environment->is_array()) {
      return make_error(ErrorKind::corrupt, "member 'Env' is not a list");
    }
    for (const Json& item : *environment) {
      if (!item.is_string()) {
        return make_error(ErrorKind::corrupt, "an item of 'Env' is not a string");
      }
      out.environment.push_back(item.get<std::string>());
    }
  }
  return out;
}

Result<void> JsonLines::take(ByteView piece) {
  while (!piece.empty()) {
    const auto end = piece.find('\n');
    rest_.append(piece.substr(0, end));
    if (rest_.size() > (1U << 20U)) {
      return make_error(ErrorKind::corrupt, "a line of the answer has more than 1 MiB");
    }
    if (end == ByteView::npos) {
      return ok();
    }
    ASCOPE_TRY(flush());
    piece.remove_prefix(end + 1);
  }
  return ok();
}

Result<void> JsonLines::flush() {
  const std::string line = std::exchange(rest_, std::string());
  if (line.find_first_not_of(" \t\r") == std::string::npos) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(const Json json, parse_json(line));
  return on_line_(json);
}

Result<void> PullStream::take(const Json& line) {
  if (const Json* detail = member(line, "errorDetail"); detail != nullptr) {
    ASCOPE_TRY_ASSIGN(const auto message, get_optional_string(*detail, "message"));
    problem = message.value_or("the pull failed without saying why");
  }
  if (problem.empty()) {
    ASCOPE_TRY_ASSIGN(const auto message, get_optional_string(line, "error"));
    problem = message.value_or("");
  }
  const Json* detail = member(line, "progressDetail");
  ASCOPE_TRY_ASSIGN(const auto layer, get_optional_string(line, "id"));
  ASCOPE_TRY_ASSIGN(const auto status, get_optional_string(line, "status"));
  if (detail == nullptr || !layer || status != "Downloading" || !detail->contains("current") ||
      layers_.size() > kMaxLayers) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(const std::int64_t current, get_int(*detail, "current"));
  const auto total = detail->contains("total") ? get_int(*detail, "total") : Result<std::int64_t>(0);
  layers_[*layer] = {std::max<std::int64_t>(current, 0), total ? std::max<std::int64_t>(*total, 0) : 0};
  std::uint64_t done = 0;
  std::uint64_t all = 0;
  for (const auto& [name, bytes] : layers_) {
    done += static_cast<std::uint64_t>(bytes.first);
    all += static_cast<std::uint64_t>(bytes.second);
  }
  if (progress_) {
    progress_(done, all);
  }
  return ok();
}

}  // namespace ascope::docker
