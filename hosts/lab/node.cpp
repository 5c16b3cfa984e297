// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/node.hpp"

#include <filesystem>
#include <set>

#include "core/plugin/jail_probe.hpp"
#include "hosts/lab/admission.hpp"
#include "hosts/lab/client_session.hpp"
#include "hosts/lab/host_session.hpp"
#include "hosts/lab/link_plugins.hpp"
#include "hosts/lab/secret.hpp"
#include "hosts/link/listener_limits.hpp"
#include "hosts/link/read_config.hpp"
#include "hosts/link/ready_line.hpp"

namespace goblin::lab {
namespace {

/// How often the standing of connected hosts is looked at anew.
constexpr net::Milliseconds kReview{1'000};

class Node {
 public:
  Node(const LabConfig& config, net::Loop& loop, log::Logger logger)
      : config_(config),
        loop_(loop),
        logger_(std::move(logger)),
        admission_(config.hosts, config.validators, config.network_validators) {}

  Result<void> open() {
    const std::string& dir = config_.state_dir;
    GOBLIN_TRY(staging_, store::Staging::open(dir + "/staging", config_.staging_bytes));
    GOBLIN_TRY_VOID(open_journal());
    GOBLIN_TRY(plugin_cache_,
               store::BlobCache::open(dir + "/plugins", store::NamedBy::kSha256,
                                      config_.plugin_cache_bytes, [](const wire::Digest&) {}));
    GOBLIN_TRY(catalogue_, link::Catalogue::open(config_.catalogue));
    GOBLIN_TRY(identity_, net::Identity::load_or_create(dir + "/identity"));
    GOBLIN_TRY(hosts_listener_, net::listen_tls(loop_, identity_, config_.address, config_.port,
                                                link::listener_limits(config_.listener, logger_)));
    const std::string socket = config_.socket.empty() ? dir + "/lab.sock" : config_.socket;
    GOBLIN_TRY(clients_listener_, net::listen_unix(loop_, socket, config_.socket_group));

    link::CoordinatorLink::Options options;
    options.host = config_.coordinator;
    options.port = config_.coordinator_port;
    options.pin = config_.coordinator_pin;
    options.role = wire::Role::kLab;
    options.heartbeat = config_.heartbeat;
    options.seed = wire::DigestHash{}(identity_->pin());
    link::CoordinatorLink::Hooks hooks;
    hooks.status = [this] { return lab_status(); };
    hooks.on_frame = [this](net::Frame frame) { on_coordinator(std::move(frame)); };
    hooks.on_catalogue = [this] { engine_->catalogue_changed(); };
    link_ = std::make_shared<link::CoordinatorLink>(loop_, identity_, std::move(options),
                                                    std::move(hooks), *catalogue_, *plugin_cache_,
                                                    logger_);
    plugins_ = std::make_unique<LinkPlugins>(*link_);
    EngineOptions engine = config_.engine;
    engine.scheduler = with_secret_choices(engine.scheduler);
    engine_ = std::make_unique<Engine>(loop_, *journal_, *staging_, *plugins_, std::move(engine),
                                       logger_);
    loop_.spawn(start());
    return {};
  }

  [[nodiscard]] const Result<void>& outcome() const { return outcome_; }

 private:
  /// A journal that names no job would have every staged file removed: where there are files, there
  /// was a journal.
  Result<void> open_journal() {
    GOBLIN_TRY(const std::vector<std::uint64_t> staged, staging_->list());
    auto journal = store::LabJournal::open(config_.state_dir + "/journal.sqlite",
                                           config_.synchronous_full, !staged.empty());
    if (!journal && journal.error().code == Code::kNotFound) {
      return fail(Code::kCorrupt,
                  journal.error().message + ", but the folder '" + config_.state_dir +
                      "/staging' holds " + std::to_string(staged.size()) +
                      " files of its jobs. Restore the journal from a copy; or move that folder "
                      "away, to start without those jobs. Nothing was removed");
    }
    GOBLIN_TRY(journal_, std::move(journal));
    return {};
  }

  net::Task<void> start() {
    loop_.spawn(wait_signal());
    loop_.spawn(link_->run());
    auto restored = co_await engine_->restore();
    if (!restored) {
      outcome_ = std::move(restored);
      loop_.stop();
      co_return;
    }
    engine_->start();
    loop_.spawn(accept_hosts());
    loop_.spawn(review_loop());
    loop_.spawn(accept_clients());
    logger_.info("lab node " + identity_->pin().hex() + " listens on " + config_.address + ":" +
                 std::to_string(hosts_listener_->port()));
    link::say_ready(config_.ready_fd,
                    std::to_string(hosts_listener_->port()) + " " + identity_->pin().hex());
  }

  net::Task<void> wait_signal() {
    (void)co_await loop_.signal();
    stop();
  }

  void stop() {
    if (stopping_) {
      return;
    }
    stopping_ = true;
    logger_.info("stopping; jobs stay in the journal");
    engine_->shut_down();
    link_->stop();
    hosts_listener_->close();
    clients_listener_->close();
    for (const auto& weak : sessions_) {
      if (const auto session = weak.lock()) {
        session->close();
      }
    }
    loop_.post([this] { loop_.stop(); });
  }

  net::Frame lab_status() {
    wire::LabStatus status;
    status.address = config_.public_address;
    status.port = hosts_listener_->port();
    status.hosts_wanted = config_.hosts_wanted;
    status.jobs = engine_->running_jobs();
    return net::make_frame(wire::FrameType::kLabStatus, status);
  }

  void on_coordinator(net::Frame frame) {
    if (frame.type != wire::FrameType::kHostAssignments) {
      return;
    }
    auto message = wire::decode_host_assignments(frame.message);
    if (!message) {
      logger_.warn("coordinator: " + message.error().message);
      return;
    }
    admission_.assign(*message, loop_.now());
    review_sessions();
  }

  /// A host whose lease has run out is let go; one whose role has changed connects anew, so that
  /// nothing it said in the old role counts in the new one.
  void review_sessions() {
    const auto now = loop_.now();
    (void)admission_.prune(now);
    for (const auto& weak : sessions_) {
      const auto session = weak.lock();
      if (!session) {
        continue;
      }
      const auto standing = admission_.standing(session->pin(), now);
      if (standing && standing->trusted == session->trusted()) {
        continue;
      }
      logger_.info(
          "host " + session->pin().hex().substr(0, 16) +
          (standing ? (standing->trusted ? " has become a validator" : " is no validator any more")
                    : " has no lease any more") +
          ": its connection is closed");
      session->close();
    }
    std::erase_if(sessions_, [](const auto& weak) { return weak.expired(); });
  }

  net::Task<void> review_loop() {
    while (!stopping_) {
      co_await loop_.sleep(kReview);
      review_sessions();
    }
  }

  wire::Refusal authorise(const net::Peer& peer, const wire::Hello& hello) {
    if (stopping_) {
      return wire::Refusal::kShuttingDown;
    }
    if (hello.role == wire::Role::kClient) {
      return link::contains(config_.clients, peer.pin) ? wire::Refusal::kNone
                                                       : wire::Refusal::kNotAuthorised;
    }
    if (hello.role != wire::Role::kHost) {
      return wire::Refusal::kWrongRole;
    }
    return admission_.standing(peer.pin, loop_.now()) ? wire::Refusal::kNone
                                                      : wire::Refusal::kNotAuthorised;
  }

  net::Task<void> accept_hosts() {
    while (!stopping_) {
      auto channel = co_await hosts_listener_->accept();
      if (!channel) {
        co_return;
      }
      loop_.spawn(serve_tls(std::move(*channel)));
    }
  }

  net::Task<void> serve_tls(std::unique_ptr<net::Channel> channel) {
    const auto hello = co_await net::greet_client(
        loop_, *channel, wire::Role::kLab,
        [this](const net::Peer& peer, const wire::Hello& h) { return authorise(peer, h); });
    if (!hello) {
      logger_.info("refused " + channel->peer().address + ": " + hello.error().message);
      co_return;
    }
    if (hello->role == wire::Role::kClient) {
      co_await serve_client(std::move(channel));
      co_return;
    }
    const net::Peer peer = channel->peer();
    const auto standing = admission_.standing(peer.pin, loop_.now());
    if (!standing) {
      co_return;  // its lease ran out while it was greeted
    }
    const auto session = std::make_shared<HostSession>(
        loop_, *engine_, std::move(channel), standing->trusted, independence_group(peer), logger_);
    remember(session);
    co_await session->run();
  }

  net::Task<void> accept_clients() {
    while (!stopping_) {
      auto channel = co_await clients_listener_->accept();
      if (!channel) {
        co_return;
      }
      loop_.spawn(greet_local(std::move(*channel)));
    }
  }

  net::Task<void> greet_local(std::unique_ptr<net::Channel> channel) {
    const auto hello = co_await net::greet_client(
        loop_, *channel, wire::Role::kLab, [](const net::Peer&, const wire::Hello& h) {
          return h.role == wire::Role::kClient ? wire::Refusal::kNone : wire::Refusal::kWrongRole;
        });
    if (hello) {
      co_await serve_client(std::move(channel));
    }
  }

  net::Task<void> serve_client(std::unique_ptr<net::Channel> channel) {
    ClientSession::Daemon daemon;
    daemon.status = [this] { return status(); };
    const bool local = channel->peer().local;
    daemon.control = [this, local](const wire::Control& control) -> Result<void> {
      if (control.command == "stop" && local) {
        loop_.post([this] { stop(); });
        return {};
      }
      return fail(Code::kUnsupported, "a lab node does not know the command '" + control.command +
                                          "'; it knows: stop (on its own machine)");
    };
    const auto session = std::make_shared<ClientSession>(loop_, *engine_, *staging_,
                                                         std::move(daemon), std::move(channel));
    co_await session->run();
  }

  /// A key has one connection: the same one came back before the end of the other was noticed, or
  /// somebody would fill all places with one admission.
  void remember(const std::shared_ptr<HostSession>& session) {
    std::erase_if(sessions_, [&session](const auto& weak) {
      const auto other = weak.lock();
      if (other && other->pin() == session->pin()) {
        other->close();
        return true;
      }
      return !other;
    });
    sessions_.push_back(session);
  }

  wire::StatusReport status() {
    wire::StatusReport report;
    const auto put = [&report](std::string name, std::string value) {
      report.fields.emplace_back(std::move(name), std::move(value));
    };
    put("role", "lab");
    put("pin", identity_->pin().hex());
    put("port", std::to_string(hosts_listener_->port()));
    put("coordinator", config_.coordinator + ":" + std::to_string(config_.coordinator_port));
    put("coordinator state", link_->connected() ? "connected" : link_->trouble());
    catalogue_->report(report.fields);
    put("hosts assigned", std::to_string(admission_.prune(loop_.now())));
    const Engine::Footprint held = engine_->footprint();
    put("hosts connected", std::to_string(held.hosts));
    put("jobs running", std::to_string(engine_->running_jobs()));
    put("tasks prepared", std::to_string(held.tasks));
    put("leases", std::to_string(held.leases));
    put("inputs hashed", std::to_string(held.views));
    put("inputs on offer", std::to_string(held.blobs));
    put("grants", std::to_string(held.grants));
    put("staging bytes", std::to_string(staging_->used_bytes()));
    put("state directory", config_.state_dir);
    return report;
  }

  const LabConfig& config_;
  net::Loop& loop_;
  log::Logger logger_;
  std::unique_ptr<store::LabJournal> journal_;
  std::unique_ptr<store::Staging> staging_;
  std::unique_ptr<store::BlobCache> plugin_cache_;
  std::unique_ptr<link::Catalogue> catalogue_;
  std::shared_ptr<const net::Identity> identity_;
  std::unique_ptr<net::Listener> hosts_listener_, clients_listener_;
  std::shared_ptr<link::CoordinatorLink> link_;
  std::unique_ptr<LinkPlugins> plugins_;
  std::unique_ptr<Engine> engine_;
  Admission admission_;
  std::vector<std::weak_ptr<HostSession>> sessions_;
  Result<void> outcome_;
  bool stopping_ = false;
};

}  // namespace

Result<void> run_lab(const LabConfig& given) {
  GOBLIN_TRY(const net::UniqueFd hold, link::hold_state_dir(given.state_dir, "lab"));
  GOBLIN_TRY(log::Logger logger, log::Logger::create("lab", given.log));
  LabConfig config = given;
  GOBLIN_TRY(const std::string jail, plugin::expect_jail(config.engine.runner));
  logger.info(jail);
  // Enough workers that a journal write need not wait for large arrays to be hashed.
  GOBLIN_TRY(std::unique_ptr<net::Loop> loop, net::Loop::create(6));
  Node node(config, *loop, logger);
  GOBLIN_TRY_VOID(node.open());
  loop->run();
  logger.info("ended");
  return node.outcome();
}

}  // namespace goblin::lab
