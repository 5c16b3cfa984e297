// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/host.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/plugin/jail_probe.hpp"
#include "hosts/link/control_server.hpp"
#include "hosts/link/coordinator_link.hpp"
#include "hosts/link/read_config.hpp"
#include "hosts/link/ready_line.hpp"
#include "hosts/volunteer/lab_connection.hpp"
#include "hosts/volunteer/lease_math.hpp"
#include "hosts/volunteer/own_speed.hpp"

namespace goblin::volunteer {
namespace {

namespace fs = std::filesystem;

/// A plugin's cache that is mended so often and breaks again is left to the watch.
constexpr int kMostMended = 2;

std::string mib(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

class Host {
 public:
  Host(const HostConfig& config, net::Loop& loop, log::Logger logger)
      : config_(config), loop_(loop), logger_(std::move(logger)) {}

  Result<void> open() {
    std::error_code error;
    const std::string& dir = config_.state_dir;
    paused_ = fs::exists(dir + "/paused", error);
    GOBLIN_TRY(identity_, net::Identity::load_or_create(dir + "/identity"));
    GOBLIN_TRY(cache_, store::BlobCache::open(dir + "/cache", store::NamedBy::kBlake3,
                                              config_.cache_bytes, [](const wire::Digest&) {}));
    GOBLIN_TRY(catalogue_, link::Catalogue::open(config_.catalogue));
    no_start_ = why_no_start();
    GOBLIN_TRY(plugins_,
               store::BlobCache::open(dir + "/plugins", store::NamedBy::kSha256,
                                      config_.plugin_cache_bytes, [](const wire::Digest&) {}));
    watch_ = std::make_unique<CacheWatch>(
        loop_, std::vector<store::BlobCache*>{cache_.get(), plugins_.get()}, config_.cache_pace,
        wire::DigestHash{}(identity_->pin()), logger_);
    work_ = std::make_unique<Work>(
        loop_, config_, *cache_, *watch_,
        [this](wire::Digest digest) { return find_plugin(digest); }, logger_);
    link::ControlServer::Hooks control;
    control.status = [this] { return status(); };
    control.control = [this](const wire::Control& command) {
      return on_command(command).map([] { return wire::ReplyBody(wire::Ok{}); });
    };
    GOBLIN_TRY(control_, link::ControlServer::open(
                             loop_, config_.socket.empty() ? dir + "/host.sock" : config_.socket,
                             wire::Role::kHost, std::move(control)));

    link::CoordinatorLink::Options options;
    options.host = config_.coordinator;
    options.port = config_.coordinator_port;
    options.pin = config_.coordinator_pin;
    options.role = wire::Role::kHost;
    options.heartbeat = config_.heartbeat;
    options.seed = wire::DigestHash{}(identity_->pin());
    link::CoordinatorLink::Hooks hooks;
    hooks.status = [this] { return host_status(); };
    hooks.on_frame = [this](net::Frame frame) { on_coordinator(std::move(frame)); };
    hooks.on_catalogue = [this] { catalogue_changed(); };
    link_ = std::make_shared<link::CoordinatorLink>(
        loop_, identity_, std::move(options), std::move(hooks), *catalogue_, *plugins_, logger_);
    work_->pause(paused_);
    work_->start();
    watch_->start([this] { cache_changed(); }, [this] { cache_lost(); });
    loop_.spawn(wait_signal());
    loop_.spawn(link_->run());
    loop_.spawn(expire_loop());
    logger_.info("host " + identity_->pin().hex() + (paused_ ? " is up, paused" : " is up"));
    link::say_ready(config_.ready_fd, identity_->pin().hex());
    return {};
  }

 private:
  net::Task<Result<std::shared_ptr<const net::UniqueFd>>> find_plugin(wire::Digest digest) {
    for (int mended = 0;; ++mended) {
      auto found = co_await link_->plugin(digest);
      if (found) {
        co_return found;
      }
      if (!plugins_->trouble()) {
        // kUnsupported is for ever: the lab node offers no more of it. All else may pass, and none
        // of it is the task's fault.
        const bool for_ever = found.error().code == Code::kUnsupported;
        co_return fail(for_ever ? Code::kUnsupported : Code::kUnavailable, found.error().message);
      }
      const bool again = mended < kMostMended;
      const bool sound = co_await watch_->mend();
      if (!sound || !again) {
        co_return fail(Code::kUnavailable, found.error().message);
      }
    }
  }

  /// What was revoked stops; what may begin is looked at anew.
  void catalogue_changed() {
    work_->drop_plugins([this](const wire::Digest& plugin) { return catalogue_->lists(plugin); });
    review_start();
  }
  /// Once the catalogue has expired no task begins; those that run are completed.
  void review_start() {
    const std::string before = std::exchange(no_start_, why_no_start());
    if (no_start_.empty() == before.empty()) {
      return;
    }
    if (!no_start_.empty()) {
      logger_.warn("no new tasks: " + no_start_);
      work_->hand_back_waiting();
    }
    offer_again();
  }
  /// Before the first look there is nothing to say: leases wait for it.
  [[nodiscard]] std::string why_no_start() const {
    if (!catalogue_->known() && !catalogue_->looked()) {
      return "";
    }
    const auto good = catalogue_->may_start();
    return good ? "" : good.error().message;
  }

  /// Lab nodes hear that the host takes nothing for now, or takes work again.
  void cache_changed() {
    if (!watch_->trouble().empty()) {
      work_->hand_back_unfetched();
    }
    offer_again();
  }
  /// Where work is placed follows from what lab nodes believe to be here: no cache, then the new
  /// one.
  void cache_lost() {
    cache_empty_ = true;
    offer_to_labs();
    cache_empty_ = false;
    offer_to_labs();
  }

  [[nodiscard]] wire::HostState state() const {
    if (stopping_) {
      return wire::HostState::kStopping;
    }
    // The wire knows no other word for "takes no work for now".
    return paused_ || !watch_->trouble().empty() || !no_start_.empty() ? wire::HostState::kPaused
                                                                       : wire::HostState::kReady;
  }

  [[nodiscard]] wire::HostCapacity capacity() const {
    wire::HostCapacity capacity;
    capacity.threads = config_.threads;
    capacity.slots = config_.slots;
    capacity.memory_bytes = offered_memory(config_.memory_bytes, config_.threads);
    capacity.cache_bytes = cache_empty_ || !watch_->trouble().empty() ? 0 : config_.cache_bytes;
    capacity.abi_major = GOBLIN_ABI_MAJOR;
    capacity.abi_minor = GOBLIN_ABI_MINOR;
    capacity.flops_f32 = own_speed_.f32 * config_.cpu_fraction;
    capacity.flops_f64 = own_speed_.f64 * config_.cpu_fraction;
    return capacity;
  }

  /// What one lab node may have: an equal part of the slots.
  [[nodiscard]] wire::HostOffer offer() const {
    wire::HostOffer offer{capacity(), state()};
    const auto labs = static_cast<std::uint32_t>(std::max<std::size_t>(labs_.size(), 1));
    offer.capacity.slots = std::max(config_.slots / labs, 1u);
    return offer;
  }

  net::Frame host_status() {
    wire::HostStatus status;
    status.capacity = capacity();
    status.state = state();
    status.leases = static_cast<std::uint32_t>(work_->leases());
    return net::make_frame(wire::FrameType::kHostStatus, status);
  }

  void on_coordinator(net::Frame frame) {
    if (frame.type != wire::FrameType::kLabAssignments || stopping_) {
      return;
    }
    auto message = wire::decode_lab_assignments(frame.message);
    if (!message) {
      logger_.warn("coordinator: " + message.error().message);
      return;
    }
    const std::size_t before = labs_.size();
    for (const auto& assignment : message->labs) {
      const auto it = labs_.find(assignment.lab);
      if (it != labs_.end()) {
        it->second->renew(assignment);
        continue;
      }
      auto lab = std::make_shared<LabConnection>(
          loop_, config_, *work_, identity_, assignment, [this] { return offer(); },
          [this] { return net::reach_of(link_->coordinator_address()); }, logger_);
      labs_.emplace(assignment.lab, lab);
      loop_.spawn(keep(lab));
    }
    for (auto& [pin, lab] : labs_) {
      const bool named = std::any_of(message->labs.begin(), message->labs.end(),
                                     [&](const auto& a) { return a.lab == pin; });
      if (!named) {
        let_go(lab);
      }
    }
    std::erase_if(labs_, [&](const auto& item) {
      return std::none_of(message->labs.begin(), message->labs.end(),
                          [&](const auto& a) { return a.lab == item.first; });
    });
    if (labs_.size() != before) {
      offer_to_labs();
    }
  }

  net::Task<void> keep(std::shared_ptr<LabConnection> lab) {
    co_await lab->run();
    past_sent_ += lab->bytes_sent();
    past_received_ += lab->bytes_received();
    past_refused_addresses_ += lab->refused_addresses();
    std::erase(ending_, lab);
  }
  /// It is no lab node of this host any more; its last bytes still count.
  void let_go(const std::shared_ptr<LabConnection>& lab) {
    lab->stop(true);
    ending_.push_back(lab);
  }

  net::Task<void> expire_loop() {
    while (!stopping_) {
      co_await loop_.sleep(net::Milliseconds(1'000));
      review_start();
      const auto gone = std::erase_if(labs_, [this](const auto& item) {
        if (item.second->expired()) {
          let_go(item.second);
          return true;
        }
        return false;
      });
      if (gone > 0) {
        offer_to_labs();
      }
    }
  }

  net::Task<void> wait_signal() {
    (void)co_await loop_.signal();
    stop_now();
    (void)co_await loop_.signal();
    loop_.stop();
  }

  void offer_to_labs() {
    for (const auto& [pin, lab] : labs_) {
      lab->send_offer();
    }
  }

  void offer_again() {
    offer_to_labs();
    link_->nudge();
  }

  /// Hands every lease back, says goodbye, ends.
  void stop_now() {
    if (stopping_) {
      return;
    }
    logger_.info("stopping: leases are handed back");
    stopping_ = true;
    offer_again();
    work_->hand_back_all();
    loop_.spawn(end());
  }

  net::Task<void> end() {
    for (const auto& [pin, lab] : labs_) {
      lab->stop(true);
    }
    // The last frames leave within this, or the peer is not listening.
    co_await loop_.sleep(net::Milliseconds(200));
    work_->stop();
    watch_->stop();
    link_->stop();
    loop_.stop();
  }

  net::Task<void> finish_work() {
    logger_.info("finishing: no new leases, those that are here are completed");
    stopping_ = true;
    offer_again();
    co_await work_->drained();
    const auto limit = loop_.now() + std::chrono::seconds(60);
    while (loop_.now() < limit && held_bytes() > 0) {
      co_await loop_.sleep(net::Milliseconds(50));
    }
    co_await end();
  }

  [[nodiscard]] std::uint64_t held_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [pin, lab] : labs_) {
      bytes += lab->held().bytes();
    }
    return bytes;
  }

  Result<void> on_command(const wire::Control& command) {
    if (command.command == "pause" || command.command == "resume") {
      paused_ = command.command == "pause";
      const std::string mark = config_.state_dir + "/paused";
      if (paused_) {
        const net::UniqueFd fd(::open(mark.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        if (!fd) {
          return fail(Code::kUnavailable, "the pause cannot be remembered in '" + mark + "'");
        }
      } else {
        ::unlink(mark.c_str());
      }
      work_->pause(paused_);
      offer_again();
      logger_.info(paused_ ? "paused" : "resumed");
      return {};
    }
    if (command.command == "stop") {
      loop_.post([this] { stop_now(); });
      return {};
    }
    if (command.command == "finish") {
      if (!stopping_) {
        loop_.spawn(finish_work());
      }
      return {};
    }
    return fail(Code::kUnsupported, "a host does not know the command '" + command.command +
                                        "'; it knows: pause, resume, finish, stop");
  }

  wire::StatusReport status() {
    wire::StatusReport report;
    const auto put = [&report](std::string name, std::string value) {
      report.fields.emplace_back(std::move(name), std::move(value));
    };
    put("role", "host");
    put("pin", identity_->pin().hex());
    const auto state_now = state();
    put("state", state_now == wire::HostState::kReady      ? "ready"
                 : state_now == wire::HostState::kStopping ? "stopping"
                 : paused_                                 ? "paused"
                                                           : "not ready");
    put("coordinator", config_.coordinator + ":" + std::to_string(config_.coordinator_port));
    put("coordinator state", link_->connected() ? "connected" : link_->trouble());
    catalogue_->report(report.fields);
    put("lab nodes", std::to_string(labs_.size()));
    std::string why = work_->idle_reason();
    std::uint64_t sent = past_sent_;
    std::uint64_t received = past_received_;
    std::uint64_t refused_addresses = past_refused_addresses_;
    for (const auto& lab : ending_) {
      refused_addresses += lab->refused_addresses();
      sent += lab->bytes_sent();
      received += lab->bytes_received();
    }
    std::size_t open = 0;
    for (const auto& [pin, lab] : labs_) {
      sent += lab->bytes_sent();
      received += lab->bytes_received();
      refused_addresses += lab->refused_addresses();
      open += lab->is_open() ? 1 : 0;
      if (!why.empty() && !lab->is_open()) {
        why = lab->trouble();
      }
    }
    if (!watch_->trouble().empty() && !paused_ && !why.empty()) {
      why = watch_->trouble();
    } else if (!why.empty() && !paused_) {
      if (!no_start_.empty()) {
        why = no_start_;
      } else if (!link_->connected() && labs_.empty()) {
        why = link_->trouble();
      } else if (labs_.empty()) {
        why = "the coordinator has assigned no lab node: none is registered, or none wants hosts";
      }
    }
    put("lab nodes connected", std::to_string(open));
    put("lab nodes' addresses refused", std::to_string(refused_addresses));
    put("leases", std::to_string(work_->leases()));
    put("idle because", why);
    const auto usage = work_->usage();
    put("threads", std::to_string(config_.threads));
    put("cpu cap", std::to_string(static_cast<int>(config_.cpu_fraction * 100)) + "% of " +
                       std::to_string(config_.threads) + " threads (held by stopping the runner)");
    put("cpu used", std::to_string(static_cast<int>(work_->cpu_used() * 100)) + "%");
    put("memory cap", mib(config_.memory_bytes));
    put("memory used", mib(usage.resident_bytes + held_bytes()));
    put("memory peak of a runner", mib(work_->counters().peak_bytes));
    put("cache cap", mib(cache_->cap_bytes()));
    put("cache used", mib(cache_->used_bytes()));
    put("tasks computed", std::to_string(work_->counters().computed));
    put("tasks failed", std::to_string(work_->counters().failed));
    for (const auto& [pin, lab] : labs_) {
      if (const std::string wrong = standing_text(lab->standing()); !wrong.empty()) {
        put("lab node " + pin.hex().substr(0, 16), wrong);
      }
    }
    put("tasks handed back", std::to_string(work_->counters().handed_back));
    put("results not collected", std::to_string(work_->counters().given_up));
    put("compute seconds", std::to_string(work_->counters().compute_us / 1'000'000));
    put("bytes received", std::to_string(received));
    put("bytes sent", std::to_string(sent));
    put("state directory", config_.state_dir);
    return report;
  }

  const HostConfig& config_;
  const OwnSpeed own_speed_ = measure_own_speed(config_.threads);
  net::Loop& loop_;
  log::Logger logger_;
  std::shared_ptr<const net::Identity> identity_;
  std::unique_ptr<store::BlobCache> cache_, plugins_;
  std::unique_ptr<link::Catalogue> catalogue_;
  std::string no_start_;  ///< why no task may begin; empty when they may
  std::unique_ptr<CacheWatch> watch_;
  std::unique_ptr<Work> work_;
  std::unique_ptr<link::ControlServer> control_;
  std::shared_ptr<link::CoordinatorLink> link_;
  std::map<wire::Digest, std::shared_ptr<LabConnection>> labs_;
  std::vector<std::shared_ptr<LabConnection>> ending_;  ///< no longer in labs_, not ended yet
  std::uint64_t past_sent_ = 0, past_received_ = 0;     ///< by lab nodes that are in neither
  std::uint64_t past_refused_addresses_ = 0;
  bool paused_ = false, stopping_ = false;
  bool cache_empty_ = false;  ///< what is offered now says that nothing is cached
};

}  // namespace

Result<void> run_host(const HostConfig& given) {
  GOBLIN_TRY(const net::UniqueFd hold, link::hold_state_dir(given.state_dir, "host"));
  GOBLIN_TRY(log::Logger logger, log::Logger::create("host", given.log));
  HostConfig config = given;
  GOBLIN_TRY(const std::string jail, plugin::expect_jail(config.runner));
  logger.info(jail);
  GOBLIN_TRY(std::unique_ptr<net::Loop> loop, net::Loop::create(2));
  Host host(config, *loop, logger);
  GOBLIN_TRY_VOID(host.open());
  loop->run();
  logger.info("ended");
  return {};
}

}  // namespace goblin::volunteer
