// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/bytes.h"
#include "core/base/fd.h"
#include "core/base/op_context.h"

namespace ascope {

namespace {

constexpr std::size_t kFlushBytes = 64U << 10U;

void to_stderr(const std::string& line) {
  // stderr that cannot be written has nowhere to be reported.
  static_cast<void>(write_all(STDERR_FILENO, line).has_value());
}

// Display columns of UTF-8 text, counting code points (good for Latin and Cyrillic; wide scripts only shift a
// column).
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

void Output::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kFlushBytes) {
    static_cast<void>(flush().has_value());  // remembered in failed_, reported at the end
  }
}

Result<void> Output::flush() {
  if (!failed_ && !buffer_.empty()) {
    const auto written = write_all(STDOUT_FILENO, buffer_);
    failed_ = !written.has_value();
    failed_errno_ = failed_ ? errno : 0;
  }
  buffer_.clear();
  if (failed_) {
    return errno_error("writing to stdout", failed_errno_ == 0 ? EIO : failed_errno_);
  }
  return ok();
}

void Output::result(const Json& object, std::string_view text) {
  switch (format) {
    case OutputFormat::text:
      write(text);
      break;
    case OutputFormat::json:
      write(dump_json(object, 2) + "\n");
      break;
    case OutputFormat::jsonl:
      write(dump_json(object) + "\n");
      break;
    case OutputFormat::name:
      break;
  }
}

void Output::list(std::string_view schema, std::string_view key, const std::vector<Json>& rows,
                  const std::vector<std::string>& names, std::string_view text) {
  switch (format) {
    case OutputFormat::text:
      write(text);
      break;
    case OutputFormat::json: {
      Json array = Json::array();
      for (const auto& row : rows) {
        array.push_back(row);
      }
      Json object{{"schema", std::string(schema)}};
      object[std::string(key)] = std::move(array);
      write(dump_json(object, 2) + "\n");
      break;
    }
    case OutputFormat::jsonl:
      for (const auto& row : rows) {
        write(dump_json(row) + "\n");
      }
      break;
    case OutputFormat::name:
      for (const auto& name : names) {
        write(name);
        write(nul_names ? std::string_view("\0", 1) : "\n");
      }
      break;
  }
}

void Output::status(std::string_view sentence) {
  if (!quiet) {
    to_stderr(printable(sentence) + "\n");
  }
}

void Output::warn(std::string_view sentence) {
  const std::string_view word = color_err ? "\033[33mwarning:\033[0m" : "warning:";
  to_stderr(fmt::format("ascope-sandbox: {} {}\n", word, printable(sentence)));
}

void Output::error(const Error& error, int code) {
  if (format == OutputFormat::json || format == OutputFormat::jsonl) {
    const Json object{{"error",
                       {{"kind", std::string(to_string(error.kind))},
                        {"message", bytes_json(error.message)},
                        {"hint", bytes_json(error.hint)},
                        {"exit_code", code}}}};
    to_stderr(dump_json(object) + "\n");
    return;
  }
  const std::string_view word = color_err ? "\033[31merror:\033[0m" : "error:";
  std::string text = fmt::format("ascope-sandbox: {} {}\n", word, printable(error.message));
  if (!error.hint.empty()) {
    text += fmt::format("hint: {}\n", printable(error.hint));
  }
  to_stderr(text);
}

Result<bool> Output::confirm(std::string_view question) {
  if (assume_yes) {
    return true;
  }
  if (no_input || ::isatty(STDIN_FILENO) == 0 || ::isatty(STDERR_FILENO) == 0) {
    return make_error(ErrorKind::usage, std::string(question) + " — nobody can be asked here",
                      "add --yes if you mean it");
  }
  to_stderr(printable(question) + " [y/N] ");
  std::string answer;
  while (true) {
    if (interrupt_signal.load() != 0) {
      Error error = make_error(ErrorKind::cancelled, "interrupted at the question");
      error.signal = interrupt_signal.load();
      return error;
    }
    pollfd wait{STDIN_FILENO, POLLIN, 0};
    if (::poll(&wait, 1, 200) <= 0) {
      continue;
    }
    std::array<char, 1> c{};
    ASCOPE_TRY_ASSIGN(const std::size_t count, read_some(STDIN_FILENO, c));
    if (count == 0 || c[0] == '\n') {
      break;
    }
    answer.push_back(c[0]);
  }
  return answer == "y" || answer == "Y" || answer == "yes";
}

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  std::vector<std::vector<std::string>> cells;
  for (const auto& row : rows) {
    auto& out = cells.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      out.push_back(printable(row[i]));
      widths.resize(std::max(widths.size(), row.size()));
      widths[i] = std::max(widths[i], columns_of(out[i]));
    }
  }
  std::string text;
  for (const auto& row : cells) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) {
        line.append(widths[i] - columns_of(row[i]) + 2, ' ');
      }
    }
    while (!line.empty() && line.back() == ' ') {
      line.pop_back();
    }
    text += line + "\n";
  }
  return text;
}

std::string printable(std::string_view bytes) {
  const bool valid = is_utf8(bytes);
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    // C1 control characters are U+0080–U+009F: 0xC2 0x80–0x9F in UTF-8; terminals obey them.
    const bool c1 =
        valid && byte == 0xC2 && i + 1 < bytes.size() && static_cast<unsigned char>(bytes[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F || c1 || (!valid && byte >= 0x80)) {
      out += fmt::format("\\x{:02x}", byte);
      if (c1) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[++i]));
      }
    } else {
      out.push_back(bytes[i]);
    }
  }
  return out;
}

}  // namespace ascope
