// SPDX-License-Identifier: Apache-2.0
#include "backends/local/guest_files.h"

#include <cerrno>
#include <csignal>
#include <functional>
#include <future>
#include <sys/socket.h>
#include <thread>

#include "backends/local/guest_link.h"
#include "core/tree/stream.h"
#include "guest/applets.h"
#include "guest/client.h"

namespace ascope::local {

namespace {

constexpr std::size_t kMaxReplyBytes = 256U << 20U;

class HeldFreeze final : public Toolbox::Freeze {
 public:
  explicit HeldFreeze(UniqueFd connection) : connection_(std::move(connection)) {}
  [[nodiscard]] bool holds() const override {
    char byte = 0;
    return ::recv(connection_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

 private:
  UniqueFd connection_;  // its end thaws
};

// The guest's report; before it, where the guest asks, the moment when all is staged.
class ReplySink final : public ByteSink {
 public:
  ReplySink(std::function<Result<void>()> before_change, std::promise<bool>& go_on)
      : before_change_(std::move(before_change)), go_on_(go_on) {}

  Result<void> write(ByteView data) override {
    if (before_change_ && !data.empty() && data.front() == guest::kStaged) {
      data.remove_prefix(1);
      const auto before_change = std::exchange(before_change_, nullptr);
      result_ = before_change();
      finish(result_.has_value());
    }
    return reply_.write(data);
  }
  // Without a question the guest did not get so far.
  void finish(bool may = false) {
    if (!finished_) {
      finished_ = true;
      go_on_.set_value(may);
    }
  }
  [[nodiscard]] const Result<void>& result() const { return result_; }
  std::string take() { return reply_.take(); }

 private:
  std::function<Result<void>()> before_change_;
  std::promise<bool>& go_on_;
  StringSink reply_{kMaxReplyBytes};
  Result<void> result_;
  bool finished_ = false;
};

}  // namespace

Result<ApplyReport> unpack_inside(const OpContext& ctx, UniqueFd connection, const std::string& root,
                                  TreeSource& source, const ApplyOptions& options, bool as_root) {
  const bool asks = options.mode == ApplyMode::exact && options.before_change;
  if (options.before_change && !asks) {
    ASCOPE_TRY(options.before_change());
  }
  ASCOPE_TRY_ASSIGN(Pipe feed, make_pipe());
  Result<void> fed;
  std::promise<bool> go_on;  // set once the guest asked, or is gone
  std::thread feeder(
      [&source, &fed, asks, go_on = go_on.get_future(), out = std::move(feed.write_end)]() mutable {
        sigset_t broken_pipe;
        ::sigemptyset(&broken_pipe);
        ::sigaddset(&broken_pipe, SIGPIPE);
        ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
        FdSink sink(out.get());
        guest::PieceSink pieces(sink);
        fed = write_tree_stream(source, asks ? static_cast<ByteSink&>(pieces) : sink);
        if (fed && asks) {
          fed = pieces.finish();
        }
        if (fed && asks && go_on.get()) {
          fed = sink.write(std::string_view(&guest::kGoOn, 1));
        }
        out.reset();
      });
  ExecRequest request;
  request.argv = guest::encode_unpack(root, options, asks);
  request.job = "unpack";
  ReplySink reply(asks ? options.before_change : nullptr, go_on);
  auto outcome = guest::exec(ctx, std::move(connection), request, {feed.read_end.get(), &reply, nullptr, -1},
                             {.applet = true, .as_root = as_root});
  feed.read_end.reset();  // frees the feeder if the job ended early
  reply.finish();
  feeder.join();
  if (!outcome) {
    return std::move(outcome).error();
  }
  ASCOPE_TRY(reply.result());
  const std::string bytes = reply.take();
  if (bytes.empty()) {
    return make_error(ErrorKind::incomplete, "the guest ended while it wrote the files below '" + root + "'");
  }
  auto report = guest::decode_reply(bytes);
  if (!fed && (report || report.error().kind == ErrorKind::corrupt)) {
    return std::move(fed).error();  // the reason why the guest saw a cut stream
  }
  return report;
}

Result<std::unique_ptr<Toolbox::Freeze>> freeze_inside(const OpContext& ctx, const Folder& folder) {
  auto connection = connect_guest(folder);
  if (!connection) {
    return connection.error().kind == ErrorKind::not_found ? Result<std::unique_ptr<Toolbox::Freeze>>(nullptr)
                                                           : std::move(connection).error();
  }
  const auto frozen =
      guest::call(ctx, connection->get(), 0, guest::FrameType::freeze, {}, guest::FrameType::done);
  if (!frozen) {
    // Somebody else freezes, or a process could not be stopped: the caller says so and goes on without.
    return frozen.error().kind == ErrorKind::not_found ? Result<std::unique_ptr<Toolbox::Freeze>>(nullptr)
                                                       : frozen.error();
  }
  return std::unique_ptr<Toolbox::Freeze>(std::make_unique<HeldFreeze>(std::move(connection).value()));
}

}  // namespace ascope::local
