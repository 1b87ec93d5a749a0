// SPDX-License-Identifier: Apache-2.0
#include "core/tree/path_set.h"

#include <bit>
#include <cstring>
#include <sys/random.h>

namespace ascope {

namespace {

constexpr std::uint64_t kMarkBits = 15;
constexpr std::size_t kFirstSlots = 1024;

// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, reference variant).
class SipState {
 public:
  SipState(std::uint64_t k0, std::uint64_t k1)
      : v0_(k0 ^ 0x736f6d6570736575U),
        v1_(k1 ^ 0x646f72616e646f6dU ^ 0xeeU),
        v2_(k0 ^ 0x6c7967656e657261U),
        v3_(k1 ^ 0x7465646279746573U) {}
  void word(std::uint64_t m) {
    v3_ ^= m;
    rounds(2);
    v0_ ^= m;
  }
  std::uint64_t first() {
    v2_ ^= 0xeeU;
    rounds(4);
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }
  std::uint64_t second() {
    v1_ ^= 0xddU;
    rounds(4);
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0_ += v1_;
      v1_ = std::rotl(v1_, 13) ^ v0_;
      v0_ = std::rotl(v0_, 32);
      v2_ += v3_;
      v3_ = std::rotl(v3_, 16) ^ v2_;
      v0_ += v3_;
      v3_ = std::rotl(v3_, 21) ^ v0_;
      v2_ += v1_;
      v1_ = std::rotl(v1_, 17) ^ v2_;
      v2_ = std::rotl(v2_, 32);
    }
  }
  std::uint64_t v0_, v1_, v2_, v3_;
};

}  // namespace

PathSet::PathSet() : key_{}, slots_(kFirstSlots) {
  // Cannot fail for so few bytes once the kernel has started up.
  static_cast<void>(::getrandom(key_, sizeof key_, 0));
}

PathSet::Slot PathSet::hash(std::string_view path) const {
  SipState state(key_[0], key_[1]);
  const std::size_t length = path.size();
  while (path.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, path.data(), 8);
    state.word(word);
    path.remove_prefix(8);
  }
  std::uint64_t last = 0;
  std::memcpy(&last, path.data(), path.size());
  state.word(last | (static_cast<std::uint64_t>(length & 255U) << 56U));
  Slot out;
  out.high = state.first();
  out.low = state.second() & ~kMarkBits;
  return out;
}

std::size_t PathSet::place(const Slot& wanted) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = wanted.high & mask;
  while (slots_[at].low != 0 &&
         (slots_[at].high != wanted.high || (slots_[at].low & ~kMarkBits) != wanted.low)) {
    at = (at + 1) & mask;
  }
  return at;
}

std::optional<std::uint8_t> PathSet::find(std::string_view path) const {
  const Slot& slot = slots_[place(hash(path))];
  if (slot.low == 0) {
    return std::nullopt;
  }
  return static_cast<std::uint8_t>((slot.low & kMarkBits) - 1);
}

void PathSet::set(std::string_view path, std::uint8_t mark) {
  if (count_ * 4 >= slots_.size() * 3) {
    grow();
  }
  Slot wanted = hash(path);
  Slot& slot = slots_[place(wanted)];
  count_ += slot.low == 0 ? 1 : 0;
  wanted.low |= static_cast<std::uint64_t>(mark) + 1;
  slot = wanted;
}

void PathSet::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.low != 0) {
      Slot key = slot;
      key.low &= ~kMarkBits;
      slots_[place(key)] = slot;
    }
  }
}

}  // namespace ascope
