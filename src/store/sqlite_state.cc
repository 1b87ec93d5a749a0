// SPDX-License-Identifier: Apache-2.0
// Records and receipts in a SQLite file. Records lie as AgentScope's SQL stores lay them (reference 4.6),
// with its name for a call without a user in front of the slot's name.
#include <algorithm>
#include <optional>

#include "store/sqlite_db.h"
#include "store/sqlite_tables.h"

namespace ascope {

namespace {

constexpr std::string_view kAnonymous = "__anon__:";

std::string session_id(std::string_view slot) {
  return std::string(kAnonymous) + std::string(slot);
}

class SqliteStateStore final : public StateStore {
 public:
  explicit SqliteStateStore(std::string file) : file_(std::move(file), SqliteDurability::full) {}

  Result<std::optional<std::string>> read(const OpContext& ctx, std::string_view slot,
                                          std::string_view key) override {
    ASCOPE_TRY(ctx.check("reading the state store"));
    ASCOPE_TRY_ASSIGN(SqliteDb * db, file_.to_read(ctx));
    if (db == nullptr) {
      return std::optional<std::string>{};
    }
    ASCOPE_TRY_ASSIGN(SqliteStatement select,
                      db->prepare("SELECT state_data FROM agentscope_sessions "
                                  "WHERE session_id=? AND state_key=? AND item_index=0"));
    select.bind(1, session_id(slot)).bind(2, key);
    ASCOPE_TRY_ASSIGN(const bool found, select.step());
    return found ? std::optional(select.bytes(0)) : std::nullopt;
  }

  Result<bool> swap(const OpContext& ctx, std::string_view slot, std::string_view key,
                    const std::optional<std::string>& expected, std::string_view desired) override {
    ASCOPE_TRY_ASSIGN(SqliteDb * db, file_.to_write(ctx));
    ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, *db));
    ASCOPE_TRY_ASSIGN(
        SqliteStatement change,
        db->prepare(expected
                        ? "UPDATE agentscope_sessions SET state_data=?3, updated_at=CURRENT_TIMESTAMP "
                          "WHERE session_id=?1 AND state_key=?2 AND item_index=0 AND state_data=?4"
                        : "INSERT INTO agentscope_sessions (session_id, state_key, state_data, updated_at) "
                          "VALUES (?1, ?2, ?3, CURRENT_TIMESTAMP) ON CONFLICT DO NOTHING"));
    change.bind(1, session_id(slot)).bind(2, key).bind(3, desired);
    if (expected) {
      change.bind(4, *expected);
    }
    ASCOPE_TRY(change.run());
    if (db->changes() != 1) {
      return false;
    }
    ASCOPE_TRY(transaction.commit());
    return true;
  }

  Result<void> remove(const OpContext& ctx, std::string_view slot, std::string_view key) override {
    ASCOPE_TRY_ASSIGN(SqliteDb * db, file_.to_read(ctx));
    if (db == nullptr) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, *db));
    ASCOPE_TRY_ASSIGN(SqliteStatement change,
                      db->prepare("DELETE FROM agentscope_sessions WHERE session_id=? AND state_key=?"));
    ASCOPE_TRY(change.bind(1, session_id(slot)).bind(2, key).run());
    return transaction.commit();
  }

  Result<std::vector<std::string>> keys(const OpContext& ctx, std::string_view slot) override {
    ASCOPE_TRY_ASSIGN(SqliteDb * db, file_.to_read(ctx));
    if (db == nullptr) {
      return std::vector<std::string>{};
    }
    ASCOPE_TRY_ASSIGN(SqliteStatement select,
                      db->prepare("SELECT state_key FROM agentscope_sessions WHERE session_id=? AND "
                                  "item_index=0 ORDER BY state_key"));
    select.bind(1, session_id(slot));
    return collect(select, 0);
  }

  Result<std::vector<std::string>> slots(const OpContext& ctx) override {
    ASCOPE_TRY_ASSIGN(SqliteDb * db, file_.to_read(ctx));
    if (db == nullptr) {
      return std::vector<std::string>{};
    }
    ASCOPE_TRY_ASSIGN(
        SqliteStatement select,
        db->prepare("SELECT session_id FROM agentscope_sessions WHERE state_key=?1 AND item_index=0 AND "
                    "substr(session_id, 1, length(?2))=?2 ORDER BY session_id"));
    select.bind(1, kRecordKey).bind(2, kAnonymous);
    return collect(select, kAnonymous.size());
  }

 private:
  static Result<std::vector<std::string>> collect(SqliteStatement& select, std::size_t skip) {
    std::vector<std::string> out;
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool found, select.step());
      if (!found) {
        return out;
      }
      out.push_back(select.bytes(0).substr(skip));
    }
  }

  SqliteTables file_;
};

// A receipt that a power cut took away is no loss of work, so a commit here does not wait for the disk.
class SqliteReceiptStore final : public ReceiptStore {
 public:
  explicit SqliteReceiptStore(std::string file) : file_(std::move(file), SqliteDurability::ordered) {}

  Result<void> append(const OpContext& ctx, std::string_view slot, std::string_view receipt_json) override {
    ASCOPE_TRY_ASSIGN(SqliteDb * db, file_.to_write(ctx));
    ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, *db));
    ASCOPE_TRY_ASSIGN(SqliteStatement insert,
                      db->prepare("INSERT INTO ascope_receipts (session_id, receipt) VALUES (?, ?)"));
    ASCOPE_TRY(insert.bind(1, session_id(slot)).bind(2, receipt_json).run());
    ASCOPE_TRY_ASSIGN(SqliteStatement trim,
                      db->prepare("DELETE FROM ascope_receipts WHERE session_id=?1 AND id<=(SELECT id FROM "
                                  "ascope_receipts WHERE session_id=?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)"));
    ASCOPE_TRY(trim.bind(1, session_id(slot)).bind(2, static_cast<std::int64_t>(kReceiptsKept)).run());
    return transaction.commit();
  }

  Result<std::vector<std::string>> newest(const OpContext& ctx, std::string_view slot,
                                          std::size_t limit) override {
    std::vector<std::string> out;
    ASCOPE_TRY_ASSIGN(SqliteDb * db, file_.to_read(ctx));
    if (db == nullptr) {
      return out;
    }
    ASCOPE_TRY_ASSIGN(
        SqliteStatement select,
        db->prepare("SELECT receipt FROM ascope_receipts WHERE session_id=? ORDER BY id DESC LIMIT ?"));
    select.bind(1, session_id(slot))
        .bind(2, static_cast<std::int64_t>(std::min<std::size_t>(limit, 1U << 20U)));
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool found, select.step());
      if (!found) {
        return out;
      }
      out.push_back(select.bytes(0));
    }
  }

  Result<void> clear(const OpContext& ctx, std::string_view slot) override {
    ASCOPE_TRY_ASSIGN(SqliteDb * db, file_.to_read(ctx));
    if (db == nullptr) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, *db));
    ASCOPE_TRY_ASSIGN(SqliteStatement change, db->prepare("DELETE FROM ascope_receipts WHERE session_id=?"));
    ASCOPE_TRY(change.bind(1, session_id(slot)).run());
    return transaction.commit();
  }

 private:
  SqliteTables file_;
};

}  // namespace

Result<std::unique_ptr<StateStore>> open_sqlite_state(const OpContext& /*ctx*/, const StoreUrl& url,
                                                      const StoreContext& context) {
  ASCOPE_TRY(check_store_options(url));
  ASCOPE_TRY_ASSIGN(std::string file, sqlite_file(url, context));
  return std::unique_ptr<StateStore>(std::make_unique<SqliteStateStore>(std::move(file)));
}

Result<std::unique_ptr<ReceiptStore>> open_sqlite_receipts(const OpContext& /*ctx*/, const StoreUrl& url,
                                                           const StoreContext& context) {
  ASCOPE_TRY(check_store_options(url));
  ASCOPE_TRY_ASSIGN(std::string file, sqlite_file(url, context));
  return std::unique_ptr<ReceiptStore>(std::make_unique<SqliteReceiptStore>(std::move(file)));
}

}  // namespace ascope
