// SPDX-License-Identifier: Apache-2.0
#include "cli/services.h"

#include <csignal>
#include <cstdlib>
#include <pwd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/progress.h"
#include "core/base/file.h"
#include "core/base/process.h"
#include "core/repository/formats.h"
#include "core/repository/master_key.h"
#include "store/stores.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ascope {

namespace {

std::string user_name() {
  const char* name = std::getenv("USER");
  return name != nullptr && *name != '\0' ? name : std::to_string(::geteuid());
}

// `word`, without what may be a secret: a variable's value, a provider's option, a lease's token. `before` is
// the word that stands before it.
std::string without_secret(std::string_view before, std::string_view word) {
  constexpr std::string_view kHidden = "********";
  if (before == "--lease") {
    return std::string(kHidden);
  }
  std::size_t start = std::string_view::npos;  // of NAME=VALUE or KEY=VALUE
  bool is_setting = before == "--set" || before == "--to-set";
  if (before == "-e" || before == "--env" || is_setting) {
    start = 0;
  } else if (word.starts_with("--lease=") || word.starts_with("--env=") || word.starts_with("--set=") ||
             word.starts_with("--to-set=")) {
    start = word.find('=') + 1;
    is_setting = word.starts_with("--set=") || word.starts_with("--to-set=");
    if (word.starts_with("--lease=")) {
      return std::string(word.substr(0, start)).append(kHidden);
    }
  } else if (word.starts_with("-e") && word.size() > 2) {
    start = 2;
  }
  const auto equals = start == std::string_view::npos ? start : word.find('=', start);
  const std::string_view key = equals == std::string_view::npos ? "" : word.substr(start, equals - start);
  const bool open = key.empty() || (is_setting && !key.starts_with("workspace.environment") &&
                                    !key.starts_with("backend.options"));
  return open ? std::string(word) : std::string(word.substr(0, equals + 1)).append(kHidden);
}

// Our command line as /proc shows it, cut to 200 bytes; what follows "--" is cut too, it is the user's own.
std::string command_line() {
  auto text = read_file("/proc/self/cmdline", 1U << 20U);
  std::string_view rest = text ? std::string_view(*text) : std::string_view("ascope-sandbox");
  std::string out;
  std::string_view before;
  while (!rest.empty() && before != "--" && out.size() < 200) {
    const std::string_view word = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    out += (out.empty() ? "" : " ") + without_secret(before, word);
    before = word;
  }
  out.resize(std::min<std::size_t>(out.size(), 200));
  return out;
}

class Services final : public EngineServices {
 public:
  Services(const Profile& profile, const BackendKind& kind, Places places, Output& out, const OpContext& ctx,
           const std::string& progress)
      : profile_(profile),
        kind_(kind),
        places_(std::move(places)),
        out_(out),
        ctx_(ctx),
        progress_(make_progress(out, progress)) {}

  [[nodiscard]] const Profile& profile() const override { return profile_; }
  [[nodiscard]] const BackendKind& backend_kind() const override { return kind_; }
  [[nodiscard]] const std::string& state_dir() const override { return places_.state_dir; }
  [[nodiscard]] const std::string& cache_dir() const override { return places_.cache_dir; }

  Result<HostFacts> host() override {
    if (!host_) {
      HostFacts facts;
      ASCOPE_TRY(make_state_dir());
      ASCOPE_TRY_ASSIGN(facts.id, host_id(places_.state_dir));
      utsname names{};
      ::uname(&names);
      facts.name = names.nodename;
      ASCOPE_TRY_ASSIGN(facts.boot, boot_id());
      ASCOPE_TRY_ASSIGN(facts.pid_namespace, pid_namespace());
      facts.pid = ::getpid();
      ASCOPE_TRY_ASSIGN(facts.start_time, process_start_time(::getpid()));
      facts.user = user_name();
      facts.command = command_line();
      host_ = std::move(facts);
    }
    return *host_;
  }

  Result<StateStore*> state() override {
    if (!state_) {
      ASCOPE_TRY_ASSIGN(const Opened opened, open(profile_.state_store, "state"));
      if (opened.kind->open_state == nullptr) {
        return unsupported(opened, "keep state");
      }
      ASCOPE_TRY_ASSIGN(state_, opened.kind->open_state(ctx_, opened.url, opened.context));
    }
    return state_.get();
  }

  Result<ReceiptStore*> receipts() override {
    if (!receipts_) {
      ASCOPE_TRY_ASSIGN(const Opened opened, open(profile_.state_store, "state"));
      if (opened.kind->open_receipts == nullptr) {
        return unsupported(opened, "keep receipts");
      }
      ASCOPE_TRY_ASSIGN(receipts_, opened.kind->open_receipts(ctx_, opened.url, opened.context));
    }
    return receipts_.get();
  }

  [[nodiscard]] bool has_leases() const override { return profile_.lock_store != "none"; }

  Result<LeaseStore*> leases() override {
    if (!leases_) {
      ASCOPE_TRY_ASSIGN(leases_, open_leases());
    }
    return leases_.get();
  }

  Result<std::unique_ptr<LeaseStore>> open_leases() override {
    ASCOPE_TRY_ASSIGN(const Opened opened, open(profile_.lock_store, "lock.store"));
    if (opened.kind->open_leases == nullptr) {
      return unsupported(opened, "keep leases");
    }
    return opened.kind->open_leases(ctx_, opened.url, opened.context);
  }

  [[nodiscard]] bool has_snapshots() const override { return profile_.snapshot_store != "none"; }

  Result<BlobStore*> blobs() override {
    if (!blobs_) {
      ASCOPE_TRY_ASSIGN(const Opened opened, open(profile_.snapshot_store, "snapshots.store"));
      if (opened.kind->open_blobs == nullptr) {
        return unsupported(opened, "keep snapshots");
      }
      ASCOPE_TRY_ASSIGN(blobs_, opened.kind->open_blobs(ctx_, opened.url, opened.context));
    }
    return blobs_.get();
  }

  Result<SnapshotRepository*> repository() override {
    if (!repository_) {
      ASCOPE_TRY_ASSIGN(BlobStore * store, blobs());
      ChunkOptions chunks;
      chunks.cache_dir = places_.cache_dir + "/chunks";
      chunks.dedup = profile_.dedup == "slot" ? chunks::Dedup::slot : chunks::Dedup::store;
      ASCOPE_TRY_ASSIGN(chunks.key, read_master_key(ctx_, profile_.snapshot_key));
      repository_ = make_repository(*store, profile_.snapshot_format, std::move(chunks));
    }
    return repository_.get();
  }

  Result<Backend*> backend() override {
    if (!backend_) {
      ASCOPE_TRY(make_state_dir());
      ASCOPE_TRY_ASSIGN(const std::string host, host_id(places_.state_dir));
      BackendContext context{places_.state_dir, places_.runtime_dir, host};
      context.environment = environment();
      context.options = profile_.settings.options;
      context.progress = [this](std::string_view what, std::uint64_t done, std::uint64_t total) {
        progress(what, done, total);
      };
      ASCOPE_TRY_ASSIGN(backend_, kind_.open(ctx_, context));
    }
    return backend_.get();
  }

  void status(std::string_view sentence) override { out_.status(sentence); }
  void warn(std::string_view sentence) override { out_.warn(sentence); }
  void progress(std::string_view what, std::uint64_t done_bytes, std::uint64_t total_bytes) override {
    progress_->update(what, done_bytes, total_bytes);
  }

  // ASCOPE_TEST_FAULT=kill:NAME, stop:NAME or fail:NAME, for the crash tests: a real signal at a real place.
  Result<void> step(std::string_view name) override {
    static const char* const kFault = std::getenv("ASCOPE_TEST_FAULT");
    if (kFault != nullptr) {
      const std::string_view want = kFault;
      if (want.starts_with("kill:") && want.substr(5) == name) {
        ::raise(SIGKILL);
      }
      if (want.starts_with("stop:") && want.substr(5) == name) {
        ::raise(SIGSTOP);
      }
      if (want.starts_with("fail:") && want.substr(5) == name) {
        return make_error(ErrorKind::io, fmt::format("step '{}' was made to fail", name));
      }
    }
    return ok();
  }

 private:
  struct Opened {
    const StoreKind* kind;
    StoreUrl url;
    StoreContext context;
  };

  Result<void> make_state_dir() { return make_dirs(places_.state_dir, 0700); }

  static std::map<std::string, std::string> environment() {
    std::map<std::string, std::string> variables;
    for (char** item = environ; *item != nullptr; ++item) {
      const std::string_view pair = *item;
      const auto equals = pair.find('=');
      if (equals != std::string_view::npos) {
        variables.emplace(pair.substr(0, equals), pair.substr(equals + 1));
      }
    }
    return variables;
  }

  Result<Opened> open(const std::string& text, std::string_view key) {
    ASCOPE_TRY_ASSIGN(const std::string expanded, expand_store_url(text, environment()));
    ASCOPE_TRY_ASSIGN(StoreUrl url, parse_store_url(expanded));
    const StoreKind* kind = find_store_kind(url.scheme);
    if (kind == nullptr) {
      return make_error(ErrorKind::unsupported,
                        fmt::format("{}: this version has no '{}:' store", key, url.scheme),
                        "'ascope-sandbox doctor' lists the kinds of stores there are");
    }
    ASCOPE_TRY_ASSIGN(std::string host, host_id(places_.state_dir));
    return Opened{kind, std::move(url), StoreContext{places_.state_dir, std::move(host)}};
  }

  static Error unsupported(const Opened& opened, std::string_view what) {
    return make_error(ErrorKind::unsupported, fmt::format("store '{}' cannot {}", opened.url.text, what));
  }

  const Profile& profile_;
  const BackendKind& kind_;
  Places places_;
  Output& out_;
  const OpContext& ctx_;
  std::unique_ptr<Progress> progress_;
  std::optional<HostFacts> host_;
  std::unique_ptr<StateStore> state_;
  std::unique_ptr<ReceiptStore> receipts_;
  std::unique_ptr<LeaseStore> leases_;
  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<SnapshotRepository> repository_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace

std::unique_ptr<EngineServices> make_services(const Profile& profile, const BackendKind& kind, Places places,
                                              Output& out, const OpContext& ctx,
                                              const std::string& progress) {
  return std::make_unique<Services>(profile, kind, std::move(places), out, ctx, progress);
}

}  // namespace ascope
