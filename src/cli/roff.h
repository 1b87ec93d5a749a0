// SPDX-License-Identifier: Apache-2.0
// Text as man(7) source: escapes, paragraphs, tagged items, examples.
#pragma once

#include <string>
#include <string_view>

namespace ascope {

// Escapes for running text: backslashes, quotes, dashes that begin a word, what is not ASCII.
std::string roff_escape(std::string_view text);
// Escapes for what is typed: each dash stays a dash when copied.
std::string roff_literal(std::string_view text);
// Running text in lines of at most 78 columns, as a page's source must have; no line begins a macro.
std::string roff_fill(std::string_view text);

class RoffPage {
 public:
  // `name` "ascope-sandbox-start", `section` 1 or 5; `summary` is the line of the NAME section.
  RoffPage(std::string_view name, int section, std::string_view summary);

  RoffPage& section(std::string_view title);
  RoffPage& subsection(std::string_view title);
  // Paragraphs separated by an empty line; lines that begin with a blank stand as they are.
  RoffPage& text(std::string_view paragraphs);
  // `tag` is source (already escaped, with fonts).
  RoffPage& item(std::string_view tag, std::string_view text);
  RoffPage& example(std::string_view lines);
  // A line of source.
  RoffPage& raw(std::string_view source);
  // "ascope-sandbox(1), …": pages with their sections, in the given order.
  RoffPage& see_also(std::string_view pages);

  [[nodiscard]] const std::string& source() const { return out_; }

 private:
  std::string out_;
  bool fresh_ = true;  // right after a heading, where a paragraph macro would be empty
};

}  // namespace ascope
