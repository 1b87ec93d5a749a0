// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/repository/chunks/chunker.h"
#include "fakes/sample_bytes.h"

using namespace ascope;          // NOLINT(google-build-using-namespace)
using namespace ascope::chunks;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<std::string> cut(ByteView data, std::size_t piece,
                             const GearTable& gear = make_gear(kOpenGearSeed),
                             ChunkSizes sizes = kDefaultSizes) {
  Chunker chunker(gear, sizes);
  std::vector<std::string> out(1);
  while (!data.empty()) {
    const auto step = chunker.feed(data.substr(0, piece));
    if (step.taken == 0) {
      FAIL("nothing was taken");
    }
    out.back() += data.substr(0, step.taken);
    data.remove_prefix(step.taken);
    if (step.cut) {
      out.emplace_back();
    }
  }
  if (out.back().empty()) {
    out.pop_back();
  }
  return out;
}

}  // namespace

TEST_CASE("chunker: sizes are kept, the average is near, pieces of input do not matter") {
  const std::string data = test::noise(8U << 20U, 7);
  const auto whole = cut(data, data.size());
  std::string joined;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(whole[i].size() <= kDefaultSizes.max);
    CHECK((whole[i].size() > kDefaultSizes.min || i + 1 == whole.size()));
    joined += whole[i];
  }
  CHECK(joined == data);
  CHECK(whole.size() > (8U << 20U) / (2 * kDefaultSizes.avg));
  CHECK(whole.size() < (8U << 20U) / (kDefaultSizes.avg / 2));
  CHECK(cut(data, 1) == whole);
  CHECK(cut(data, 4093) == whole);
  CHECK(cut(std::string(3U << 20U, '\0'), 1U << 20U).size() == 6);
}

TEST_CASE("chunker: known cut points") {
  // From a second implementation of the same text, in Python. Other cut points would make every stored chunk
  // new.
  const std::string data = test::noise(1U << 20U, 1);
  std::vector<std::size_t> sizes;
  for (const std::string& one : cut(data, data.size())) {
    sizes.push_back(one.size());
  }
  CHECK(sizes == std::vector<std::size_t>{123224, 90722, 76690, 88298, 75464, 81340, 160276, 86828, 77246,
                                          96399, 44689, 38647, 8753});
  CHECK(make_gear(kOpenGearSeed)[0] == 17120190128729625627U);
  CHECK(make_gear(kOpenGearSeed)[255] == 17678004241186986885U);
}

TEST_CASE("chunker: an insertion changes the chunks beside it only") {
  const std::string data = test::noise(8U << 20U, 3);
  for (const std::size_t at : {std::size_t{0}, std::size_t{100'000}, std::size_t{4U << 20U}}) {
    CAPTURE(at);
    std::string other = data;
    other.insert(at, "inserted");
    const auto before = cut(data, data.size());
    const std::set<std::string> known(before.begin(), before.end());
    std::size_t fresh = 0;
    for (const std::string& one : cut(other, other.size())) {
      fresh += known.contains(one) ? 0 : 1;
    }
    CHECK(fresh >= 1);
    CHECK(fresh <= 4);
  }
}

TEST_CASE("chunker: another seed cuts elsewhere; sizes of strangers are checked") {
  const std::string data = test::noise(2U << 20U, 5);
  CHECK(cut(data, data.size()) != cut(data, data.size(), make_gear("another seed")));
  CHECK(are_sane(kDefaultSizes));
  CHECK(are_sane({1U << 10U, 4U << 10U, 16U << 10U}));
  CHECK_FALSE(are_sane({0, 64U << 10U, 512U << 10U}));
  CHECK_FALSE(are_sane({16U << 10U, 60'000, 512U << 10U}));
  CHECK_FALSE(are_sane({16U << 10U, 64U << 10U, 2U << 20U}));
  CHECK_FALSE(are_sane({64U << 10U, 64U << 10U, 512U << 10U}));
}
