// SPDX-License-Identifier: Apache-2.0
// What is particular to sqlite: — damage, other programs' databases, waiting, and its table.
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "contract/store_factories.h"
#include "core/base/file.h"
#include "store/sqlite_db.h"

using namespace ascope;
using namespace ascope::test;

namespace {

const OpContext kCtx;
const std::string kSlot = "sandbox/user/assistant/alice";

std::string file_in(const TempDir& dir) {
  return dir.path() + "/deep/state.db";
}

void put_file(const std::string& path, std::string_view bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

SqliteDb opened(const TempDir& dir) {
  return SqliteDb::open(kCtx, file_in(dir), SqliteDurability::full).value();
}

}  // namespace

TEST_CASE("sqlite store: without a file it lies in the state folder") {
  const TempDir dir;
  const auto url = parse_store_url("sqlite:").value();
  const auto store = find_store_kind("sqlite")->open_state(kCtx, url, {dir.path() + "/s", "h"}).value();
  CHECK(store->swap(kCtx, kSlot, kRecordKey, std::nullopt, "1").value());
  CHECK(std::filesystem::exists(dir.path() + "/s/state.db"));
}

TEST_CASE("sqlite store: the table is AgentScope's") {
  const TempDir dir;
  const auto store = open_state_at("sqlite", dir.path());
  CHECK(store->swap(kCtx, kSlot, kRecordKey, std::nullopt, "{}").value());
  SqliteDb db = opened(dir);
  auto select = db.prepare(
                      "SELECT session_id, state_key, item_index, state_data, typeof(state_data), "
                      "created_at, updated_at FROM agentscope_sessions")
                    .value();
  REQUIRE(select.step().value());
  CHECK(select.bytes(0) == "__anon__:sandbox/user/assistant/alice");
  CHECK(select.bytes(1) == "_sandbox_state");
  CHECK(select.integer(2) == 0);
  CHECK(select.bytes(3) == "{}");
  CHECK(select.bytes(4) == "text");
  CHECK_FALSE(select.is_null(5));
  CHECK_FALSE(select.is_null(6));
}

TEST_CASE("sqlite store: rows of named users and of lists are not slots") {
  const TempDir dir;
  const auto store = open_state_at("sqlite", dir.path());
  CHECK(store->swap(kCtx, kSlot, kRecordKey, std::nullopt, "{}").value());
  SqliteDb db = opened(dir);
  CHECK(db.run("INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) VALUES "
               "('bob:sandbox/global', '_sandbox_state', 0, 'x'), "
               "('__anon__:sandbox/global', '_sandbox_state', 1, 'x')")
            .has_value());
  CHECK(store->slots(kCtx).value() == std::vector<std::string>{kSlot});
  CHECK_FALSE(store->read(kCtx, "sandbox/global", kRecordKey).value().has_value());
}

TEST_CASE("sqlite store: what is no database of ours is an error that names the file") {
  struct Row {
    const char* name;
    std::function<void(const TempDir&)> damage;
    ErrorKind kind;
  };
  const Row rows[] = {
      {"text", [](const TempDir& dir) { put_file(file_in(dir), std::string(5000, 'x')); },
       ErrorKind::corrupt},
      {"a folder", [](const TempDir& dir) { std::filesystem::create_directories(file_in(dir)); },
       ErrorKind::store_unavailable},
      {"newer format",
       [](const TempDir& dir) { CHECK(opened(dir).run("PRAGMA user_version = 2").has_value()); },
       ErrorKind::unsupported},
      {"cut in the middle",
       [](const TempDir& dir) {
         CHECK(open_state_at("sqlite", dir.path())
                   ->swap(kCtx, kSlot, kRecordKey, std::nullopt, std::string(100'000, 'x'))
                   .value());
         // The last connection has moved all into the file itself.
         std::filesystem::resize_file(file_in(dir), 30'000);
       },
       ErrorKind::corrupt},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const TempDir dir;
    row.damage(dir);
    const auto store = open_state_at("sqlite", dir.path());
    const auto read = store->read(kCtx, kSlot, kRecordKey);
    REQUIRE_FALSE(read.has_value());
    CHECK_MESSAGE(to_string(read.error().kind) == to_string(row.kind), read.error().message);
    CHECK(read.error().message.find(file_in(dir)) != std::string::npos);
    const auto written = store->swap(kCtx, kSlot, kRecordKey, std::nullopt, "x");
    CHECK_FALSE(written.has_value());
  }
}

TEST_CASE("sqlite store: a writer that never ends is a timeout, and reading goes on beside it") {
  const TempDir dir;
  const auto store = open_state_at("sqlite", dir.path());
  CHECK(store->swap(kCtx, kSlot, kRecordKey, std::nullopt, "1").value());
  SqliteDb other = opened(dir);
  REQUIRE(other.begin(kCtx).has_value());
  const OpContext soon = kCtx.with_timeout(Millis(150));
  const auto written = store->swap(soon, kSlot, kRecordKey, "1", "2");
  REQUIRE_FALSE(written.has_value());
  CHECK(written.error().kind == ErrorKind::timeout);
  CHECK(store->read(kCtx, kSlot, kRecordKey).value() == "1");
  other.rollback();
  CHECK(store->swap(kCtx, kSlot, kRecordKey, "1", "2").value());
}

TEST_CASE("sqlite store: a file that was replaced under us is opened anew") {
  const TempDir dir;
  const auto store = open_state_at("sqlite", dir.path());
  CHECK(store->swap(kCtx, kSlot, kRecordKey, std::nullopt, "1").value());
  std::filesystem::remove_all(dir.path() + "/deep");
  CHECK_FALSE(store->read(kCtx, kSlot, kRecordKey).value().has_value());
  CHECK_FALSE(store->swap(kCtx, kSlot, kRecordKey, "1", "2").value());
  CHECK(store->swap(kCtx, kSlot, kRecordKey, std::nullopt, "3").value());
  CHECK(open_state_at("sqlite", dir.path())->read(kCtx, kSlot, kRecordKey).value() == "3");
}

TEST_CASE("sqlite store: an object on its way in keeps no record waiting, and a killed writer's parts go") {
  const TempDir dir;
  const auto open_blobs = [&] {
    return find_store_kind("sqlite")
        ->open_blobs(kCtx, url_in("sqlite", dir.path()), {dir.path(), "h"})
        .value();
  };
  // Reads endlessly, and swaps a record between two pieces.
  class BusySource final : public ByteSource {
   public:
    explicit BusySource(const std::string& where) : state_(open_state_at("sqlite", where)) {}
    Result<std::size_t> read(std::span<char> buffer) override {
      const OpContext soon = kCtx.with_timeout(Millis(2000));
      const std::string next = std::to_string(++count);
      ASCOPE_TRY_ASSIGN(const bool done, state_->swap(soon, kSlot, kRecordKey, last_, next));
      CHECK(done);
      last_ = next;
      return count < 40 ? buffer.size() : std::size_t{0};
    }
    int count = 0;

   private:
    std::unique_ptr<StateStore> state_;
    std::optional<std::string> last_;
  };
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    BusySource source(dir.path());
    const auto done = open_blobs()->put(kCtx, "a/whole", source);
    // A second one that dies in the middle, as by kill -9.
    class DyingSource final : public ByteSource {
     public:
      Result<std::size_t> read(std::span<char> buffer) override {
        if (++count_ > 3) {
          ::_exit(7);
        }
        return buffer.size();
      }
      int count_ = 0;
    } dying;
    (void)open_blobs()->put(kCtx, "a/dead", dying);
    ::_exit(done && done->has_value() ? 1 : 2);
  }
  int status = -1;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WEXITSTATUS(status) == 7);
  const auto count_of = [&](const char* what) {
    SqliteDb db = opened(dir);
    auto select = db.prepare(std::string("SELECT count(*) FROM ") + what).value();
    REQUIRE(select.step().value());
    return select.integer(0);
  };
  CHECK(count_of("ascope_blob_writers") == 1);
  CHECK(count_of("ascope_blob_parts") > 39);
  const auto blobs = open_blobs();
  CHECK(blobs->stat(kCtx, "a/whole").value()->size_bytes == 39U << 20U);
  ViewSource source("x");
  CHECK(blobs->put(kCtx, "a/dead", source).value().has_value());
  CHECK(count_of("ascope_blob_writers") == 0);
  CHECK(count_of("ascope_blob_parts") == 40);
  CHECK(blobs->remove(kCtx, "a/whole").has_value());
  CHECK(count_of("ascope_blob_parts") == 1);
}

TEST_CASE("stores: unknown options are errors, and the list finds its kinds") {
  CHECK(find_store_kind("sqlite") != nullptr);
  CHECK(find_store_kind("nothing") == nullptr);
  for (const char* text : {"sqlite:/tmp/x?mode=ro", "json:/tmp/x?pretty", "json:"}) {
    CAPTURE(text);
    const auto url = parse_store_url(text).value();
    const auto store = find_store_kind(url.scheme)->open_state(kCtx, url, {"/tmp", "h"});
    REQUIRE_FALSE(store.has_value());
    CHECK(store.error().kind == ErrorKind::config);
  }
}
