// SPDX-License-Identifier: Apache-2.0
// The rules that an entry must pass before an apply touches anything for it (protocols 5.4), and what becomes
// of its owner, mode and attributes under the options.
#pragma once

#include <string>
#include <unordered_set>

#include "core/tree/applier.h"
#include "core/tree/notes.h"
#include "core/tree/path_set.h"

namespace ascope {

// What an apply knows of a path.
namespace mark {
inline constexpr std::uint8_t kFolder = 0;
inline constexpr std::uint8_t kImplicit = 1;  // a folder that no entry named
inline constexpr std::uint8_t kKept = 2;      // not a folder; what is in place stays
inline constexpr std::uint8_t kPlaced = 3;    // not a folder; comes from the source
inline constexpr std::uint8_t kLeftOut = 4;   // in the source, not applied
}  // namespace mark

class Admission {
 public:
  explicit Admission(const ApplyOptions& options);

  // Checks `entry` against all before it and changes its owner to host ids (UINT32_MAX: not to be set), its
  // mode and attributes to what may be kept. false: it is left out (said in the notes where the caller did
  // not ask for it).
  Result<bool> admit(TreeEntry& entry);
  // For an admitted thing that stays as it is, or that could not be made after all.
  void set_mark(const std::string& path, std::uint8_t value) { seen_.set(path, value); }
  [[nodiscard]] std::optional<std::uint8_t> mark_of(std::string_view path) const { return seen_.find(path); }

  // Of paths on disk: is it left alone; does it hold such a path; is it asked for; does it lead to what is
  // asked for?
  [[nodiscard]] bool is_skipped(std::string_view path) const;
  [[nodiscard]] bool holds_skipped(const std::string& path) const { return skip_parents_.contains(path); }
  [[nodiscard]] bool is_asked_for(std::string_view path) const;
  [[nodiscard]] bool leads_to_asked(std::string_view path) const;

  [[nodiscard]] std::uint64_t owners_not_set() const { return owners_not_set_; }
  void count_owner_not_set() { ++owners_not_set_; }
  NoteList& notes() { return notes_; }

 private:
  Result<void> check_fields(const TreeEntry& entry) const;
  Result<void> check_parents(const std::string& path);
  Result<bool> check_link(const TreeEntry& entry);
  bool may_make(const TreeEntry& entry);
  void normalise(TreeEntry& entry);
  void normalise_owner(TreeEntry& entry);

  const ApplyOptions& options_;
  std::unordered_set<std::string> skip_;
  std::unordered_set<std::string> skip_parents_;
  PathSet seen_;
  NoteList notes_;
  std::uint64_t owners_not_set_ = 0;
};

}  // namespace ascope
