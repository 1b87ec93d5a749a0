// SPDX-License-Identifier: Apache-2.0
// A home, a project folder and a state folder of their own, and two kinds of backends, for tests of profiles.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/profile/check.h"
#include "core/profile/profile.h"

namespace ascope::testing {

inline constexpr BackendKind kBubblewrap{"bubblewrap", "on this host", true,   true,
                                         "/workspace", "/home/agent",  nullptr};
inline constexpr BackendKind kCloud{"cloud", "elsewhere", false, false, "/home/user", "/home/user", nullptr};

// The project's own files: the working directory where the environment does not say.
inline std::string source_dir() {
  const char* const folder = std::getenv("ASCOPE_SOURCE_DIR");
  return folder == nullptr ? "." : folder;
}

class ProfileFixture {
 public:
  ProfileFixture() {
    std::string name = "/tmp/ascope-profile-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root = std::filesystem::canonical(name).string();
    for (const char* part : {"home", "config", "state", "project", "outside"}) {
      std::filesystem::create_directory(root + "/" + part);
    }
    inputs.cwd = root + "/project";
    inputs.home = root + "/home";
    inputs.config_dir = root + "/config";
    inputs.state_dir = root + "/state";
  }
  ProfileFixture(const ProfileFixture&) = delete;
  ProfileFixture& operator=(const ProfileFixture&) = delete;
  ~ProfileFixture() {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }

  void write(const std::string& path, std::string_view text) const {
    std::ofstream(root + "/" + path, std::ios::binary) << text;
  }
  [[nodiscard]] Result<Profile> load() const { return load_profile(inputs, kinds); }
  // Loads `text` as --profile FILE.
  [[nodiscard]] Result<Profile> load_named(std::string_view text) {
    write("project/named.yaml", text);
    inputs.profile_file = "named.yaml";
    return load();
  }

  std::string root;
  ProfileInputs inputs;
  std::vector<const BackendKind*> kinds{&kBubblewrap, &kCloud};
};

}  // namespace ascope::testing
