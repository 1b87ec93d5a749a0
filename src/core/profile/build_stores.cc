// SPDX-License-Identifier: Apache-2.0
// Which store keeps what: an explicit part, else its part of `distributed`, else the built-in one (product
// 4).
#include <fmt/format.h>

#include "core/profile/build.h"
#include "core/profile/store_text.h"
#include "core/repository/master_key.h"

namespace ascope {
namespace {

bool is_explicit(const LayerValue* value) {
  return value != nullptr && value->origin.kind != OriginKind::builtin &&
         !(value->value.is_string() && value->value.get_ref<const std::string&>().empty());
}

struct PartKey {
  std::string_view key;
  StorePart part;
  std::string_view keeps;
};

constexpr PartKey kState{"state", StorePart::state, "states"};
constexpr PartKey kSnapshots{"snapshots.store", StorePart::snapshots, "snapshots"};
constexpr PartKey kLeases{"lock.store", StorePart::leases, "leases"};

// The URL of one part; a store that cannot keep it is a problem.
std::string resolve_part(const Layer& layer, const PartKey& part, const Profile& profile,
                         Problems& problems) {
  const LayerValue* const value = layer.find(part.key);
  if (!is_explicit(value)) {
    return profile.distributed.empty() ? layer_text(layer, part.key)
                                       : distributed_part(profile.distributed, part.part);
  }
  std::string url = value->value.get<std::string>();
  if (!store_can_keep(url, part.part)) {
    problems.push_back(
        layer_error(*value, ErrorKind::config,
                    fmt::format("a store '{}' cannot keep {}", url.substr(0, url.find(':')), part.keeps),
                    "'man ascope-profile' lists what each kind of store keeps"));
  }
  return url;
}

void check_sharing(const Layer& layer, Profile& profile, Problems& problems) {
  if (!is_shared_store(profile.state_store)) {
    return;
  }
  const LayerValue* const lock = layer.find("lock.store");
  const bool meant = is_explicit(lock) && profile.lock_store == "none";
  if (!meant && !is_shared_store(profile.lock_store)) {
    const LayerValue& blamed = is_explicit(lock) ? *lock : *layer.find("state");
    problems.push_back(layer_error(blamed, ErrorKind::config,
                                   "other machines see the state store, but not the lease store",
                                   "set lock.store to a store they see too, or to none if no two may meet"));
  }
  if (profile.snapshot_store.starts_with("local:")) {
    profile.warnings.emplace_back(
        "other machines see the state store, but not this machine's snapshots: a start there finds them "
        "missing; "
        "set snapshots.store");
  }
}

}  // namespace

void build_stores(const Layer& layer, Profile& profile, Problems& problems) {
  profile.distributed = layer_text(layer, "distributed");
  if (!profile.distributed.empty() && !can_be_distributed(profile.distributed)) {
    problems.push_back(layer_error(*layer.find("distributed"), ErrorKind::config,
                                   "'distributed' is no store that other machines see",
                                   "write a redis, mysql, postgresql or s3 URL"));
    profile.distributed.clear();
  }
  profile.state_store = resolve_part(layer, kState, profile, problems);
  profile.snapshot_store = resolve_part(layer, kSnapshots, profile, problems);
  profile.lock_store = resolve_part(layer, kLeases, profile, problems);
  profile.projection_source = layer_text(layer, "workspace.projection.source");
  if (profile.projection_source.empty() && !profile.distributed.empty()) {
    profile.projection_source = distributed_part(profile.distributed, StorePart::projection);
  }
  if (is_store_url(profile.projection_source) &&
      !store_can_keep(profile.projection_source, StorePart::projection)) {
    problems.push_back(layer_error(*layer.find("workspace.projection.source"), ErrorKind::config,
                                   "that kind of store keeps no files to project"));
  }
  profile.snapshot_format = layer_text(layer, "snapshots.format");
  profile.snapshot_key = layer_text(layer, "snapshots.key");
  if (auto problem = master_key_problem(profile.snapshot_key)) {
    problems.push_back(
        layer_error(*layer.find("snapshots.key"), ErrorKind::config, problem->message, problem->hint));
  } else if (!profile.snapshot_key.empty() && profile.snapshot_format != "chunks") {
    problems.push_back(layer_error(*layer.find("snapshots.key"), ErrorKind::config,
                                   "snapshots of format 'tar' are not encrypted",
                                   "set snapshots.format to chunks, or leave snapshots.key out"));
  }
  profile.freeze = layer_text(layer, "snapshots.freeze");
  profile.dedup = layer_text(layer, "snapshots.dedup");
  profile.credentials = layer_text(layer, "snapshots.credentials");
  check_sharing(layer, profile, problems);
}

}  // namespace ascope
