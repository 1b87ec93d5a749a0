// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/store_access.h"

namespace ascope::chunks {

Error damaged(const std::string& key, std::string_view why) {
  return make_error(ErrorKind::corrupt, "object '" + key + "' " + std::string(why),
                    "restore another snapshot of the slot: ascope-sandbox snapshot ls");
}

Error in_object(const std::string& key, Error error) {
  return std::move(error).within("object '" + key + "'");
}

std::unique_lock<std::mutex> StoreAccess::turn() {
  return blobs_.is_concurrent() ? std::unique_lock<std::mutex>() : std::unique_lock(mutex_);
}

Result<std::string> StoreAccess::read(const OpContext& ctx, const std::string& key, std::size_t limit) {
  const auto lock = turn();
  Result<std::unique_ptr<ByteSource>> source = blobs_.get(ctx, key);
  if (!source) {
    return in_object(key, std::move(source).error());
  }
  Result<std::string> bytes = read_all(**source, limit);
  return bytes ? std::move(bytes) : in_object(key, std::move(bytes).error());
}

Result<std::string> StoreAccess::read_range(const OpContext& ctx, const std::string& key,
                                            std::uint64_t offset, std::size_t length) {
  const auto lock = turn();
  std::string bytes(length, '\0');
  if (length == 0) {
    return bytes;  // 0 means "to the end" to a store
  }
  Result<std::unique_ptr<ByteSource>> source = blobs_.get(ctx, key, offset, length);
  if (!source) {
    return in_object(key, std::move(source).error());
  }
  std::size_t have = 0;
  while (have < length) {
    Result<std::size_t> count = (*source)->read(std::span(bytes).subspan(have));
    if (!count) {
      return in_object(key, std::move(count).error());
    }
    if (*count == 0) {
      return damaged(key, "is cut");
    }
    have += *count;
  }
  return bytes;
}

Result<std::optional<BlobInfo>> StoreAccess::stat(const OpContext& ctx, const std::string& key) {
  const auto lock = turn();
  return blobs_.stat(ctx, key);
}

Result<BlobInfo> StoreAccess::stat_existing(const OpContext& ctx, const std::string& key) {
  ASCOPE_TRY_ASSIGN(std::optional<BlobInfo> info, stat(ctx, key));
  if (!info) {
    return make_error(ErrorKind::not_found, "the store has no object '" + key + "'");
  }
  return *std::move(info);
}

Result<std::optional<BlobInfo>> StoreAccess::put(const OpContext& ctx, const std::string& key,
                                                 ByteSource& data) {
  const auto lock = turn();
  Result<std::optional<BlobInfo>> done = blobs_.put(ctx, key, data);
  return done ? std::move(done) : std::move(done).error().within("saving object '" + key + "'");
}

Result<std::optional<BlobInfo>> StoreAccess::put_bytes(const OpContext& ctx, const std::string& key,
                                                       ByteView bytes) {
  ViewSource source(bytes);
  Result<std::optional<BlobInfo>> put_now = put(ctx, key, source);
  if (put_now && *put_now) {
    return put_now;
  }
  const bool unknown = put_now || put_now.error().kind == ErrorKind::store_unavailable ||
                       put_now.error().kind == ErrorKind::timeout;
  if (unknown) {
    const Result<std::string> there = read(ctx, key, bytes.size());
    if (there && *there == bytes) {
      return stat(ctx, key);
    }
  }
  return put_now;
}

Result<std::vector<BlobInfo>> StoreAccess::list(const OpContext& ctx, const std::string& prefix) {
  const auto lock = turn();
  return blobs_.list(ctx, prefix);
}

Result<void> StoreAccess::remove(const OpContext& ctx, const std::string& key) {
  const auto lock = turn();
  return blobs_.remove(ctx, key);
}

bool is_damage(const Error& error) {
  return error.kind == ErrorKind::corrupt || error.kind == ErrorKind::not_found ||
         error.kind == ErrorKind::unsupported;
}

}  // namespace ascope::chunks
