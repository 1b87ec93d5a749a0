// SPDX-License-Identifier: Apache-2.0
#include "backends/docker/settings.h"

#include <doctest/doctest.h>

using namespace ascope;
using docker::plan_container;

namespace {

SandboxSettings with(const std::string& option, const std::string& value) {
  SandboxSettings settings;
  settings.network = "bridge";
  settings.options[option] = value;
  return settings;
}

}  // namespace

TEST_CASE("a container that nothing was said of") {
  const auto plan = plan_container({});
  REQUIRE(plan.has_value());
  CHECK(plan->image == docker::kDefaultImage);
  CHECK(plan->user.empty());
  CHECK(!plan->no_capabilities);
  const Json& host = plan->body["HostConfig"];
  CHECK(host["NetworkMode"] == "none");
  CHECK(host["PidsLimit"] == 4096);
  CHECK(host["CapDrop"] == Json::array({"ALL"}));
  CHECK(host["CapAdd"].size() == 7);
  CHECK(host["SecurityOpt"] == Json::array({"no-new-privileges"}));
  CHECK(host["Init"] == false);
  CHECK(!host.contains("Memory"));
  CHECK(host["Mounts"].empty());
  CHECK(plan->body["Healthcheck"]["Test"] == Json::array({"NONE"}));
  CHECK(plan->body["User"] == "0:0");
  CHECK(!plan->body.contains("Env"));  // a secret must not be read off the container
}

TEST_CASE("ports as they may be written") {
  struct Row {
    const char* text;
    const char* inside;
    const char* address;
    const char* outside;
  };
  for (const Row& row : {Row{"80", "80/tcp", "", "80"}, Row{"8080:80", "80/tcp", "", "8080"},
                         Row{"127.0.0.1:8080:80/udp", "80/udp", "127.0.0.1", "8080"},
                         Row{"[::1]:8080:80", "80/tcp", "::1", "8080"}}) {
    CAPTURE(row.text);
    SandboxSettings settings;
    settings.network = "bridge";
    settings.ports = {row.text};
    const auto plan = plan_container(settings);
    REQUIRE(plan.has_value());
    const Json& binding = plan->body["HostConfig"]["PortBindings"][row.inside][0];
    CHECK(binding["HostIp"] == row.address);
    CHECK(binding["HostPort"] == row.outside);
    CHECK(plan->body["ExposedPorts"].contains(row.inside));
  }
  for (const char* wrong : {"", "x", "0", "65536", "1:2:3:", "80/icmp", ":80", "80:", "-1", "8080:80:"}) {
    CAPTURE(wrong);
    SandboxSettings settings;
    settings.network = "bridge";
    settings.ports = {wrong};
    CHECK(plan_container(settings).error().kind == ErrorKind::config);
  }
}

TEST_CASE("options, and what is none") {
  struct Row {
    const char* name;
    const char* value;
    const char* member;
    const char* want;
  };
  const Row good[] = {
      {"cap_add", "net_raw", "CapAdd",
       R"(["CHOWN","DAC_OVERRIDE","FOWNER","FSETID","KILL","NET_RAW","SETGID","SETUID"])"},
      {"dns", "[1.1.1.1]", "", ""},
      {"dns", "[\"1.1.1.1\", \"9.9.9.9\"]", "Dns", R"(["1.1.1.1","9.9.9.9"])"},
      {"shm_size", "64MiB", "ShmSize", "67108864"},
      {"memorySizeBytes", "1048576", "Memory", "1048576"},
      {"cpuCount", "2", "NanoCpus", "2000000000"},
      {"tmpfs", "/tmp/x:size=1m", "Tmpfs", R"({"/tmp/x":"size=1m"})"},
      {"ulimits", "nofile=10", "Ulimits", R"([{"Name":"nofile","Soft":10,"Hard":10}])"},
      {"host_config", R"({"CpusetCpus":"0"})", "CpusetCpus", "\"0\""},
      {"additionalRunArgs", R"(["--memory=512m","-p","80:80","--init","--read-only"])", "ReadonlyRootfs",
       "true"},
      {"additionalRunArgs", R"(["--memory=512m"])", "Memory", "536870912"},
      {"additionalRunArgs", R"(["--security-opt","no-new-privileges"])", "SecurityOpt",
       R"(["no-new-privileges"])"},
  };
  for (const Row& row : good) {
    CAPTURE(row.name);
    CAPTURE(row.value);
    const auto plan = plan_container(with(row.name, row.value));
    if (*row.member == '\0') {
      CHECK(plan.error().kind == ErrorKind::config);
      continue;
    }
    REQUIRE(plan.has_value());
    CHECK(dump_json(plan->body["HostConfig"][row.member]) == row.want);
  }
  const std::pair<std::pair<const char*, const char*>, ErrorKind> bad[] = {
      {{"colour", "red"}, ErrorKind::unsupported},
      {{"pull", "sometimes"}, ErrorKind::config},
      {{"cap_drop", "CHOWN"}, ErrorKind::unsupported},
      {{"no_new_privileges", "false"}, ErrorKind::unsupported},
      {{"no_new_privileges", "maybe"}, ErrorKind::config},
      {{"tmpfs", "/workspace"}, ErrorKind::unsupported},
      {{"tmpfs", "/"}, ErrorKind::config},
      {{"tmpfs", "x"}, ErrorKind::config},
      {{"ulimits", "nofile"}, ErrorKind::config},
      {{"ulimits", "nofile=a"}, ErrorKind::config},
      {{"host_config", "[]"}, ErrorKind::config},
      {{"host_config", R"({"Binds":["/:/x"]})"}, ErrorKind::unsupported},
      {{"host_config", R"({"PidMode":"host"})"}, ErrorKind::unsupported},
      {{"additionalRunArgs", R"(["-v","/:/x"])"}, ErrorKind::unsupported},
      {{"additionalRunArgs", R"(["--privileged"])"}, ErrorKind::unsupported},
      {{"additionalRunArgs", R"(["--memory"])"}, ErrorKind::config},
      {{"additionalRunArgs", R"(["--label=ascope.slot=x"])"}, ErrorKind::config},
      {{"cpuCount", "0"}, ErrorKind::config},
      {{"cpuCount", "1x"}, ErrorKind::config},
      {{"memorySizeBytes", "-1"}, ErrorKind::config},
      {{"exposedPorts", "[70000]"}, ErrorKind::config},
  };
  for (const auto& [option, kind] : bad) {
    CAPTURE(option.first);
    CAPTURE(option.second);
    const auto plan = plan_container(with(option.first, option.second));
    REQUIRE(!plan.has_value());
    CHECK(plan.error().kind == kind);
    CHECK(!plan.error().hint.empty());
  }
}

TEST_CASE("what contradicts itself") {
  SandboxSettings twice = with("memorySizeBytes", "1048576");
  twice.memory_bytes = 1;
  CHECK(plan_container(twice).error().kind == ErrorKind::config);
  SandboxSettings image = with("image", "a");
  image.image = "b";
  CHECK(plan_container(image).error().kind == ErrorKind::config);
  SandboxSettings both = with("cap_add", "NET_RAW");
  both.options["cap_drop"] = "ALL";
  CHECK(plan_container(both).error().kind == ErrorKind::unsupported);
  SandboxSettings ports;
  ports.ports = {"80"};
  CHECK(plan_container(ports).error().hint.find("bridge") != std::string::npos);
  SandboxSettings root;
  root.workspace_root = "/run/ascope/b";
  CHECK(plan_container(root).error().kind == ErrorKind::unsupported);
}

TEST_CASE("the folder that is probably HOME") {
  docker::ImageFacts image;
  CHECK(docker::likely_home(image, "") == "/root");
  CHECK(docker::likely_home(image, "agent:staff") == "/home/agent");
  CHECK(docker::likely_home(image, "1000") == "");
  CHECK(docker::likely_home(image, "../etc") == "");
  image.user = "app";
  CHECK(docker::likely_home(image, "") == "/home/app");
  image.environment = {"HOME=/data/./x"};
  CHECK(docker::likely_home(image, "") == "/data/x");
}
