// SPDX-License-Identifier: Apache-2.0
// A folder of a test's own, removed with all it holds at the end.
#pragma once

#include <fcntl.h>
#include <string>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/base/fd.h"
#include "core/tree/applier.h"

namespace ascope {

class TempFolder {
 public:
  explicit TempFolder(std::string name = "/tmp/ascope-test-XXXXXX") : path_(std::move(name)) {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  ~TempFolder() {
    CHECK(remove_tree_contents(open(), {}).has_value());
    CHECK(::rmdir(path_.c_str()) == 0);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] UniqueFd open() const {
    return UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }

 private:
  std::string path_;
};

}  // namespace ascope
