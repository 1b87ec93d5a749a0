// SPDX-License-Identifier: Apache-2.0
// A list of notes that a hostile tree cannot make long: a thousand, then one "and N more".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tree/tree.h"

namespace ascope {

class NoteList {
 public:
  void add(std::string path, std::string what) {
    constexpr std::size_t kMost = 1000;
    if (notes_.size() < kMost) {
      notes_.push_back({std::move(path), std::move(what)});
      return;
    }
    ++more_;
    if (notes_.size() == kMost) {
      notes_.emplace_back();
    }
    notes_.back().what = "and " + std::to_string(more_) + " more";
  }
  [[nodiscard]] const std::vector<TreeNote>& all() const { return notes_; }
  [[nodiscard]] std::vector<TreeNote> take() { return std::move(notes_); }

 private:
  std::vector<TreeNote> notes_;
  std::size_t more_ = 0;
};

}  // namespace ascope
