// SPDX-License-Identifier: Apache-2.0
#include "guest/init.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/job.h"
#include "guest/processes.h"
#include "guest/session.h"

namespace ascope::guest {

namespace {

constexpr int kMaxSessions = 128;
constexpr int kMaxJobs = 1024;
constexpr std::uint64_t kMaxFreezeMs = 60000;
constexpr std::uint64_t kDefaultIdleMs = 15ULL * 60 * 1000;
constexpr std::uint64_t kJobPatienceMs = 2000;   // for a job to end what it started, once its limit passed
constexpr std::uint64_t kOutsideGraceMs = 3000;  // between TERM and the end, at a signal from outside
constexpr std::uint64_t kClearMs = 5000;
constexpr int kJobOomScore = 500;  // above what the guest itself was started with

struct RunningJob {
  pid_t pid = 0;
  // Its time limit and --timeout-kill=sandbox, kept here too: code inside may stop or kill the job's process.
  std::uint64_t kill_at = 0;  // 0: no limit
  bool kills_all = false;
  char name[64];
};

class Init {
 public:
  explicit Init(const InitOptions& options) : options_(options) { config_.idle_ms = kDefaultIdleMs; }
  [[noreturn]] void run();

 private:
  void set_up();
  void turn();
  [[nodiscard]] int wait_ms() const;
  void accept_clients();
  void serve(Session& session);
  // False: the connection is to be closed.
  bool handle(Session& session, FrameType type, std::string_view payload);
  bool on_hello(Session& session, std::string_view payload);
  bool on_exec(Session& session, std::string_view payload);
  bool fork_job(Session& session, const ExecHead& head, std::string_view payload);
  bool on_status(Session& session);
  bool on_freeze(Session& session);
  bool on_terminate(Session& session, std::string_view payload);
  bool on_clear(Session& session);
  void begin_end(std::uint64_t grace_ms);
  bool done(Session& session);
  void thaw();
  void close_session(Session& session);
  void reap();
  void on_time();
  void set_oom_score(int value) const;
  [[nodiscard]] bool anybody_connected() const;

  const InitOptions& options_;
  GuestConfig config_;
  std::uint64_t highest_fence_ = 0;
  int signal_fd_ = -1;
  int oom_fd_ = -1;
  int own_oom_score_ = 0;
  Session sessions_[kMaxSessions];
  RunningJob jobs_[kMaxJobs];
  int job_count_ = 0;
  std::uint64_t last_used_ = 0;
  Session* freezer_ = nullptr;
  std::uint64_t thaw_at_ = 0;
  Session* terminator_ = nullptr;
  std::uint64_t terminate_at_ = 0;
};

void Init::set_up() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  const int null_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 3; ++i) {
    ::dup2(null_fd, i);
  }
  if (null_fd > 2) {
    ::close(null_fd);
  }
  // All but our two are closed: the starter passes every descriptor on that was open in it.
  const int low = std::min(options_.listen_fd, options_.ready_fd);
  const int high = std::max(options_.listen_fd, options_.ready_fd);
  const auto close_between = [](int first, int last) {
    if (first <= last) {
      ::close_range(static_cast<unsigned>(first), static_cast<unsigned>(last), 0);
    }
  };
  close_between(3, low - 1);
  close_between(low + 1, high - 1);
  ::close_range(static_cast<unsigned>(high) + 1, ~0U, 0);
  for (const int fd : {options_.listen_fd, options_.ready_fd}) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  ::fcntl(options_.listen_fd, F_SETFL, O_NONBLOCK);
  oom_fd_ =
      ::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);  // before it becomes root's by the next line
  char text[16] = {};
  if (oom_fd_ >= 0 && ::read(oom_fd_, text, sizeof text - 1) > 0) {
    own_oom_score_ = std::atoi(text);
  }
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // 1, not 0: the kernel starts a core_pattern pipe for a limit of 0 but never for 1.
  const rlimit no_core{1, 1};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::umask(022);
  static_cast<void>(::chdir("/"));
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  ::sigaddset(&children, SIGTERM);
  ::sigaddset(&children, SIGINT);
  signal_fd_ = ::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
}

void Init::run() {
  set_up();
  if (::listen(options_.listen_fd, 128) != 0 || ::write(options_.ready_fd, "R", 1) != 1) {
    ::_exit(1);
  }
  ::close(options_.ready_fd);
  last_used_ = now_ms();
  while (true) {
    turn();
  }
}

int Init::wait_ms() const {
  std::uint64_t next = ~0ULL;
  if (config_.idle_ms != 0 && job_count_ == 0) {
    next = last_used_ + config_.idle_ms;
    if (anybody_connected()) {
      next = std::max(next, now_ms() + 100);
    }
  }
  if (freezer_ != nullptr) {
    next = std::min(next, thaw_at_);
  }
  if (terminate_at_ != 0) {
    next = std::min(next, terminate_at_);
  }
  for (int i = 0; i < job_count_; ++i) {
    if (jobs_[i].kill_at != 0) {
      next = std::min(next, jobs_[i].kill_at);
    }
  }
  if (next == ~0ULL) {
    return -1;
  }
  const std::uint64_t now = now_ms();
  return next <= now ? 0 : static_cast<int>(std::min<std::uint64_t>(next - now, 1U << 30U));
}

void Init::turn() {
  pollfd polls[kMaxSessions + 2];
  polls[0] = {signal_fd_, POLLIN, 0};
  bool room = false;
  for (int i = 0; i < kMaxSessions; ++i) {
    const Session& session = sessions_[i];
    room = room || !session.is_open();
    polls[i + 2] = {session.is_open() ? session.fd() : -1, static_cast<short>(session.waiting ? 0 : POLLIN),
                    0};
  }
  polls[1] = {room ? options_.listen_fd : -1, POLLIN, 0};
  ::poll(polls, kMaxSessions + 2, wait_ms());
  if (polls[0].revents != 0) {
    reap();
  }
  for (int i = 0; i < kMaxSessions; ++i) {
    Session& session = sessions_[i];
    if (session.is_open() && polls[i + 2].revents != 0) {
      if ((session.waiting && (polls[i + 2].revents & POLLHUP) != 0) || !session.receive()) {
        close_session(session);
      } else {
        serve(session);
      }
    }
  }
  if (polls[1].revents != 0) {
    accept_clients();
  }
  on_time();
}

void Init::accept_clients() {
  for (Session& session : sessions_) {
    if (session.is_open()) {
      continue;
    }
    const int fd = ::accept4(options_.listen_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      return;
    }
    session.open(fd);
    if (session.receive()) {  // what came with the connection is usually all there is
      serve(session);
    } else {
      close_session(session);
    }
  }
}

void Init::serve(Session& session) {
  FrameHeader header;
  std::string_view payload;
  bool broken = false;
  while (session.is_open() && !session.waiting && session.peek(header, payload, broken)) {
    if (!handle(session, header.type, payload)) {
      close_session(session);
      return;
    }
    if (session.is_open() && !session.waiting) {
      session.drop(header);
    }
  }
  if (broken) {
    close_session(session);
  }
}

bool Init::handle(Session& session, FrameType type, std::string_view payload) {
  if (type == FrameType::hello) {
    return on_hello(session, payload);
  }
  if (!session.greeted) {
    return false;
  }
  const bool changes = type == FrameType::terminate || type == FrameType::config || type == FrameType::clear;
  if ((session.fence != 0 || changes) && session.fence < highest_fence_) {
    SmallFrame frame(FrameType::refused);
    Encoder<SmallFrame>(frame).u64(highest_fence_);
    return session.reply(frame);
  }
  highest_fence_ = std::max(highest_fence_, session.fence);
  switch (type) {
    case FrameType::config: {
      GuestConfig config;
      if (!decode(payload, config)) {
        return false;
      }
      config_ = std::move(config);
      last_used_ = now_ms();  // the idle time it brings begins now
      return done(session);
    }
    case FrameType::exec_part:
      return session.gather(payload);
    case FrameType::exec:
      return on_exec(session, payload);
    case FrameType::status:
      return on_status(session);
    case FrameType::freeze:
      return on_freeze(session);
    case FrameType::thaw:
      if (freezer_ == &session) {
        thaw();
      }
      return done(session);
    case FrameType::terminate:
      return on_terminate(session, payload);
    case FrameType::clear:
      return on_clear(session);
    default:
      return false;
  }
}

bool Init::done(Session& session) {
  SmallFrame frame(FrameType::done);
  return session.reply(frame);
}

bool Init::on_hello(Session& session, std::string_view payload) {
  Decoder from(payload);
  const std::uint32_t version = from.u32();
  session.fence = from.u64();
  if (!from.at_end()) {
    return false;
  }
  session.greeted = version == kWireVersion;
  SmallFrame frame(FrameType::welcome);
  Encoder<SmallFrame> to(frame);
  to.u32(kWireVersion);
  to.u64(highest_fence_);
  to.str(options_.sandbox);
  return session.reply(frame) && session.greeted;
}

bool Init::on_exec(Session& session, std::string_view payload) {
  if (terminate_at_ != 0) {
    return false;  // the end before `accepted`: it did not start
  }
  const std::string_view last = payload;
  if (!session.gathered().empty()) {
    if (freezer_ != nullptr) {
      session.waiting = true;  // served by thaw()
      return true;
    }
    if (!session.gather(last)) {
      return false;
    }
    payload = session.gathered();
  }
  ExecHead head;
  std::string_view rest;
  if (!decode(payload, head, rest) || job_count_ == kMaxJobs) {
    return false;
  }
  if (freezer_ != nullptr && (head.flags & kWhileFrozen) == 0) {
    session.waiting = true;
    return true;
  }
  return fork_job(session, head, payload);
}

bool Init::fork_job(Session& session, const ExecHead& head, std::string_view payload) {
  JobRequest request;
  request.connection = session.fd();
  request.payload = payload;
  int received[3] = {-1, -1, -1};
  const int count = session.take_descriptors(received);
  int used = 0;
  for (int i = 0; i < 3; ++i) {
    if ((head.flags & (1U << static_cast<unsigned>(i))) != 0 && used < count) {
      request.pipes[i] = received[used++];
    }
  }
  const bool complete =
      used == count && used == __builtin_popcount(head.flags & (kHasIn | kHasOut | kHasErr));
  SmallFrame accepted(FrameType::accepted);
  pid_t pid = -1;
  if (complete && session.reply(accepted)) {
    set_oom_score(std::min(own_oom_score_ + kJobOomScore, 1000));  // inherited by the fork
    pid = ::fork();
    if (pid == 0) {
      for (Session& other : sessions_) {
        if (other.is_open() && &other != &session) {
          ::close(other.fd());
        }
      }
      ::close(options_.listen_fd);
      ::close(signal_fd_);
      ::close(oom_fd_);
      run_job(request, config_);
    }
    const int error = errno;
    set_oom_score(own_oom_score_);
    if (pid < 0) {
      SmallFrame failed(FrameType::failed);
      Encoder<SmallFrame> to(failed);
      to.u8(static_cast<std::uint8_t>(FailStage::fork));
      to.i32(error);
      session.reply(failed);
    }
  }
  for (int i = 0; i < count; ++i) {
    ::close(received[i]);
  }
  last_used_ = now_ms();
  if (pid > 0) {
    RunningJob& job = jobs_[job_count_++];
    job.pid = pid;
    job.kill_at = head.timeout_ms != 0 ? last_used_ + head.timeout_ms + head.grace_ms + kJobPatienceMs : 0;
    job.kills_all = (head.flags & kKillSandbox) != 0;
    const std::size_t length = std::min(head.job.size(), sizeof job.name - 1);
    std::memcpy(job.name, head.job.data(), length);
    job.name[length] = '\0';
  }
  return false;  // the job has the connection now
}

bool Init::on_status(Session& session) {
  reap();
  SmallFrame frame(FrameType::status_reply);
  Encoder<SmallFrame> to(frame);
  std::uint32_t count = 0;
  std::size_t room = frame.room() - 4;
  for (int i = 0; i < job_count_ && room >= sizeof(RunningJob::name) + 4; ++i) {
    room -= std::strlen(jobs_[i].name) + 4;
    ++count;
  }
  to.u32(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    to.str(jobs_[i].name);
  }
  return session.reply(frame);
}

bool Init::on_freeze(Session& session) {
  if (freezer_ != nullptr || !freeze_others()) {
    return false;
  }
  freezer_ = &session;
  thaw_at_ = now_ms() + kMaxFreezeMs;
  return done(session);
}

void Init::thaw() {
  thaw_others();
  freezer_ = nullptr;
  for (Session& session : sessions_) {
    if (session.is_open() && session.waiting) {
      session.waiting = false;
      serve(session);
    }
  }
}

bool Init::on_terminate(Session& session, std::string_view payload) {
  Decoder from(payload);
  const std::uint32_t grace_ms = from.u32();
  if (!from.at_end()) {
    return false;
  }
  begin_end(grace_ms);
  terminator_ = &session;
  return true;
}

void Init::begin_end(std::uint64_t grace_ms) {
  ::kill(-1, SIGTERM);
  ::kill(-1, SIGCONT);
  freezer_ = nullptr;
  terminate_at_ = now_ms() + grace_ms;
}

bool Init::on_clear(Session& session) {
  const std::uint64_t until = now_ms() + kClearMs;
  freezer_ = nullptr;
  while (::kill(-1, SIGKILL) == 0 || errno != ESRCH) {
    if (now_ms() >= until) {
      return false;  // something cannot be killed: no answer is an error there
    }
    sleep_ms(1);
    reap();
  }
  reap();
  return done(session);
}

void Init::close_session(Session& session) {
  if (terminator_ == &session) {
    terminator_ = nullptr;  // the end goes on without its audience
  }
  const bool was_freezer = freezer_ == &session;
  session.close();
  if (was_freezer) {
    thaw();
  }
}

void Init::reap() {
  signalfd_siginfo info{};
  while (::read(signal_fd_, &info, sizeof info) > 0) {
    // The engine or the machine ends us. The kernel says 0 for a sender outside only: what runs inside has no
    // say.
    if (info.ssi_signo != SIGCHLD && info.ssi_pid == 0 && terminate_at_ == 0) {
      begin_end(kOutsideGraceMs);
    }
  }
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) {
      return;
    }
    for (int i = 0; i < job_count_; ++i) {
      if (jobs_[i].pid != pid) {
        continue;
      }
      last_used_ = now_ms();
      if (WIFSIGNALED(status) && jobs_[i].kill_at != 0 && jobs_[i].kills_all) {
        jobs_[i].pid = 0;  // its timeout is still owed
      } else {
        jobs_[i] = jobs_[--job_count_];
      }
      break;
    }
  }
}

void Init::on_time() {
  const std::uint64_t now = now_ms();
  if (terminate_at_ != 0 && (now >= terminate_at_ || (::kill(-1, 0) != 0 && errno == ESRCH))) {
    if (terminator_ != nullptr) {
      done(*terminator_);
    }
    ::_exit(0);  // the kernel kills whoever is left
  }
  if (freezer_ != nullptr && now >= thaw_at_) {
    close_session(*freezer_);
  }
  for (int i = 0; i < job_count_; ++i) {
    if (jobs_[i].kill_at != 0 && now >= jobs_[i].kill_at) {
      if (jobs_[i].kills_all) {
        ::kill(-1, SIGKILL);
      } else {
        kill_tree(jobs_[i].pid);
      }
      jobs_[i].kill_at = 0;
      if (jobs_[i].pid == 0) {
        jobs_[i--] = jobs_[--job_count_];
      }
    }
  }
  if (config_.idle_ms != 0 && job_count_ == 0 && now >= last_used_ + config_.idle_ms &&
      !anybody_connected()) {
    ::_exit(0);  // a client in the queue sees the end before `accepted` and starts the sandbox once more
  }
}

bool Init::anybody_connected() const {
  return std::any_of(std::begin(sessions_), std::end(sessions_),
                     [](const Session& s) { return s.is_open(); });
}

void Init::set_oom_score(int value) const {
  char text[16];
  int length = 0;
  for (int rest = value, unit = 1000; unit > 0; unit /= 10) {
    if (rest >= unit || length > 0 || unit == 1) {
      text[length++] = static_cast<char>('0' + rest / unit % 10);
    }
  }
  if (oom_fd_ >= 0 && value >= 0) {
    static_cast<void>(::pwrite(oom_fd_, text, static_cast<std::size_t>(length), 0));
  }
}

}  // namespace

void run_init(const InitOptions& options) {
  static Init init(options);
  init.run();
}

}  // namespace ascope::guest
