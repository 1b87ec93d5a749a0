// SPDX-License-Identifier: Apache-2.0
// Finds files that hold credentials, so that a snapshot store does not become a collection of them. Says what
// kind of thing was found and where, never the thing.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/tree/tree.h"

namespace ascope {

// A kind of credential, such as "private key": static text.
// By name alone: ".env", "id_ed25519", ".netrc", …; samples such as ".env.example" are none.
std::optional<std::string_view> credential_by_name(std::string_view path);
// By shape, in the first bytes of a file, where it is text: the markers of a private key, and tokens whose
// prefix and length their issuers made up so that they can be found.
std::optional<std::string_view> credential_in(ByteView content);

enum class CredentialRule {
  ignore,
  warn,     // a note on each path
  exclude,  // left out of the tree, with a note
  refuse,   // the end of the tree is `refused`, with all paths
};

// Passes a tree on under a rule. Looks at the name and the first 256 KiB of each regular file; a hard link to
// a file that was left out is left out too. Does not own `inner`.
class GuardedSource final : public TreeSource {
 public:
  GuardedSource(TreeSource& inner, CredentialRule rule);
  ~GuardedSource() override;
  Result<bool> next(TreeEntry& entry) override;
  Result<std::optional<DataBlock>> read() override;
  [[nodiscard]] const std::vector<TreeNote>& notes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ascope
