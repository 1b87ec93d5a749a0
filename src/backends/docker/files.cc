// SPDX-License-Identifier: Apache-2.0
// The file tools of a container: its guest does the work, whatever the image holds. What comes out is checked
// here: the guest is ours, but it works among what it guards against.
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "backends/docker/asked_for.h"
#include "backends/docker/sandbox.h"
#include "backends/local/guest_files.h"
#include "backends/local/mapped_files.h"
#include "core/base/file.h"
#include "core/tree/stream.h"
#include "guest/applets.h"
#include "guest/client.h"

namespace ascope::docker {

namespace {

constexpr std::size_t kMaxReplyBytes = 1U << 20U;

// `path` as seen from the folder `base`, both absolute and normal; nullopt if it lies elsewhere.
std::optional<std::string> relative_path(const std::string& path, const std::string& base) {
  if (path == base) {
    return std::string();
  }
  const std::string prefix = base == "/" ? "/" : base + "/";
  return path.starts_with(prefix) ? std::optional<std::string>(path.substr(prefix.size())) : std::nullopt;
}

// A tree as the guest sends it. The command runs in a thread of its own, which ends with this.
class PackedTree final : public TreeReader {
 public:
  PackedTree(guest::PackRequest request, UniqueFd read_end)
      : metadata_only_(request.metadata_only),
        checker_(std::move(request.roots), std::move(request.skip)),
        bytes_(std::move(read_end)),
        stream_(read_tree_stream(bytes_, &notes_)) {}
  ~PackedTree() override {
    stream_.reset();
    bytes_.close();  // ends the command, if it is not over
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  PackedTree(const PackedTree&) = delete;
  PackedTree& operator=(const PackedTree&) = delete;

  void run(const OpContext& ctx, UniqueFd connection, UniqueFd input, UniqueFd output) {
    thread_ = std::thread([this, ctx, connection = std::move(connection), input = std::move(input),
                           output = std::move(output)]() mutable {
      sigset_t broken_pipe;
      ::sigemptyset(&broken_pipe);
      ::sigaddset(&broken_pipe, SIGPIPE);
      ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
      FdSink sink(output.get());
      ExecRequest exec;
      exec.argv = {"pack"};
      exec.job = "pack";
      auto done = guest::exec(ctx, std::move(connection), exec, {input.get(), &sink, nullptr, -1},
                              {.applet = true, .as_root = true, .while_frozen = true});
      if (!done) {
        outcome_ = std::move(done).error();
      } else if (done->end != ExecEnd::exited || done->code != 0) {
        outcome_ = make_error(ErrorKind::incomplete, "the guest ended while it read the sandbox's files");
      }
      output.reset();
    });
  }

  Result<bool> next(TreeEntry& entry) override {
    auto more = stream_->next(entry);
    if (!more) {
      return explain(std::move(more).error());
    }
    if (*more) {
      ASCOPE_TRY(checker_.check(entry));
    }
    return more;
  }
  Result<std::optional<DataBlock>> read() override {
    if (metadata_only_) {
      return std::optional<DataBlock>();
    }
    auto block = stream_->read();
    return block ? std::move(block) : explain(std::move(block).error());
  }
  [[nodiscard]] const std::vector<TreeNote>& notes() const override { return notes_; }

 private:
  // A source whose end can be brought about from outside.
  class Bytes final : public ByteSource {
   public:
    explicit Bytes(UniqueFd fd) : fd_(std::move(fd)) {}
    Result<std::size_t> read(std::span<char> buffer) override { return read_some(fd_.get(), buffer); }
    void close() { fd_.reset(); }

   private:
    UniqueFd fd_;
  };

  // A cut stream, by the reason why it was cut.
  Error explain(Error error) {
    bytes_.close();
    if (thread_.joinable()) {
      thread_.join();
    }
    return outcome_ ? std::move(*outcome_) : std::move(error);
  }

  bool metadata_only_;
  AskedFor checker_;
  std::vector<TreeNote> notes_;
  Bytes bytes_;
  std::unique_ptr<TreeSource> stream_;
  std::thread thread_;
  std::optional<Error> outcome_;
};

class DockerFiles final : public Toolbox {
 public:
  DockerFiles(Site& site, const Folder& folder, const Meta& meta, GuestSource& guests)
      : site_(site), folder_(folder), meta_(meta), guests_(guests) {}

  Result<TreeProbe> probe(const OpContext& ctx, const std::string& root) override;
  Result<std::unique_ptr<TreeReader>> read_tree(const OpContext& ctx,
                                                const TreeSelection& selection) override;
  Result<ApplyReport> apply(const OpContext& ctx, const std::string& root, TreeSource& source,
                            const ApplyOptions& options) override;
  Result<void> set_mark(const OpContext& ctx, const std::string& root,
                        const std::optional<std::string>& mark) override;
  Result<std::unique_ptr<Freeze>> freeze(const OpContext& ctx) override {
    return local::freeze_inside(ctx, folder_);
  }
  Result<std::optional<std::set<std::uint64_t>>> mapped_files(const OpContext& ctx) override;

 private:
  // One of the guest's small file tools.
  static Result<guest::PlaceReply> ask(const OpContext& ctx, UniqueFd connection,
                                       std::vector<std::string> argv);
  Result<bool> stopped_has(const OpContext& ctx, const std::string& path);

  Site& site_;
  const Folder& folder_;
  const Meta& meta_;
  GuestSource& guests_;
};

Result<guest::PlaceReply> DockerFiles::ask(const OpContext& ctx, UniqueFd connection,
                                           std::vector<std::string> argv) {
  ExecRequest request;
  request.job = argv.front();
  request.argv = std::move(argv);
  StringSink sink(kMaxReplyBytes);
  ASCOPE_TRY(guest::exec(ctx, std::move(connection), request, {-1, &sink, nullptr, -1},
                         {.applet = true, .as_root = true, .while_frozen = true}));
  guest::PlaceReply reply;
  if (!guest::decode_place(sink.take(), reply)) {
    return make_error(ErrorKind::incomplete, "the guest ended while it looked at the sandbox's files");
  }
  if (!reply.problem.empty()) {
    return make_error(ErrorKind::io, "in the sandbox: " + shown_text(reply.problem));
  }
  return reply;
}

// Asked of the engine: nothing needs to run. It looks at what is mounted, too, so that must be there.
Result<bool> DockerFiles::stopped_has(const OpContext& ctx, const std::string& path) {
  ASCOPE_TRY_ASSIGN(const UniqueFd lock, folder_.lock(ctx));
  ASCOPE_TRY_ASSIGN(const auto found, find_own(ctx, site_, meta_));
  if (!found) {
    return make_error(ErrorKind::not_found, fmt::format("the container of sandbox '{}' is gone", meta_.id));
  }
  ASCOPE_TRY_ASSIGN(Engine * engine, site_.engine());
  ASCOPE_TRY(provide_guest(site_, folder_));
  ASCOPE_TRY(open_door(folder_));
  auto there = engine->has_folder(ctx, found->id, path);
  close_door(folder_);
  return there;
}

Result<TreeProbe> DockerFiles::probe(const OpContext& ctx, const std::string& root) {
  TreeProbe out;
  const std::string path = absolute_path(root, "/");
  auto connection = local::connect_guest(folder_);
  if (connection) {
    ASCOPE_TRY_ASSIGN(const guest::PlaceReply reply, ask(ctx, std::move(*connection), {"probe", path}));
    out.exists = reply.exists;
    out.empty = reply.empty;
  } else if (connection.error().kind == ErrorKind::not_found) {
    ASCOPE_TRY_ASSIGN(out.exists, stopped_has(ctx, path));
  } else {
    return std::move(connection).error();
  }
  if (out.exists) {
    ASCOPE_TRY_ASSIGN(const auto mark, folder_.read_mark());
    out.marked = mark.has_value();
    out.mark = mark.value_or("");
  }
  return out;
}

Result<std::unique_ptr<TreeReader>> DockerFiles::read_tree(const OpContext& ctx,
                                                           const TreeSelection& selection) {
  guest::PackRequest request;
  request.base = absolute_path(selection.relative_to.empty() ? "/" : selection.relative_to, "/");
  request.metadata_only = selection.metadata_only;
  request.file_xattrs = selection.file_xattrs || !selection.metadata_only;
  request.exclude = selection.exclude;
  for (const std::string& path : selection.roots) {
    const auto relative = relative_path(absolute_path(path, "/"), request.base);
    if (!relative) {
      return make_error(ErrorKind::internal, fmt::format("'{}' is not below '{}'", path, request.base));
    }
    request.roots.push_back(*relative);
  }
  // Ours, and dead: never a part of the tree.
  std::vector<std::string> skip = selection.skip;
  skip.emplace_back("/run/ascope");
  skip.emplace_back("/.dockerenv");
  for (const std::string& path : skip) {
    if (const auto relative = relative_path(absolute_path(path, "/"), request.base);
        relative && !relative->empty()) {
      request.skip.push_back(*relative);
    }
  }
  ASCOPE_TRY_ASSIGN(UniqueFd connection, guests_.guest(ctx));
  UniqueFd input(::memfd_create("ascope-pack", MFD_CLOEXEC));
  if (!input.is_open()) {
    return errno_error("making a memory file", errno);
  }
  ASCOPE_TRY(write_all(input.get(), guest::encode_pack(request)));
  ::lseek(input.get(), 0, SEEK_SET);
  ASCOPE_TRY_ASSIGN(Pipe pipe, make_pipe());
  auto tree = std::make_unique<PackedTree>(std::move(request), std::move(pipe.read_end));
  tree->run(ctx, std::move(connection), std::move(input), std::move(pipe.write_end));
  return std::unique_ptr<TreeReader>(std::move(tree));
}

Result<ApplyReport> DockerFiles::apply(const OpContext& ctx, const std::string& root, TreeSource& source,
                                       const ApplyOptions& options) {
  ApplyOptions own = options;
  own.allow_devices = false;
  own.allow_setid = options.allow_setid && fact(meta_, kFlags).find("shares_folders") == std::string::npos;
  ASCOPE_TRY_ASSIGN(UniqueFd connection, guests_.guest(ctx));
  return local::unpack_inside(ctx, std::move(connection), absolute_path(root, "/"), source, own,
                              options.set_owner);
}

Result<void> DockerFiles::set_mark(const OpContext& ctx, const std::string& root,
                                   const std::optional<std::string>& mark) {
  ASCOPE_TRY(ctx.check("marking a restore"));
  if (!mark) {
    ASCOPE_TRY_ASSIGN(const auto present, folder_.read_mark());
    if (!present) {
      return ok();
    }
    // What the restore has written is on the disk before the mark goes.
    ASCOPE_TRY_ASSIGN(UniqueFd connection, guests_.guest(ctx));
    ASCOPE_TRY(ask(ctx, std::move(connection), {"flush", absolute_path(root, "/")}));
  }
  return folder_.write_mark(mark);
}

// Before Linux 6.7 a file of an overlay has another number in /proc/PID/maps than everywhere else.
bool maps_tell_inodes() {
  utsname names{};
  int major = 0;
  int minor = 0;
  return ::uname(&names) == 0 && std::sscanf(names.release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 7));
}

Result<std::optional<std::set<std::uint64_t>>> DockerFiles::mapped_files(const OpContext& ctx) {
  ASCOPE_TRY(ctx.check("looking at the sandbox's processes"));
  const auto connection = local::connect_guest(folder_);
  if (!connection) {
    return connection.error().kind == ErrorKind::not_found
               ? Result<std::optional<std::set<std::uint64_t>>>(std::set<std::uint64_t>())
               : connection.error();
  }
  ASCOPE_TRY_ASSIGN(const pid_t guest, guest::peer_pid(connection->get()));
  ASCOPE_TRY_ASSIGN(auto mapped, local::mapped_files_beside(guest));
  if (mapped && !mapped->empty() && !maps_tell_inodes()) {
    return std::optional<std::set<std::uint64_t>>();
  }
  return mapped;
}

}  // namespace

std::unique_ptr<Toolbox> make_toolbox(Site& site, const Folder& folder, const Meta& meta,
                                      GuestSource& guests) {
  return std::make_unique<DockerFiles>(site, folder, meta, guests);
}

}  // namespace ascope::docker
