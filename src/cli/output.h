// SPDX-License-Identifier: Apache-2.0
// What the user sees: results on stdout in the format of -o, everything else on stderr.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"

namespace ascope {

enum class OutputFormat { text, json, jsonl, name };

class Output {
 public:
  OutputFormat format = OutputFormat::text;
  bool quiet = false;
  bool verbose = false;
  bool nul_names = false;  // -0
  bool color_out = false;
  bool color_err = false;
  bool no_input = false;
  bool assume_yes = false;  // --yes

  // Raw bytes to stdout (buffered; flush() reports a full disk or a closed pipe).
  void write(std::string_view bytes);
  Result<void> flush();

  // One result: the object (with "schema") under -o json and jsonl, the text under text, nothing under name.
  void result(const Json& object, std::string_view text);
  // A list: text lines from `text`, one object {"schema", key: [rows]} under json, one row a line under
  // jsonl, names under name (NUL-ended with -0).
  void list(std::string_view schema, std::string_view key, const std::vector<Json>& rows,
            const std::vector<std::string>& names, std::string_view text);

  // Sentences on stderr; not under -q. Control bytes are escaped.
  void status(std::string_view sentence);
  // Shown under -q too: "ascope-sandbox: warning: …".
  void warn(std::string_view sentence);
  void error(const Error& error, int code);

  // Asks on a terminal, y/N; `usage` with hint "--yes" where nobody can be asked. true = go on.
  Result<bool> confirm(std::string_view question);

 private:
  std::string buffer_;
  bool failed_ = false;
  int failed_errno_ = 0;
};

// A column table for people: header row in capitals, two blanks between columns, control bytes escaped.
std::string text_table(const std::vector<std::vector<std::string>>& rows);
// Bytes for a terminal: control bytes and invalid UTF-8 as \xNN.
std::string printable(std::string_view bytes);

// Progress of a long step: bar, rate, ETA on a terminal after half a second; JSON lines with --progress=json;
// else silent.
class Progress {
 public:
  virtual ~Progress() = default;
  // `total` 0 = unknown. Called as often as wanted; draws at most ten times a second.
  virtual void update(std::string_view what, std::uint64_t done_bytes, std::uint64_t total_bytes) = 0;
  virtual void finish() = 0;
};

}  // namespace ascope
