// SPDX-License-Identifier: Apache-2.0
#include "unit/docker/canned_server.h"

#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace ascope::test {

namespace {

// Head and body of one request; empty at the end of the connection.
std::string read_request(int fd) {
  std::string bytes;
  char buffer[65536];
  while (true) {
    const auto head = bytes.find("\r\n\r\n");
    if (head != std::string::npos) {
      const auto length = bytes.find("Content-Length: ");
      const std::size_t body =
          length == std::string::npos || length > head ? 0 : std::stoul(bytes.substr(length + 16));
      if (bytes.size() >= head + 4 + body) {
        return bytes;
      }
    }
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count <= 0) {
      return {};
    }
    bytes.append(buffer, static_cast<std::size_t>(count));
  }
}

}  // namespace

CannedServer::CannedServer(Answer answer) : answer_(std::move(answer)) {
  std::string name = "/tmp/ascope-http-XXXXXX";
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  folder_ = name;
  path_ = folder_ + "/s";
  listen_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  REQUIRE(::bind(listen_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listen_, 16) == 0);
  REQUIRE(::pipe(stop_) == 0);
  thread_ = std::thread([this] { serve(); });
}

CannedServer::~CannedServer() {
  ::close(stop_[1]);
  thread_.join();
  ::close(stop_[0]);
  ::close(listen_);
  ::unlink(path_.c_str());
  ::rmdir(folder_.c_str());
}

std::vector<std::string> CannedServer::requests() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return requests_;
}

void CannedServer::serve() {
  while (true) {
    pollfd polls[2] = {{listen_, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    ::poll(polls, 2, -1);
    if (polls[1].revents != 0) {
      return;
    }
    const int fd = ::accept4(listen_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::string request = fd < 0 ? std::string() : read_request(fd);
    if (!request.empty()) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        requests_.push_back(request);
      }
      const std::string bytes = answer_(request);
      std::size_t sent = 0;
      while (sent < bytes.size()) {
        const ssize_t count = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) {
          break;
        }
        sent += static_cast<std::size_t>(count);
      }
    }
    ::close(fd);
  }
}

std::string http_answer(const std::string& status, const std::string& body, const std::string& headers) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}",
      status, body.size(), headers, body);
}

std::string ping_answer(const std::string& version) {
  return http_answer(
      "200 OK", "OK",
      fmt::format("Api-Version: {}\r\nOstype: linux\r\nServer: Docker/20.10.24 (linux)\r\n", version));
}

}  // namespace ascope::test
