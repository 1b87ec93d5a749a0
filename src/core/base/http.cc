// SPDX-License-Identifier: Apache-2.0
#include "core/base/http.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <curl/curl.h>
#include <fmt/format.h>

#include "core/base/fd.h"
#include "core/base/loaded_library.h"

namespace ascope {

namespace {

constexpr const char* kLibrary = "libcurl.so.4";
constexpr std::size_t kMaxHeaderBytes = 256U << 10U;
constexpr long kConnectMs = 10000;

struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) init = nullptr;
  decltype(&curl_easy_setopt) setopt = nullptr;
  decltype(&curl_easy_perform) perform = nullptr;
  decltype(&curl_easy_getinfo) getinfo = nullptr;
  decltype(&curl_easy_cleanup) cleanup = nullptr;
  decltype(&curl_easy_reset) reset = nullptr;
  decltype(&curl_easy_strerror) strerror = nullptr;
  decltype(&curl_slist_append) append = nullptr;
  decltype(&curl_slist_free_all) free_all = nullptr;
};

Result<Curl> load_curl() {
  Curl curl;
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  const bool complete = library != nullptr && find_function(library, "curl_global_init", curl.global_init) &&
                        find_function(library, "curl_easy_init", curl.init) &&
                        find_function(library, "curl_easy_setopt", curl.setopt) &&
                        find_function(library, "curl_easy_perform", curl.perform) &&
                        find_function(library, "curl_easy_getinfo", curl.getinfo) &&
                        find_function(library, "curl_easy_cleanup", curl.cleanup) &&
                        find_function(library, "curl_easy_reset", curl.reset) &&
                        find_function(library, "curl_easy_strerror", curl.strerror) &&
                        find_function(library, "curl_slist_append", curl.append) &&
                        find_function(library, "curl_slist_free_all", curl.free_all);
  if (!complete || curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return make_error(ErrorKind::io, fmt::format("libcurl cannot be loaded: {}", load_problem(kLibrary)),
                      "install it (Debian: apt-get install libcurl4)");
  }
  return curl;
}

const Result<Curl>& curl_library() {
  static const Result<Curl> kCurl = load_curl();
  return kCurl;
}

// One request under way, as libcurl's callbacks see it.
struct Transfer {
  const OpContext& ctx;
  const HttpRequest& request;
  HttpReply reply{};
  std::size_t header_bytes = 0;
  std::size_t sent = 0;
  std::optional<Error> failure{};
  Millis last_moved{0};
  curl_off_t moved = 0;

  bool fail(Error error) {
    if (!failure) {
      failure = std::move(error);
    }
    return false;
  }
};

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * count);
  transfer.header_bytes += line.size();
  if (transfer.header_bytes > kMaxHeaderBytes) {
    transfer.fail(make_error(ErrorKind::corrupt, "the answer's headers are too long"));
    return 0;
  }
  if (line.starts_with("HTTP/")) {
    transfer.reply.headers.clear();  // an interim answer (100) came before
    const std::string_view status = trimmed(line.substr(std::min(line.find(' '), line.size())));
    transfer.reply.status = 0;
    for (std::size_t i = 0;
         i < 3 && i < status.size() && std::isdigit(static_cast<unsigned char>(status[i])) != 0; ++i) {
      transfer.reply.status = transfer.reply.status * 10 + (status[i] - '0');
    }
    return line.size();
  }
  const auto colon = line.find(':');
  if (colon != std::string_view::npos) {
    std::string name(trimmed(line.substr(0, colon)));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    transfer.reply.headers[name] = trimmed(line.substr(colon + 1));
  }
  return line.size();
}

std::size_t on_data(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view piece(data, size * count);
  const int status = transfer.reply.status;
  if (transfer.request.on_body && status >= 200 && status < 300) {
    auto taken = transfer.request.on_body(piece);
    if (!taken) {
      transfer.fail(std::move(taken).error());
      return 0;
    }
    return piece.size();
  }
  if (transfer.reply.body.size() + piece.size() > transfer.request.max_body_bytes) {
    transfer.fail(make_error(ErrorKind::corrupt, fmt::format("the answer has more than {} bytes",
                                                             transfer.request.max_body_bytes)));
    return 0;
  }
  transfer.reply.body.append(piece);
  return piece.size();
}

std::size_t on_upload(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t room = size * count;
  const std::size_t taken = std::min(room, transfer.request.body.size() - transfer.sent);
  transfer.request.body.copy(data, taken, transfer.sent);
  transfer.sent += taken;
  return taken;
}

// Called about once a second while nothing moves, more often else.
int on_progress(void* user, curl_off_t /*down_total*/, curl_off_t down, curl_off_t /*up_total*/,
                curl_off_t up) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (auto held = transfer.ctx.check("waiting for an answer"); !held) {
    transfer.fail(std::move(held).error());
    return 1;
  }
  const Millis now = transfer.ctx.clock->boottime();
  if (down + up != transfer.moved) {
    transfer.moved = down + up;
    transfer.last_moved = now;
  } else if (now - transfer.last_moved > transfer.request.silence_limit) {
    transfer.fail(make_error(ErrorKind::timeout, fmt::format("no answer came within {} s",
                                                             transfer.request.silence_limit.count() / 1000)));
    return 1;
  }
  return 0;
}

// libcurl says only "could not connect": why, by trying once by hand.
Error socket_error(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return make_error(ErrorKind::config, fmt::format("the socket's path has {} bytes, more than {}",
                                                     path.size(), sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (!fd.is_open() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == ENOENT) {
      return make_error(ErrorKind::not_found, "there is no such socket");
    }
    if (errno == ECONNREFUSED) {
      return make_error(ErrorKind::not_found, "nobody listens there");
    }
    return errno_error("connecting", errno);
  }
  return make_error(ErrorKind::backend_unavailable, "the connection broke");
}

}  // namespace

struct HttpClient::State {
  CURL* handle = nullptr;
  const Curl* curl = nullptr;
  curl_slist* headers = nullptr;
  char problem[CURL_ERROR_SIZE] = {};

  ~State() {
    if (handle != nullptr) {
      curl->free_all(headers);
      curl->cleanup(handle);
    }
  }

  template <typename Value>
  void set(CURLoption option, Value value) {
    static_cast<void>(curl->setopt(handle, option, value));
  }

  void set_server(const HttpServer& server) {
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROXY, "");
    set(CURLOPT_NOPROXY, "*");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    set(CURLOPT_ERRORBUFFER, problem);
    set(CURLOPT_USERAGENT, "ascope-sandbox/" ASCOPE_VERSION);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    if (!server.unix_socket.empty()) {
      set(CURLOPT_UNIX_SOCKET_PATH, server.unix_socket.c_str());
    }
    set(CURLOPT_SSL_VERIFYPEER, server.verify ? 1L : 0L);
    set(CURLOPT_SSL_VERIFYHOST, server.verify ? 2L : 0L);
    const std::pair<CURLoption, const std::string*> files[] = {{CURLOPT_CAINFO, &server.ca_file},
                                                               {CURLOPT_SSLCERT, &server.cert_file},
                                                               {CURLOPT_SSLKEY, &server.key_file}};
    for (const auto& [option, path] : files) {
      if (!path->empty()) {
        set(option, path->c_str());
      }
    }
  }

  void set_request(const HttpServer& server, const HttpRequest& request, Transfer& transfer) {
    set(CURLOPT_URL, (server.base_url + request.target).c_str());
    if (request.method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    } else if (request.has_body) {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      set(CURLOPT_READFUNCTION, on_upload);
      set(CURLOPT_READDATA, static_cast<void*>(&transfer));
    } else if (request.method == "POST") {
      set(CURLOPT_POST, 1L);
      set(CURLOPT_POSTFIELDSIZE, 0L);
      set(CURLOPT_POSTFIELDS, "");
    }
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl->free_all(headers);
    headers = curl->append(nullptr, "Expect:");
    for (const auto& [name, value] : request.headers) {
      headers = curl->append(headers, (name + ": " + value).c_str());
    }
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_HEADERFUNCTION, on_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
    set(CURLOPT_WRITEFUNCTION, on_data);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, on_progress);
    set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
  }
};

HttpClient::HttpClient(HttpServer server) : server_(std::move(server)), state_(std::make_unique<State>()) {}
HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::send(const OpContext& ctx, const HttpRequest& request) {
  ASCOPE_TRY(ctx.check("asking a server"));
  State& state = *state_;
  if (state.handle == nullptr) {
    const Result<Curl>& library = curl_library();
    if (!library) {
      return library.error();
    }
    state.curl = &*library;
    state.handle = state.curl->init();
    if (state.handle == nullptr) {
      return make_error(ErrorKind::io, "libcurl gave no handle");
    }
  }
  state.curl->reset(state.handle);  // its connection stays
  Transfer transfer{ctx, request};
  transfer.last_moved = ctx.clock->boottime();
  state.problem[0] = '\0';
  state.set_server(server_);
  state.set_request(server_, request, transfer);
  const CURLcode code = state.curl->perform(state.handle);
  if (transfer.failure) {
    return std::move(*transfer.failure);
  }
  if (code == CURLE_OK) {
    if (transfer.reply.status < 100 || transfer.reply.status > 599) {
      return make_error(ErrorKind::corrupt, fmt::format("the answer has status {}", transfer.reply.status));
    }
    return std::move(transfer.reply);
  }
  const std::string why = state.problem[0] != '\0' ? state.problem : state.curl->strerror(code);
  switch (code) {
    case CURLE_COULDNT_CONNECT:
      return server_.unix_socket.empty() ? make_error(ErrorKind::not_found, why)
                                         : socket_error(server_.unix_socket);
    case CURLE_COULDNT_RESOLVE_HOST:
      return make_error(ErrorKind::not_found, why);
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_PEER_FAILED_VERIFICATION:
      return make_error(ErrorKind::denied, why);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
      return make_error(ErrorKind::corrupt, "what answers does not speak HTTP: " + why);
    default:
      return make_error(ErrorKind::backend_unavailable, why);
  }
}

std::string url_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

}  // namespace ascope
