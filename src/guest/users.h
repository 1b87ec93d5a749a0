// SPDX-License-Identifier: Apache-2.0
// Who a command runs as, from the sandbox's own /etc/passwd and /etc/group (a static program has no NSS).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "guest/wire.h"

namespace ascope::guest {

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;
  std::string home;
  std::vector<gid_t> groups;  // supplementary
};

// `wanted`: empty for the config's own, a name or "UID", with ":GROUP" or ":GID" behind it. False if there is
// no such user here.
bool find_user(const GuestConfig& config, std::string_view wanted, User& user);

}  // namespace ascope::guest
