// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite_tables.h"

#include <cerrno>
#include <sys/stat.h>

#include "core/base/file.h"

namespace ascope {

namespace {

constexpr std::int64_t kFormat = 1;  // PRAGMA user_version once our tables are there
constexpr const char* kSchema =
    // Records, as AgentScope's SQL stores lay them (reference 4.6).
    "CREATE TABLE IF NOT EXISTS agentscope_sessions ("
    "session_id TEXT NOT NULL, state_key TEXT NOT NULL, item_index INTEGER NOT NULL DEFAULT 0, "
    "state_data TEXT NOT NULL, created_at TEXT DEFAULT CURRENT_TIMESTAMP, updated_at TEXT, "
    "PRIMARY KEY (session_id, state_key, item_index));"
    "CREATE TABLE IF NOT EXISTS ascope_receipts ("
    "id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, receipt TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS ascope_receipts_of ON ascope_receipts (session_id, id);"
    // Objects: a writer takes a number, stores parts under it, and in one step turns into an object
    // (sqlite_blobs.cc).
    "CREATE TABLE IF NOT EXISTS ascope_blob_writers ("
    "blob INTEGER PRIMARY KEY AUTOINCREMENT, boot TEXT NOT NULL, pid_namespace INTEGER NOT NULL, "
    "pid INTEGER NOT NULL, start_time INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS ascope_blobs (key TEXT PRIMARY KEY, blob INTEGER NOT NULL, "
    "size INTEGER NOT NULL, modified INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS ascope_blob_parts ("
    "blob INTEGER NOT NULL, part INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (blob, part));"
    "PRAGMA user_version = 1";

Result<std::int64_t> format_of(SqliteDb& db) {
  ASCOPE_TRY_ASSIGN(SqliteStatement select, db.prepare("PRAGMA user_version"));
  ASCOPE_TRY_ASSIGN(const bool found, select.step());
  return found ? select.integer(0) : 0;
}

}  // namespace

Result<SqliteDb*> SqliteTables::to_read(const OpContext& ctx) {
  ASCOPE_TRY(drop_if_replaced());
  if (!db_) {
    struct stat info{};
    if (::stat(file_.c_str(), &info) != 0) {
      return errno == ENOENT
                 ? Result<SqliteDb*>(nullptr)
                 : Result<SqliteDb*>(read_failure(errno_error("looking at '" + file_ + "'", errno)));
    }
  }
  return to_write(ctx);
}

Result<SqliteDb*> SqliteTables::to_write(const OpContext& ctx) {
  ASCOPE_TRY(drop_if_replaced());
  if (!db_) {
    ASCOPE_TRY_ASSIGN(SqliteDb db, SqliteDb::open(ctx, file_, durability_));
    ASCOPE_TRY(make_tables(ctx, db));
    db_.emplace(std::move(db));
  }
  return &*db_;
}

// A file that was removed or replaced under us is gone with all it held.
Result<void> SqliteTables::drop_if_replaced() {
  if (db_) {
    ASCOPE_TRY_ASSIGN(const bool current, db_->is_current());
    if (!current) {
      db_.reset();
    }
  }
  return ok();
}

Result<void> SqliteTables::make_tables(const OpContext& ctx, SqliteDb& db) {
  ASCOPE_TRY_ASSIGN(std::int64_t format, format_of(db));
  if (format == 0) {
    ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, db));
    ASCOPE_TRY_ASSIGN(format, format_of(db));
    if (format == 0) {
      ASCOPE_TRY(db.run(kSchema));
      return transaction.commit();
    }
  }
  if (format != kFormat) {
    return make_error(ErrorKind::unsupported,
                      "database '" + file_ + "' has format " + std::to_string(format) +
                          ", this program knows " + std::to_string(kFormat),
                      "use a newer ascope-sandbox, or name another file in the profile");
  }
  return ok();
}

}  // namespace ascope
