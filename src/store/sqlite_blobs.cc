// SPDX-License-Identifier: Apache-2.0
// Objects in a SQLite file, in parts of 1 MiB. A writer stores parts under a number of its own in short
// transactions, so that records and leases in the same file are never kept waiting by a slow stream; the last
// transaction gives the key to the number, or finds it taken. Parts of writers that died are removed by the
// next writer.
#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <unistd.h>

#include "core/base/process.h"
#include "core/object_key.h"
#include "store/sqlite_db.h"
#include "store/sqlite_tables.h"

namespace ascope {

namespace {

constexpr std::size_t kPartBytes = 1U << 20U;

Result<void> check_key(std::string_view key) {
  return is_object_key(key) ? ok()
                            : Result<void>(make_error(ErrorKind::internal,
                                                      "'" + std::string(key) + "' is no key of an object"));
}

BlobInfo info_from(const SqliteStatement& row) {
  BlobInfo info;
  info.key = row.bytes(0);
  info.version = std::to_string(row.integer(1));
  info.size_bytes = static_cast<std::uint64_t>(row.integer(2));
  info.modified =
      std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::microseconds(row.integer(3))));
  return info;
}

// Reads one part after the other. Owns a connection, so that it outlives the store.
class PartSource final : public ByteSource {
 public:
  PartSource(SqliteTables tables, OpContext ctx, std::string key, std::int64_t blob, std::uint64_t offset,
             std::uint64_t length)
      : tables_(std::move(tables)),
        ctx_(ctx),
        key_(std::move(key)),
        blob_(blob),
        part_(static_cast<std::int64_t>(offset / kPartBytes)),
        skip_(static_cast<std::size_t>(offset % kPartBytes)),
        left_(length) {}

  Result<std::size_t> read(std::span<char> buffer) override {
    if (left_ == 0) {
      return std::size_t{0};
    }
    if (at_ == bytes_.size()) {
      ASCOPE_TRY(next_part());
    }
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>({buffer.size(), bytes_.size() - at_, left_}));
    std::copy_n(bytes_.data() + at_, count, buffer.data());
    at_ += count;
    left_ -= count;
    return count;
  }

 private:
  Result<void> next_part() {
    ASCOPE_TRY(ctx_.check("reading object '" + key_ + "'"));
    ASCOPE_TRY_ASSIGN(SqliteDb * db, tables_.to_read(ctx_));
    if (db != nullptr) {
      ASCOPE_TRY_ASSIGN(SqliteStatement select,
                        db->prepare("SELECT bytes FROM ascope_blob_parts WHERE blob=? AND part=?"));
      select.bind(1, blob_).bind(2, part_++);
      ASCOPE_TRY_ASSIGN(const bool found, select.step());
      bytes_ = found ? select.bytes(0) : "";
      at_ = std::min(std::exchange(skip_, 0), bytes_.size());
    }
    if (db == nullptr || at_ == bytes_.size()) {
      return make_error(ErrorKind::corrupt,
                        "object '" + key_ + "' ends too early, or was removed while it was read");
    }
    return ok();
  }

  SqliteTables tables_;
  OpContext ctx_;
  std::string key_;
  std::int64_t blob_;
  std::int64_t part_;
  std::size_t skip_;
  std::uint64_t left_;
  std::string bytes_;
  std::size_t at_ = 0;
};

class SqliteBlobStore final : public BlobStore {
 public:
  explicit SqliteBlobStore(std::string file)
      : file_(file), tables_(std::move(file), SqliteDurability::ordered) {}

  Result<std::optional<BlobInfo>> put(const OpContext& ctx, std::string_view key, ByteSource& data) override {
    ASCOPE_TRY_ASSIGN(const auto present, stat(ctx, key));
    if (present) {
      return std::optional<BlobInfo>{};
    }
    ASCOPE_TRY(remove_dead_writers(ctx));
    ASCOPE_TRY_ASSIGN(const std::int64_t blob, begin_writer(ctx));
    auto done = store(ctx, key, blob, data);
    if (!done || !done.value()) {
      OpContext last;
      last.uninterruptible = true;
      auto removed = forget_writer(last.with_timeout(Millis(5000)), blob);  // else the next writer does it
      if (done && !removed) {
        return std::move(removed).error();
      }
    }
    return done;
  }

  Result<std::unique_ptr<ByteSource>> get(const OpContext& ctx, std::string_view key, std::uint64_t offset,
                                          std::uint64_t length) override {
    ASCOPE_TRY_ASSIGN(const auto info, stat(ctx, key));
    if (!info) {
      return make_error(ErrorKind::not_found,
                        "object '" + std::string(key) + "' not found in '" + file_ + "'");
    }
    const std::uint64_t rest = info->size_bytes - std::min(offset, info->size_bytes);
    return std::unique_ptr<ByteSource>(std::make_unique<PartSource>(
        SqliteTables(file_, SqliteDurability::ordered), ctx, info->key, std::stoll(info->version), offset,
        length == 0 ? rest : std::min(length, rest)));
  }

  Result<std::optional<BlobInfo>> stat(const OpContext& ctx, std::string_view key) override {
    ASCOPE_TRY(check_key(key));
    ASCOPE_TRY(ctx.check("asking the object store"));
    ASCOPE_TRY_ASSIGN(SqliteDb * db, tables_.to_read(ctx));
    if (db == nullptr) {
      return std::optional<BlobInfo>{};
    }
    ASCOPE_TRY_ASSIGN(SqliteStatement select,
                      db->prepare("SELECT key, blob, size, modified FROM ascope_blobs WHERE key=?"));
    select.bind(1, key);
    ASCOPE_TRY_ASSIGN(const bool found, select.step());
    return found ? std::optional(info_from(select)) : std::nullopt;
  }

  Result<std::vector<BlobInfo>> list(const OpContext& ctx, std::string_view prefix) override {
    ASCOPE_TRY(ctx.check("listing the object store"));
    std::vector<BlobInfo> out;
    ASCOPE_TRY_ASSIGN(SqliteDb * db, tables_.to_read(ctx));
    if (db == nullptr) {
      return out;
    }
    ASCOPE_TRY_ASSIGN(SqliteStatement select,
                      db->prepare("SELECT key, blob, size, modified FROM ascope_blobs WHERE key>=?1 AND "
                                  "substr(key, 1, length(?1))=?1 ORDER BY key"));
    select.bind(1, prefix);
    while (true) {
      ASCOPE_TRY_ASSIGN(const bool found, select.step());
      if (!found) {
        return out;
      }
      out.push_back(info_from(select));
    }
  }

  Result<void> remove(const OpContext& ctx, std::string_view key) override {
    ASCOPE_TRY_ASSIGN(const auto info, stat(ctx, key));
    if (!info) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(SqliteDb * db, tables_.to_write(ctx));
    ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, *db));
    const std::int64_t blob = std::stoll(info->version);
    ASCOPE_TRY_ASSIGN(SqliteStatement row, db->prepare("DELETE FROM ascope_blobs WHERE key=? AND blob=?"));
    ASCOPE_TRY(row.bind(1, key).bind(2, blob).run());
    ASCOPE_TRY(remove_parts(*db, blob));
    return transaction.commit();
  }

 private:
  static Result<void> remove_parts(SqliteDb& db, std::int64_t blob) {
    ASCOPE_TRY_ASSIGN(SqliteStatement parts, db.prepare("DELETE FROM ascope_blob_parts WHERE blob=?"));
    return parts.bind(1, blob).run();
  }

  Result<std::int64_t> begin_writer(const OpContext& ctx) {
    ASCOPE_TRY_ASSIGN(const std::string boot, boot_id());
    ASCOPE_TRY_ASSIGN(const std::uint64_t space, pid_namespace());
    ASCOPE_TRY_ASSIGN(const std::uint64_t start, process_start_time(::getpid()));
    ASCOPE_TRY_ASSIGN(SqliteDb * db, tables_.to_write(ctx));
    ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, *db));
    ASCOPE_TRY_ASSIGN(SqliteStatement insert,
                      db->prepare("INSERT INTO ascope_blob_writers (boot, pid_namespace, pid, start_time) "
                                  "VALUES (?, ?, ?, ?) RETURNING blob"));
    insert.bind(1, boot).bind(2, static_cast<std::int64_t>(space)).bind(3, std::int64_t{::getpid()});
    insert.bind(4, static_cast<std::int64_t>(start));
    ASCOPE_TRY_ASSIGN(const bool made, insert.step());
    const std::int64_t blob = made ? insert.integer(0) : 0;
    ASCOPE_TRY(insert.run());
    ASCOPE_TRY(transaction.commit());
    return blob;
  }

  Result<std::optional<BlobInfo>> store(const OpContext& ctx, std::string_view key, std::int64_t blob,
                                        ByteSource& data) {
    std::string buffer(kPartBytes, '\0');
    std::int64_t part = 0;
    std::uint64_t total = 0;
    while (true) {
      std::size_t filled = 0;
      while (filled < buffer.size()) {
        ASCOPE_TRY_ASSIGN(const std::size_t count,
                          data.read(std::span(buffer.data() + filled, buffer.size() - filled)));
        if (count == 0) {
          break;
        }
        filled += count;
      }
      if (filled > 0) {
        ASCOPE_TRY(store_part(ctx, blob, part++, std::string_view(buffer).substr(0, filled)));
        total += filled;
      }
      if (filled < buffer.size()) {
        return finish(ctx, key, blob, total);
      }
    }
  }

  Result<void> store_part(const OpContext& ctx, std::int64_t blob, std::int64_t part,
                          std::string_view bytes) {
    ASCOPE_TRY_ASSIGN(SqliteDb * db, tables_.to_write(ctx));
    ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, *db));
    ASCOPE_TRY_ASSIGN(SqliteStatement insert,
                      db->prepare("INSERT INTO ascope_blob_parts (blob, part, bytes) VALUES (?, ?, ?)"));
    ASCOPE_TRY(insert.bind(1, blob).bind(2, part).bind_blob(3, bytes).run());
    return transaction.commit();
  }

  // The one commit that waits for the disk; with it all parts before have reached it (write-ahead log, in
  // order).
  Result<std::optional<BlobInfo>> finish(const OpContext& ctx, std::string_view key, std::int64_t blob,
                                         std::uint64_t total) {
    ASCOPE_TRY_ASSIGN(SqliteDb * db, tables_.to_write(ctx));
    ASCOPE_TRY(db->run("PRAGMA synchronous=FULL"));
    const auto commit = [&]() -> Result<bool> {
      ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, *db));
      ASCOPE_TRY_ASSIGN(SqliteStatement writer, db->prepare("DELETE FROM ascope_blob_writers WHERE blob=?"));
      ASCOPE_TRY(writer.bind(1, blob).run());
      if (db->changes() != 1) {
        return make_error(ErrorKind::conflict,
                          "the database '" + file_ + "' was replaced while it was written");
      }
      ASCOPE_TRY_ASSIGN(
          SqliteStatement insert,
          db->prepare("INSERT INTO ascope_blobs (key, blob, size, modified) VALUES (?, ?, ?, ?) "
                      "ON CONFLICT DO NOTHING"));
      const auto now =
          std::chrono::duration_cast<std::chrono::microseconds>(ctx.clock->wall().time_since_epoch());
      insert.bind(1, key)
          .bind(2, blob)
          .bind(3, static_cast<std::int64_t>(total))
          .bind(4, std::int64_t{now.count()});
      ASCOPE_TRY(insert.run());
      if (db->changes() != 1) {
        return false;
      }
      ASCOPE_TRY(transaction.commit());
      return true;
    };
    auto stored = commit();
    ASCOPE_TRY(db->run("PRAGMA synchronous=NORMAL"));
    if (!stored) {
      return std::move(stored).error();
    }
    return stored.value() ? stat(ctx, key) : Result(std::optional<BlobInfo>{});
  }

  Result<void> forget_writer(const OpContext& ctx, std::int64_t blob) {
    ASCOPE_TRY_ASSIGN(SqliteDb * db, tables_.to_write(ctx));
    ASCOPE_TRY_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(ctx, *db));
    ASCOPE_TRY_ASSIGN(SqliteStatement writer, db->prepare("DELETE FROM ascope_blob_writers WHERE blob=?"));
    ASCOPE_TRY(writer.bind(1, blob).run());
    if (db->changes() == 1) {
      ASCOPE_TRY(remove_parts(*db, blob));  // with the row gone the number is an object's
    }
    return transaction.commit();
  }

  // The file is of this machine: another boot or a process that is gone proves a writer dead.
  Result<void> remove_dead_writers(const OpContext& ctx) {
    ASCOPE_TRY_ASSIGN(SqliteDb * db, tables_.to_write(ctx));
    ASCOPE_TRY_ASSIGN(const std::string boot, boot_id());
    ASCOPE_TRY_ASSIGN(const std::uint64_t space, pid_namespace());
    std::vector<std::int64_t> dead;
    {
      ASCOPE_TRY_ASSIGN(SqliteStatement select,
                        db->prepare("SELECT blob, boot, pid_namespace, pid, start_time "
                                    "FROM ascope_blob_writers"));
      while (true) {
        ASCOPE_TRY_ASSIGN(const bool found, select.step());
        if (!found) {
          break;
        }
        const auto pid = static_cast<pid_t>(select.integer(3));
        bool gone = select.bytes(1) != boot;
        if (!gone && select.integer(2) == static_cast<std::int64_t>(space)) {
          ASCOPE_TRY_ASSIGN(const std::uint64_t start, process_start_time(pid));
          gone = start != static_cast<std::uint64_t>(select.integer(4));
        }
        if (gone) {
          dead.push_back(select.integer(0));
        }
      }
    }
    for (const std::int64_t blob : dead) {
      ASCOPE_TRY(forget_writer(ctx, blob));
    }
    return ok();
  }

  std::string file_;
  SqliteTables tables_;
};

}  // namespace

Result<std::unique_ptr<BlobStore>> open_sqlite_blobs(const OpContext& /*ctx*/, const StoreUrl& url,
                                                     const StoreContext& context) {
  ASCOPE_TRY(check_store_options(url));
  ASCOPE_TRY_ASSIGN(std::string file, sqlite_file(url, context));
  return std::unique_ptr<BlobStore>(std::make_unique<SqliteBlobStore>(std::move(file)));
}

}  // namespace ascope
