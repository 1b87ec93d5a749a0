// SPDX-License-Identifier: Apache-2.0
#include "cli/lock_common.h"

#include <fmt/format.h>

#include "core/base/random.h"
#include "core/engine/session.h"

namespace ascope {

Result<std::unique_ptr<LeaseStore>> open_lock_store(App& app) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  if (!services->has_leases()) {
    return make_error(ErrorKind::unsupported, "the profile has no leases: lock.store is none",
                      "set lock.store, for example --set lock.store=sqlite:");
  }
  return services->open_leases();
}

Result<LeaseRequest> lock_request(App& app, const Args& args, const SlotKey& slot, Millis ttl) {
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY_ASSIGN(const LockOptions options, app.lock_options(args));
  ASCOPE_TRY_ASSIGN(const HostFacts host, services->host());
  ASCOPE_TRY_ASSIGN(const SlotView view, read_slot(*services, app.ctx(), slot));
  LeaseRequest out;
  out.name = slot.store_name();
  out.token = random_hex(16);
  out.holder = {host.id,  host.name,       host.boot, host.pid_namespace,
                host.pid, host.start_time, host.user, host.command};
  out.ttl = ttl;
  out.wait = options.wait.value_or(services->profile().lock_wait);
  out.retry = services->profile().lock_retry;
  out.min_fence = view.record.meta ? view.record.meta->fence : 0;
  out.on_wait = [&app, written = slot.written()](const LeaseInfo& info) {
    app.out().status(fmt::format("Waiting for {}: held by {}.", written, describe_holder(info)));
  };
  return out;
}

}  // namespace ascope
