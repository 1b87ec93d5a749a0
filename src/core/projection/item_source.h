// SPDX-License-Identifier: Apache-2.0
// A tree made of single items, each with its content in memory or in a host file that is opened when its turn
// comes: what the projection and the workspace entries hand to Toolbox::apply.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/tree/tree.h"

namespace ascope {

struct TreeItem {
  TreeEntry entry;
  std::string content;                     // of a file without `open`; entry.size_bytes is its size
  std::function<Result<UniqueFd>()> open;  // of a file on the host
  std::string sha256;                      // what the host file must hold; "" = whatever is there
};

// Yields the items as they stand (the caller has them in an order TreeSource demands). A host file whose
// bytes are not `sha256` is `conflict`: up to 8 MiB before its entry is yielded, larger ones when they end.
class ItemSource final : public TreeSource {
 public:
  explicit ItemSource(std::vector<TreeItem> items) : items_(std::move(items)) {}
  Result<bool> next(TreeEntry& entry) override;
  Result<std::optional<DataBlock>> read() override;

 private:
  Result<void> load(TreeItem& item);
  Result<std::optional<DataBlock>> read_streamed();

  struct Stream;
  std::vector<TreeItem> items_;
  std::size_t next_ = 0;
  std::string content_;  // of the present item, whole
  bool content_read_ = true;
  std::shared_ptr<Stream> stream_;  // of the present item, where it is too large to hold
};

}  // namespace ascope
