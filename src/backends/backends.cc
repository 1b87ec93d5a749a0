// SPDX-License-Identifier: Apache-2.0
#include "backends/backends.h"

#include <array>

namespace ascope {

// To add a backend: its constant here, and its line in the list.
extern const BackendKind kBubblewrapBackend;
extern const BackendKind kDockerBackend;

namespace {

const std::array kKinds = {
    &kBubblewrapBackend,
    &kDockerBackend,
};

}  // namespace

std::span<const BackendKind* const> backend_kinds() {
  return kKinds;
}

const BackendKind* find_backend_kind(std::string_view name) {
  for (const BackendKind* kind : kKinds) {
    if (kind->name == name) {
      return kind;
    }
  }
  return nullptr;
}

}  // namespace ascope
