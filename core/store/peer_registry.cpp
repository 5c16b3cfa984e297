// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/peer_registry.hpp"

#include <array>

#include "core/store/sqlite.hpp"

namespace goblin::store {
namespace {

constexpr std::uint32_t kApplicationId = 0x47424c50;  // "GBLP"

constexpr std::array<const char*, 1> kMigrations = {R"sql(
CREATE TABLE peers(
  pin BLOB PRIMARY KEY NOT NULL,
  role INTEGER NOT NULL,
  address TEXT NOT NULL,
  first_seen_unix_ms INTEGER NOT NULL,
  last_seen_unix_ms INTEGER NOT NULL,
  validator INTEGER NOT NULL DEFAULT 0,
  blocked INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
)sql"};

class SqlitePeers final : public PeerRegistry {
 public:
  explicit SqlitePeers(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  Result<PeerRecord> seen(const wire::Digest& pin, wire::Role role, const std::string& address,
                          std::int64_t now_unix_ms) override {
    GOBLIN_TRY(auto transaction, database_->begin());
    GOBLIN_TRY(std::optional<PeerRecord> known, find(pin));
    if (known && known->role != role) {
      return fail(Code::kInvalidArgument, "peer " + pin.hex() + " is registered as " +
                                              std::string(wire::role_name(known->role)) +
                                              " and now says that it is a " +
                                              std::string(wire::role_name(role)) +
                                              "; give each process an identity of its own");
    }
    PeerRecord peer = known.value_or(PeerRecord{pin, role, {}, now_unix_ms, 0, false, false});
    peer.address = address;
    peer.last_seen_unix_ms = now_unix_ms;
    GOBLIN_TRY_VOID(database_->run(
        "INSERT INTO peers(pin,role,address,first_seen_unix_ms,last_seen_unix_ms)"
        " VALUES(?,?,?,?,?) ON CONFLICT(pin) DO UPDATE SET address=excluded.address,"
        " last_seen_unix_ms=excluded.last_seen_unix_ms",
        peer.pin, peer.role, peer.address, peer.first_seen_unix_ms, peer.last_seen_unix_ms));
    GOBLIN_TRY_VOID(transaction.commit());
    return peer;
  }

  Result<std::optional<PeerRecord>> find(const wire::Digest& pin) override {
    GOBLIN_TRY(auto row,
               database_->query("SELECT pin,role,address,first_seen_unix_ms,last_seen_unix_ms,"
                                "validator,blocked FROM peers WHERE pin=?",
                                pin));
    GOBLIN_TRY(const bool found, row.step());
    if (!found) {
      return std::optional<PeerRecord>();
    }
    return read(row);
  }

  Result<std::vector<PeerRecord>> list() override {
    std::vector<PeerRecord> peers;
    GOBLIN_TRY(auto row,
               database_->query("SELECT pin,role,address,first_seen_unix_ms,last_seen_unix_ms,"
                                "validator,blocked FROM peers ORDER BY pin"));
    for (;;) {
      GOBLIN_TRY(const bool found, row.step());
      if (!found) {
        return peers;
      }
      GOBLIN_TRY(PeerRecord peer, read(row));
      peers.push_back(std::move(peer));
    }
  }

  Result<std::uint64_t> prune(std::uint64_t keep) override {
    return database_->run(
        "DELETE FROM peers WHERE validator=0 AND blocked=0 AND pin NOT IN"
        " (SELECT pin FROM peers ORDER BY last_seen_unix_ms DESC, pin LIMIT ?)",
        keep);
  }

  Result<void> set_validator(const wire::Digest& pin, bool validator) override {
    GOBLIN_TRY(const std::uint64_t changed,
               database_->run("UPDATE peers SET validator=? WHERE pin=?", validator, pin));
    return changed == 0 ? unknown(pin) : Result<void>();
  }

  Result<void> set_blocked(const wire::Digest& pin, bool blocked) override {
    GOBLIN_TRY(const std::uint64_t changed,
               database_->run("UPDATE peers SET blocked=? WHERE pin=?", blocked, pin));
    return changed == 0 ? unknown(pin) : Result<void>();
  }

 private:
  static Result<void> unknown(const wire::Digest& pin) {
    return fail(Code::kNotFound, "no peer " + pin.hex() +
                                     " is registered; it must connect once before it can be set");
  }

  Result<PeerRecord> read(const Database::Query& row) const {
    PeerRecord peer;
    GOBLIN_TRY_VOID(row.fixed(0, peer.pin.bytes));
    if (row.integer(1) < 1 || row.integer(1) > 4) {
      return fail(database_->damaged("role of peer " + peer.pin.hex()));
    }
    peer.role = static_cast<wire::Role>(row.integer(1));
    peer.address = row.text(2);
    peer.first_seen_unix_ms = row.integer(3);
    peer.last_seen_unix_ms = row.integer(4);
    peer.validator = row.integer(5) != 0;
    peer.blocked = row.integer(6) != 0;
    return peer;
  }

  std::unique_ptr<Database> database_;
};

}  // namespace

Result<std::unique_ptr<PeerRegistry>> PeerRegistry::open(const std::string& path) {
  // NORMAL: what a loss of power may cost here is a few seconds of last_seen, or an operator's
  // setting that was made a moment ago.
  GOBLIN_TRY(auto database,
             Database::open(path, {"peer registry", kApplicationId, kMigrations, false}));
  return std::make_unique<SqlitePeers>(std::move(database));
}

}  // namespace goblin::store
