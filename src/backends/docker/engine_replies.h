// SPDX-License-Identifier: Apache-2.0
// What an engine's answers hold, checked member by member; shared by the files of Engine only.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "backends/docker/engine.h"

namespace ascope::docker {

// nullptr if there is no such member, or null.
const Json* member(const Json& object, const char* key);
Result<std::map<std::string, std::string>> get_labels(const Json& object);
// Of a container; nothing but hex digits.
Result<std::string> get_id(const Json& object);
std::string bare_name(const std::string& name);  // without the slash in front
Result<ContainerFacts> parse_container(const Json& json);
Result<ImageFacts> parse_image(const Json& json);

// Lines of JSON as they come in pieces.
class JsonLines {
 public:
  using OnLine = std::function<Result<void>(const Json&)>;
  explicit JsonLines(OnLine on_line) : on_line_(std::move(on_line)) {}

  Result<void> take(ByteView piece);
  Result<void> flush();

 private:
  OnLine on_line_;
  std::string rest_;
};

// What a pull stream says: bytes by layer, and the failure that the status does not show.
class PullStream {
 public:
  explicit PullStream(const Engine::PullProgress& progress) : progress_(progress) {}

  Result<void> take(const Json& line);

  std::string problem;

 private:
  const Engine::PullProgress& progress_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> layers_;
};

}  // namespace ascope::docker
