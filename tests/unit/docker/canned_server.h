// SPDX-License-Identifier: Apache-2.0
// An HTTP server on a Unix socket that says what a test tells it to, byte by byte, and keeps what it was
// asked.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ascope::test {

class CannedServer {
 public:
  // `answer` gets a request's head and body and gives all bytes of the answer; then the connection is closed.
  using Answer = std::function<std::string(const std::string& request)>;
  explicit CannedServer(Answer answer);
  ~CannedServer();
  CannedServer(const CannedServer&) = delete;
  CannedServer& operator=(const CannedServer&) = delete;

  [[nodiscard]] std::string address() const { return "unix://" + path_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::vector<std::string> requests();

 private:
  void serve();

  Answer answer_;
  std::string folder_, path_;
  int listen_ = -1;
  int stop_[2] = {-1, -1};
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

// An answer with its length, as an engine gives it.
std::string http_answer(const std::string& status, const std::string& body, const std::string& headers = {});
// What an engine says to /_ping.
std::string ping_answer(const std::string& version = "1.41");

}  // namespace ascope::test
