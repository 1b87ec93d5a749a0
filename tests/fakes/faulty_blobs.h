// SPDX-License-Identifier: Apache-2.0
// A BlobStore that counts its calls and fails, loses a reply or dies at one of them.
#pragma once

#include <functional>
#include <limits>

#include "core/store.h"

namespace ascope::test {

class FaultyBlobs final : public BlobStore {
 public:
  enum class Fault {
    fail,  // nothing was done
    lose,  // it was done, and nobody heard
    die,   // as fail, and so does every call after it: we were killed
  };
  explicit FaultyBlobs(BlobStore& inner) : inner_(inner) {}

  Fault fault = Fault::fail;
  std::size_t at = std::numeric_limits<std::size_t>::max();  // number of the call, from 0
  std::size_t calls = 0;
  bool puts_only = false;  // only puts are counted
  std::function<void(std::string_view call, std::string_view key)> before;

  Result<std::optional<BlobInfo>> put(const OpContext& ctx, std::string_view key, ByteSource& data) override {
    return pass<std::optional<BlobInfo>>("put", key, [&] { return inner_.put(ctx, key, data); });
  }
  Result<std::unique_ptr<ByteSource>> get(const OpContext& ctx, std::string_view key, std::uint64_t offset,
                                          std::uint64_t length) override {
    return pass<std::unique_ptr<ByteSource>>("get", key,
                                             [&] { return inner_.get(ctx, key, offset, length); });
  }
  Result<std::optional<BlobInfo>> stat(const OpContext& ctx, std::string_view key) override {
    return pass<std::optional<BlobInfo>>("stat", key, [&] { return inner_.stat(ctx, key); });
  }
  Result<std::vector<BlobInfo>> list(const OpContext& ctx, std::string_view prefix) override {
    return pass<std::vector<BlobInfo>>("list", prefix, [&] { return inner_.list(ctx, prefix); });
  }
  Result<void> remove(const OpContext& ctx, std::string_view key) override {
    return pass<void>("remove", key, [&] { return inner_.remove(ctx, key); });
  }

 private:
  template <typename T, typename Call>
  Result<T> pass(std::string_view call, std::string_view key, Call inner) {
    if (before) {
      before(call, key);
    }
    const bool counted = !puts_only || call == "put";
    const std::size_t number = counted ? calls++ : std::numeric_limits<std::size_t>::max() - 1;
    const bool now = number == at;
    const bool dead = fault == Fault::die && counted && number > at;
    if ((now && fault != Fault::lose) || dead || (dead_ && fault == Fault::die)) {
      dead_ = dead_ || fault == Fault::die;
      return make_error(ErrorKind::store_unavailable, "the store fails here");
    }
    Result<T> done = inner();
    return now ? Result<T>(make_error(ErrorKind::store_unavailable, "the reply is lost here"))
               : std::move(done);
  }

  BlobStore& inner_;
  bool dead_ = false;
};

}  // namespace ascope::test
