// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/coordinator/coordinator.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "core/net/blobs.hpp"
#include "core/net/channel.hpp"
#include "core/store/peer_registry.hpp"
#include "hosts/coordinator/known_peers.hpp"
#include "hosts/link/clock.hpp"
#include "hosts/link/control_server.hpp"
#include "hosts/link/listener_limits.hpp"
#include "hosts/link/read_config.hpp"
#include "hosts/link/ready_line.hpp"

namespace goblin::coordinator {
namespace {

/// A known peer's last_seen and address are written no more often than this.
constexpr std::int64_t kSeenEvery = 3'600'000;
/// New peers' first status is answered by matchmaking at once, but no more often than this.
constexpr std::uint64_t kUpdatePause = 100'000;

/// A connected host or lab node.
struct PeerSession {
  std::shared_ptr<net::Channel> channel;
  std::shared_ptr<net::BlobExchange> blobs;  ///< refers to channel
  wire::Role role = wire::Role::kHost;
  wire::HostStatus host;
  wire::LabStatus lab;
  bool told = false;  ///< has said its status
};

class Coordinator {
 public:
  Coordinator(const CoordinatorConfig& config, net::Loop& loop, log::Logger logger)
      : config_(config),
        loop_(loop),
        logger_(std::move(logger)),
        matchmaker_(config.matchmaking),
        newcomer_(loop) {}

  Result<void> open() {
    std::error_code error;
    const std::string& dir = config_.state_dir;
    std::filesystem::create_directories(dir, error);
    GOBLIN_TRY(registry_, store::PeerRegistry::open(dir + "/registry.sqlite"));
    GOBLIN_TRY(const std::vector<store::PeerRecord> records, registry_->list());
    known_ = std::make_unique<KnownPeers>(records, config_.max_known_peers, kSeenEvery);
    GOBLIN_TRY(identity_, net::Identity::load_or_create(dir + "/identity"));
    if (config_.open_catalogue) {
      GOBLIN_TRY(catalogue_, config_.open_catalogue(config_.publisher));
    } else {
      GOBLIN_TRY(catalogue_, Publisher::open(config_.publisher));
    }
    if (const auto published = catalogue_->refresh(unix_s()); !published) {
      logger_.warn("the catalogue: " + published.error().message);
    }
    GOBLIN_TRY(listener_, net::listen_tls(loop_, identity_, config_.address, config_.port,
                                          link::listener_limits(config_.listener, logger_)));
    link::ControlServer::Hooks hooks;
    hooks.status = [this] { return status(); };
    hooks.control = [this](const wire::Control& command) { return on_command(command); };
    GOBLIN_TRY(control_,
               link::ControlServer::open(
                   loop_, config_.socket.empty() ? dir + "/coordinator.sock" : config_.socket,
                   wire::Role::kCoordinator, std::move(hooks)));
    loop_.spawn(wait_signal());
    loop_.spawn(accept_loop());
    loop_.spawn(update_loop());
    loop_.spawn(write_loop());
    loop_.spawn(renew_loop());
    logger_.info("coordinator " + identity_->pin().hex() + " listens on " + config_.address + ":" +
                 std::to_string(listener_->port()));
    link::say_ready(config_.ready_fd,
                    std::to_string(listener_->port()) + " " + identity_->pin().hex());
    return {};
  }

 private:
  using Micros = scheduler::Matchmaker::Micros;

  static std::uint64_t unix_s() { return static_cast<std::uint64_t>(link::unix_ms()) / 1000; }

  net::Frame metadata(const wire::MetadataGet& asked) {
    wire::Metadata answer;
    answer.file = asked.file;
    answer.version = asked.version;
    auto file = catalogue_->metadata(asked.file, asked.version);
    answer.status = file ? GOBLIN_OK : static_cast<std::int32_t>(file.error().code);
    net::Frame frame = net::make_frame(wire::FrameType::kMetadata, answer);
    if (file) {
      frame.payload = std::move(*file);
    }
    return frame;
  }

  /// Reads what is published, renews the timestamp when that is due, tells everybody who is here.
  Result<void> refresh_catalogue() {
    GOBLIN_TRY(const bool news, catalogue_->refresh(unix_s()));
    if (news) {
      for (const auto& [pin, session] : peers_) {
        loop_.spawn(tell(session->channel,
                         net::make_frame(wire::FrameType::kCatalogueNews, wire::CatalogueNews{})));
      }
    }
    return {};
  }

  /// Often enough that a renewal which fails is tried several times before the timestamp expires.
  net::Task<void> renew_loop() {
    const std::uint64_t pause_s =
        std::clamp<std::uint64_t>(config_.publisher.renew_every_s / 8, 1, 3600);
    std::string said;
    while (!stopping_) {
      co_await loop_.sleep(net::Milliseconds(static_cast<std::int64_t>(pause_s) * 1000));
      const auto done = refresh_catalogue();
      const std::string trouble = done ? "" : done.error().message;
      if (!trouble.empty() && trouble != said) {
        logger_.error("the catalogue: " + trouble);
      }
      said = trouble;
    }
  }

  [[nodiscard]] Micros now() const {
    return static_cast<Micros>(
        std::chrono::duration_cast<std::chrono::microseconds>(loop_.now().time_since_epoch())
            .count());
  }

  net::Task<void> wait_signal() {
    (void)co_await loop_.signal();
    stop();
  }

  void stop() {
    logger_.info("stopping");
    stopping_ = true;
    loop_.stop();
  }

  wire::Refusal authorise(const net::Peer& peer, const wire::Hello& hello) {
    if (hello.role != wire::Role::kHost && hello.role != wire::Role::kLab) {
      return wire::Refusal::kWrongRole;
    }
    if (hello.role == wire::Role::kLab && !config_.labs.empty() &&
        !link::contains(config_.labs, peer.pin)) {
      return wire::Refusal::kNotAuthorised;
    }
    return known_->greet(peer.pin, hello.role, peer.address, link::unix_ms());
  }

  net::Task<void> accept_loop() {
    while (true) {
      auto channel = co_await listener_->accept();
      if (!channel) {
        co_return;
      }
      loop_.spawn(serve(std::move(*channel)));
    }
  }

  net::Task<void> serve(std::shared_ptr<net::Channel> channel) {
    const auto hello = co_await net::greet_client(
        loop_, *channel, wire::Role::kCoordinator,
        [this](const net::Peer& peer, const wire::Hello& h) { return authorise(peer, h); });
    if (!hello) {
      logger_.info("refused " + channel->peer().address + ": " + hello.error().message);
      co_return;
    }
    const wire::Digest pin = channel->peer().pin;
    const auto session = std::make_shared<PeerSession>();
    session->channel = channel;
    session->role = hello->role;
    session->blobs = net::BlobExchange::create(
        loop_, *channel, [this](const wire::Digest& digest) { return find_blob(digest); });
    if (const auto old = peers_.find(pin); old != peers_.end()) {
      old->second->channel->close();  // the same key came back before its end was noticed
    }
    peers_[pin] = session;
    logger_.info(std::string(hello->role == wire::Role::kLab ? "lab node " : "host ") +
                 pin.hex().substr(0, 16) + " has connected from " + channel->peer().address);
    while (true) {
      auto frame = co_await channel->receive();
      if (!frame || frame->type == wire::FrameType::kGoodbye) {
        break;
      }
      auto done = co_await handle(pin, *session, std::move(*frame));
      if (!done) {
        logger_.warn("peer " + pin.hex().substr(0, 16) + ": " + done.error().message);
        break;
      }
    }
    channel->close();
    session->blobs->shut_down();
    // An end of the connection is no end of the assignments: they run out when nothing more is
    // heard. So a short loss of the network moves nobody.
    if (const auto it = peers_.find(pin); it != peers_.end() && it->second == session) {
      peers_.erase(it);
    }
  }

  net::Task<Result<std::shared_ptr<net::BlobSource>>> find_blob(wire::Digest digest) {
    co_return catalogue_->blob(digest);
  }

  net::Task<Result<void>> handle(wire::Digest pin, PeerSession& session, net::Frame frame) {
    switch (frame.type) {
      case wire::FrameType::kHostStatus: {
        if (session.role != wire::Role::kHost) {
          co_return fail(Code::kCorrupt, "a lab node speaks as a host");
        }
        GOBLIN_CO_TRY(session.host, wire::decode_host_status(frame.message));
        const bool first = !std::exchange(session.told, true);
        if (session.host.state == wire::HostState::kStopping) {
          matchmaker_.host_gone(pin);
        } else {
          matchmaker_.host_seen(pin, session.host.state == wire::HostState::kReady, now());
        }
        if (first) {
          update_soon();
        }
        co_return co_await answer(pin, session);
      }
      case wire::FrameType::kLabStatus: {
        if (session.role != wire::Role::kLab) {
          co_return fail(Code::kCorrupt, "a host speaks as a lab node");
        }
        GOBLIN_CO_TRY(session.lab, wire::decode_lab_status(frame.message));
        const bool first = !std::exchange(session.told, true);
        matchmaker_.lab_seen(pin, session.lab.hosts_wanted, now());
        if (first) {
          update_soon();
        }
        co_return co_await answer(pin, session);
      }
      case wire::FrameType::kMetadataGet: {
        GOBLIN_CO_TRY(const wire::MetadataGet asked, wire::decode_metadata_get(frame.message));
        const auto channel = session.channel;
        co_return co_await channel->send(metadata(asked));
      }
      case wire::FrameType::kBlobGet:
      case wire::FrameType::kBlobInfo:
      case wire::FrameType::kBlobData:
      case wire::FrameType::kBlobCredit:
      case wire::FrameType::kBlobCancel:
        co_return session.blobs->handle(std::move(frame));
      default:
        co_return fail(Code::kCorrupt, "a frame of type " +
                                           std::to_string(static_cast<unsigned>(frame.type)) +
                                           " is not for a coordinator");
    }
  }

  [[nodiscard]] bool is_validator(const wire::Digest& pin) const {
    return link::contains(config_.validators, pin) || known_->is_validator(pin);
  }

  [[nodiscard]] std::uint32_t lease_ms() const {
    return static_cast<std::uint32_t>(config_.matchmaking.lease / 1000);
  }

  net::Frame assignments_of(const wire::Digest& pin, const PeerSession& session) const {
    if (session.role == wire::Role::kHost) {
      wire::LabAssignments message;
      for (const auto& lab : matchmaker_.labs_of(pin)) {
        const auto it = peers_.find(lab);
        if (it == peers_.end() || !it->second->told) {
          const auto known = addresses_.find(lab);
          if (known != addresses_.end()) {
            message.labs.push_back({lab, known->second.first, known->second.second, lease_ms()});
          }
          continue;
        }
        const auto& status = it->second->lab;
        const std::string address =
            status.address.empty() ? it->second->channel->peer().address : status.address;
        addresses_[lab] = {address, status.port};
        message.labs.push_back({lab, address, status.port, lease_ms()});
      }
      return net::make_frame(wire::FrameType::kLabAssignments, message);
    }
    wire::HostAssignments message;
    for (const auto& host : matchmaker_.hosts_of(pin)) {
      message.hosts.push_back({host, is_validator(host), lease_ms()});
    }
    return net::make_frame(wire::FrameType::kHostAssignments, message);
  }

  net::Task<Result<void>> answer(wire::Digest pin, PeerSession& session) {
    const auto channel = session.channel;
    co_return co_await channel->send(assignments_of(pin, session));
  }

  static net::Task<void> tell(std::shared_ptr<net::Channel> channel, net::Frame frame) {
    (void)co_await channel->send(std::move(frame));
  }

  /// Lab nodes hear of a host before the host hears of them: so it is not refused.
  void update() {
    updated_ = now();
    const auto changed = matchmaker_.update(now());
    for (const auto role : {wire::Role::kLab, wire::Role::kHost}) {
      for (const auto& pin : changed) {
        const auto it = peers_.find(pin);
        if (it != peers_.end() && it->second->told && it->second->role == role) {
          loop_.spawn(tell(it->second->channel, assignments_of(pin, *it->second)));
        }
      }
    }
  }

  /// Now, or with whoever else comes in the pause.
  void update_soon() {
    if (now() >= updated_ + kUpdatePause) {
      update();
    } else {
      newcomer_.set();
    }
  }

  net::Task<void> update_loop() {
    while (!stopping_) {
      const bool newcomer = co_await newcomer_.wait_for(config_.update_every);
      if (newcomer) {
        co_await loop_.sleep(net::Milliseconds(kUpdatePause / 1000));
      }
      newcomer_.reset();
      update();
    }
  }

  /// The only user of the registry once it runs: writes in batches, off the loop's thread.
  net::Task<void> write_loop() {
    while (!stopping_) {
      co_await loop_.sleep(config_.update_every);
      const auto batch = std::make_shared<KnownPeers::Batch>(known_->take_batch());
      if (batch->seen.empty() && !batch->prune) {
        continue;
      }
      const auto write = [registry = registry_, batch, keep = config_.max_known_peers] {
        return write_batch(*registry, *batch, keep);
      };
      const auto done = co_await loop_.offload(write);
      if (!done) {
        logger_.warn("peer registry: " + done.error().message);
      }
    }
  }

  Result<wire::ReplyBody> on_command(const wire::Control& command) {
    if (command.command == "stop") {
      loop_.post([this] { stop(); });
      return wire::Ok{};
    }
    if (command.command == "reload") {
      GOBLIN_TRY_VOID(refresh_catalogue());
      wire::StatusReport report;
      report.fields = catalogue_->report();
      return report;
    }
    return fail(Code::kUnsupported, "a coordinator does not know the command '" + command.command +
                                        "'; it knows: reload, stop");
  }

  wire::StatusReport status() {
    wire::StatusReport report;
    const auto put = [&report](std::string name, std::string value) {
      report.fields.emplace_back(std::move(name), std::move(value));
    };
    put("role", "coordinator");
    put("pin", identity_->pin().hex());
    put("port", std::to_string(listener_->port()));
    std::size_t labs = 0;
    std::size_t hosts = 0;
    for (const auto& [pin, session] : peers_) {
      ++(session->role == wire::Role::kLab ? labs : hosts);
    }
    put("hosts connected", std::to_string(hosts));
    put("lab nodes connected", std::to_string(labs));
    for (const auto& [pin, session] : peers_) {
      const std::string name = pin.hex().substr(0, 16);
      if (session->role == wire::Role::kLab) {
        put("lab node " + name, std::to_string(matchmaker_.hosts_of(pin).size()) + " of " +
                                    std::to_string(session->lab.hosts_wanted) + " hosts wanted, " +
                                    std::to_string(session->lab.jobs) + " jobs");
      } else {
        put("host " + name, std::to_string(matchmaker_.labs_of(pin).size()) + " lab nodes, " +
                                std::to_string(session->host.leases) + " leases" +
                                (is_validator(pin) ? ", validator" : ""));
      }
    }
    for (auto& [name, value] : catalogue_->report()) {
      put(name, value);
    }
    put("state directory", config_.state_dir);
    return report;
  }

  const CoordinatorConfig& config_;
  net::Loop& loop_;
  log::Logger logger_;
  scheduler::Matchmaker matchmaker_;
  std::shared_ptr<store::PeerRegistry> registry_;
  std::unique_ptr<KnownPeers> known_;
  Micros updated_ = 0;   ///< when matchmaking ran last
  net::Event newcomer_;  ///< somebody waits for matchmaking
  std::shared_ptr<const net::Identity> identity_;
  std::unique_ptr<CatalogueSource> catalogue_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<link::ControlServer> control_;
  std::map<wire::Digest, std::shared_ptr<PeerSession>> peers_;
  /// Where lab nodes that lost their connection a moment ago listen.
  mutable std::map<wire::Digest, std::pair<std::string, std::uint16_t>> addresses_;
  bool stopping_ = false;
};

}  // namespace

Result<void> run_coordinator(const CoordinatorConfig& config) {
  GOBLIN_TRY(const net::UniqueFd hold, link::hold_state_dir(config.state_dir, "coordinator"));
  GOBLIN_TRY(log::Logger logger, log::Logger::create("coordinator", config.log));
  GOBLIN_TRY(std::unique_ptr<net::Loop> loop, net::Loop::create(1));
  Coordinator coordinator(config, *loop, logger);
  GOBLIN_TRY_VOID(coordinator.open());
  loop->run();
  logger.info("ended");
  return {};
}

}  // namespace goblin::coordinator
