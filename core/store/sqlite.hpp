// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A data base of one process: opened safely, migrated, its statements prepared once. Internal to
// core/store; SQLite itself stays in sqlite.cpp. One thread at a time.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/wire/values.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace goblin::store {

struct DatabaseOptions {
  std::string_view purpose;          ///< "lab journal": names the data base in errors
  std::uint32_t application_id = 0;  ///< in the file's header; another one is refused
  /// Step i leads from schema version i to i + 1. Only ever appended to.
  std::span<const char* const> migrations;
  bool synchronous_full = false;  ///< survive a loss of power, not only of the process
  bool must_exist = false;        ///< kNotFound, and nothing is touched, where there is none yet
};

class Database {
 public:
  /// Makes or opens `path` and keeps every other process out of it until it is closed.
  /// kUnsupported: its schema is newer. kInvalidArgument: another program's. kCorrupt: damaged.
  /// kUnavailable: in use, or not accessible. kExhausted: no space.
  static Result<std::unique_ptr<Database>> open(const std::string& path,
                                                const DatabaseOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// A running statement; its end or destruction resets it. `sql` must be a string literal: the
  /// prepared statement is kept under its address. One Query of a literal at a time.
  class Query {
   public:
    Query(Query&& other) noexcept;
    Query& operator=(Query&&) = delete;
    ~Query();
    /// True: there is a row to read.
    Result<bool> step();
    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] std::uint64_t number(int column) const {
      return static_cast<std::uint64_t>(integer(column));
    }
    [[nodiscard]] std::string text(int column) const;
    /// Valid until the next step().
    [[nodiscard]] wire::ByteView blob(int column) const;
    [[nodiscard]] bool is_null(int column) const;
    /// kCorrupt unless the column holds exactly out.size() bytes.
    Result<void> fixed(int column, std::span<std::uint8_t> out) const;

   private:
    friend class Database;
    Query(Database* database, sqlite3_stmt* statement)
        : database_(database), statement_(statement) {}
    void bind(int index, std::int64_t value);
    void bind(int index, wire::ByteView value);
    void bind(int index, std::string_view value);
    template <typename T>
    void bind_any(int index, const T& value);

    Database* database_;
    sqlite3_stmt* statement_;
  };

  /// Arguments are bound in order; they must live until the Query ends.
  template <std::size_t N, typename... Args>
  Result<Query> query(const char (&sql)[N], const Args&... args) {
    GOBLIN_TRY(Query result, prepare(sql));
    int index = 0;
    (result.bind_any(++index, args), ...);
    return result;
  }
  /// Runs a statement that answers no rows; how many rows it changed.
  template <std::size_t N, typename... Args>
  Result<std::uint64_t> run(const char (&sql)[N], const Args&... args) {
    GOBLIN_TRY(Query statement, query(sql, args...));
    GOBLIN_TRY_VOID(statement.step());
    return changes();
  }
  [[nodiscard]] std::int64_t last_row() const;

  /// Rolls back unless commit() succeeded.
  class Transaction {
   public:
    Transaction(Transaction&& other) noexcept
        : database_(std::exchange(other.database_, nullptr)) {}
    Transaction& operator=(Transaction&&) = delete;
    ~Transaction();
    Result<void> commit();

   private:
    friend class Database;
    explicit Transaction(Database* database) : database_(database) {}
    Database* database_;
  };
  Result<Transaction> begin();

  /// The error for damage that a statement met: says how to restore.
  [[nodiscard]] Error damaged(std::string_view detail) const;

 private:
  Database(std::string path, std::string_view purpose, sqlite3* handle)
      : path_(std::move(path)), purpose_(purpose), handle_(handle) {}
  Result<void> configure();
  Result<void> check_owner(const DatabaseOptions& options, std::int64_t& version);
  Result<void> check_pages();
  Result<void> check_schema(const DatabaseOptions& options, std::int64_t version);
  Result<void> migrate(const DatabaseOptions& options, std::int64_t version);
  Result<void> execute(const std::string& sql);
  Result<std::string> pragma(const std::string& sql);
  Result<Query> prepare(const char* sql);
  [[nodiscard]] std::uint64_t changes() const;
  [[nodiscard]] Error error(int code) const;
  [[nodiscard]] std::string name() const { return purpose_ + " '" + path_ + "'"; }

  std::string path_;
  std::string purpose_;
  sqlite3* handle_;
  bool sound_ = false;  ///< its header and tables are those that this release knows
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

template <typename T>
void Database::Query::bind_any(int index, const T& value) {
  if constexpr (std::same_as<T, wire::Digest>) {
    bind(index, std::as_bytes(std::span(value.bytes)));
  } else if constexpr (std::convertible_to<const T&, std::string_view>) {
    bind(index, std::string_view(value));
  } else if constexpr (std::is_enum_v<T> || std::integral<T>) {
    bind(index, static_cast<std::int64_t>(value));
  } else if constexpr (std::convertible_to<const T&, wire::ByteView>) {
    bind(index, wire::ByteView(value));
  } else {
    bind(index, std::as_bytes(std::span(value)));
  }
}

}  // namespace goblin::store
