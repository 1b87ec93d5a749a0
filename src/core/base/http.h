// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 by libcurl, which is loaded when the first request is made. Nothing a server says is believed
// beyond its limit: no redirects, no proxies, no compression, bounded headers and bodies.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/op_context.h"

namespace ascope {

struct HttpServer {
  std::string shown;        // for messages: "unix:///run/docker.sock"
  std::string unix_socket;  // a path; empty: TCP
  std::string base_url;     // without a slash at its end: "http://localhost", "https://host:2376"
  bool verify = true;       // https: the server's certificate and name
  std::string ca_file;      // empty: the system's own
  std::string cert_file, key_file;
};

struct HttpRequest {
  std::string method = "GET";
  std::string target;  // "/path?query", encoded
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool has_body = false;
  // Most bytes of a body that is kept in memory; one more is `corrupt`.
  std::size_t max_body_bytes = 8U << 20U;
  // Takes the body of a 2xx answer piece by piece instead; its error ends the request and is the result.
  std::function<Result<void>(ByteView)> on_body;
  Millis silence_limit{60000};  // no byte either way for so long: `timeout`
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; of those that repeat, the last
  std::string body;
};

// One server, one request at a time; the connection is kept between requests.
class HttpClient {
 public:
  explicit HttpClient(HttpServer server);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  [[nodiscard]] const HttpServer& server() const { return server_; }
  // Any answer is a reply, whatever its status. `not_found`: no socket there or nobody listens; `denied`: the
  // socket may not be opened; `backend_unavailable`: no whole answer; `corrupt`: the answer breaks the
  // protocol or a limit; `timeout` and `cancelled` as ctx says.
  Result<HttpReply> send(const OpContext& ctx, const HttpRequest& request);

 private:
  struct State;
  HttpServer server_;
  std::unique_ptr<State> state_;
};

// Percent-encoding of all but unreserved characters (RFC 3986).
std::string url_encode(std::string_view text);

}  // namespace ascope
