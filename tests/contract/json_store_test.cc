// SPDX-License-Identifier: Apache-2.0
// What is particular to json: — AgentScope's layout and form, and Java agents that rename over a record.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "contract/store_factories.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/record.h"
#include "core/slot_key.h"
#include "store/json_layout.h"
#include "unit/sample_documents.h"

using namespace ascope;
using namespace ascope::test;

// Stands in front of the C library's call in this program: a test puts what shall happen just before an
// exchange here. The hook gets the number of the call; what it returns, if not 0, is the call's errno.
static std::function<int(int call)> before_exchange;
static int exchange_calls = 0;

extern "C" int renameat2(int old_dir, const char* old_path, int new_dir, const char* new_path,
                         unsigned flags) {
  if (before_exchange) {
    errno = before_exchange(++exchange_calls);
    if (errno != 0) {
      return -1;
    }
  }
  return static_cast<int>(::syscall(SYS_renameat2, old_dir, old_path, new_dir, new_path, flags));
}

namespace {

const OpContext kCtx;
const std::string kSlot = "sandbox/user/assistant/alice";
const std::string kSegment = "c2FuZGJveC91c2VyL2Fzc2lzdGFudC9hbGljZQ";

std::string root(const TempDir& dir) {
  return dir.path() + "/deep/states";
}

std::string folder_of(const TempDir& dir, const std::string& segment) {
  return root(dir) + "/__anon__/" + segment;
}

void put_file(const std::string& path, std::string_view bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// As AgentScope's writer: a fixed temporary name, then a rename, no lock and no fsync.
void java_write(const std::string& folder, std::string_view bytes) {
  const std::string file = folder + "/_sandbox_state.json";
  put_file(file + ".tmp", bytes);
  REQUIRE(::rename((file + ".tmp").c_str(), file.c_str()) == 0);
}

std::string java_record(std::uint64_t number) {
  return "{\n  \"json\" : \"{\\\"type\\\":\\\"docker\\\",\\\"cpuCount\\\":" + std::to_string(number) +
         "}\",\n  \"deleted\" : false\n}";
}

std::string our_record(std::uint64_t rev) {
  SlotMeta meta;
  meta.rev = rev;
  return build_record(R"({"type":"docker"})", false, meta);
}

std::optional<std::string> value_of(StateStore& store, std::string_view slot) {
  auto value = store.read(kCtx, slot, kRecordKey);
  REQUIRE(value.has_value());
  return value.value();
}

}  // namespace

TEST_CASE("json store: folders are named as AgentScope names them") {
  struct Row {
    const char* slot;
    const char* segment;
  };
  const Row rows[] = {{"sandbox/session/s1", "c2FuZGJveC9zZXNzaW9uL3Mx"},
                      {"sandbox/user/assistant/alice", "c2FuZGJveC91c2VyL2Fzc2lzdGFudC9hbGljZQ"},
                      {"sandbox/agent/assistant", "c2FuZGJveC9hZ2VudC9hc3Npc3RhbnQ"},
                      {"sandbox/global", "c2FuZGJveC9nbG9iYWw"},
                      {"_ascope_realm", "_ascope_realm"},
                      {"..", "Li4"},
                      {".", "Lg"}};
  const JsonLayout layout("/r");
  for (const Row& row : rows) {
    CAPTURE(row.slot);
    CHECK(layout.folder(row.slot).value() == std::string("/r/__anon__/") + row.segment);
  }
  const std::string long_name = "sandbox/user/a/" + std::string(177, 'x');
  CHECK(layout.folder(long_name).value() ==
        "/r/__anon__/" + to_base64url("sandbox/user/~" + sha256_hex(long_name)));
}

TEST_CASE("json store: a plain name that is another slot's folder is refused") {
  const TempDir dir;
  const auto store = open_state_at("json", dir.path());
  const auto read = store->read(kCtx, "c2FuZGJveC9nbG9iYWw", kRecordKey);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().kind == ErrorKind::unsupported);
  CHECK(store->swap(kCtx, "c2FuZGJveC9nbG9iYWw", kRecordKey, std::nullopt, "x").error().kind ==
        ErrorKind::unsupported);
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("json store: what a Java agent wrote is read, listed by its name and continued") {
  const TempDir dir;
  const auto store = open_state_at("json", dir.path());
  const std::string json =
      dump_json(Json{{"json", std::string(kSampleDocuments[0].text)}, {"deleted", false}});
  const std::string folder = folder_of(dir, kSegment);
  java_write(folder, to_java_form(json));
  java_write(folder_of(dir, to_base64url("sandbox/user/a/b/c")), java_record(1));
  java_write(folder_of(dir, "chat-1"), java_record(1));
  put_file(folder_of(dir, to_base64url("sandbox/session/other")) + "/memory.json", "{}");
  CHECK(store->slots(kCtx).value() ==
        std::vector<std::string>{"chat-1", "sandbox/user/a/b/c", "sandbox/user/assistant/alice"});
  const auto value = value_of(*store, kSlot);
  const SlotRecord record = parse_record(value);
  CHECK(record.kind == RecordClass::foreign);
  CHECK(record.document_text == kSampleDocuments[0].text);
  CHECK(store->keys(kCtx, kSlot).value() == std::vector<std::string>{"_sandbox_state"});
  const std::string ours = our_record(1);
  CHECK(store->swap(kCtx, kSlot, kRecordKey, value, ours).value());
  CHECK(value_of(*store, kSlot) == ours);
  CHECK(read_file(folder + "/_sandbox_state.json").value().starts_with("{\n  \"json\" : \"{\\\"type"));
}

TEST_CASE("json store: the form on disk is AgentScope's, and every value has one") {
  CHECK(to_java_form(R"({"json":"{\"a\":1}","deleted":false})") ==
        "{\n  \"json\" : \"{\\\"a\\\":1}\",\n  \"deleted\" : false\n}");
  CHECK(to_java_form(R"({"a":{"b":{},"c":[],"d":[1,"x",{"e":null}]}})") ==
        "{\n  \"a\" : {\n    \"b\" : { },\n    \"c\" : [ ],\n    \"d\" : [ 1, \"x\", {\n      \"e\" : null\n "
        "   } ]\n"
        "  }\n}");
  const std::string java = to_java_form(R"({"a":1})");
  const std::string values[] = {"",
                                "\n",
                                "x",
                                "{}",
                                "{ }",
                                "{ }\n",
                                "{}\n",
                                R"({"a":1})",
                                R"({"a":1} )",
                                java,
                                java + "\n",
                                java + "\n\n",
                                " " + java,
                                R"({"a":1,"a":2})",
                                R"({"a":1.50})",
                                "{\"a\":\"\\u001F\"}",
                                "{\"a\":\"\\u001f\"}",
                                "{\"a\":\"\xff\"}",
                                "[1]",
                                "[ 1 ]"};
  std::vector<std::string> files;
  for (const std::string& value : values) {
    CAPTURE(value);
    files.push_back(to_java_form(value));
    CHECK(from_java_form(files.back()) == value);
  }
  std::sort(files.begin(), files.end());
  CHECK(std::adjacent_find(files.begin(), files.end()) == files.end());
}

TEST_CASE("json store: a displaced foreign record of a killed writer stays, our own left-overs go") {
  const TempDir dir;
  const auto store = open_state_at("json", dir.path());
  const std::string one = our_record(1);
  CHECK(store->swap(kCtx, kSlot, kRecordKey, std::nullopt, one).value());
  const std::string folder = folder_of(dir, kSegment);
  put_file(folder + "/.ascope.1111", java_record(7));
  put_file(folder + "/.ascope.2222", to_java_form(our_record(1)));
  put_file(folder + "/.ascope-tmp.3333", "half");
  CHECK(store->swap(kCtx, kSlot, kRecordKey, one, our_record(2)).value());
  const std::vector<std::string> names = list_dir(folder).value();
  CHECK(names == std::vector<std::string>{".ascope.1111", "_ascope.lock", "_sandbox_state.json"});
  CHECK(read_file(folder + "/.ascope.1111").value() == java_record(7));
}

TEST_CASE("json store: a folder that cannot be read is an error, not an empty store") {
  const TempDir dir;
  put_file(dir.path() + "/deep/states", "a file where the folder should be");
  const auto store = open_state_at("json", dir.path());
  CHECK(store->read(kCtx, kSlot, kRecordKey).error().kind == ErrorKind::store_unavailable);
  CHECK(store->slots(kCtx).error().kind == ErrorKind::store_unavailable);
  CHECK(store->keys(kCtx, kSlot).error().kind == ErrorKind::store_unavailable);
}

TEST_CASE("json store: receipts survive a half written line") {
  const TempDir dir;
  const auto store = open_receipts_at("json", dir.path());
  CHECK(store->append(kCtx, kSlot, R"({"n":1})").has_value());
  const std::string file = folder_of(dir, kSegment) + "/_ascope_receipts.jsonl";
  std::ofstream(file, std::ios::app) << R"({"n":2,"x":{})";
  CHECK(store->append(kCtx, kSlot, R"({"n":3})").has_value());
  CHECK(store->newest(kCtx, kSlot, 9).value() == std::vector<std::string>{R"({"n":3})", R"({"n":1})"});
  CHECK(store->append(kCtx, kSlot, "a\nb").error().kind == ErrorKind::internal);
}

TEST_CASE("json store: a Java record that comes in between compare and exchange goes back") {
  struct Row {
    const char* name;
    int writes;  // before this many exchanges
    int result;  // errno of the first exchange
    bool swapped;
    int calls;
  };
  const Row rows[] = {{"none", 0, 0, true, 1},
                      {"one", 1, 0, false, 2},
                      {"another while the first goes back", 2, 0, false, 3},
                      {"five", 5, 0, false, 6},
                      {"a file system without exchange", 0, EINVAL, true, 1},
                      {"one, without exchange", 1, EINVAL, false, 1},
                      {"an old kernel", 0, ENOSYS, true, 1}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const TempDir dir;
    const auto store = open_state_at("json", dir.path());
    const std::string folder = folder_of(dir, kSegment);
    const std::string one = our_record(1);
    const std::string two = our_record(2);
    REQUIRE(store->swap(kCtx, kSlot, kRecordKey, std::nullopt, one).value());
    exchange_calls = 0;
    before_exchange = [&](int call) {
      if (call <= row.writes) {
        java_write(folder, java_record(static_cast<std::uint64_t>(call)));
      }
      return call == 1 ? row.result : 0;
    };
    const auto done = store->swap(kCtx, kSlot, kRecordKey, one, two);
    before_exchange = nullptr;
    REQUIRE(done.has_value());
    CHECK(done.value() == row.swapped);
    CHECK(exchange_calls == row.calls);
    const std::string file = read_file(folder + "/_sandbox_state.json").value();
    CHECK(file == (row.swapped ? to_java_form(two) : java_record(static_cast<std::uint64_t>(row.writes))));
    CHECK(list_dir(folder).value() == std::vector<std::string>{"_ascope.lock", "_sandbox_state.json"});
  }
}

TEST_CASE("json store: a record that is removed before the exchange is a conflict") {
  const TempDir dir;
  const auto store = open_state_at("json", dir.path());
  const std::string one = our_record(1);
  REQUIRE(store->swap(kCtx, kSlot, kRecordKey, std::nullopt, one).value());
  const std::string file = folder_of(dir, kSegment) + "/_sandbox_state.json";
  before_exchange = [&](int) { return ::unlink(file.c_str()); };
  const auto done = store->swap(kCtx, kSlot, kRecordKey, one, our_record(2));
  before_exchange = nullptr;
  REQUIRE(done.has_value());
  CHECK_FALSE(done.value());
  CHECK_FALSE(value_of(*store, kSlot).has_value());
}

// The Java side writes bursts of numbered records and then waits until our writer has built on the last one.
// Our record says in its revision which number it was built on, so a Java record that we wrote over unseen is
// one that no revision ever reaches.
TEST_CASE("json store: no record of a Java agent is lost to a racing swap") {
  // In memory, where no fsync slows the race down. With compare-and-rename in place of the exchange this case
  // fails.
  const TempDir dir(std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp");
  const std::string folder = folder_of(dir, kSegment);
  java_write(folder, java_record(1));
  const pid_t writer = ::fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {
    const auto store = open_state_at("json", dir.path());
    while (true) {
      const auto present = store->read(kCtx, kSlot, kRecordKey);
      const SlotRecord record = parse_record(present ? present.value() : std::nullopt);
      const std::uint64_t seen = record.kind == RecordClass::ours ? record.meta->rev
                                 : record.kind == RecordClass::foreign
                                     ? record.document["cpuCount"].get<std::uint64_t>()
                                     : 0;
      if (seen == 0 || !store->swap(kCtx, kSlot, kRecordKey, present.value(), our_record(seen))) {
        ::_exit(1);
      }
    }
  }
  const auto store = open_state_at("json", dir.path());
  std::uint64_t number = 1;
  int lost = 0;
  const OpContext until = kCtx.with_timeout(Millis(2500));
  while (until.check("racing").has_value()) {
    for (std::uint64_t burst = number % 3; burst < 3; ++burst) {
      java_write(folder, java_record(++number));
    }
    bool seen = false;
    const OpContext patient = kCtx.with_timeout(Millis(10000));  // a busy machine
    while (!seen && patient.check("waiting").has_value()) {
      const SlotRecord record = parse_record(value_of(*store, kSlot));
      REQUIRE(record.kind != RecordClass::corrupt);
      seen = record.kind == RecordClass::ours && record.meta->rev == number;
    }
    lost += seen ? 0 : 1;
  }
  CHECK(lost == 0);
  CHECK(number > 20);
  int status = 0;
  CHECK(::waitpid(writer, &status, WNOHANG) == 0);
  ::kill(writer, SIGKILL);
  ::waitpid(writer, &status, 0);
}
