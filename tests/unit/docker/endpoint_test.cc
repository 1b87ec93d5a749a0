// SPDX-License-Identifier: Apache-2.0
#include "backends/docker/endpoint.h"

#include <filesystem>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "unit/docker/canned_server.h"

using namespace ascope;
using docker::Endpoint;
using docker::find_endpoint;
using docker::Surroundings;

namespace {

// A home folder of its own, without any engine.
class Home {
 public:
  Home() {
    std::string name = "/tmp/ascope-home-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
    around.environment["HOME"] = path;
    around.sockets.clear();
    around.podman_sockets.clear();
  }
  ~Home() { std::filesystem::remove_all(path); }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  void write(const std::string& name, const std::string& text) const {
    const std::string whole = path + "/" + name;
    REQUIRE(make_dirs(whole.substr(0, whole.rfind('/'))).has_value());
    REQUIRE(write_file_atomic(whole, text).has_value());
  }
  void context(const std::string& name, const std::string& json) const {
    write(".docker/contexts/meta/" + sha256_hex(name) + "/meta.json", json);
  }
  [[nodiscard]] Result<Endpoint> find(const std::string& host = "", const std::string& context = "") const {
    return find_endpoint(around, host, context);
  }

  std::string path;
  Surroundings around;
};

}  // namespace

TEST_CASE("addresses of engines") {
  struct Row {
    const char* address;
    const char* socket;
    const char* url;
  };
  const Row rows[] = {{"unix:///run/x.sock", "/run/x.sock", "http://localhost"},
                      {"tcp://example:1234", "", "http://example:1234"},
                      {"tcp://example", "", "http://example:2375"},
                      {"tcp://example/", "", "http://example:2375"},
                      {"tcp://[::1]", "", "http://[::1]:2375"},
                      {"tcp://[::1]:99", "", "http://[::1]:99"},
                      {"https://example", "", "https://example:2376"}};
  const Home home;
  for (const Row& row : rows) {
    CAPTURE(row.address);
    const auto found = home.find(row.address);
    REQUIRE(found.has_value());
    CHECK(found->server.unix_socket == row.socket);
    CHECK(found->server.base_url == row.url);
    CHECK(found->server.shown == row.address);
  }
  for (const char* wrong : {"", "x", "unix://", "unix://run", "tcp://", "tcp://a/b", "tcp://u@h", "tcp://h?x",
                            "fd://", "npipe:////./pipe/x", "tcp://h\r\nX: y"}) {
    CAPTURE(wrong);
    Home other;
    other.around.environment["DOCKER_HOST"] = wrong;
    const auto found = other.find();
    REQUIRE(!found.has_value());
    CHECK(found.error().kind == (*wrong == '\0' ? ErrorKind::backend_unavailable : ErrorKind::config));
  }
  const auto ssh = home.find("ssh://host");
  REQUIRE(!ssh.has_value());
  CHECK(ssh.error().kind == ErrorKind::unsupported);
  CHECK(ssh.error().hint.find("ssh -L") != std::string::npos);
}

TEST_CASE("what names an engine, in its order") {
  Home home;
  home.context("far", R"({"Name":"far","Metadata":{},"Endpoints":{"docker":{"Host":"tcp://far:1"}}})");
  home.context("near", R"({"Name":"near","Endpoints":{"docker":{"Host":"unix:///near.sock"}}})");
  home.write(".docker/config.json", R"({"auths":{},"currentContext":"far"})");
  home.around.environment["CONTAINER_HOST"] = "unix:///podman.sock";
  CHECK(home.find()->server.base_url == "http://far:1");
  home.around.environment["DOCKER_CONTEXT"] = "near";
  CHECK(home.find()->server.unix_socket == "/near.sock");
  CHECK(home.find()->origin == "context 'near'");
  home.around.environment["DOCKER_HOST"] = "unix:///named.sock";
  CHECK(home.find()->server.unix_socket == "/named.sock");
  CHECK(home.find("", "far")->server.base_url == "http://far:1");
  CHECK(home.find("unix:///flag.sock", "far")->server.unix_socket == "/flag.sock");
  home.around.environment.erase("DOCKER_HOST");
  home.around.environment["DOCKER_CONTEXT"] = "../../etc";
  const auto missing = home.find();
  REQUIRE(!missing.has_value());
  CHECK(missing.error().kind == ErrorKind::config);
  CHECK(missing.error().message.find("'../../etc', named by DOCKER_CONTEXT") != std::string::npos);
  home.around.environment.erase("DOCKER_CONTEXT");
  home.write(".docker/config.json", R"({"auths":{}})");
  CHECK(home.find()->server.unix_socket == "/podman.sock");
  home.write(".docker/config.json", "{");
  CHECK(home.find().error().kind == ErrorKind::config);
  home.write(".docker/config.json", R"({"currentContext":7})");
  CHECK(home.find().error().kind == ErrorKind::config);
}

TEST_CASE("contexts that are no contexts") {
  for (const char* json :
       {"", "[]", "{}", R"({"Endpoints":[]})", R"({"Endpoints":{"docker":3}})",
        R"({"Endpoints":{"docker":{"Host":4}}})", R"({"Endpoints":{"docker":{"Host":"x"}}})"}) {
    CAPTURE(json);
    const Home home;
    home.context("odd", json);
    const auto found = home.find("", "odd");
    REQUIRE(!found.has_value());
    CHECK(found.error().kind == ErrorKind::config);
    CHECK(found.error().message.find("docker context 'odd'") != std::string::npos);
  }
}

TEST_CASE("TLS by environment and by context") {
  Home home;
  for (const char* name : {"ca.pem", "cert.pem", "key.pem"}) {
    home.write(std::string(".docker/") + name, "x");
    home.write(std::string("certs/") + name, "x");
  }
  home.around.environment["DOCKER_HOST"] = "tcp://h";
  CHECK(home.find()->server.base_url == "http://h:2375");
  home.around.environment["DOCKER_TLS_VERIFY"] = "0";  // any text turns it on
  auto found = home.find();
  CHECK(found->server.base_url == "https://h:2376");
  CHECK(found->server.verify);
  CHECK(found->server.ca_file == home.path + "/.docker/ca.pem");
  home.around.environment["DOCKER_TLS_VERIFY"] = "";
  home.around.environment["DOCKER_CERT_PATH"] = home.path + "/certs";
  found = home.find();
  CHECK(found->server.base_url == "https://h:2376");
  CHECK(!found->server.verify);
  CHECK(found->server.key_file == home.path + "/certs/key.pem");
  home.around.environment.erase("DOCKER_HOST");
  home.context("tls", R"({"Endpoints":{"docker":{"Host":"tcp://t:5","SkipTLSVerify":false}}})");
  home.write(".docker/contexts/tls/" + sha256_hex("tls") + "/docker/ca.pem", "x");
  found = home.find("", "tls");
  CHECK(found->server.base_url == "https://t:5");
  CHECK(found->server.verify);
  CHECK(found->server.ca_file.find("/contexts/tls/") != std::string::npos);
  CHECK(found->server.cert_file.empty());
}

TEST_CASE("sockets where nothing names an engine") {
  Home home;
  auto none = home.find();
  REQUIRE(!none.has_value());
  CHECK(none.error().kind == ErrorKind::backend_unavailable);
  CHECK(none.error().hint.find("DOCKER_HOST") != std::string::npos);
  const test::CannedServer podman([](const std::string&) { return std::string(); });
  const test::CannedServer rootless([](const std::string&) { return std::string(); });
  home.around.podman_sockets = {podman.path()};
  CHECK(home.find()->server.unix_socket == podman.path());
  REQUIRE(make_dirs(home.path + "/run").has_value());
  std::filesystem::create_symlink(rootless.path(), home.path + "/run/docker.sock");
  home.around.environment["XDG_RUNTIME_DIR"] = home.path + "/run";
  CHECK(home.find()->server.unix_socket == home.path + "/run/docker.sock");
  home.write("file", "x");
  home.around.sockets = {home.path + "/file"};  // no socket
  CHECK(home.find()->server.unix_socket == home.path + "/run/docker.sock");
}

TEST_CASE("a version that is none") {
  Home home;
  home.around.environment["DOCKER_API_VERSION"] = "1.41";
  CHECK(home.find("unix:///x")->api_version == "1.41");
  for (const char* wrong : {"1", "1.", ".4", "1.2.3", "v1.4", "1.4/../x"}) {
    CAPTURE(wrong);
    home.around.environment["DOCKER_API_VERSION"] = wrong;
    CHECK(home.find("unix:///x").error().kind == ErrorKind::config);
  }
}
