// SPDX-License-Identifier: Apache-2.0
// A SQLite file with the tables of records, receipts and objects, opened when it is first needed. For the
// files of src/store/sqlite_*.cc only; leases bring their own table.
#pragma once

#include <optional>
#include <string>

#include "store/sqlite_db.h"

namespace ascope {

class SqliteTables {
 public:
  SqliteTables(std::string file, SqliteDurability durability)
      : file_(std::move(file)), durability_(durability) {}

  // nullptr: there is no file, and none was made. The object is good until the next call.
  Result<SqliteDb*> to_read(const OpContext& ctx);
  // Makes the file and the tables if missing. `unsupported` for a format of a later version.
  Result<SqliteDb*> to_write(const OpContext& ctx);

 private:
  Result<void> drop_if_replaced();
  Result<void> make_tables(const OpContext& ctx, SqliteDb& db);

  std::string file_;
  SqliteDurability durability_;
  std::optional<SqliteDb> db_;
};

}  // namespace ascope
