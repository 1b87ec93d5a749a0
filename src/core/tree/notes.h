// SPDX-License-Identifier: Apache-2.0
// A list of at most kMostTreeNotes notes and one on how many more there are.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tree/tree.h"

namespace ascope {

class NoteList {
 public:
  void add(std::string path, std::string what) {
    if (notes_.size() < kMostTreeNotes) {
      notes_.push_back({std::move(path), std::move(what)});
      return;
    }
    ++more_;
    if (notes_.size() == kMostTreeNotes) {
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
