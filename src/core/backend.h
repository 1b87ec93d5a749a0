// SPDX-License-Identifier: Apache-2.0
// A connection to a provider of sandboxes, one running environment, and its file tools. To add a backend: one
// file in src/backends and one line in src/backends/backends.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "core/base/json.h"
#include "core/base/op_context.h"
#include "core/base/secret.h"
#include "core/slot_key.h"
#include "core/tree/applier.h"
#include "core/tree/tree.h"

namespace ascope {

// ---- what is wanted
// -----------------------------------------------------------------------------------------------

struct MountSpec {
  std::string host_path;  // absolute
  std::string path;       // absolute, inside
  bool read_only = false;
};

// Everything of the profile that decides how a sandbox is made. Keys a backend cannot honour are
// `unsupported` in create(), never ignored.
struct SandboxSettings {
  std::string image;            // docker…; empty: the backend's default
  std::string rootfs = "host";  // bubblewrap: "host" or a folder
  std::string network = "none";
  std::optional<std::uint64_t> memory_bytes;
  std::optional<double> cpus;
  std::optional<std::uint64_t> pids;
  std::string user;  // empty: the backend's default ("agent" in bubblewrap)
  std::vector<std::string> ports;
  std::map<std::string, std::string> labels;
  bool read_only_root = false;
  bool allow_host_root = false;  // --allow-host-root
  // The provider's own, text as written (a list as its JSON); `backend.template` and `backend.warm_pool`
  // stand here as "template" and "warm_pool".
  std::map<std::string, std::string> options;
  std::vector<std::string> secret_options;  // names of options whose value came from ${VAR}
  std::string workspace_root = "/workspace";
  std::map<std::string, std::string>
      environment;                      // set for every command; values may come from ${VAR}: secret
  std::vector<MountSpec> mounts;        // bind_mount entries
  Millis idle_timeout{15 * 60 * 1000};  // 0 = never
  // SHA-256 over all of the above but environment values, idle_timeout and allow_host_root; kept with the
  // sandbox and compared at start ("a sandbox made with other settings is saved first, then replaced").
  // settings_digest() below.
  [[nodiscard]] std::string digest() const;
  // The settings as "key=value" lines (secrets out) so that a difference can be named.
  [[nodiscard]] std::map<std::string, std::string> describe() const;
};

// ---- what is there
// ------------------------------------------------------------------------------------------------

enum class SandboxPhase {
  running,
  stopped,  // its disk is there and start() brings it back
  gone,     // the provider was asked and does not have it (any more)
  moving,   // in a transition
};
std::string_view to_string(SandboxPhase phase);

struct ResourceInfo {
  std::string id;         // the provider's id
  std::string tree;       // tree id (protocols 1.1); bubblewrap: the same as id
  std::string slot;       // label: SlotKey::store_name()
  std::string operation;  // label: id of the operation that made it
  SandboxPhase phase = SandboxPhase::gone;
  std::map<std::string, std::string> settings;  // describe() as it was made with
  std::string settings_digest;
  std::string created;            // RFC 3339
  bool owned = true;              // false: external, never stopped or destroyed by us
  bool ready = true;              // false: its start was never finished
  std::uint64_t fence_seen = 0;   // highest fence it has been given
  std::vector<std::string> jobs;  // commands running now, shortened command lines
  std::map<std::string, std::string>
      details;  // for `show`: pid, root folder, what limits hold in part, id range
};

// The workspace root as probed.
struct TreeProbe {
  bool exists = false;
  bool empty = false;
  bool marked = false;  // a restore was not finished in it
  std::string mark;     // its content
};

// ---- exec
// ---------------------------------------------------------------------------------------------------------

struct ExecRequest {
  std::vector<std::string> argv;                   // bytes, as a vector to the end
  std::map<std::string, std::string> environment;  // over the settings' own
  std::string cwd;                                 // inside; empty: workspace root
  std::string user;                                // --as; empty: default
  bool tty = false;
  std::uint16_t rows = 0, columns = 0;  // of the terminal, with tty
  std::optional<Millis> timeout;
  Millis grace{5000};                    // between TERM and KILL
  bool kill_sandbox_on_timeout = false;  // --timeout-kill=sandbox
  std::string job;                       // name for `show`; the command line shortened
};

// Where a command's bytes go. Descriptors belong to the caller; the backend never passes them into the
// sandbox, it pumps.
struct ExecStreams {
  int in = -1;  // -1: /dev/null
  ByteSink* out = nullptr;
  ByteSink* err = nullptr;
  // Signals and window sizes for the command: readable when one came, each an `ExecEvent` written whole. -1:
  // none.
  int events = -1;
};
struct ExecEvent {
  std::int32_t signal = 0;  // 0: a new window size
  std::uint16_t rows = 0, columns = 0;
};

enum class ExecEnd {
  exited,          // code is the command's own
  signaled,        // signal is set
  timed_out,       // ended by its timeout; no process of it is left
  not_found,       // 127
  not_executable,  // 126
  sandbox_ended,   // the sandbox died under it
};
struct ExecOutcome {
  ExecEnd end = ExecEnd::exited;
  int code = 0;
  int signal = 0;
  std::uint64_t killed = 0;  // processes of the job that had to be killed
  Millis duration{0};
  [[nodiscard]] int exit_code()
      const;  // product 3: 124, 126, 127, 128+n, the command's own; 125 for sandbox_ended
};

// ---- interfaces
// ---------------------------------------------------------------------------------------------------

// Which part of a sandbox's tree.
struct TreeSelection {
  // Absolute paths inside; each becomes the path relative to "/" in entries, except if `relative_to` is set.
  // A root that is missing, or lies below something that is no folder, gives no entries and is no error.
  std::vector<std::string> roots;
  std::string relative_to;           // entries are relative to this absolute path
  std::vector<std::string> skip;     // absolute paths left out (nested roots, marks)
  std::vector<std::string> exclude;  // globs
  // The caller looks at entries only and never calls read(): no content needs to travel.
  bool metadata_only = false;
  // With metadata_only; false: extended attributes of regular files are not asked for.
  bool file_xattrs = true;
};

// A tree being read, with what could not be taken.
class TreeReader : public TreeSource {
 public:
  [[nodiscard]] virtual const std::vector<TreeNote>& notes() const = 0;
};

// The file tools of one sandbox. All work on a running sandbox and, where its disk can be reached, on a
// stopped one.
class Toolbox {
 public:
  virtual ~Toolbox() = default;
  virtual Result<TreeProbe> probe(const OpContext& ctx, const std::string& root) = 0;
  virtual Result<std::unique_ptr<TreeReader>> read_tree(const OpContext& ctx,
                                                        const TreeSelection& selection) = 0;
  // Lays entries below the absolute path `root` (made with parents if missing; owner: the sandbox's user).
  // While the sandbox runs the guest does it inside. `exact` mode over a running bubblewrap sandbox is
  // `unsupported`: quiesce() first.
  virtual Result<ApplyReport> apply(const OpContext& ctx, const std::string& root, TreeSource& source,
                                    const ApplyOptions& options) = 0;
  // Writes or removes (nullopt) the mark of a restore in progress below `root`, durably, and where nothing
  // that runs in the sandbox can reach it.
  virtual Result<void> set_mark(const OpContext& ctx, const std::string& root,
                                const std::optional<std::string>& mark) = 0;
  // Freezes every process but the guest until the returned object dies or 60 s passed; nullptr where nothing
  // runs or it cannot be done (said in the receipt).
  class Freeze {
   public:
    virtual ~Freeze() = default;
    // False once what was frozen has been let go, or ended: what was read since may be of different moments.
    [[nodiscard]] virtual bool holds() const = 0;
  };
  virtual Result<std::unique_ptr<Freeze>> freeze(const OpContext& ctx) = 0;
  // Inode numbers, as read_tree() gives them, of the files that what runs inside has mapped shared: those may
  // be written without a change of their times until the kernel writes them back. nullopt: cannot be told.
  virtual Result<std::optional<std::set<std::uint64_t>>> mapped_files(const OpContext& ctx) = 0;
};

class Sandbox {
 public:
  virtual ~Sandbox() = default;
  // What the provider says now; backend_unavailable if it cannot be asked (never "gone").
  virtual Result<ResourceInfo> info(const OpContext& ctx) = 0;
  // As info(), but without asking inside where this machine can tell: `jobs` may be left empty. For a command
  // that goes in at once and finds out there.
  virtual Result<ResourceInfo> peek(const OpContext& ctx) { return info(ctx); }
  // Brings a stopped one back (a new process tree round the same disk). Nothing to do if it runs.
  virtual Result<void> start(const OpContext& ctx, const SandboxSettings& settings, std::uint64_t fence) = 0;
  // Whether a running or stopped one can have these settings at its next start(). False: a new one must be
  // made for them, and what is in this one brought over.
  [[nodiscard]] virtual bool fits(const SandboxSettings& /*settings*/) const { return true; }
  // Ends every process but what is needed to work on the files: before Toolbox::apply() in `exact` mode.
  // Refused like stop().
  virtual Result<void> quiesce(const OpContext& ctx, std::uint64_t fence) { return stop(ctx, fence); }
  // Ends all processes; the disk stays. Refused (`conflict`) with a fence lower than one it has seen.
  virtual Result<void> stop(const OpContext& ctx, std::uint64_t fence) = 0;
  // Ends it and removes its disk. Of what is gone it succeeds. Refused like stop().
  virtual Result<void> destroy(const OpContext& ctx, std::uint64_t fence) = 0;
  // Runs a command to its end. not_found (the Error) if the sandbox is not running before the command
  // started; then nothing was started and the caller may start() and try again. A command that could not
  // start is an outcome.
  virtual Result<ExecOutcome> exec(const OpContext& ctx, const ExecRequest& request,
                                   const ExecStreams& streams) = 0;
  // Notes durably, beside the resource, that its start is complete (or not), with the record's fence.
  virtual Result<void> set_ready(const OpContext& ctx, bool ready, std::uint64_t fence) = 0;
  virtual Toolbox& files() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Makes and starts a new sandbox with an empty workspace root, not ready, labelled with slot and operation.
  // Leaves nothing behind on failure.
  virtual Result<std::unique_ptr<Sandbox>> create(const OpContext& ctx, const SlotKey& slot,
                                                  const std::string& operation,
                                                  const SandboxSettings& settings, std::uint64_t fence) = 0;
  // A handle on an existing one, running or not. `not_found` only if the provider was asked and does not have
  // it.
  virtual Result<std::unique_ptr<Sandbox>> attach(const OpContext& ctx, const std::string& id) = 0;
  // Every resource with our labels (and installation id), of one slot if given. Never by name alone.
  virtual Result<std::vector<ResourceInfo>> list(const OpContext& ctx, const SlotKey* slot) = 0;
  // Problems with this machine or account, for `doctor`: empty if all is well.
  virtual Result<std::vector<Error>> diagnose(const OpContext& ctx) = 0;
};

struct BackendContext {
  std::string state_dir;
  std::string runtime_dir;  // $XDG_RUNTIME_DIR/ascope-sandbox or below state_dir
  std::string host;
  std::map<std::string, std::string> environment{};  // of the calling program
  std::map<std::string, std::string> options{};  // backend.options of the profile: which server to speak to
  // Long work: what, bytes done, bytes in all (0: not known). May be empty.
  std::function<void(std::string_view, std::uint64_t, std::uint64_t)> progress{};
};

// What a slot's document says of its sandbox (AgentScope's state documents).
struct DocumentFacts {
  const ResourceInfo* info = nullptr;  // none: the slot has no sandbox
  const SandboxSettings* settings = nullptr;
  bool owned = true;
};

struct BackendKind {
  std::string_view name;  // also the document's "type"
  std::string_view summary;
  bool host_bound = false;    // its sandboxes live on one host: live.bound is set
  bool holds_system = false;  // `persist: all` is its default: everything that differs from the root folder
  std::string_view default_workspace_root;
  std::string_view home;  // HOME of the default user; empty: it is the image's to say
  Result<std::unique_ptr<Backend>> (*open)(const OpContext&, const BackendContext&) = nullptr;
  std::string_view id_field = "sandboxId";  // the document's name for ResourceInfo::id
  Json (*document_fields)(const DocumentFacts&) = nullptr;
};

}  // namespace ascope
