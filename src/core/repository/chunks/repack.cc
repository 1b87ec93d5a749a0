// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/repack.h"

#include <algorithm>

#include "core/repository/chunks/condemnation.h"
#include "core/repository/chunks/frame_pipeline.h"
#include "core/repository/chunks/live_packs.h"
#include "core/repository/chunks/pack_copy.h"
#include "core/repository/chunks/used_chunks.h"

namespace ascope::chunks {

namespace {

class Repacker {
 public:
  Repacker(const OpContext& ctx, const Access& access, const RepackOptions& options)
      : ctx_(ctx), access_(access), options_(options), used_(access) {}
  Result<RepackOutcome> run();

 private:
  Result<void> look();
  Result<void> choose();
  Result<void> consider(const PackName& pack, std::uint64_t size_bytes, bool asked);
  Result<void> repack_all();
  Result<void> repack_batch(const std::vector<std::size_t>& batch);
  Result<void> repack_condemned(Condemnation& condemned, const std::vector<std::size_t>& batch);
  Result<bool> is_reliable(const PackCopy& copy);
  [[nodiscard]] std::set<PackName> led_to_since() const;

  const OpContext& ctx_;
  const Access& access_;
  const RepackOptions& options_;
  StoreTime now_;
  std::map<PackName, StoredPack> packs_;
  std::vector<Forwarder> forwarders_;  // of the beginning, which used_ counts by
  LivePacks live_;
  UsedChunks used_;
  RepackOutcome out_;
};

Result<void> Repacker::look() {
  return live_.look(ctx_, access_, now_, [&](const std::string& object, const ManifestRoot& root) {
    return used_.add(ctx_, object, root, forwarders_);
  });
}

// Packs that a forwarder of later than the beginning leads to: more of them may be needed than was counted.
std::set<PackName> Repacker::led_to_since() const {
  std::set<std::string> known;
  for (const Forwarder& one : forwarders_) {
    known.insert(one.info.key);
  }
  std::set<PackName> out;
  std::vector<PackName> to_follow;
  const auto lead_to = [&](const PackName& pack) {
    if (out.insert(pack).second) {
      to_follow.push_back(pack);
    }
  };
  for (const Forwarder& one : live_.forwarders()) {
    if (!known.contains(one.info.key)) {
      lead_to(one.to);
    }
  }
  while (!to_follow.empty()) {
    const PackName pack = to_follow.back();
    to_follow.pop_back();
    for (const Forwarder& one : forwarders_of(live_.forwarders(), pack)) {
      lead_to(one.to);
    }
  }
  return out;
}

Result<void> Repacker::consider(const PackName& pack, std::uint64_t size_bytes, bool asked) {
  std::uint64_t needed = 0;
  for (const UsedPlace& place : used_.of(pack)) {
    needed += place.stored;
  }
  const auto is_wasteful = [&](std::uint64_t all) {
    return static_cast<double>(needed) < (1.0 - options_.waste) * static_cast<double>(all);
  };
  if (!asked && !is_wasteful(size_bytes)) {
    return ok();
  }
  const Result<PackInfo> info = read_pack(ctx_, *access_.store, *access_.key, pack);
  if (!info && info.error().kind == ErrorKind::not_found) {
    return ok();  // another took it
  }
  if (!info && info.error().kind != ErrorKind::corrupt) {
    return info.error();
  }
  RepackedPack one{pack, size_bytes, needed, false, ""};
  if (!info) {
    one.reason = info.error().message;
    out_.packs.push_back(std::move(one));
    return ok();
  }
  std::uint64_t frames = 0;  // an index of many small chunks is no waste
  for (const FrameRef& frame : info->index.frames()) {
    frames += frame.stored;
  }
  if (!asked && !is_wasteful(frames)) {
    return ok();
  }
  one.repacked = !live_.is_pinned(pack);
  one.reason = !one.repacked ? "somebody reads a snapshot of it"
               : asked       ? "a gc that died has condemned it"
                             : "too little of it is needed";
  out_.packs.push_back(std::move(one));
  return ok();
}

Result<void> Repacker::choose() {
  const std::set<PackName> also(options_.also.begin(), options_.also.end());
  const std::set<PackName> unclear = led_to_since();
  for (const auto& [pack, stored] : packs_) {
    ASCOPE_TRY(ctx_.check("looking for packs to repack"));
    if (live_.contains(pack) && !unclear.contains(pack)) {
      ASCOPE_TRY(consider(pack, stored.size_bytes, also.contains(pack)));
    }
  }
  return ok();
}

// Neither the new pack nor one that is relied on again is about to go. In this order, as a save asks.
Result<bool> Repacker::is_reliable(const PackCopy& copy) {
  ASCOPE_TRY_ASSIGN(const std::set<PackName> condemned, read_condemned(ctx_, *access_.store, *access_.key));
  for (const PackName& pack : copy.relied_on()) {
    ASCOPE_TRY_ASSIGN(const std::optional<BlobInfo> there, access_.store->stat(ctx_, pack_key(pack)));
    if (condemned.contains(pack) || !there) {
      return false;
    }
  }
  return true;
}

Result<void> Repacker::repack_condemned(Condemnation& condemned, const std::vector<std::size_t>& batch) {
  ASCOPE_TRY(look());
  const std::set<PackName> unclear = led_to_since();
  std::set<PackName> leaving;
  for (const std::size_t number : batch) {
    leaving.insert(out_.packs[number].pack);
  }
  PackCopy copy(access_, used_, forwarders_, leaving, options_.level);
  const auto keep = [](RepackedPack& one, std::string reason) {
    one.repacked = false;
    one.reason = std::move(reason);
  };
  for (const std::size_t number : batch) {
    RepackedPack& one = out_.packs[number];
    if (live_.is_pinned(one.pack) || unclear.contains(one.pack)) {
      keep(one, "somebody has begun to use it");
      continue;
    }
    Result<void> copied = copy.add(ctx_, one.pack);
    const bool damaged =
        !copied && (copied.error().kind == ErrorKind::corrupt || copied.error().kind == ErrorKind::not_found);
    if (damaged) {
      keep(one, copied.error().message);
    } else {
      ASCOPE_TRY(std::move(copied));
    }
  }
  ASCOPE_TRY_ASSIGN(const std::uint64_t written, copy.publish(ctx_));
  out_.written_bytes += written;
  ASCOPE_TRY_ASSIGN(const bool reliable, is_reliable(copy));
  for (const std::size_t number : batch) {
    RepackedPack& one = out_.packs[number];
    if (one.repacked && !reliable) {
      keep(one, "a gc beside us takes its new pack");
    } else if (one.repacked) {
      ASCOPE_TRY(condemned.destroy(ctx_, pack_key(one.pack)));
      out_.removed_bytes += one.size_bytes;
    }
  }
  return condemned.lift(ctx_);
}

Result<void> Repacker::repack_batch(const std::vector<std::size_t>& batch) {
  Condemnation condemned(access_);
  std::vector<PackName> names;
  names.reserve(batch.size());
  for (const std::size_t number : batch) {
    names.push_back(out_.packs[number].pack);
  }
  Result<void> done = condemned.put(ctx_, names);
  if (done) {
    done = repack_condemned(condemned, batch);
  }
  if (!done) {
    condemned.give_up(ctx_);
  }
  return done;
}

// What several packs need goes into one.
Result<void> Repacker::repack_all() {
  std::vector<std::size_t> batch;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < out_.packs.size(); ++i) {
    if (!out_.packs[i].repacked) {
      continue;
    }
    if (!batch.empty() && bytes + out_.packs[i].needed_bytes > options_.pack_bytes) {
      ASCOPE_TRY(repack_batch(std::exchange(batch, {})));
      bytes = 0;
    }
    batch.push_back(i);
    bytes += out_.packs[i].needed_bytes;
  }
  return batch.empty() ? ok() : repack_batch(batch);
}

Result<RepackOutcome> Repacker::run() {
  if (options_.dry_run) {
    now_ = ctx_.clock->wall();
  } else {
    ASCOPE_TRY_ASSIGN(now_, store_time(ctx_, access_));
  }
  ASCOPE_TRY_ASSIGN(packs_, list_packs(ctx_, *access_.store));
  ASCOPE_TRY_ASSIGN(forwarders_, list_forwarders(ctx_, *access_.store));
  ASCOPE_TRY(look());
  ASCOPE_TRY(choose());
  if (!options_.dry_run) {
    ASCOPE_TRY(repack_all());
    return std::move(out_);
  }
  for (const RepackedPack& one : out_.packs) {
    out_.removed_bytes += one.repacked ? one.size_bytes : 0;
    out_.written_bytes += one.repacked ? one.needed_bytes : 0;
  }
  return std::move(out_);
}

}  // namespace

Result<RepackOutcome> repack(const OpContext& ctx, const Access& access, const RepackOptions& options) {
  return Repacker(ctx, access, options).run();
}

}  // namespace ascope::chunks
