// SPDX-License-Identifier: Apache-2.0
#include "cli/roff.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace ascope {

namespace {

constexpr std::string_view kManualDate = "2026-11-29";  // changed with the version
constexpr std::size_t kColumns = 78;

// The code point that begins at `at`, which moves behind it. The text is ours: valid UTF-8.
unsigned take_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  const unsigned first = byte(at);
  const unsigned more = first < 0xC0 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  unsigned value = more == 0 ? first : first & (0x3FU >> more);
  ++at;
  for (unsigned i = 0; i < more && at < text.size(); ++i, ++at) {
    value = (value << 6U) | (byte(at) & 0x3FU);
  }
  return value;
}

std::string escape(std::string_view text, bool literal) {
  std::string out;
  char before = ' ';
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const unsigned point = take_code_point(text, at);
    if (point >= 0x80) {
      out += fmt::format("\\[u{:04X}]", point);
    } else if (c == '\\') {
      out += "\\e";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '^') {
      out += "\\(ha";
    } else if (c == '~') {
      out += "\\(ti";
    } else if (c == '-' && (literal || std::isalnum(static_cast<unsigned char>(before)) == 0)) {
      out += "\\-";
    } else {
      out += c;
    }
    before = c;
  }
  return out;
}

std::string protect(std::string line) {
  if (!line.empty() && (line[0] == '.' || line[0] == '\'')) {
    line.insert(0, "\\&");
  }
  return line;
}

}  // namespace

std::string roff_escape(std::string_view text) {
  return escape(text, false);
}

std::string roff_literal(std::string_view text) {
  return escape(text, true);
}

std::string roff_fill(std::string_view text) {
  std::string out;
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto end = std::min(text.find_first_of(" \n", at), text.size());
    if (end > at) {
      const std::string word = roff_escape(text.substr(at, end - at));
      if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
        out += protect(std::move(line)) + "\n";
        line.clear();
      }
      line += (line.empty() ? "" : " ") + word;
    }
    at = end + 1;
  }
  return line.empty() ? out : out + protect(std::move(line)) + "\n";
}

RoffPage::RoffPage(std::string_view name, int section, std::string_view summary) {
  std::string title(name);
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  out_ = ".\\\" Written from the program's declarations: see CONTRIBUTING.md.\n";
  out_ += fmt::format(".TH {} {} {} \"ascope-sandbox {}\"\n", title, section, kManualDate, ASCOPE_VERSION);
  this->section("NAME");
  out_ += roff_fill(fmt::format("{} - {}", name, summary));
  fresh_ = false;
}

RoffPage& RoffPage::section(std::string_view title) {
  out_ += fmt::format(".SH {}\n", title);
  fresh_ = true;
  return *this;
}

RoffPage& RoffPage::subsection(std::string_view title) {
  out_ += fmt::format(".SS {}\n", roff_escape(title));
  fresh_ = true;
  return *this;
}

RoffPage& RoffPage::raw(std::string_view source) {
  out_ += fmt::format("{}\n", source);
  fresh_ = false;
  return *this;
}

RoffPage& RoffPage::text(std::string_view paragraphs) {
  while (!paragraphs.empty()) {
    const auto end = std::min(paragraphs.find("\n\n"), paragraphs.size());
    const std::string_view paragraph = paragraphs.substr(0, end);
    if (paragraph.starts_with(' ')) {
      example(paragraph);
    } else {
      out_ += fresh_ ? "" : ".PP\n";
      out_ += roff_fill(paragraph);
      fresh_ = false;
    }
    paragraphs.remove_prefix(std::min(end + 2, paragraphs.size()));
  }
  return *this;
}

RoffPage& RoffPage::item(std::string_view tag, std::string_view text) {
  out_ += fmt::format(".TP\n{}\n{}", tag, roff_fill(text));
  fresh_ = false;
  return *this;
}

RoffPage& RoffPage::example(std::string_view lines) {
  out_ += fresh_ ? "" : ".PP\n";
  out_ += ".RS 4\n.EX\n";
  while (!lines.empty()) {
    const auto end = std::min(lines.find('\n'), lines.size());
    const std::string line = protect(roff_literal(lines.substr(0, end)));
    out_ += line.empty() ? ".sp\n" : line + "\n";
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  out_ += ".EE\n.RE\n";
  fresh_ = false;
  return *this;
}

RoffPage& RoffPage::see_also(std::string_view pages) {
  section("SEE ALSO");
  while (!pages.empty()) {
    const auto end = std::min(pages.find(' '), pages.size());
    const std::string_view page = pages.substr(0, end);
    const auto open = page.find('(');
    pages.remove_prefix(std::min(end + 1, pages.size()));
    raw(fmt::format(".BR {} {}{}", roff_literal(page.substr(0, open)), page.substr(open),
                    pages.empty() ? "" : ","));
  }
  return *this;
}

}  // namespace ascope
