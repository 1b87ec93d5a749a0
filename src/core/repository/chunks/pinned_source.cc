// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/pinned_source.h"

#include <utility>

#include "core/base/log.h"
#include "core/repository/chunks/markers.h"

namespace ascope::chunks {

namespace {

constexpr std::chrono::seconds kToUnpin{10};

class PinnedSource final : public TreeSource {
 public:
  PinnedSource(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key, std::string manifest,
               std::vector<PackUse> packs, std::unique_ptr<TreeSource> source)
      : ctx_(ctx),
        store_(store),
        key_(key),
        manifest_(std::move(manifest)),
        packs_(std::move(packs)),
        opened_(ctx.clock->boottime()),
        source_(std::move(source)) {}

  ~PinnedSource() override {
    source_.reset();  // its threads read until then
    if (pin_.empty()) {
      return;
    }
    OpContext last = ctx_;
    last.uninterruptible = true;
    last.deadline.reset();
    if (Result<void> done = store_.remove(last.with_timeout(kToUnpin), pin_); !done) {
      log("snapshot", LogLevel::warn, "'{}' stays until it ends by itself: {}", pin_, done.error().message);
    }
  }
  PinnedSource(const PinnedSource&) = delete;
  PinnedSource& operator=(const PinnedSource&) = delete;

  Result<bool> next(TreeEntry& entry) override {
    ASCOPE_TRY(hold());
    return source_->next(entry);
  }
  Result<std::optional<DataBlock>> read() override {
    ASCOPE_TRY(hold());
    return source_->read();
  }

 private:
  Result<void> hold() {
    if (tried_ || ctx_.clock->boottime() - opened_ < kReadUnpinned) {
      return ok();
    }
    tried_ = true;
    Result<std::string> pin = put_pin(ctx_, store_, key_, manifest_, packs_);
    if (pin) {
      pin_ = std::move(*pin);
      return ok();
    }
    if (pin.error().kind == ErrorKind::not_found) {
      return make_error(ErrorKind::not_found, "'" + manifest_ + "' was removed while it was read",
                        "'ascope-sandbox snapshot ls' names the snapshots that there are");
    }
    log("snapshot", LogLevel::warn, "'{}' is read without a pin: {}", manifest_, pin.error().message);
    return ok();
  }

  const OpContext ctx_;
  StoreAccess& store_;
  const RepositoryKey& key_;
  const std::string manifest_;
  const std::vector<PackUse> packs_;
  const Millis opened_;
  std::unique_ptr<TreeSource> source_;
  std::string pin_;
  bool tried_ = false;
};

}  // namespace

std::unique_ptr<TreeSource> pin_source(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                                       std::string manifest, std::vector<PackUse> packs,
                                       std::unique_ptr<TreeSource> source) {
  return std::make_unique<PinnedSource>(ctx, store, key, std::move(manifest), std::move(packs),
                                        std::move(source));
}

}  // namespace ascope::chunks
