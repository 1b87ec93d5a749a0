// SPDX-License-Identifier: Apache-2.0
// Steps W2 and W3 of a save (protocols 3.4): the manifest becomes a root for every gc first; only then is
// asked whether one has condemned what it relies on, and only then whether that is there. Then the hints.
#pragma once

#include <string>
#include <vector>

#include "core/repository/chunks/save_session.h"

namespace ascope::chunks {

struct PublishedRoot {
  HistoryItem item;
  std::uint64_t stored_bytes = 0;
  // Not empty: these packs are condemned or gone, and the manifest was taken back.
  std::vector<PackName> lost;
  std::vector<PackName> heirs;  // that took over from them
};

// On an error nothing of the manifest is left, as far as the store can be reached. `conflict` if one with
// this id exists already.
Result<PublishedRoot> publish_root(const OpContext& ctx, const SaveContext& context,
                                   const SaveRequest& request, SaveResult& saved, unsigned rewrite);

// What a history keeps of a manifest.
HistoryItem item_of(const ManifestRoot& root, const std::string& object, const BlobInfo& info,
                    const std::string& bytes);

}  // namespace ascope::chunks
