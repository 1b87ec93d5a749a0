// SPDX-License-Identifier: Apache-2.0
// What the engine is given. Implemented by cli/app.cc; everything opens on first use, so that a command pays
// only for what it needs. The engine has no terminal, no environment and no clock of its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/backend.h"
#include "core/profile/profile.h"
#include "core/repository/formats.h"
#include "core/store.h"

namespace ascope {

struct HostFacts {
  std::string id;  // host_id()
  std::string name;
  std::string boot;
  std::uint64_t pid_namespace = 0;
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;
  std::string user;
  std::string command;  // our command line, shortened; never with values of secrets
};

class EngineServices {
 public:
  virtual ~EngineServices() = default;

  [[nodiscard]] virtual const Profile& profile() const = 0;
  [[nodiscard]] virtual const BackendKind& backend_kind() const = 0;
  [[nodiscard]] virtual const std::string& state_dir() const = 0;
  [[nodiscard]] virtual const std::string& cache_dir() const = 0;
  virtual Result<HostFacts> host() = 0;

  // Opened on first use, owned by the services. nullptr never. leases() is `unsupported` for lock.store none:
  // see has_leases.
  virtual Result<StateStore*> state() = 0;
  virtual Result<ReceiptStore*> receipts() = 0;
  [[nodiscard]] virtual bool has_leases() const = 0;
  virtual Result<LeaseStore*> leases() = 0;
  // A second connection for the keeper's thread.
  virtual Result<std::unique_ptr<LeaseStore>> open_leases() = 0;
  // has_snapshots() false: snapshots.store none.
  [[nodiscard]] virtual bool has_snapshots() const = 0;
  virtual Result<BlobStore*> blobs() = 0;
  virtual Result<SnapshotRepository*> repository() = 0;
  virtual Result<Backend*> backend() = 0;

  // Sentences for stderr while working ("Waiting for …"), and warnings.
  virtual void status(std::string_view sentence) = 0;
  virtual void warn(std::string_view sentence) = 0;
  // Byte progress of the present step.
  virtual void progress(std::string_view what, std::uint64_t done_bytes, std::uint64_t total_bytes) = 0;
  // A place where tests kill or fail us: compared with ASCOPE_TEST_FAULT. Nothing in production.
  virtual Result<void> step(std::string_view name) = 0;
};

}  // namespace ascope
