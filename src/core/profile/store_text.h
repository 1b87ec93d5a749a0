// SPDX-License-Identifier: Apache-2.0
// Store URLs as a profile writes them: which schemes there are, what each can keep, which secrets may not
// stand in them, and the parts that one `distributed` line stands for.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/profile/source.h"

namespace ascope {

enum class StorePart { state, snapshots, leases, projection };

// True if `text` begins with the scheme of a store.
bool is_store_url(std::string_view text);
// True if other machines see the store.
bool is_shared_store(std::string_view url);
// True if the kind of store can keep that part at all.
bool store_can_keep(std::string_view url, StorePart part);
// True if one URL of this kind can stand for every part.
bool can_be_distributed(std::string_view url);
// The part's own URL from the bundle's: redis gets "<prefix>session:" and its like, S3 a folder of its own.
std::string distributed_part(std::string_view url, StorePart part);

// The clause that says what is wrong, if `text` is a URL with a password or another secret written out.
std::string literal_secret(std::string_view text);

// Checks scheme and secrets, makes paths absolute, and notes what needs trust. ${VAR} stays in place.
Result<std::string> resolve_store_url(std::string_view text, std::string_view key, const YamlNode& node,
                                      const ProfileSource& source);

}  // namespace ascope
