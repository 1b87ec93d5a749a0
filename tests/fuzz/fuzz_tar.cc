// SPDX-License-Identifier: Apache-2.0
// A tar of a stranger, compressed or not.
#include "core/repository/tar.h"
#include "fuzz/fuzz.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ViewSource bytes(fuzz::view(data, size));
  const Result<std::unique_ptr<TreeSource>> tar = read_tar(bytes);
  if (tar) {
    fuzz::read_tree(**tar);
  }
  return 0;
}
