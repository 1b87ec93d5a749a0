// SPDX-License-Identifier: Apache-2.0
// The packs that one save knows of: those of its parent, with the parent's numbers, then others as they are
// met.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "core/repository/chunks/root.h"
#include "core/repository/chunks/types.h"

namespace ascope::chunks {

class SessionPacks {
 public:
  enum class Origin { parent, own, met };

  // The parent's list, first of all.
  void add_parent(const std::vector<PackUse>& packs) {
    for (const PackUse& use : packs) {
      add(use.name, Origin::parent, use.size_bytes);
    }
  }
  // The number of a pack. A size of 0 is not known yet.
  std::uint32_t add(const PackName& name, Origin origin, std::uint64_t size_bytes) {
    const auto [found, fresh] = numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (fresh) {
      names_.push_back(name);
      state_.push_back({});
    }
    State& state = state_[found->second];
    state.size_bytes = size_bytes != 0 ? size_bytes : state.size_bytes;
    state.unsure = state.unsure || origin != Origin::parent;
    return found->second;
  }
  // A reference that the manifest will hold.
  void use(const ChunkRef& ref) {
    State& state = state_[ref.pack];
    state.used = true;
    state.used_bytes += stored_share(ref);
  }
  [[nodiscard]] const std::vector<PackName>& names() const { return names_; }
  [[nodiscard]] const std::map<PackName, std::uint32_t>& numbers() const { return numbers_; }

  // The manifest's list, and what each number becomes in it.
  struct Uses {
    std::vector<PackUse> packs;
    std::vector<std::uint32_t> number_of;
    // That the parent does not vouch for: it does not name them, or a chunk was found in them that it may not
    // use, and that a repack would leave behind.
    std::vector<PackName> unsure;
  };
  [[nodiscard]] Uses uses() const {
    Uses out;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      out.number_of.push_back(static_cast<std::uint32_t>(out.packs.size()));
      if (state_[i].used) {
        out.packs.push_back(
            {names_[i], state_[i].size_bytes, std::min(state_[i].used_bytes, state_[i].size_bytes)});
        if (state_[i].unsure) {
          out.unsure.push_back(names_[i]);
        }
      }
    }
    return out;
  }

 private:
  struct State {
    std::uint64_t size_bytes = 0;
    std::uint64_t used_bytes = 0;
    bool used = false;
    bool unsure = false;
  };
  std::vector<PackName> names_;
  std::vector<State> state_;
  std::map<PackName, std::uint32_t> numbers_;
};

}  // namespace ascope::chunks
