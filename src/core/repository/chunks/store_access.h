// SPDX-License-Identifier: Apache-2.0
// A BlobStore as the chunk store's threads share it: whole ranges in memory, one call at a time where the
// store wants that, and errors that name the object.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/store.h"

namespace ascope::chunks {

class StoreAccess {
 public:
  explicit StoreAccess(BlobStore& blobs) : blobs_(blobs) {}

  // All of an object; larger than `limit` is `corrupt`.
  Result<std::string> read(const OpContext& ctx, const std::string& key, std::size_t limit);
  // Exactly `length` bytes from `offset`; `corrupt` if the object ends before.
  Result<std::string> read_range(const OpContext& ctx, const std::string& key, std::uint64_t offset,
                                 std::size_t length);
  Result<std::optional<BlobInfo>> stat(const OpContext& ctx, const std::string& key);
  // `not_found` where stat() has nothing.
  Result<BlobInfo> stat_existing(const OpContext& ctx, const std::string& key);
  Result<std::optional<BlobInfo>> put(const OpContext& ctx, const std::string& key, ByteSource& data);
  // As put() of bytes in memory. Where the reply is lost, or something is there already, the store is asked:
  // what it holds then are these very bytes, or nullopt.
  Result<std::optional<BlobInfo>> put_bytes(const OpContext& ctx, const std::string& key, ByteView bytes);
  Result<std::vector<BlobInfo>> list(const OpContext& ctx, const std::string& prefix);
  Result<void> remove(const OpContext& ctx, const std::string& key);

 private:
  [[nodiscard]] std::unique_lock<std::mutex> turn();
  BlobStore& blobs_;
  std::mutex mutex_;
};

// What is not as it was written: "object 'KEY' WHY".
Error damaged(const std::string& key, std::string_view why);
// Puts the object's name before an error that has none yet.
Error in_object(const std::string& key, Error error);
// True if the object is missing or not as it was written; else the store or this machine fails.
bool is_damage(const Error& error);

}  // namespace ascope::chunks
