// SPDX-License-Identifier: Apache-2.0
// An in-memory BlobStore with a hook before each call, for tests that let something happen in between or let
// a call fail. Single-threaded.
#pragma once

#include <algorithm>
#include <functional>
#include <map>

#include "core/store.h"

namespace ascope::test {

class FakeBlobStore final : public BlobStore {
 public:
  // Called with "put", "get", "stat", "list", "remove"; an error is passed on.
  std::function<Result<void>(std::string_view call, std::string_view key)> before;
  struct Object {
    std::string bytes;
    std::uint64_t version = 0;
    std::chrono::system_clock::time_point modified{};
  };
  // The store's clock, which goes on a little with every put.
  std::chrono::system_clock::time_point now{};
  std::map<std::string, Object, std::less<>> objects;

  Result<std::optional<BlobInfo>> put(const OpContext& ctx, std::string_view key, ByteSource& data) override {
    ASCOPE_TRY(begin(ctx, "put", key));
    if (objects.contains(key)) {
      return std::optional<BlobInfo>{};
    }
    ASCOPE_TRY_ASSIGN(std::string bytes, read_all(data, std::size_t{1} << 30U));
    now += std::chrono::milliseconds(1);
    objects.emplace(key, Object{std::move(bytes), ++last_version_, now});
    return std::optional(info(*objects.find(key)));
  }

  Result<std::unique_ptr<ByteSource>> get(const OpContext& ctx, std::string_view key, std::uint64_t offset,
                                          std::uint64_t length) override {
    ASCOPE_TRY(begin(ctx, "get", key));
    const auto it = objects.find(key);
    if (it == objects.end()) {
      return make_error(ErrorKind::not_found, "object '" + std::string(key) + "' not found");
    }
    const std::string& bytes = it->second.bytes;
    return std::unique_ptr<ByteSource>(std::make_unique<Copy>(
        bytes.substr(std::min<std::size_t>(offset, bytes.size()), length == 0 ? std::string::npos : length)));
  }

  Result<std::optional<BlobInfo>> stat(const OpContext& ctx, std::string_view key) override {
    ASCOPE_TRY(begin(ctx, "stat", key));
    const auto it = objects.find(key);
    return it == objects.end() ? std::nullopt : std::optional(info(*it));
  }

  Result<std::vector<BlobInfo>> list(const OpContext& ctx, std::string_view prefix) override {
    ASCOPE_TRY(ctx.check("asking the fake object store"));
    if (before) {
      ASCOPE_TRY(before("list", prefix));
    }
    std::vector<BlobInfo> out;
    for (auto it = objects.lower_bound(prefix); it != objects.end() && it->first.starts_with(prefix); ++it) {
      out.push_back(info(*it));
    }
    return out;
  }

  Result<void> remove(const OpContext& ctx, std::string_view key) override {
    ASCOPE_TRY(begin(ctx, "remove", key));
    if (const auto it = objects.find(key); it != objects.end()) {
      objects.erase(it);
    }
    return ok();
  }

 private:
  class Copy final : public ByteSource {
   public:
    explicit Copy(std::string bytes) : bytes_(std::move(bytes)), view_(bytes_) {}
    Result<std::size_t> read(std::span<char> buffer) override { return view_.read(buffer); }

   private:
    std::string bytes_;
    ViewSource view_;
  };

  static BlobInfo info(const std::pair<const std::string, Object>& entry) {
    return {entry.first, entry.second.bytes.size(), std::to_string(entry.second.version),
            entry.second.modified};
  }

  static bool is_plain(std::string_view key) {
    constexpr std::string_view kSafe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/";
    const std::string framed = "/" + std::string(key) + "/";
    return !key.empty() && key.size() <= 512 && key.find_first_not_of(kSafe) == std::string_view::npos &&
           framed.find("//") == std::string::npos && framed.find("/./") == std::string::npos &&
           framed.find("/../") == std::string::npos;
  }

  Result<void> begin(const OpContext& ctx, std::string_view call, std::string_view key) {
    ASCOPE_TRY(ctx.check("asking the fake object store"));
    if (!is_plain(key)) {
      return make_error(ErrorKind::internal, "object key '" + std::string(key) + "' is not plain");
    }
    return before ? before(call, key) : ok();
  }

  std::uint64_t last_version_ = 0;
};

}  // namespace ascope::test
