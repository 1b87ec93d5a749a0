// SPDX-License-Identifier: Apache-2.0
#include "backends/bubblewrap/id_range.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "backends/local/folder.h"
#include "core/base/file.h"
#include "core/base/hash.h"

namespace ascope::bwrap {

namespace {

constexpr std::uint32_t kDefaultFirst = 0x70000000;
constexpr std::uint32_t kDefaultCount = 0x0fff0000;  // stays below 2^31, where some programs stop

struct Ids {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  bool from_file = false;
};

Result<Ids> configured_ids(const std::string& subuid_path) {
  auto text = read_file(subuid_path, 1U << 20U);
  if (!text && text.error().kind != ErrorKind::not_found) {
    return std::move(text).error();
  }
  std::istringstream lines(text ? *text : std::string());
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("ascope:", 0) != 0) {
      continue;
    }
    Ids ids;
    ids.from_file = true;
    const char* end = line.data() + line.size();
    const auto first = std::from_chars(line.data() + 7, end, ids.first);
    if (first.ec != std::errc{} || first.ptr == end || *first.ptr != ':' ||
        std::from_chars(first.ptr + 1, end, ids.count).ec != std::errc{}) {
      return make_error(ErrorKind::config,
                        "the 'ascope' line of '" + subuid_path + "' is not 'ascope:FIRST:COUNT'");
    }
    return ids;
  }
  return Ids{kDefaultFirst, kDefaultCount, false};
}

// True if our own user namespace maps all of [base, base + 65536).
Result<bool> is_mapped(std::uint64_t base) {
  for (const char* file : {"/proc/self/uid_map", "/proc/self/gid_map"}) {
    ASCOPE_TRY_ASSIGN(const std::string text, read_file(file, 1U << 20U));
    std::istringstream lines(text);
    std::uint64_t inside = 0;
    std::uint64_t outside = 0;
    std::uint64_t count = 0;
    bool found = false;
    while (lines >> inside >> outside >> count) {
      found = found || (base >= inside && base + local::kRangeIds <= inside + count);
    }
    if (!found) {
      return false;
    }
  }
  return true;
}

}  // namespace

Result<std::uint32_t> choose_id_base(const std::string& state_dir, const std::vector<std::uint32_t>& taken,
                                     const std::string& subuid_path) {
  ASCOPE_TRY_ASSIGN(const Ids ids, configured_ids(subuid_path));
  const std::uint64_t slots = ids.count / local::kRangeIds;
  const char* hint =
      "give root a range with a line 'ascope:1879048192:65536000' in '/etc/subuid', or run as an ordinary "
      "user; --allow-host-root does without";
  if (slots == 0 || ids.first < local::kRangeIds || ids.first + ids.count > 0xffff0000U) {
    return make_error(ErrorKind::unsupported, "'" + subuid_path + "' gives 'ascope' no 65536 usable ids",
                      hint);
  }
  const std::uint64_t start =
      ids.from_file ? 0 : static_cast<unsigned char>(sha256_hex(state_dir)[0]) * std::uint64_t{16} % slots;
  for (std::uint64_t i = 0; i < slots; ++i) {
    const std::uint64_t base = ids.first + (start + i) % slots * local::kRangeIds;
    const bool overlaps = std::any_of(taken.begin(), taken.end(), [base](std::uint32_t other) {
      return base < std::uint64_t{other} + local::kRangeIds && other < base + local::kRangeIds;
    });
    if (overlaps) {
      continue;
    }
    ASCOPE_TRY_ASSIGN(const bool mapped, is_mapped(base));
    if (!mapped) {
      return make_error(ErrorKind::unsupported,
                        "root has no range of 65536 ids here: its user namespace lacks them", hint);
    }
    return static_cast<std::uint32_t>(base);
  }
  return make_error(ErrorKind::unsupported, "all id ranges for sandboxes are taken", hint);
}

}  // namespace ascope::bwrap
