// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/sqlite.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/net/unique_fd.hpp"
#include "core/store/files.hpp"

namespace goblin::store {
namespace {

// Long enough for a process that is just ending, short enough for a person who waits.
constexpr int kBusyMs = 500;

bool is_disk_full(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
}

/// SQLite would make the file with the process' umask; journals are nobody else's business.
/// Only a file that is not there yet is touched: closing a descriptor of a data base that this
/// process has open elsewhere would drop SQLite's locks on it.
Result<void> create_private(const std::string& path, const std::string& name) {
  const net::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd && errno != EEXIST) {
    const int reason = errno;
    if (reason == ENOENT || reason == ENOTDIR) {
      return fail(Code::kUnavailable,
                  "cannot make the " + name + ": its directory does not exist; make it first");
    }
    return fail(disk_error("cannot make the " + name, reason));
  }
  return {};
}

Result<void> check_exists(const std::string& path, const std::string& name) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const int reason = errno;
    return reason == ENOENT || reason == ENOTDIR
               ? fail(Code::kNotFound, name + " is missing")
               : fail(disk_error("cannot read the " + name, reason));
  }
  return info.st_size > 0 ? Result<void>{} : fail(Code::kNotFound, name + " is empty");
}

}  // namespace

Result<std::unique_ptr<Database>> Database::open(const std::string& path,
                                                 const DatabaseOptions& options) {
  const std::string name = std::string(options.purpose) + " '" + path + "'";
  if (path.empty() || path.front() == ':') {
    return fail(Code::kInvalidArgument,
                name + ": not a file's path; name a file that does not begin with ':'");
  }
  if (options.must_exist) {
    // Before SQLite looks: it removes the log of a data base that has no bytes.
    GOBLIN_TRY_VOID(check_exists(path, name));
  }
  GOBLIN_TRY_VOID(create_private(path, name));
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  if (handle == nullptr) {
    return fail(Code::kExhausted, "no memory to open the " + name);
  }
  std::unique_ptr<Database> database(new Database(path, options.purpose, handle));
  if (code != SQLITE_OK) {
    return fail(database->error(code));
  }
  GOBLIN_TRY_VOID(database->configure());
  std::int64_t version = 0;
  GOBLIN_TRY_VOID(database->check_owner(options, version));
  if (version > 0) {
    GOBLIN_TRY_VOID(database->check_pages());
    GOBLIN_TRY_VOID(database->check_schema(options, version));
  } else if (options.must_exist) {
    return fail(Code::kNotFound, name + " has no tables");
  }
  database->sound_ = true;
  GOBLIN_TRY(const std::string mode, database->pragma("PRAGMA journal_mode=WAL"));
  if (mode != "wal") {
    return fail(Code::kUnavailable, name + " cannot keep a write-ahead log there (mode " + mode +
                                        "); choose a local file system");
  }
  GOBLIN_TRY_VOID(database->execute(options.synchronous_full ? "PRAGMA synchronous=FULL"
                                                             : "PRAGMA synchronous=NORMAL"));
  GOBLIN_TRY_VOID(database->migrate(options, version));
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) {
    sqlite3_finalize(statement);
  }
  sqlite3_close_v2(handle_);
}

Result<void> Database::configure() {
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  sqlite3_busy_timeout(handle_, kBusyMs);
  // Exclusive before the first access: no shared memory then, and nobody else gets in.
  // mmap_size 0: a failing disk shall be an error, not SIGBUS.
  return execute(
      "PRAGMA locking_mode=EXCLUSIVE; PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON;"
      "PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY; PRAGMA journal_size_limit=67108864;"
      "PRAGMA cache_size=-16384");
}

namespace {

// Everything that is there, in one text.
constexpr const char* kSchema =
    "SELECT group_concat(type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, ''), ';')"
    " FROM (SELECT * FROM sqlite_schema ORDER BY type, name)";
constexpr const char* kMigrationsTable =
    "CREATE TABLE migrations(version INTEGER PRIMARY KEY, applied_unix_s INTEGER NOT NULL) STRICT";

}  // namespace

/// The tables are those that the migrations make: quick_check does not know that, and a statement
/// that met others would look like a mistake of ours.
Result<void> Database::check_schema(const DatabaseOptions& options, std::int64_t version) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (handle == nullptr) {
    return fail(Code::kExhausted, "no memory to check the " + name());
  }
  Database model(path_, purpose_, handle);
  if (code != SQLITE_OK) {
    return fail(model.error(code));
  }
  model.sound_ = true;
  GOBLIN_TRY_VOID(model.execute(kMigrationsTable));
  for (std::int64_t step = 0; step < version; ++step) {
    GOBLIN_TRY_VOID(model.execute(options.migrations[static_cast<std::size_t>(step)]));
  }
  GOBLIN_TRY(const std::string expected, model.pragma(kSchema));
  GOBLIN_TRY(const std::string found, pragma(kSchema));
  return found == expected
             ? Result<void>{}
             : fail(damaged("its tables are not those of version " + std::to_string(version)));
}

Result<void> Database::check_owner(const DatabaseOptions& options, std::int64_t& version) {
  GOBLIN_TRY_VOID(execute("BEGIN EXCLUSIVE"));
  GOBLIN_TRY(const std::string owner, pragma("PRAGMA application_id"));
  GOBLIN_TRY(const std::string schema, pragma("PRAGMA user_version"));
  GOBLIN_TRY(const std::string tables, pragma("SELECT count(*) FROM sqlite_schema"));
  GOBLIN_TRY_VOID(execute("COMMIT"));
  version = std::strtoll(schema.c_str(), nullptr, 10);
  const bool empty = owner == "0" && version == 0 && tables == "0";
  if (!empty && owner != std::to_string(options.application_id)) {
    return fail(Code::kInvalidArgument,
                name() + " belongs to another program (application id " + owner + " instead of " +
                    std::to_string(options.application_id) + "); choose another path");
  }
  const auto newest = static_cast<std::int64_t>(options.migrations.size());
  if (version < 0 || version > newest) {
    return fail(Code::kUnsupported,
                name() + " has schema version " + schema + ", this release knows versions up to " +
                    std::to_string(newest) +
                    "; run the release that wrote it or a newer one, or choose another path");
  }
  if (version == 0 && !empty) {
    return fail(damaged("it has tables and no schema version"));
  }
  return {};
}

Result<void> Database::check_pages() {
  GOBLIN_TRY(const std::string verdict, pragma("PRAGMA quick_check(1)"));
  if (verdict != "ok") {
    return fail(damaged(verdict));
  }
  return {};
}

Result<void> Database::migrate(const DatabaseOptions& options, std::int64_t version) {
  const auto newest = static_cast<std::int64_t>(options.migrations.size());
  if (version == newest) {
    return {};
  }
  GOBLIN_TRY(Transaction transaction, begin());
  if (version == 0) {
    GOBLIN_TRY_VOID(execute("PRAGMA application_id=" + std::to_string(options.application_id) +
                            "; " + kMigrationsTable));
  }
  for (std::int64_t step = version; step < newest; ++step) {
    auto applied = execute(options.migrations[static_cast<std::size_t>(step)]);
    if (!applied) {
      return fail(applied.error().with_context("bringing the schema to version " +
                                               std::to_string(step + 1)));
    }
    const std::string number = std::to_string(step + 1);
    GOBLIN_TRY_VOID(execute("INSERT INTO migrations VALUES(" + number +
                            ", unixepoch()); PRAGMA user_version=" + number));
  }
  return transaction.commit();
}

Result<void> Database::execute(const std::string& sql) {
  errno = 0;
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    return fail(error(code));
  }
  return {};
}

Result<std::string> Database::pragma(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  errno = 0;
  int code = sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr);
  std::string answer;
  if (code == SQLITE_OK) {
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
      answer = text == nullptr ? "" : text;
    }
    // To its end: a statement that changes the file commits only then, and may fail at that.
    while (code == SQLITE_ROW) code = sqlite3_step(statement);
  }
  const bool failed = code != SQLITE_DONE;
  Error reason = failed ? error(code) : Error{};
  sqlite3_finalize(statement);
  if (failed) {
    return fail(std::move(reason));
  }
  return answer;
}

Result<Database::Query> Database::prepare(const char* sql) {
  sqlite3_stmt*& statement = statements_[sql];
  if (statement == nullptr) {
    const int code =
        sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) {
      return fail(error(code));
    }
  }
  return Query(this, statement);
}

std::uint64_t Database::changes() const {
  return static_cast<std::uint64_t>(sqlite3_changes64(handle_));
}

std::int64_t Database::last_row() const { return sqlite3_last_insert_rowid(handle_); }

Error Database::damaged(std::string_view detail) const {
  return {Code::kCorrupt, name() + " is damaged (" + std::string(detail) +
                              "). Stop, move it and its '-wal' file " +
                              "away, and restore a copy; or save what can be read: sqlite3 '" +
                              path_ + "' .recover | sqlite3 NEW, and put NEW in its place"};
}

Error Database::error(int code) const {
  // SQLite does not note the reason of every failed write; every call here begins with errno 0.
  const int last = errno;
  const int noted = sqlite3_system_errno(handle_);
  const int reason = noted != 0 ? noted : last;
  const std::string text = sqlite3_errmsg(handle_);
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return damaged(text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Code::kUnavailable, name() +
                                      " is open in another process; only one may use it: "
                                      "stop the other one, or give this one a state "
                                      "directory of its own"};
    case SQLITE_FULL:
      return disk_error("cannot write the " + name(), is_disk_full(reason) ? reason : ENOSPC);
    case SQLITE_IOERR:
      if (code == SQLITE_IOERR_NOMEM) {
        return {Code::kExhausted, "no memory for the " + name()};
      }
      return disk_error("cannot read or write the " + name() + " (" + text + ")",
                        reason != 0 ? reason : EIO);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return {Code::kUnavailable,
              "cannot open the " + name() + " for writing (" + text +
                  (reason != 0 ? std::string(": ") + std::strerror(reason) : "") +
                  "); give this user the right to write the file and its directory"};
    case SQLITE_NOMEM:
      return {Code::kExhausted, "no memory for the " + name()};
    case SQLITE_TOOBIG:
      return {Code::kInvalidArgument, "a value for the " + name() + " is over 1 GB"};
    case SQLITE_ERROR:
      // SQLite has no code of its own for a header that claims a format which nobody writes.
      if (!sound_) {
        return damaged(text);
      }
      break;
    case SQLITE_CONSTRAINT:
      if (code == SQLITE_CONSTRAINT_FOREIGNKEY) {
        return {Code::kNotFound, name() + ": what the record belongs to does not exist"};
      }
      break;
    default:
      break;
  }
  return {Code::kInternal,
          name() + ": " + text + " (SQLite code " + std::to_string(code) + "); please report this"};
}

Result<Database::Transaction> Database::begin() {
  GOBLIN_TRY_VOID(run("BEGIN IMMEDIATE"));
  return Transaction(this);
}

Database::Transaction::~Transaction() {
  // A failed COMMIT may have rolled back already.
  if (database_ != nullptr && sqlite3_get_autocommit(database_->handle_) == 0) {
    sqlite3_exec(database_->handle_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

Result<void> Database::Transaction::commit() {
  GOBLIN_TRY_VOID(database_->run("COMMIT"));
  database_ = nullptr;
  return {};
}

Database::Query::Query(Query&& other) noexcept
    : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)) {}

Database::Query::~Query() {
  if (statement_ != nullptr) {
    sqlite3_reset(statement_);
  }
}

Result<bool> Database::Query::step() {
  errno = 0;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_);
    return false;
  }
  Error reason = database_->error(code);
  sqlite3_reset(statement_);
  return fail(std::move(reason));
}

std::int64_t Database::Query::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string Database::Query::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return data == nullptr
             ? std::string()
             : std::string(data,
                           static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

wire::ByteView Database::Query::blob(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
  return {data,
          data == nullptr ? 0 : static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

bool Database::Query::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

Result<void> Database::Query::fixed(int column, std::span<std::uint8_t> out) const {
  const wire::ByteView bytes = blob(column);
  if (bytes.size() != out.size()) {
    return fail(database_->damaged("a value of " + std::to_string(bytes.size()) + " bytes where " +
                                   std::to_string(out.size()) + " belong"));
  }
  std::memcpy(out.data(), bytes.data(), out.size());
  return {};
}

// The arguments outlive the statement's run, so SQLite need not copy them. A failed bind leaves
// NULL, which the tables' NOT NULL refuses.
void Database::Query::bind(int index, std::int64_t value) {
  sqlite3_bind_int64(statement_, index, value);
}

void Database::Query::bind(int index, wire::ByteView value) {
  sqlite3_bind_blob64(statement_, index,
                      value.empty() ? static_cast<const void*>("") : value.data(), value.size(),
                      SQLITE_STATIC);
}

void Database::Query::bind(int index, std::string_view value) {
  sqlite3_bind_text64(statement_, index, value.empty() ? "" : value.data(), value.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
}

}  // namespace goblin::store
