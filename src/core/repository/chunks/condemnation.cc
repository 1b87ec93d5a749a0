// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/condemnation.h"

#include "core/base/random.h"
#include "core/repository/chunks/markers.h"

namespace ascope::chunks {

namespace {

constexpr unsigned kMostTries = 5;

std::string new_list() {
  return std::string(kCondemnedFolder) + random_hex(kNameBytes);
}

Result<BlobInfo> put_list(const OpContext& ctx, const Access& access, const std::string& object,
                          const std::vector<PackName>& packs) {
  ASCOPE_TRY_ASSIGN(const std::string bytes, encode_condemned(*access.key, packs));
  ASCOPE_TRY_ASSIGN(std::optional<BlobInfo> put, access.store->put_bytes(ctx, object, bytes));
  if (!put) {
    return make_error(ErrorKind::conflict, "object '" + object + "' exists already");
  }
  return *std::move(put);
}

bool may_have_happened(ErrorKind kind) {
  return kind == ErrorKind::store_unavailable || kind == ErrorKind::timeout;
}

}  // namespace

Condemnation::Condemnation(const Access& access) : access_(access), object_(new_list()) {}

Result<void> Condemnation::put(const OpContext& ctx, const std::vector<PackName>& packs) {
  ASCOPE_TRY(put_list(ctx, access_, object_, packs));
  return ok();
}

Result<void> Condemnation::destroy(const OpContext& ctx, const std::string& object) {
  ASCOPE_TRY(ctx.check("removing what is not needed"));
  unsure_ = true;
  for (unsigned i = 0; i < kMostTries; ++i) {
    Result<void> removed = access_.store->remove(ctx, object);
    if (!removed && !may_have_happened(removed.error().kind)) {
      return std::move(removed).error().within("removing object '" + object + "'");
    }
    ASCOPE_TRY_ASSIGN(const std::optional<BlobInfo> there, access_.store->stat(ctx, object));
    if (!there) {
      unsure_ = false;
      return ok();
    }
  }
  return make_error(ErrorKind::store_unavailable,
                    "the store still has object '" + object + "', which was removed",
                    "run the command again: ascope-sandbox gc");
}

Result<void> Condemnation::lift(const OpContext& ctx) {
  Result<void> done = access_.store->remove(ctx, object_);
  return done ? ok() : std::move(done).error().within("removing object '" + object_ + "'");
}

void Condemnation::give_up(const OpContext& ctx) {
  if (!unsure_) {
    OpContext last = ctx;
    last.uninterruptible = true;
    static_cast<void>(lift(last).has_value());
  }
}

Result<std::chrono::system_clock::time_point> store_time(const OpContext& ctx, const Access& access) {
  const std::string object = new_list();  // an empty list harms nobody
  ASCOPE_TRY_ASSIGN(const BlobInfo info, put_list(ctx, access, object, {}));
  Result<void> removed = access.store->remove(ctx, object);
  return removed ? Result<std::chrono::system_clock::time_point>(info.modified) : std::move(removed).error();
}

}  // namespace ascope::chunks
