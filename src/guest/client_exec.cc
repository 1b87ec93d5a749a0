// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "guest/client.h"
#include "guest/client_frames.h"

namespace ascope::guest {

namespace {

constexpr std::size_t kBufferBytes = 256U << 10U;
constexpr int kBigPipeBytes = 1 << 20;  // the most an ordinary user may ask for (fs.pipe-max-size)
constexpr std::size_t kMaxJobName = 60;

std::string job_name(const ExecRequest& request) {
  std::string name = request.job;
  if (name.empty()) {
    for (const std::string& word : request.argv) {
      name += (name.empty() ? "" : " ") + word;
      if (name.size() > kMaxJobName) {
        break;
      }
    }
  }
  return name.substr(0, kMaxJobName);
}

void set_nonblocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// One of the command's output pipes and where its bytes go.
struct Output {
  UniqueFd pipe;
  ByteSink* sink = nullptr;
  bool enlarged = false;
};

// A command in the sandbox from our side.
class Exec {
 public:
  Exec(const OpContext& ctx, UniqueFd connection, const ExecRequest& request, const ExecStreams& streams,
       const ExecOptions& options)
      : ctx_(ctx),
        connection_(std::move(connection)),
        request_(request),
        streams_(streams),
        options_(options) {}
  Result<ExecOutcome> run();

 private:
  enum class Phase { asked, accepted, started, over };

  Result<void> ask();
  [[nodiscard]] std::string request_bytes(std::uint32_t flags) const;
  Result<void> turn();
  Result<void> check_time() const;
  Result<void> on_connection();
  Result<void> on_frame(const Frame& frame);
  Result<void> on_failed(std::string_view payload);
  Result<void> on_exit(std::string_view payload);
  void read_input();
  void write_input();
  Result<void> forward_event();
  void take_output(Output& output, std::size_t limit);
  void drain(Output& output);

  const OpContext& ctx_;
  UniqueFd connection_;
  const ExecRequest& request_;
  const ExecStreams& streams_;
  const ExecOptions& options_;
  FrameReader reader_;
  Phase phase_ = Phase::asked;
  bool welcomed_ = false;
  Output out_;
  Output err_;
  UniqueFd input_;  // our end of the command's stdin
  bool input_open_ = false;
  bool events_open_ = false;
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  std::string pending_input_;
  std::size_t pending_at_ = 0;
  std::optional<Error> sink_error_;
  ExecOutcome outcome_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

std::string Exec::request_bytes(std::uint32_t flags) const {
  ExecHead head;
  head.flags = flags;
  head.timeout_ms =
      request_.timeout ? static_cast<std::uint64_t>(std::max<Millis::rep>(request_.timeout->count(), 1)) : 0;
  head.grace_ms = static_cast<std::uint64_t>(std::max<Millis::rep>(request_.grace.count(), 0));
  head.rows = request_.rows;
  head.columns = request_.columns;
  const std::string name = job_name(request_);
  head.job = name;
  ExecBody body;
  body.user = request_.user;
  body.cwd = request_.cwd;
  body.argv.assign(request_.argv.begin(), request_.argv.end());
  body.environment.assign(request_.environment.begin(), request_.environment.end());
  std::string payload;
  encode(payload, head, body);
  std::string bytes = hello_frame(0);
  std::string_view rest = payload;
  while (rest.size() > kMaxFrame) {
    bytes += frame_header(FrameType::exec_part, kMaxFrame);
    bytes += rest.substr(0, kMaxFrame);
    rest.remove_prefix(kMaxFrame);
  }
  bytes += frame_header(FrameType::exec, rest.size());
  bytes += rest;
  return bytes;
}

Result<void> Exec::ask() {
  std::uint32_t flags = 0;
  std::vector<UniqueFd> given;
  if (streams_.in >= 0) {
    ASCOPE_TRY_ASSIGN(Pipe pipe, make_pipe());
    flags |= kHasIn;
    given.push_back(std::move(pipe.read_end));
    input_ = std::move(pipe.write_end);
    set_nonblocking(input_.get());
    input_open_ = true;
  }
  const auto add_output = [&](Output& output, ByteSink* sink, std::uint32_t flag) -> Result<void> {
    if (sink == nullptr) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(Pipe pipe, make_pipe());
    flags |= flag;
    given.push_back(std::move(pipe.write_end));
    output.pipe = std::move(pipe.read_end);
    output.sink = sink;
    set_nonblocking(output.pipe.get());
    return ok();
  };
  ASCOPE_TRY(add_output(out_, streams_.out, kHasOut));
  if (!request_.tty) {
    ASCOPE_TRY(add_output(err_, streams_.err, kHasErr));
  }
  flags |= (request_.tty ? kTty : 0U) | (request_.kill_sandbox_on_timeout ? kKillSandbox : 0U) |
           (options_.applet ? kApplet : 0U) | (options_.as_root ? kAsRoot : 0U) |
           (options_.applet && options_.while_frozen ? kWhileFrozen : 0U);
  const std::string bytes = request_bytes(flags);
  if (bytes.size() > kMaxExec) {
    return make_error(ErrorKind::usage, "the command line and environment are longer than 8 MiB");
  }
  std::vector<int> descriptors;
  descriptors.reserve(given.size());
  for (const UniqueFd& fd : given) {
    descriptors.push_back(fd.get());
  }
  events_open_ = streams_.events >= 0;
  return send_with_descriptors(connection_.get(), bytes, descriptors);
}

Result<ExecOutcome> Exec::run() {
  if (request_.argv.empty()) {
    return make_error(ErrorKind::usage, "no command is given");
  }
  ASCOPE_TRY(ask());
  while (phase_ != Phase::over) {
    ASCOPE_TRY(turn());
  }
  drain(out_);
  drain(err_);
  if (sink_error_) {
    return std::move(*sink_error_);
  }
  outcome_.duration = std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - begin_);
  return outcome_;
}

Result<void> Exec::check_time() const {
  if (phase_ == Phase::asked && std::chrono::steady_clock::now() - begin_ > kAnswerLimit) {
    return no_answer();
  }
  if (streams_.events < 0) {
    return ctx_.check("running the command");
  }
  // With events the caller decides what an interrupt means for the command.
  if (const auto left = ctx_.remaining(); left && left->count() == 0) {
    return make_error(ErrorKind::timeout, "running the command took too long");
  }
  return ok();
}

Result<void> Exec::turn() {
  const bool running = phase_ == Phase::started;
  std::array<pollfd, 6> polls{{
      {connection_.get(), POLLIN, 0},
      {out_.pipe.get(), POLLIN, 0},
      {err_.pipe.get(), POLLIN, 0},
      {running && input_open_ && pending_input_.empty() ? streams_.in : -1, POLLIN, 0},
      {!pending_input_.empty() ? input_.get() : -1, POLLOUT, 0},
      {running && events_open_ ? streams_.events : -1, POLLIN, 0},
  }};
  ASCOPE_TRY(check_time());
  const Millis wait = std::min(ctx_.remaining().value_or(Millis(500)), Millis(500));
  if (::poll(polls.data(), polls.size(), static_cast<int>(wait.count()) + 1) <= 0) {
    return ok();
  }
  if (polls[1].revents != 0) {
    take_output(out_, kBufferBytes);
  }
  if (polls[2].revents != 0) {
    take_output(err_, kBufferBytes);
  }
  if (polls[3].revents != 0) {
    read_input();
  }
  if (polls[4].revents != 0) {
    write_input();
  }
  if (polls[5].revents != 0) {
    ASCOPE_TRY(forward_event());
  }
  return polls[0].revents != 0 ? on_connection() : ok();
}

Result<void> Exec::on_connection() {
  ASCOPE_TRY_ASSIGN(const bool open, reader_.fill(connection_.get()));
  Frame frame;
  while (phase_ != Phase::over) {
    ASCOPE_TRY_ASSIGN(const bool whole, reader_.next(frame));
    if (!whole) {
      break;
    }
    ASCOPE_TRY(on_frame(frame));
  }
  if (!open && phase_ != Phase::over) {
    if (phase_ == Phase::asked) {
      return ended_early();
    }
    // Its process is gone without a report. After its time limit that is how PID 1 ends one that would not.
    const bool late = request_.timeout && std::chrono::steady_clock::now() - begin_ >= *request_.timeout;
    outcome_.end = late ? ExecEnd::timed_out : ExecEnd::sandbox_ended;
    phase_ = Phase::over;
  }
  return ok();
}

Result<void> Exec::on_frame(const Frame& frame) {
  if (!welcomed_) {
    welcomed_ = true;
    return check_welcome(frame);
  }
  if (frame.type == FrameType::refused) {
    return refused_error(frame.payload);
  }
  if (frame.type == FrameType::accepted && phase_ == Phase::asked) {
    phase_ = Phase::accepted;
    return ok();
  }
  if (frame.type == FrameType::started && phase_ == Phase::accepted) {
    phase_ = Phase::started;
    return ok();
  }
  if (frame.type == FrameType::failed && phase_ == Phase::accepted) {
    return on_failed(frame.payload);
  }
  if (frame.type == FrameType::exit && phase_ == Phase::started) {
    return on_exit(frame.payload);
  }
  return not_a_guest();
}

Result<void> Exec::on_failed(std::string_view payload) {
  Decoder from(payload);
  const auto stage = static_cast<FailStage>(from.u8());
  const int error = from.i32();
  if (!from.at_end()) {
    return not_a_guest();
  }
  phase_ = Phase::over;
  const char* text = ::strerrordesc_np(error);
  const std::string reason = text == nullptr ? fmt::format("error {}", error) : text;
  switch (stage) {
    case FailStage::exec:
      if (error != EAGAIN && error != ENOMEM) {
        outcome_.end = error == ENOENT || error == ENOTDIR ? ExecEnd::not_found : ExecEnd::not_executable;
        return ok();
      }
      [[fallthrough]];
    case FailStage::fork:
      return make_error(ErrorKind::backend_unavailable, "no process left in the sandbox: " + reason,
                        "end what runs inside, or stop the sandbox");
    case FailStage::user:
      return error == ENOENT
                 ? make_error(ErrorKind::usage, "no user '" + request_.user + "' can be had in the sandbox")
                 : make_error(ErrorKind::backend_unavailable,
                              "becoming user '" + request_.user + "': " + reason);
    case FailStage::cwd:
      return make_error(
          ErrorKind::usage,
          "working folder '" + (request_.cwd.empty() ? "of the sandbox" : request_.cwd) + "': " + reason);
    case FailStage::terminal:
      return make_error(ErrorKind::backend_unavailable, "opening a terminal in the sandbox: " + reason);
    case FailStage::request:
      return make_error(ErrorKind::usage, "the command line or environment holds a NUL byte");
  }
  return not_a_guest();
}

Result<void> Exec::on_exit(std::string_view payload) {
  Decoder from(payload);
  const int status = from.i32();
  const auto why = static_cast<ExitWhy>(from.u8());
  outcome_.killed = from.u64();
  if (!from.at_end()) {
    return not_a_guest();
  }
  phase_ = Phase::over;
  if (WIFSIGNALED(status)) {
    outcome_.end = ExecEnd::signaled;
    outcome_.signal = WTERMSIG(status);
  } else {
    outcome_.code = WEXITSTATUS(status);
  }
  if (why == ExitWhy::timed_out) {
    outcome_.end = ExecEnd::timed_out;
  }
  return ok();
}

void Exec::read_input() {
  const ssize_t count = ::read(streams_.in, buffer_.get(), kBufferBytes);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count <= 0) {
    input_.reset();  // the command sees the end
    input_open_ = false;
    return;
  }
  pending_input_.assign(buffer_.get(), static_cast<std::size_t>(count));
  pending_at_ = 0;
  write_input();
}

void Exec::write_input() {
  while (pending_at_ < pending_input_.size()) {
    const ssize_t count =
        ::write(input_.get(), pending_input_.data() + pending_at_, pending_input_.size() - pending_at_);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && errno == EAGAIN) {
      return;
    }
    if (count < 0) {  // nobody reads: the command has closed its input
      input_.reset();
      input_open_ = false;
      break;
    }
    pending_at_ += static_cast<std::size_t>(count);
  }
  pending_input_.clear();
  pending_at_ = 0;
}

Result<void> Exec::forward_event() {
  ExecEvent event;
  const ssize_t count = ::read(streams_.events, &event, sizeof event);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return ok();
  }
  if (count != static_cast<ssize_t>(sizeof event)) {
    events_open_ = false;
    return ok();
  }
  SmallFrame frame(event.signal != 0 ? FrameType::signal : FrameType::window);
  Encoder<SmallFrame> to(frame);
  if (event.signal != 0) {
    to.i32(event.signal);
  } else {
    to.u16(event.rows);
    to.u16(event.columns);
  }
  const auto sent = send_with_descriptors(connection_.get(), frame.finish(), {});
  // The job may just have ended: its report, or the end of the connection, says so next.
  return sent || sent.error().kind == ErrorKind::not_found ? ok() : sent;
}

void Exec::take_output(Output& output, std::size_t limit) {
  const ssize_t count = ::read(output.pipe.get(), buffer_.get(), std::min(limit, kBufferBytes));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count <= 0) {
    output.pipe.reset();
    return;
  }
  if (!output.enlarged && count >= 1 << 16) {
    output.enlarged = true;
    ::fcntl(output.pipe.get(), F_SETPIPE_SZ, kBigPipeBytes);  // a loss of speed only if refused
  }
  auto written = output.sink->write({buffer_.get(), static_cast<std::size_t>(count)});
  if (!written) {
    if (!sink_error_) {
      sink_error_ = std::move(written).error();
    }
    output.pipe.reset();  // the command sees a broken pipe, as it would without us
  }
}

// What is in the pipe now came before the end; what a background process adds later is not waited for.
void Exec::drain(Output& output) {
  int waiting = 0;
  if (!output.pipe.is_open() || ::ioctl(output.pipe.get(), FIONREAD, &waiting) != 0) {
    return;
  }
  while (waiting > 0 && output.pipe.is_open()) {
    const auto part = std::min(static_cast<std::size_t>(waiting), kBufferBytes);
    take_output(output, part);
    waiting -= static_cast<int>(part);
  }
}

}  // namespace

Result<ExecOutcome> exec(const OpContext& ctx, UniqueFd connection, const ExecRequest& request,
                         const ExecStreams& streams, const ExecOptions& options) {
  Exec exec(ctx, std::move(connection), request, streams, options);
  return exec.run();
}

}  // namespace ascope::guest
