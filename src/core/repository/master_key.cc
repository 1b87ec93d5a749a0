// SPDX-License-Identifier: Apache-2.0
#include "core/repository/master_key.h"

#include <cstdlib>

#include "core/base/file.h"
#include "core/base/process.h"
#include "core/repository/chunks/key.h"

namespace ascope {

namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::size_t kMaxTextBytes = 4096;
constexpr std::string_view kForms = "write file:PATH, env:NAME or command:PROGRAM ARGS";

struct KeySource {
  std::string kind;
  std::string rest;
};

KeySource parts_of(const std::string& source) {
  const std::size_t colon = source.find(':');
  return colon == std::string::npos ? KeySource{}
                                    : KeySource{source.substr(0, colon), source.substr(colon + 1)};
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (text.empty()) {
      return words;
    }
    const std::size_t end = std::min(text.find_first_of(kSpace), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  const std::size_t last = text.find_last_not_of(kSpace);
  return last == std::string_view::npos ? std::string_view() : text.substr(first, last + 1 - first);
}

Error no_key(const std::string& message) {
  return make_error(ErrorKind::denied, "snapshots.key: " + message,
                    "a key is 32 bytes as 64 hex digits or in base64, as 'openssl rand -hex 32' prints");
}

Result<std::string> read_text(const OpContext& ctx, const KeySource& source) {
  if (source.kind == "file") {
    auto text = read_file(source.rest, kMaxTextBytes);
    return text ? std::move(text) : Result<std::string>(no_key(text.error().message));
  }
  if (source.kind == "env") {
    const char* const text = std::getenv(source.rest.c_str());
    return text != nullptr ? Result<std::string>(text)
                           : Result<std::string>(no_key("the variable " + source.rest + " is not set"));
  }
  ProgramCall call;
  call.argv = words_of(source.rest);
  call.max_output_bytes = kMaxTextBytes;
  auto outcome = run_program(ctx, call);
  if (!outcome) {
    return std::move(outcome).error().within("snapshots.key");
  }
  return outcome->succeeded() ? Result<std::string>(std::move(outcome->out))
                              : Result<std::string>(no_key("'" + call.argv.front() + "' failed"));
}

}  // namespace

std::optional<Error> master_key_problem(const std::string& source) {
  if (source.empty()) {
    return std::nullopt;
  }
  const KeySource parts = parts_of(source);
  const bool known = parts.kind == "file" || parts.kind == "env" || parts.kind == "command";
  if (!known || trimmed(parts.rest).empty()) {
    // What was written may be the key itself, so it is not repeated.
    return make_error(ErrorKind::config, "'snapshots.key' does not say where a key is", std::string(kForms));
  }
  if (parts.kind == "file" && parts.rest.front() != '/') {
    return make_error(ErrorKind::config, "'snapshots.key' names the file '" + parts.rest + "'",
                      "write its absolute path");
  }
  return std::nullopt;
}

Result<Secret> read_master_key(const OpContext& ctx, const std::string& source) {
  if (source.empty()) {
    return Secret();
  }
  if (auto problem = master_key_problem(source)) {
    return std::move(*problem);
  }
  ASCOPE_TRY_ASSIGN(const std::string text, read_text(ctx, parts_of(source)));
  const std::string_view written = trimmed(text);
  auto key = written.size() == 2 * chunks::kKeyBytes ? from_hex(written) : from_base64(written);
  if (!key || key->size() != chunks::kKeyBytes) {
    return no_key("what was read is no key");
  }
  return Secret(std::move(*key));
}

}  // namespace ascope
