// SPDX-License-Identifier: Apache-2.0
// The client against answers that no engine should give, and those it gives.
#include "backends/docker/engine.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "unit/docker/canned_server.h"

using namespace ascope;
using docker::Endpoint;
using docker::Engine;
using docker::find_endpoint;
using test::CannedServer;
using test::http_answer;
using test::ping_answer;

namespace {

Engine engine_at(const CannedServer& server) {
  return Engine(find_endpoint({}, server.address(), "").value());
}

bool is_ping(const std::string& request) {
  return request.starts_with("GET /_ping ");
}

const std::string kContainer =
    R"({"Id":"ab12","Name":"/box","Image":"sha256:1","Created":"2026-01-01T00:00:00Z","State":{"Status":"running",)"
    R"("Running":true,"Paused":false,"Pid":42,"ExitCode":0,"Error":"","StartedAt":"2026-01-01T00:00:01Z"},)"
    R"("Config":{"Labels":{"a":"b"}}})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("the version is the highest that both speak, and not below what the engine takes") {
  struct Row {
    const char* ping;
    const char* least;
    const char* want;
  };
  for (const Row& row : {Row{"1.41", "1.12", "1.41"}, Row{"1.47", "1.24", "1.47"},
                         Row{"1.52", "1.44", "1.47"}, Row{"1.60", "1.50", "1.50"}}) {
    CAPTURE(row.ping);
    CannedServer server([&](const std::string& request) {
      return is_ping(request) ? ping_answer(row.ping)
             : request.starts_with("GET /version ")
                 ? http_answer("200 OK", fmt::format(R"({{"MinAPIVersion":"{}"}})", row.least))
             : request.find("/json") != std::string::npos ? http_answer("200 OK", kContainer)
                                                          : http_answer("500 No", "");
    });
    Engine engine = engine_at(server);
    const auto found = engine.find_container({}, "box");
    REQUIRE(found.has_value());
    CHECK((*found)->pid == 42);
    CHECK((*found)->labels.at("a") == "b");
    CHECK(server.requests().back().starts_with(fmt::format("GET /v{}/containers/box/json ", row.want)));
  }
}

TEST_CASE("what answers a ping wrongly is no engine") {
  struct Row {
    std::string answer;
    ErrorKind kind;
  };
  const Row rows[] = {
      {"", ErrorKind::backend_unavailable},
      {"hello\r\n\r\n", ErrorKind::backend_unavailable},
      {"SSH-2.0-OpenSSH_9\r\n", ErrorKind::backend_unavailable},
      {http_answer("200 OK", "OK"), ErrorKind::backend_unavailable},
      {http_answer("200 OK", "OK", "Api-Version: new\r\n"), ErrorKind::backend_unavailable},
      {http_answer("200 OK", "OK", "Api-Version: 1.99999\r\n"), ErrorKind::backend_unavailable},
      {http_answer("200 OK", "OK", "Api-Version: 1.41\r\nOstype: windows\r\n"), ErrorKind::unsupported},
      {http_answer("200 OK", "OK", "Api-Version: 1.24\r\n"), ErrorKind::unsupported},
      {http_answer("503 No", R"({"message":"starting"})"), ErrorKind::backend_unavailable},
      {http_answer("403 No", ""), ErrorKind::denied},
      {http_answer("301 Elsewhere", "", "Location: http://127.0.0.1:1/\r\n"), ErrorKind::backend_unavailable},
      {http_answer("200 OK", "OK", "X: " + std::string(300000, 'x') + "\r\n"),
       ErrorKind::backend_unavailable},
      {http_answer("200 OK", std::string(100000, 'x'), "Api-Version: 1.41\r\n"),
       ErrorKind::backend_unavailable},
      {"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 100\r\n\r\nOK",
       ErrorKind::backend_unavailable},
  };
  for (const Row& row : rows) {
    CAPTURE(row.answer.substr(0, 80));
    const CannedServer server([&](const std::string&) { return row.answer; });
    Engine engine = engine_at(server);
    const auto version = engine.version({});
    REQUIRE(!version.has_value());
    CHECK(version.error().kind == row.kind);
    CHECK(version.error().message.find(server.address()) != std::string::npos);
  }
}

TEST_CASE("a version that was demanded is not negotiated") {
  CannedServer server([](const std::string& request) {
    return is_ping(request)
               ? ping_answer("1.41")
               : http_answer("400 Bad", R"({"message":"client version 1.45 is too new. Maximum is 1.41"})");
  });
  Endpoint endpoint = find_endpoint({}, server.address(), "").value();
  endpoint.api_version = "1.45";
  Engine engine(endpoint);
  const auto found = engine.find_container({}, "box");
  REQUIRE(!found.has_value());
  CHECK(found.error().kind == ErrorKind::unsupported);
  CHECK(found.error().hint == "unset DOCKER_API_VERSION");
  CHECK(server.requests().back().starts_with("GET /v1.45/"));
}

TEST_CASE("containers that no engine has") {
  const std::string wrong[] = {
      "",
      "[]",
      "null",
      "{\"Id\":\"ab12\"}",
      kContainer + "x",
      "{\"Id\":\"ab12\"," + kContainer.substr(1),
      std::string(70, '[') + std::string(70, ']'),
      replaced(kContainer, "\"ab12\"", "7"),
      replaced(kContainer, "\"ab12\"", "\"../x\""),
      replaced(kContainer, "\"ab12\"", "\"" + std::string(200, 'a') + "\""),
      replaced(kContainer, "42", "\"42\""),
      replaced(kContainer, "42", "4.2"),
      replaced(kContainer, "42", "99999999999999999999"),
      replaced(kContainer, "true", "1"),
      replaced(kContainer, "{\"a\":\"b\"}", "[\"a\"]"),
      replaced(kContainer, "{\"a\":\"b\"}", "{\"a\":1}"),
  };
  for (const std::string& body : wrong) {
    CAPTURE(body.substr(0, 120));
    const CannedServer server([&](const std::string& request) {
      return is_ping(request) ? ping_answer() : http_answer("200 OK", body);
    });
    Engine engine = engine_at(server);
    const auto found = engine.find_container({}, "box");
    REQUIRE(!found.has_value());
    CHECK(found.error().kind == ErrorKind::backend_unavailable);  // never "not there"
    CHECK(found.error().message.find("container 'box'") != std::string::npos);
  }
}

TEST_CASE("an answer without end has a limit") {
  const CannedServer server([](const std::string& request) {
    return is_ping(request) ? ping_answer()
                            : "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + std::string(9U << 20U, '[');
  });
  Engine engine = engine_at(server);
  const auto found = engine.find_container({}, "box");
  REQUIRE(!found.has_value());
  CHECK(found.error().message.find("more than 8388608 bytes") != std::string::npos);
}

TEST_CASE("refusals keep their kind and the engine's reason, fit to be shown") {
  struct Row {
    const char* status;
    const char* body;
    ErrorKind kind;
    const char* text;
  };
  const Row rows[] = {
      {"400 Bad", R"({"message":"invalid\u001b[31m mount"})", ErrorKind::config,
       "invalid [31m mount (HTTP 400)"},
      {"404 No", R"({"message":"No such image: x"})", ErrorKind::not_found, "No such image: x"},
      {"409 No", R"({"cause":"c","message":"in use","response":409})", ErrorKind::conflict, "in use"},
      {"500 No", "oops", ErrorKind::backend_unavailable, "oops (HTTP 500)"},
      {"500 No", "", ErrorKind::backend_unavailable, "no reason was given (HTTP 500)"},
      {"200 OK", R"({"Id":"zz"})", ErrorKind::backend_unavailable, "'zz' is no container's id"},
      {"501 No", "{}", ErrorKind::unsupported, "(HTTP 501)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.body);
    CannedServer server([&](const std::string& request) {
      return is_ping(request) ? ping_answer() : http_answer(row.status, row.body);
    });
    Engine engine = engine_at(server);
    const auto made = engine.create_container({}, "box", "", Json{{"Image", "x"}});
    REQUIRE(!made.has_value());
    CHECK(made.error().kind == row.kind);
    CHECK(made.error().message.find(row.text) != std::string::npos);
    CHECK(made.error().message.find("creating container 'box'") != std::string::npos);
    CHECK(server.requests().back().find("Content-Type: application/json\r\n") != std::string::npos);
    CHECK(server.requests().back().ends_with(R"({"Image":"x"})"));
  }
}

TEST_CASE("a list holds only what carries the labels") {
  CannedServer server([&](const std::string& request) {
    return is_ping(request)
               ? ping_answer()
               : http_answer("200 OK", R"([{"Id":"a1","State":"running","Names":["/x"],"Labels":{"k":"v"}},)"
                                       R"({"Id":"a2","State":"exited","Labels":{"k":"w"}},)"
                                       R"({"Id":"a3","State":"exited","Labels":null}])");
  });
  Engine engine = engine_at(server);
  const auto list = engine.list_containers({}, {{"k", "v"}});
  REQUIRE(list.has_value());
  REQUIRE(list->size() == 1);
  CHECK(list->front().name == "x");
  CHECK(server.requests().back().find("filters=%7B%22label%22%3A%5B%22k%3Dv%22%5D%7D") != std::string::npos);
}

TEST_CASE("a pull's failure stands in its stream") {
  struct Row {
    std::string body;
    std::optional<ErrorKind> kind;
    const char* text;
  };
  const std::string fine =
      "{\"status\":\"Pulling\",\"id\":\"l1\"}\r\n{\"status\":\"Downloading\",\"id\":\"l1\","
      "\"progressDetail\":{\"current\":5,\"total\":10}}\r\n{\"status\":\"Downloading\",\"id\":\"l2\","
      "\"progressDetail\":{\"current\":2,\"total\":4}}\n";
  const Row rows[] = {
      {fine, std::nullopt, ""},
      {fine + R"({"errorDetail":{"message":"manifest unknown"},"error":"manifest unknown"})",
       ErrorKind::backend_unavailable, "manifest unknown"},
      {fine + R"({"error":"pull access denied for x"})", ErrorKind::denied, "pull access denied"},
      {fine + R"({"errorDetail":{}})", ErrorKind::backend_unavailable, "without saying why"},
      {fine + "{", ErrorKind::backend_unavailable, "pulling image"},
      {fine + "\"x\"\n[]\n", std::nullopt, ""},
      {std::string(2U << 20U, 'x'), ErrorKind::backend_unavailable, "1 MiB"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CannedServer server([&](const std::string& request) {
      return is_ping(request) ? ping_answer() : "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + row.body;
    });
    Engine engine = engine_at(server);
    std::uint64_t done = 0;
    std::uint64_t total = 0;
    const auto pulled =
        engine.pull_image({}, "host:5000/a/b:tag", "", [&](std::uint64_t now, std::uint64_t all) {
          done = now;
          total = all;
        });
    CHECK(pulled.has_value() == !row.kind.has_value());
    if (row.kind) {
      CHECK(pulled.error().kind == *row.kind);
      CHECK(pulled.error().message.find(row.text) != std::string::npos);
      CHECK(pulled.error().message.find("host:5000/a/b:tag") != std::string::npos);
    }
    if (row.body.starts_with(fine)) {
      CHECK(done == 7);
      CHECK(total == 14);
    }
    CHECK(server.requests().back().starts_with(
        "POST /v1.41/images/create?fromImage=host%3A5000%2Fa%2Fb&tag=tag HTTP/1.1\r\n"));
  }
}

TEST_CASE("an engine that is not there") {
  Engine engine(find_endpoint({}, "unix:///nowhere/ascope.sock", "").value());
  const auto found = engine.find_container({}, "box");
  REQUIRE(!found.has_value());
  CHECK(found.error().kind == ErrorKind::backend_unavailable);
  CHECK(found.error().message ==
        "engine 'unix:///nowhere/ascope.sock': asking for its version: there is no such socket");
  CHECK(found.error().hint == "start the engine, or name another one (it is named by backend.options.host)");
}

TEST_CASE("a deadline ends a request to an engine that is silent") {
  const CannedServer server([](const std::string& request) {
    if (is_ping(request)) {
      return ping_answer();
    }
    OpContext ctx;
    static_cast<void>(ctx.sleep(Millis(3000), "being silent"));
    return std::string();
  });
  Engine engine = engine_at(server);
  REQUIRE(engine.version({}).has_value());
  const auto found = engine.find_container(OpContext{}.with_timeout(Millis(200)), "box");
  REQUIRE(!found.has_value());
  CHECK(found.error().kind == ErrorKind::timeout);
}
