// SPDX-License-Identifier: Apache-2.0
// SQLite as the services of the `sqlite:` store use it: errors as values, statements that clean up after
// themselves, write transactions that wait for each other. For the files of src/store/sqlite_*.cc only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/store.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ascope {

// The database file of a `sqlite:` URL, absolute: its path, else "state.db" in the state folder.
Result<std::string> sqlite_file(const StoreUrl& url, const StoreContext& context);

Result<std::unique_ptr<BlobStore>> open_sqlite_blobs(const OpContext& ctx, const StoreUrl& url,
                                                     const StoreContext& context);
Result<std::unique_ptr<StateStore>> open_sqlite_state(const OpContext& ctx, const StoreUrl& url,
                                                      const StoreContext& context);
Result<std::unique_ptr<ReceiptStore>> open_sqlite_receipts(const OpContext& ctx, const StoreUrl& url,
                                                           const StoreContext& context);

// A prepared statement; belongs to the SqliteDb that made it, which outlives it. Parameters count from 1,
// columns from 0. What bind() is given is copied.
class SqliteStatement {
 public:
  SqliteStatement& bind(int index, std::string_view text);
  SqliteStatement& bind_blob(int index, std::string_view bytes);
  SqliteStatement& bind(int index, std::int64_t value);
  SqliteStatement& bind_null(int index);
  // true: a row is there; false: done.
  Result<bool> step();
  // Steps to the end where no row is expected.
  Result<void> run();
  // Ready to be bound and stepped again.
  void reset();

  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  // Text or blob, all its bytes.
  [[nodiscard]] std::string bytes(int column) const;

 private:
  friend class SqliteDb;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteStatement(sqlite3* db, sqlite3_stmt* statement, std::string file)
      : db_(db), statement_(statement), file_(std::move(file)) {}
  sqlite3* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string file_;
  int bind_error_ = 0;
};

// `full`: a commit has reached the disk when it returns. `ordered`: a commit may be undone by a power cut,
// but never in part and never before an earlier one.
enum class SqliteDurability { full, ordered };

class SqliteDb {
 public:
  // Opens or makes the file (0600, its folder 0700) in WAL mode. `unsupported` on a network file system,
  // whose locks cannot be trusted; `corrupt` if it is no database.
  static Result<SqliteDb> open(const OpContext& ctx, const std::string& file, SqliteDurability durability);

  Result<void> run(const std::string& sql);
  Result<SqliteStatement> prepare(std::string_view sql);
  // Rows touched by the last INSERT, UPDATE or DELETE.
  [[nodiscard]] std::int64_t changes() const;
  // BEGIN IMMEDIATE; waits for other writers up to the context's deadline, else 30 s. `timeout` then.
  Result<void> begin(const OpContext& ctx);
  Result<void> commit();
  void rollback();
  // False if the path names another file now, or none: what is written here nobody else will read.
  [[nodiscard]] Result<bool> is_current() const;
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  explicit SqliteDb(std::string file) : file_(std::move(file)) {}
  Result<void> enter_wal(const OpContext& ctx, Millis wait);
  std::string file_;
  std::unique_ptr<sqlite3, Close> db_;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
};

// Begins a write transaction and rolls it back unless commit() was reached.
class SqliteTransaction {
 public:
  static Result<SqliteTransaction> begin(const OpContext& ctx, SqliteDb& db);
  ~SqliteTransaction();
  SqliteTransaction(SqliteTransaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;
  Result<void> commit();

 private:
  explicit SqliteTransaction(SqliteDb& db) : db_(&db) {}
  SqliteDb* db_;
};

// The leases of the `sqlite:` store (sqlite_leases.cc): StoreKind::open_leases.
Result<std::unique_ptr<LeaseStore>> open_sqlite_leases(const OpContext& ctx, const StoreUrl& url,
                                                       const StoreContext& context);

}  // namespace ascope
