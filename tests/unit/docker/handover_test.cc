// SPDX-License-Identifier: Apache-2.0
// The handing over of the guest's socket, with whatever may lie in the folder through which it goes and
// whoever may answer there: the engine is a canned one, the container a process of ours.
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "backends/docker/site.h"
#include "fakes/temp_folder.h"
#include "guest/embedded.h"
#include "unit/docker/canned_server.h"

using namespace ascope;
using test::CannedServer;
using test::http_answer;

namespace {

const char* const kSandbox = "sb-0123456789abcdef";

int bound_socket(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// What a container's first process does with the folder `door`; it does not return.
using Inside = void (*)(const std::string& door, const std::string& folder);

class FakeContainer {
 public:
  // `inside`: run in a process of its own when the engine is told to start the container; none: it ends at
  // once.
  explicit FakeContainer(Inside inside)
      : inside_(inside), server_([this](const std::string& request) { return answer(request); }) {
    BackendContext context{state_.path(), state_.path() + "/run", "test-host"};
    context.environment["DOCKER_HOST"] = server_.address();
    site_ = std::make_unique<docker::Site>(context);
    folder_ = std::make_unique<local::Folder>(local::Folder::make(site_->dir(), kSandbox).value());
    meta_.id = kSandbox;
    meta_.host = "test-host";
    meta_.facts = {
        {docker::kContainer, "abc1"}, {docker::kEngine, server_.address()}, {"uid", "0"}, {"gid", "0"}};
    REQUIRE(folder_->write_meta(meta_).has_value());
  }
  ~FakeContainer() { end(); }
  FakeContainer(const FakeContainer&) = delete;
  FakeContainer& operator=(const FakeContainer&) = delete;

  Result<UniqueFd> bring_up(Millis limit = Millis(3000)) {
    SandboxSettings settings;
    return docker::bring_up(OpContext{}.with_timeout(limit), *site_, *folder_, meta_, &settings, 1);
  }
  [[nodiscard]] const local::Folder& folder() const { return *folder_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void claim(pid_t pid) { claimed_ = pid; }  // what the engine says instead

 private:
  std::string answer(const std::string& request) {
    if (request.starts_with("GET /_ping ")) {
      return test::ping_answer();
    }
    if (request.find("/start ") != std::string::npos) {
      start();
      return http_answer("204 No Content", "");
    }
    if (request.find("/kill ") != std::string::npos) {
      end();
      return http_answer("204 No Content", "");
    }
    if (request.find("/wait") != std::string::npos) {
      return http_answer("200 OK", R"({"StatusCode":137})");
    }
    const bool runs = pid_ > 0 && ::kill(pid_, 0) == 0;
    const pid_t shown = claimed_ != 0 ? claimed_ : pid_.load();
    return http_answer(
        "200 OK",
        fmt::format(
            R"({{"Id":"abc1","Name":"/{0}","Image":"i","Created":"c","State":{{"Status":"{1}","Running":{2},)"
            R"("Paused":false,"Pid":{3},"ExitCode":9,"Error":""}},"Config":{{"Labels":{{"{4}":"{5}",)"
            R"("{6}":"{0}"}}}},"Mounts":[{{"Type":"bind","Source":"{7}","Destination":"{8}"}}]}})",
            kSandbox, runs ? "running" : "exited", runs ? "true" : "false", runs ? shown : 0,
            docker::kOwnerLabel, site_->owner(), docker::kSandboxLabel, docker::guest_file(*folder_),
            docker::kGuestPath));
  }
  void start() {
    if (inside_ == nullptr) {
      return;
    }
    const std::string door = docker::door_folder(*folder_);
    pid_ = ::fork();
    if (pid_ == 0) {
      inside_(door, folder_->path());
      ::_exit(0);
    }
  }
  void end() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = 0;
    }
  }

  Inside inside_;
  TempFolder state_;
  CannedServer server_;
  std::unique_ptr<docker::Site> site_;
  std::unique_ptr<local::Folder> folder_;
  local::Meta meta_;
  std::atomic<pid_t> pid_{0};
  pid_t claimed_ = 0;
};

void check_refused(FakeContainer& container, const char* text, Millis limit = Millis(3000)) {
  const auto up = container.bring_up(limit);
  REQUIRE(!up.has_value());
  CHECK(up.error().message.find(text) != std::string::npos);
  INFO(up.error().message);
  CHECK(container.pid() == 0);  // ended
  struct stat info{};
  CHECK(::stat(docker::door_folder(container.folder()).c_str(), &info) != 0);
  CHECK(::stat((container.folder().path() + "/" + local::kSocket).c_str(), &info) != 0);
  CHECK(!container.folder().read_run()->has_value());
}

}  // namespace

TEST_CASE("the real guest takes its socket, and leaves no path") {
  FakeContainer container([](const std::string& door, const std::string& folder) {
    ::execl((folder + "/guest").c_str(), "guest", "handover", door.c_str(), kSandbox, nullptr);
  });
  const auto up = container.bring_up(Millis(20000));
  if (!up) {
    FAIL(up.error().message);
  }
  CHECK(container.folder().read_run()->value().pid == container.pid());
  struct stat info{};
  CHECK(::stat(docker::door_folder(container.folder()).c_str(), &info) != 0);
  CHECK(local::connect_guest(container.folder()).has_value());
}

TEST_CASE("a link to another socket is not followed") {
  FakeContainer container([](const std::string& door, const std::string& folder) {
    static_cast<void>(::listen(bound_socket(folder + "/other"), 1));
    static_cast<void>(::symlink((folder + "/other").c_str(), (door + "/s").c_str()));
    ::pause();
  });
  check_refused(container, "is none");
  CHECK(::unlink((container.folder().path() + "/other").c_str()) == 0);
}

TEST_CASE("what is no socket is none") {
  FakeContainer file([](const std::string& door, const std::string&) {
    ::close(::open((door + "/s").c_str(), O_CREAT | O_WRONLY, 0600));
    ::pause();
  });
  check_refused(file, "is none");
  FakeContainer fifo([](const std::string& door, const std::string&) {
    static_cast<void>(::mkfifo((door + "/s").c_str(), 0666));
    ::pause();
  });
  check_refused(fifo, "is none");
}

TEST_CASE("another process than the container's first may not answer") {
  FakeContainer container([](const std::string& door, const std::string&) {
    if (::fork() == 0) {
      static_cast<void>(::listen(bound_socket(door + "/s"), 1));
      static_cast<void>(::sleep(20));
      ::_exit(0);
    }
    ::pause();
  });
  check_refused(container, "and the engine names");
}

TEST_CASE("an engine elsewhere names a process that is none here") {
  FakeContainer container([](const std::string&, const std::string&) { ::pause(); });
  container.claim(4194303);
  check_refused(container, "does not run on this machine");
}

TEST_CASE("one that takes the socket and says something else, or nothing") {
  const auto take_and_say = [](const std::string& door, const char* answer) {
    const int fd = bound_socket(door + "/s");
    static_cast<void>(::listen(fd, 1));
    const int connection = ::accept(fd, nullptr, nullptr);
    char byte = 0;
    static_cast<void>(::recv(connection, &byte, 1, 0));
    static_cast<void>(::send(connection, answer, std::strlen(answer), MSG_NOSIGNAL));
    ::pause();
  };
  static const auto kTake = +take_and_say;
  FakeContainer wrong([](const std::string& door, const std::string&) { kTake(door, "X"); });
  check_refused(wrong, "did not take its socket");
  FakeContainer silent([](const std::string& door, const std::string&) { kTake(door, ""); });
  check_refused(silent, "handing the socket over", Millis(500));
  // Says it took it, and does not listen: nobody is there then.
  FakeContainer liar([](const std::string& door, const std::string&) {
    static_cast<void>(0);
    kTake(door, "R");
  });
  const auto up = liar.bring_up();
  REQUIRE(!up.has_value());
  CHECK(liar.pid() == 0);
}

TEST_CASE("one that fills the folder keeps nothing there") {
  FakeContainer container([](const std::string& door, const std::string&) {
    const int fd = bound_socket(door + "/s");
    ::close(::open((door + "/more").c_str(), O_CREAT | O_WRONLY, 0600));
    static_cast<void>(::listen(fd, 1));
    const int connection = ::accept(fd, nullptr, nullptr);
    char byte = 0;
    static_cast<void>(::recv(connection, &byte, 1, 0));
    static_cast<void>(::send(connection, "R", 1, MSG_NOSIGNAL));
    ::pause();
  });
  const auto up = container.bring_up();
  REQUIRE(!up.has_value());
  CHECK(up.error().message.find("Directory not empty") != std::string::npos);
  CHECK(container.pid() == 0);
  CHECK(::unlink((docker::door_folder(container.folder()) + "/more").c_str()) == 0);
  CHECK(::rmdir(docker::door_folder(container.folder()).c_str()) == 0);
}

TEST_CASE("one that never comes up, and one that ends") {
  FakeContainer silent([](const std::string&, const std::string&) { ::pause(); });
  check_refused(silent, "waiting for the container's guest", Millis(300));
  FakeContainer ended(nullptr);
  check_refused(ended, "it ended at once, with exit code 9");
}
