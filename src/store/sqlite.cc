// SPDX-License-Identifier: Apache-2.0
// sqlite:FILE — one database file on this machine; the services are in sqlite_*.cc.
#include "store/sqlite_db.h"

namespace ascope {

extern const StoreKind kSqliteStore;
const StoreKind kSqliteStore{.scheme = "sqlite",
                             .summary = "a SQLite file on this machine (without FILE: in the state folder)",
                             .shared = false,
                             .open_blobs = &open_sqlite_blobs,
                             .open_state = &open_sqlite_state,
                             .open_receipts = &open_sqlite_receipts,
                             .open_leases = &open_sqlite_leases};

}  // namespace ascope
