// SPDX-License-Identifier: Apache-2.0
// A container from stopped to a guest that listens on a socket of ours. Nothing of the image has run by then;
// still the folder through which the socket goes is read as if its other side were hostile.
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include "backends/docker/site.h"
#include "core/base/process.h"
#include "guest/applets.h"
#include "guest/client.h"

namespace ascope::docker {

namespace {

constexpr Millis kHandOverLimit{20000};
constexpr Millis kEndLimit{60000};
constexpr std::uint64_t kFileWorkIdleMs = 60000;
constexpr std::size_t kMaxReplyBytes = 1U << 20U;

Error elsewhere(const Engine& engine, const std::string& why) {
  return make_error(
      ErrorKind::unsupported,
      fmt::format("engine '{}' does not run on this machine, or in another process namespace: {}",
                  engine.address(), why),
      "use an engine on this machine, by its socket");
}

// Why a container ended before its guest was ready.
Error ended_at_once(const OpContext& ctx, Engine& engine, const std::string& id) {
  auto facts = engine.find_container(ctx, id);
  std::string why = "it ended at once";
  if (facts && *facts) {
    why = (*facts)->error.empty() ? fmt::format("it ended at once, with exit code {}", (*facts)->exit_code)
                                  : shown_text((*facts)->error);
  }
  return make_error(ErrorKind::backend_unavailable, fmt::format("container '{}' does not run: {}", id, why),
                    "images of this machine's architecture are needed; look at the engine's log");
}

// A connection to the socket that the guest has bound in the door, by a descriptor of exactly that socket.
Result<UniqueFd> connect_door(const Folder& folder) {
  const UniqueFd door(::openat(folder.fd(), "b", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!door.is_open()) {
    return errno_error("opening '" + door_folder(folder) + "'", errno);
  }
  const UniqueFd bound(::openat(door.get(), "s", O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!bound.is_open()) {
    return errno == ENOENT ? UniqueFd() : Result<UniqueFd>(errno_error("opening the guest's socket", errno));
  }
  struct stat info{};
  if (::fstat(bound.get(), &info) != 0 || !S_ISSOCK(info.st_mode)) {
    return make_error(ErrorKind::backend_unavailable, "what lies where the guest's socket should be is none");
  }
  UniqueFd connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto end =
      fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "/proc/self/fd/{}", bound.get());
  static_cast<void>(end);
  if (!connection.is_open()) {
    return errno_error("making a socket", errno);
  }
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    // Bound, and not listening yet.
    return errno == ECONNREFUSED || errno == EINTR
               ? UniqueFd()
               : Result<UniqueFd>(errno_error("connecting to the guest's socket", errno));
  }
  return connection;
}

Result<void> give_socket(int connection, int socket) {
  char byte = 'L';
  iovec piece{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* item = CMSG_FIRSTHDR(&message);
  item->cmsg_level = SOL_SOCKET;
  item->cmsg_type = SCM_RIGHTS;
  item->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(item), &socket, sizeof socket);
  return ::sendmsg(connection, &message, MSG_NOSIGNAL) == 1
             ? ok()
             : Result<void>(errno_error("handing the socket over", errno));
}

// Hands the guest its socket; the process that listens on it then.
Result<local::Run> hand_over(const OpContext& ctx, Engine& engine, const Folder& folder,
                             const std::string& id) {
  ASCOPE_TRY_ASSIGN(const auto facts, engine.find_container(ctx, id));
  if (!facts || !facts->running || facts->pid <= 1) {
    return ended_at_once(ctx, engine, id);
  }
  local::Run run;
  run.pid = static_cast<pid_t>(facts->pid);
  ASCOPE_TRY_ASSIGN(run.start_time, process_start_time(run.pid));
  UniqueFd connection;
  while (!connection.is_open()) {
    ASCOPE_TRY_ASSIGN(connection, connect_door(folder));
    if (connection.is_open()) {
      break;
    }
    ASCOPE_TRY_ASSIGN(const bool alive, process_alive(run.pid, run.start_time));
    if (!alive) {
      ASCOPE_TRY_ASSIGN(const auto now, engine.find_container(ctx, id));
      return now && now->running ? elsewhere(engine, fmt::format("its process {} is not to be seen", run.pid))
                                 : ended_at_once(ctx, engine, id);
    }
    ASCOPE_TRY(ctx.sleep(Millis(1), "waiting for the container's guest"));
  }
  ASCOPE_TRY_ASSIGN(const pid_t peer, guest::peer_pid(connection.get()));
  ASCOPE_TRY_ASSIGN(const std::uint64_t start_time, process_start_time(run.pid));
  if (peer != run.pid || start_time != run.start_time || start_time == 0) {
    return elsewhere(engine, fmt::format("process {} answers, and the engine names {}", peer, run.pid));
  }
  ASCOPE_TRY_ASSIGN(const UniqueFd listen, local::bind_socket(folder));
  ASCOPE_TRY(give_socket(connection.get(), listen.get()));
  char answer = 0;
  pollfd poll_fd{connection.get(), POLLIN, 0};
  while (::poll(&poll_fd, 1, 100) <= 0) {
    ASCOPE_TRY(ctx.check("handing the socket over"));
  }
  if (::recv(connection.get(), &answer, 1, MSG_DONTWAIT) != 1 || answer != 'R') {
    return make_error(ErrorKind::backend_unavailable, "the container's guest did not take its socket");
  }
  // From here on the folder is dead inside: nothing can be made in it.
  if (::unlinkat(folder.fd(), "b", AT_REMOVEDIR) != 0) {
    return errno_error("removing '" + door_folder(folder) + "'", errno);
  }
  return run;
}

Result<guest::GuestConfig> make_config(const Meta& meta, const SandboxSettings* settings) {
  guest::GuestConfig config;
  config.idle_ms = settings == nullptr
                       ? kFileWorkIdleMs
                       : static_cast<std::uint64_t>(std::max<Millis::rep>(settings->idle_timeout.count(), 0));
  const auto number = [&](const char* name) {
    const std::string text = fact(meta, name);
    return text.empty() ? 0U : static_cast<std::uint32_t>(std::strtoul(text.c_str(), nullptr, 10));
  };
  config.uid = number("uid");
  config.gid = number("gid");
  config.user = fact(meta, kUser).empty() ? "root" : fact(meta, kUser);
  config.home = fact(meta, "home").empty() ? "/root" : fact(meta, "home");
  config.cwd = meta.workspace_root;
  config.no_capabilities = fact(meta, kFlags).find("no_capabilities") != std::string::npos;
  ASCOPE_TRY_ASSIGN(const Json image_env,
                    parse_json(fact(meta, kImageEnv).empty() ? "[]" : fact(meta, kImageEnv)));
  std::map<std::string, std::string> environment;
  for (const Json& item : image_env) {
    const auto text = item.is_string() ? item.get<std::string>() : std::string();
    const auto equals = text.find('=');
    if (equals != std::string::npos && equals > 0) {
      environment[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  if (settings != nullptr) {
    for (const auto& [name, value] : settings->environment) {
      environment[name] = value;
    }
  }
  config.environment.assign(environment.begin(), environment.end());
  return config;
}

// The workspace as the user's own; who that is, into meta.
Result<void> settle(const OpContext& ctx, const Folder& folder, Meta& meta) {
  ASCOPE_TRY_ASSIGN(UniqueFd connection, local::connect_guest(folder));
  ExecRequest request;
  const std::string wanted = fact(meta, kWantedUser);
  request.argv = {"settle", meta.workspace_root, wanted};
  request.job = "settle";
  StringSink reply(kMaxReplyBytes);
  ASCOPE_TRY(guest::exec(ctx, std::move(connection), request, {-1, &reply, nullptr, -1},
                         {.applet = true, .as_root = true}));
  guest::PlaceReply place;
  if (!guest::decode_place(reply.take(), place)) {
    return make_error(ErrorKind::backend_unavailable, "the container's guest gave no answer");
  }
  if (place.problem == "no such user") {
    return make_error(ErrorKind::config,
                      fmt::format("image '{}' has no user '{}'", fact(meta, kImage), wanted),
                      "set 'backend.user' to one that it has, or to UID:GID");
  }
  if (!place.problem.empty()) {
    return make_error(ErrorKind::backend_unavailable,
                      fmt::format("workspace '{}' cannot be made in image '{}': {}", meta.workspace_root,
                                  fact(meta, kImage), shown_text(place.problem)));
  }
  meta.facts["uid"] = std::to_string(place.uid);
  meta.facts["gid"] = std::to_string(place.gid);
  meta.facts[kUser] = place.user;
  meta.facts["home"] = place.home;
  return folder.write_meta(meta);
}

Result<UniqueFd> start_steps(const OpContext& ctx, Site& site, Engine& engine, const Folder& folder,
                             Meta& meta, const SandboxSettings* settings, std::uint64_t fence,
                             const std::string& id) {
  auto started = engine.start_container(ctx, id);
  if (!started) {
    Error error = std::move(started).error();
    if (error.message.find("source path does not exist") != std::string::npos) {
      return elsewhere(engine, "it does not see '" + folder.path() + "'");
    }
    return error;
  }
  ASCOPE_TRY_ASSIGN(local::Run run, hand_over(ctx.with_timeout(kHandOverLimit), engine, folder, id));
  run.not_enforced = fact(meta, kWarnings);
  ASCOPE_TRY(folder.write_run(run));
  if (fact(meta, "uid").empty()) {
    // As root until it is known who commands run as.
    ASCOPE_TRY(send_config(ctx, folder, meta, nullptr, fence));
    ASCOPE_TRY(settle(ctx, folder, meta));
  }
  static_cast<void>(site);
  ASCOPE_TRY(send_config(ctx, folder, meta, settings, fence));
  return local::connect_guest(folder);
}

}  // namespace

Result<UniqueFd> bring_up(const OpContext& ctx, Site& site, const Folder& folder, Meta& meta,
                          const SandboxSettings* settings, std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(Engine * engine, site.engine());
  ASCOPE_TRY_ASSIGN(const auto found, find_own(ctx, site, meta));
  if (!found) {
    return make_error(ErrorKind::not_found, fmt::format("the container of sandbox '{}' is gone", meta.id));
  }
  if (found->paused) {
    return make_error(ErrorKind::backend_unavailable, fmt::format("container '{}' is paused", found->name),
                      fmt::format("docker unpause {}", found->name));
  }
  if (found->running) {
    // Its starter died before it had a socket of ours, or it was started by somebody else.
    ASCOPE_TRY(engine->kill_container(ctx, found->id));
    ASCOPE_TRY(engine->wait_container(ctx.with_timeout(kEndLimit), found->id));
  }
  ASCOPE_TRY(folder.remove_run());
  ASCOPE_TRY(provide_guest(site, folder));
  ASCOPE_TRY(open_door(folder));
  auto connection = start_steps(ctx, site, *engine, folder, meta, settings, fence, found->id);
  if (!connection) {
    OpContext after;
    after.uninterruptible = true;
    static_cast<void>(engine->kill_container(after, found->id));
    static_cast<void>(engine->wait_container(after.with_timeout(Millis(10000)), found->id));
    ::unlinkat(folder.fd(), local::kSocket, 0);
    close_door(folder);
    static_cast<void>(folder.remove_run());
  }
  return connection;
}

Result<void> send_config(const OpContext& ctx, const Folder& folder, const Meta& meta,
                         const SandboxSettings* settings, std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(const UniqueFd connection, local::connect_guest(folder));
  ASCOPE_TRY_ASSIGN(const guest::GuestConfig config, make_config(meta, settings));
  std::string payload;
  guest::encode(payload, config);
  ASCOPE_TRY(
      guest::call(ctx, connection.get(), fence, guest::FrameType::config, payload, guest::FrameType::done));
  return ok();
}

Result<void> bring_down(const OpContext& ctx, Site& site, const Folder& folder, const Meta& meta,
                        std::uint64_t fence) {
  ASCOPE_TRY_ASSIGN(const auto run, folder.read_run());
  auto connection = local::connect_guest(folder);
  if (!connection && connection.error().kind != ErrorKind::not_found) {
    return std::move(connection).error();
  }
  bool ended = false;
  if (connection) {
    ASCOPE_TRY_ASSIGN(ended, local::ask_to_end(ctx, connection->get(), fence, *run));
  }
  ASCOPE_TRY_ASSIGN(Engine * engine, site.engine());
  ASCOPE_TRY_ASSIGN(const auto found, find_own(ctx, site, meta));
  if (found && found->running) {
    if (!ended) {
      ASCOPE_TRY(engine->kill_container(ctx, found->id));
    }
    ASCOPE_TRY(engine->wait_container(ctx.with_timeout(kEndLimit), found->id));
  }
  ::unlinkat(folder.fd(), local::kSocket, 0);
  close_door(folder);
  return folder.remove_run();
}

}  // namespace ascope::docker
