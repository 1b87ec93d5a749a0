// SPDX-License-Identifier: Apache-2.0
#include "core/tree/apply_plan.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "core/tree/entry_codec.h"

namespace ascope {

namespace {

constexpr std::size_t kWindowBytes = 256U << 10U;
constexpr std::size_t kHeaderBytes = 13;  // action, number, length

}  // namespace

Result<std::uint64_t> ApplyPlan::add(PlanAction action, std::uint64_t number, const TreeEntry& entry) {
  const std::uint64_t place = size_;
  std::string bytes;
  encode_entry(entry, bytes);
  const std::size_t before = pending_.size();
  put_number(pending_, static_cast<std::uint64_t>(action), 1);
  put_number(pending_, number, 8);
  put_number(pending_, bytes.size(), 4);
  pending_ += bytes;
  size_ += pending_.size() - before;
  if (pending_.size() >= kWindowBytes) {
    ASCOPE_TRY(flush());
  }
  return place;
}

Result<void> ApplyPlan::flush() {
  ASCOPE_TRY(write_all(file_.get(), pending_));
  pending_.clear();
  return ok();
}

Result<bool> ApplyPlan::fetch(std::uint64_t place, std::size_t count, ByteView& out) {
  if (place < window_at_ || place + count > window_at_ + window_.size()) {
    // A little before `place` too: the way back through the folders reads towards the front.
    window_at_ = place - std::min<std::uint64_t>(place, kWindowBytes / 2);
    window_.resize(kWindowBytes + count);
    std::size_t have = 0;
    while (have < window_.size()) {
      const ssize_t got = ::pread(file_.get(), window_.data() + have, window_.size() - have,
                                  static_cast<off_t>(window_at_ + have));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        return errno_error("reading the plan of an apply", errno);
      }
      if (got == 0) {
        break;
      }
      have += static_cast<std::size_t>(got);
    }
    window_.resize(have);
  }
  if (place + count > window_at_ + window_.size()) {
    return false;
  }
  out = ByteView(window_).substr(place - window_at_, count);
  return true;
}

Result<bool> ApplyPlan::read(std::uint64_t& place, PlanRecord& record) {
  if (place >= size_) {
    return false;
  }
  ByteView bytes;
  ASCOPE_TRY_ASSIGN(bool whole, fetch(place, kHeaderBytes, bytes));
  if (whole) {
    record.action = static_cast<PlanAction>(get_number(bytes, 1));
    record.number = get_number(bytes.substr(1), 8);
    const std::uint64_t length = get_number(bytes.substr(9), 4);
    ASCOPE_TRY_ASSIGN(whole, fetch(place + kHeaderBytes, length, bytes));
    place += kHeaderBytes + length;
  }
  if (!whole) {
    return make_error(ErrorKind::io, "the plan of an apply is cut");
  }
  ASCOPE_TRY(decode_entry(bytes, record.entry));
  return true;
}

}  // namespace ascope
