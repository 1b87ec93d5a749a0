// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite_db.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sqlite3.h>

#include "core/base/file.h"

namespace ascope {

namespace {

constexpr Millis kLongestBusyWait{30'000};
constexpr int kBusySlice = 100;  // ms
// From linux/magic.h's neighbours that are not exported to programs (fs/cifs, fs/fuse is judged as local).
constexpr std::uint32_t kCifsMagic = 0xFF534D42;
constexpr std::uint32_t kSmb2Magic = 0xFE534D42;
constexpr std::uint32_t kLustreMagic = 0x0BD00BD0;
constexpr std::uint32_t kGpfsMagic = 0x47504653;
constexpr std::uint32_t kV9fsMagic = 0x01021997;

Error sqlite_error(sqlite3* db, int code, const std::string& file) {
  const std::string name = "database '" + file + "'";
  const std::string text = name + ": " + (db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code));
  const int cause = db != nullptr ? sqlite3_system_errno(db) : 0;
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return make_error(ErrorKind::store_unavailable, text, "another process holds it; try again");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return make_error(ErrorKind::corrupt, text,
                        "keep a copy of the file, then put a backup in its place, or what 'sqlite3 " + file +
                            " .recover' saves of it");
    case SQLITE_FULL:
      return errno_error(name, ENOSPC);
    case SQLITE_READONLY:
      return make_error(ErrorKind::io, text, "make the file and its folder writable for this user");
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return cause != 0 ? read_failure(errno_error(name, cause))
                        : make_error(ErrorKind::store_unavailable, text);
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
    case SQLITE_ERROR:
      return make_error(ErrorKind::internal, text);
    default:
      return make_error(ErrorKind::store_unavailable, text);
  }
}

bool is_network(std::uint32_t magic) {
  switch (magic) {
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case CODA_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case CEPH_SUPER_MAGIC:
    case kCifsMagic:
    case kSmb2Magic:
    case kLustreMagic:
    case kGpfsMagic:
    case kV9fsMagic:
      return true;
    default:
      return false;
  }
}

// The log and its index get the file's mode when they are made. Made while the file was read-only, they would
// keep it so after the user has put its mode right.
void make_companions_writable(const std::string& file, const struct stat& info) {
  if ((info.st_mode & S_IWUSR) == 0 || info.st_uid != ::geteuid()) {
    return;
  }
  for (const char* suffix : {"-wal", "-shm"}) {
    const std::string path = file + suffix;
    struct stat own{};
    if (::lstat(path.c_str(), &own) == 0 && S_ISREG(own.st_mode) && own.st_uid == info.st_uid &&
        (own.st_mode & S_IWUSR) == 0) {
      static_cast<void>(::chmod(path.c_str(), info.st_mode & 0777));  // if not, SQLite says what is wrong
    }
  }
}

// Makes the folder and the file ourselves, for their modes, and refuses where locks cannot be trusted.
Result<struct stat> prepare_file(const std::string& file) {
  const std::string folder = file.substr(0, std::max<std::size_t>(file.rfind('/'), 1));
  ASCOPE_TRY(make_dirs(folder));
  struct statfs system{};
  if (::statfs(folder.c_str(), &system) != 0) {
    return read_failure(errno_error("looking at '" + folder + "'", errno));
  }
  if (is_network(static_cast<std::uint32_t>(system.f_type))) {
    return make_error(ErrorKind::unsupported,
                      "'" + folder + "' is on a network file system, which SQLite cannot lock",
                      "put it on a local disk, or use a redis, mysql or postgresql store");
  }
  struct stat info{};
  if (::stat(file.c_str(), &info) == 0) {
    make_companions_writable(file, info);
    return info;  // never opened here: closing a descriptor of it would drop the locks of our own connections
  }
  if (errno != ENOENT) {
    return read_failure(errno_error("looking at '" + file + "'", errno));
  }
  auto made = open_file(file, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (!made && ::access(file.c_str(), F_OK) != 0) {
    return std::move(made).error();
  }
  if (::stat(file.c_str(), &info) != 0) {
    return read_failure(errno_error("looking at '" + file + "'", errno));
  }
  return info;
}

}  // namespace

Result<std::string> sqlite_file(const StoreUrl& url, const StoreContext& context) {
  return url.path.empty() ? Result<std::string>(context.state_dir + "/state.db") : store_path(url);
}

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

SqliteStatement& SqliteStatement::bind(int index, std::string_view text) {
  bind_error_ |= sqlite3_bind_text64(statement_.get(), index, text.data() == nullptr ? "" : text.data(),
                                     text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

SqliteStatement& SqliteStatement::bind_blob(int index, std::string_view bytes) {
  bind_error_ |= sqlite3_bind_blob64(statement_.get(), index, bytes.data() == nullptr ? "" : bytes.data(),
                                     bytes.size(), SQLITE_TRANSIENT);
  return *this;
}

SqliteStatement& SqliteStatement::bind(int index, std::int64_t value) {
  bind_error_ |= sqlite3_bind_int64(statement_.get(), index, value);
  return *this;
}

SqliteStatement& SqliteStatement::bind_null(int index) {
  bind_error_ |= sqlite3_bind_null(statement_.get(), index);
  return *this;
}

Result<bool> SqliteStatement::step() {
  if (bind_error_ != SQLITE_OK) {
    return make_error(ErrorKind::internal, "a value could not be bound to a statement of '" + file_ + "'");
  }
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW || code == SQLITE_DONE) {
    return code == SQLITE_ROW;
  }
  Error error = sqlite_error(db_, code, file_);
  sqlite3_reset(statement_.get());
  return error;
}

Result<void> SqliteStatement::run() {
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool row, step());
    if (!row) {
      return ok();
    }
  }
}

void SqliteStatement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  bind_error_ = SQLITE_OK;
}

bool SqliteStatement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::int64_t SqliteStatement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string SqliteStatement::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int count = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr ? std::string()
                         : std::string(static_cast<const char*>(data), static_cast<std::size_t>(count));
}

void SqliteDb::Close::operator()(sqlite3* db) const {
  sqlite3_close_v2(db);
}

namespace {

// Before the first connection. Without its stock of page buffers, of which our small databases use a few,
// SQLite costs a start 19 page faults less.
bool configure_sqlite() {
  return sqlite3_config(SQLITE_CONFIG_PAGECACHE, nullptr, 0, 0) == SQLITE_OK;
}

}  // namespace

Result<SqliteDb> SqliteDb::open(const OpContext& ctx, const std::string& file, SqliteDurability durability) {
  ASCOPE_TRY(ctx.check("opening '" + file + "'"));
  [[maybe_unused]] static const bool kConfigured =
      configure_sqlite();  // refused once SQLite is in use: no harm
  ASCOPE_TRY_ASSIGN(const struct stat info, prepare_file(file));
  SqliteDb out(file);
  out.device_ = info.st_dev;
  out.inode_ = info.st_ino;
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, nullptr);
  out.db_.reset(raw);
  if (code != SQLITE_OK) {
    return sqlite_error(raw, code, file);
  }
  sqlite3_extended_result_codes(raw, 1);
  const Millis wait = std::min(ctx.remaining().value_or(kLongestBusyWait), kLongestBusyWait);
  sqlite3_busy_timeout(raw, static_cast<int>(wait.count()) + 1);
  ASCOPE_TRY(out.enter_wal(ctx, wait));
  // The last to close leaves the emptied log and its index in place: making and removing both costs more than
  // what most commands do between.
  int persist = 1;
  sqlite3_file_control(raw, nullptr, SQLITE_FCNTL_PERSIST_WAL, &persist);
  ASCOPE_TRY(out.run("PRAGMA journal_size_limit=0"));
  // Who only read has nothing to move from the log into the file at the end.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  ASCOPE_TRY(out.run(durability == SqliteDurability::full ? "PRAGMA synchronous=FULL"
                                                          : "PRAGMA synchronous=NORMAL"));
  return out;
}

// While several processes make a file WAL for the first time, SQLite refuses some of them at once, without
// the busy wait (measured: 6 openers of a new file).
Result<void> SqliteDb::enter_wal(const OpContext& ctx, Millis wait) {
  const OpContext bounded = ctx.with_timeout(wait);
  Millis pause{1};
  while (true) {
    auto switched = [&]() -> Result<void> {
      ASCOPE_TRY_ASSIGN(SqliteStatement pragma, prepare("PRAGMA journal_mode=WAL"));
      ASCOPE_TRY_ASSIGN(const bool row, pragma.step());
      if (!row || pragma.bytes(0) != "wal") {
        return make_error(ErrorKind::unsupported, "database '" + file_ + "' cannot be put into WAL mode",
                          "put it on a local disk");
      }
      return pragma.run();
    }();
    if (switched || switched.error().kind != ErrorKind::store_unavailable) {
      return switched;
    }
    ASCOPE_TRY(bounded.sleep(pause, "waiting for the database '" + file_ + "'"));
    pause = std::min(pause * 2, Millis(50));
  }
}

Result<void> SqliteDb::run(const std::string& sql) {
  const int code = sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    return sqlite_error(db_.get(), code, file_);
  }
  return ok();
}

Result<SqliteStatement> SqliteDb::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(db_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) {
    return sqlite_error(db_.get(), code, file_);
  }
  return SqliteStatement(db_.get(), raw, file_);
}

std::int64_t SqliteDb::changes() const {
  return sqlite3_changes64(db_.get());
}

Result<void> SqliteDb::begin(const OpContext& ctx) {
  const std::string what = "waiting for the database '" + file_ + "'";
  const OpContext bounded = ctx.with_timeout(kLongestBusyWait);
  // SQLite's own wait hears no signal, so it is taken in slices.
  sqlite3_busy_timeout(db_.get(), kBusySlice);
  while (true) {
    ASCOPE_TRY(bounded.check(what));
    const int code = sqlite3_exec(db_.get(), "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) {
      sqlite3_db_config(db_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
      sqlite3_busy_timeout(db_.get(), static_cast<int>(kLongestBusyWait.count()));
      return ok();
    }
    if ((code & 0xFF) != SQLITE_BUSY) {
      return sqlite_error(db_.get(), code, file_);
    }
  }
}

Result<void> SqliteDb::commit() {
  return run("COMMIT");
}

void SqliteDb::rollback() {
  if (sqlite3_get_autocommit(db_.get()) == 0) {
    sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

Result<bool> SqliteDb::is_current() const {
  struct stat info{};
  if (::stat(file_.c_str(), &info) != 0) {
    if (errno == ENOENT) {
      return false;
    }
    return read_failure(errno_error("looking at '" + file_ + "'", errno));
  }
  return info.st_dev == device_ && info.st_ino == inode_;
}

Result<SqliteTransaction> SqliteTransaction::begin(const OpContext& ctx, SqliteDb& db) {
  ASCOPE_TRY(db.begin(ctx));
  return SqliteTransaction(db);
}

SqliteTransaction::~SqliteTransaction() {
  if (db_ != nullptr) {
    db_->rollback();
  }
}

Result<void> SqliteTransaction::commit() {
  ASCOPE_TRY(db_->commit());
  db_ = nullptr;
  return ok();
}

}  // namespace ascope
