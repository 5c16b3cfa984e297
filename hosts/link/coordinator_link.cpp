// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/coordinator_link.hpp"

#include <algorithm>

#include "core/plugin/sealed_file.hpp"
#include "hosts/link/watched_fetch.hpp"

namespace goblin::link {
namespace {

/// A coordinator that does not answer so long is as good as gone.
constexpr net::Milliseconds kAnswer{30'000};
/// Between two looks at the catalogue, whoever asks for them.
constexpr net::Milliseconds kPause{200};
/// How long a plugin that the catalogue does not name is waited for.
constexpr net::Milliseconds kNewPlugin{5'000};

net::Task<Result<std::shared_ptr<net::BlobSource>>> serve_nothing() {
  co_return fail(Code::kNotFound, "a daemon serves no blobs to its coordinator");
}

/// Bytes of a length that is known, or at most so many; refused before the first one otherwise.
class BoundedSink final : public net::BlobSink {
 public:
  BoundedSink(std::string what, std::uint64_t bytes) : what_(std::move(what)), bytes_(bytes) {}
  Result<void> begin(std::uint64_t size) override {
    if (size != bytes_) {
      return fail(Code::kCorrupt, what_ + ": the coordinator serves " + std::to_string(size) +
                                      " bytes, but " + std::to_string(bytes_) + " were signed");
    }
    data_.resize(bytes_);
    return {};
  }
  Result<void> write(std::uint64_t offset, wire::ByteView bytes) override {
    std::copy(bytes.begin(), bytes.end(), data_.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  }
  wire::Bytes take() { return std::move(data_); }

 private:
  std::string what_;
  std::uint64_t bytes_;
  wire::Bytes data_;
};

/// Another sink, for bytes of a length that is known.
class SizedSink final : public net::BlobSink {
 public:
  SizedSink(std::shared_ptr<net::BlobSink> sink, wire::TrustPlugin plugin)
      : sink_(std::move(sink)), plugin_(std::move(plugin)) {}
  Result<void> begin(std::uint64_t size) override {
    if (size != plugin_.size) {
      return fail(Code::kCorrupt, "plugin " + plugin_.name + ": the coordinator serves " +
                                      std::to_string(size) + " bytes, but " +
                                      std::to_string(plugin_.size) + " were signed");
    }
    return sink_->begin(size);
  }
  Result<void> write(std::uint64_t offset, wire::ByteView bytes) override {
    return sink_->write(offset, bytes);
  }

 private:
  std::shared_ptr<net::BlobSink> sink_;
  wire::TrustPlugin plugin_;
};

wire::ServedFile served_file(trust::MetadataRole role) {
  return role == trust::MetadataRole::kRoot ? wire::ServedFile::kRoot
                                            : wire::ServedFile::kTimestamp;
}

/// Copies and hashes up to a GiB. kNotFound: the cache does not have it.
Result<net::UniqueFd> sealed_copy(store::BlobCache& cache, const wire::TrustPlugin& plugin) {
  GOBLIN_TRY(const auto pin, cache.find(plugin.plugin));
  GOBLIN_TRY(net::UniqueFd memfd,
             plugin::make_sealed_memfd_from("/proc/self/fd/" + std::to_string(pin->fd())));
  // What the cache holds may have been changed on disk: what is sealed is what counts.
  GOBLIN_TRY(const plugin::FileMap map, plugin::FileMap::open(memfd.get()));
  if (auto good = trust::check_plugin_bytes(plugin, map.bytes()); !good) {
    return fail(good.error().with_context("the copy in the cache: remove it and try again"));
  }
  return memfd;
}

}  // namespace

CoordinatorLink::CoordinatorLink(net::Loop& loop, std::shared_ptr<const net::Identity> self,
                                 Options options, Hooks hooks, Catalogue& catalogue,
                                 store::BlobCache& plugins, log::Logger logger)
    : loop_(loop),
      self_(std::move(self)),
      options_(std::move(options)),
      hooks_(std::move(hooks)),
      cache_(plugins),
      logger_(std::move(logger)),
      catalogue_(catalogue),
      look_(loop),
      updated_(loop),
      answered_(loop),
      nudge_(loop),
      stop_(loop),
      connected_(loop) {}

CoordinatorLink::~CoordinatorLink() = default;

void CoordinatorLink::stop() {
  stopped_ = true;
  stop_.set();
  nudge_.set();
  look_.set();
  if (channel_) {
    channel_->close();
  }
}

net::Task<void> CoordinatorLink::run() {
  const auto self = shared_from_this();
  net::Backoff backoff(options_.seed, net::Milliseconds(200), options_.retry_last);
  loop_.spawn(update_loop(self));
  while (!stopped_) {
    const auto started = loop_.now();
    const auto end = co_await session();
    nudge_.set();
    if (channel_) {
      channel_->close();
    }
    connected_.reset();
    answered_.set();  // whoever waits for an answer gets none
    if (exchange_) {
      exchange_->shut_down();
    }
    exchange_.reset();
    channel_.reset();
    if (stopped_) {
      break;
    }
    if (loop_.now() - started > std::chrono::seconds(30)) {
      backoff.reset();
    }
    const auto pause = backoff.next();
    const std::string why = end ? "it ended the connection" : end.error().message;
    // What net says of a place names it already.
    trouble_ = "coordinator " +
               (why.starts_with(options_.host)
                    ? why
                    : options_.host + ":" + std::to_string(options_.port) + ": " + why) +
               "; next attempt in " + std::to_string(pause.count()) + " ms";
    logger_.warn(trouble_);
    (void)co_await stop_.wait_for(pause);
  }
}

net::Task<Result<void>> CoordinatorLink::session() {
  GOBLIN_CO_TRY(channel_, co_await net::connect_tls(loop_, self_, options_.host, options_.port,
                                                    options_.pin));
  address_ = channel_->peer().address;
  GOBLIN_CO_TRY(const wire::Welcome welcome,
                co_await net::greet_server(loop_, *channel_, options_.role));
  if (welcome.role != wire::Role::kCoordinator) {
    co_return fail(Code::kInvalidArgument,
                   "the peer is no coordinator; check the address in the configuration");
  }
  exchange_ = net::BlobExchange::create(loop_, *channel_,
                                        [](const wire::Digest&) { return serve_nothing(); });
  trouble_.clear();
  connected_.set();
  logger_.info("connected to coordinator " + options_.host + ":" + std::to_string(options_.port));
  loop_.spawn(beat(shared_from_this(), channel_));
  look_.set();
  while (true) {
    GOBLIN_CO_TRY(net::Frame frame, co_await channel_->receive());
    switch (frame.type) {
      case wire::FrameType::kMetadata:
        GOBLIN_CO_TRY_VOID(take_metadata(std::move(frame)));
        break;
      case wire::FrameType::kCatalogueNews:
        look_.set();
        break;
      case wire::FrameType::kBlobGet:
      case wire::FrameType::kBlobInfo:
      case wire::FrameType::kBlobData:
      case wire::FrameType::kBlobCredit:
      case wire::FrameType::kBlobCancel:
        GOBLIN_CO_TRY_VOID(exchange_->handle(std::move(frame)));
        break;
      case wire::FrameType::kGoodbye:
        co_return Result<void>{};
      default:
        hooks_.on_frame(std::move(frame));
    }
  }
}

net::Task<void> CoordinatorLink::beat(std::shared_ptr<CoordinatorLink> self,
                                      std::shared_ptr<net::Channel> channel) {
  while (!self->stopped_ && channel->is_open()) {
    nudge_.reset();
    (void)co_await channel->send(hooks_.status());
    (void)co_await nudge_.wait_for(options_.heartbeat);
  }
}

net::Task<void> CoordinatorLink::update_loop(std::shared_ptr<CoordinatorLink> self) {
  std::string said;
  while (!self->stopped_) {
    if (!connected()) {
      co_await connected_.wait_for(options_.catalogue_every);
      continue;
    }
    look_.reset();
    const bool first = !catalogue_.known();
    const auto done = co_await catalogue_.update(loop_, *this);
    if (stopped_) {
      break;
    }
    if (!done && connected() && done.error().message != said) {
      logger_.error("the catalogue: " + done.error().message);
    } else if (done && (first || !said.empty())) {
      logger_.info("the catalogue is verified");
    }
    said = done ? "" : done.error().message;
    sealed_.drop_unless([this](const wire::Digest& plugin) { return catalogue_.lists(plugin); });
    updated_.set();
    hooks_.on_catalogue();
    (void)co_await stop_.wait_for(kPause);
    (void)co_await look_.wait_for(options_.catalogue_every);
  }
}

net::Task<Result<wire::Bytes>> CoordinatorLink::get(trust::Wanted wanted) {
  if (wanted.role == trust::MetadataRole::kTargets) {
    return get_targets(std::move(wanted));
  }
  return get_file(std::move(wanted));
}

net::Task<Result<wire::Bytes>> CoordinatorLink::get_file(trust::Wanted wanted) {
  const auto channel = channel_;
  if (!connected()) {
    co_return fail(Code::kUnavailable, trouble_);
  }
  wire::MetadataGet ask;
  ask.file = served_file(wanted.role);
  ask.version = wanted.version;
  asked_ = ask;
  answer_.reset();
  answered_.reset();
  GOBLIN_CO_TRY_VOID(co_await channel->send(net::make_frame(wire::FrameType::kMetadataGet, ask)));
  (void)co_await answered_.wait_for(kAnswer);
  asked_.reset();
  if (!answer_) {
    if (channel->is_open()) {
      channel->close();  // a late answer must not be taken for the next one
    }
    co_return fail(Code::kUnavailable, "the coordinator did not answer");
  }
  auto answer = std::move(*answer_);
  answer_.reset();
  co_return answer;
}

Result<void> CoordinatorLink::take_metadata(net::Frame frame) {
  GOBLIN_TRY(const wire::Metadata head, wire::decode_metadata(frame.message));
  if (!asked_ || head.file != asked_->file || head.version != asked_->version) {
    return fail(Code::kCorrupt, "the coordinator sends metadata that nobody has asked for");
  }
  asked_.reset();
  if (head.status == GOBLIN_OK) {
    answer_ = std::move(frame.payload);
  } else {
    answer_ = fail(code_from_status(head.status), "the coordinator publishes none");
  }
  answered_.set();
  return {};
}

net::Task<Result<wire::Bytes>> CoordinatorLink::get_targets(trust::Wanted wanted) {
  const auto channel = channel_;
  const auto exchange = exchange_;
  if (!exchange) {
    co_return fail(Code::kUnavailable, trouble_);
  }
  const auto sink = std::make_shared<BoundedSink>(
      "targets version " + std::to_string(wanted.version), wanted.max_bytes);
  GOBLIN_CO_TRY_VOID(co_await fetch_watched(loop_, *exchange, wanted.digest, 0, sink));
  co_return sink->take();
}

net::Task<bool> CoordinatorLink::wait_catalogue(net::Milliseconds limit) {
  const auto until = loop_.now() + limit;
  while (!catalogue_.known() && loop_.now() < until && !stopped_) {
    updated_.reset();
    (void)co_await updated_.wait_for(
        std::chrono::duration_cast<net::Milliseconds>(until - loop_.now()) + net::Milliseconds(1));
  }
  co_return catalogue_.known();
}

net::Task<Result<wire::TrustPlugin>> CoordinatorLink::allowed(wire::Digest digest) {
  if (!catalogue_.known() && !catalogue_.looked()) {
    (void)co_await wait_catalogue(kNewPlugin);
  }
  auto entry = catalogue_.allow(digest);
  if (!entry && entry.error().code == Code::kNotFound && connected() &&
      loop_.now() - looked_for_ >= kNewPlugin) {
    // Somebody else may have heard of it earlier. Not for each of a lab node's inventions.
    looked_for_ = loop_.now();
    updated_.reset();
    look_.set();
    (void)co_await updated_.wait_for(kNewPlugin);
    entry = catalogue_.allow(digest);
  }
  if (!entry) {
    co_return fail(std::move(entry).error());
  }
  co_return **entry;
}

net::Task<Result<std::shared_ptr<const net::UniqueFd>>> CoordinatorLink::plugin(
    wire::Digest digest) {
  while (true) {
    GOBLIN_CO_TRY(wire::TrustPlugin entry, co_await allowed(digest));
    if (auto sealed = sealed_.find(digest)) {
      co_return sealed;
    }
    if (const auto under_way = downloading_.find(digest); under_way != downloading_.end()) {
      const auto done = under_way->second;
      co_await done->wait();
      continue;
    }
    const auto done = std::make_shared<net::Event>(loop_);
    downloading_.emplace(digest, done);
    auto result = co_await obtain(std::move(entry));
    downloading_.erase(digest);
    done->set();
    if (!result) {
      co_return fail(result.error().with_context("plugin " + digest.hex().substr(0, 16)));
    }
    if (!catalogue_.lists(digest)) {
      continue;  // revoked while it came
    }
    co_return result;
  }
}

net::Task<Result<std::shared_ptr<const net::UniqueFd>>> CoordinatorLink::obtain(
    wire::TrustPlugin plugin) {
  const auto seal = [&cache = cache_, plugin] { return sealed_copy(cache, plugin); };
  auto memfd = co_await loop_.offload(seal);
  if (!memfd && memfd.error().code == Code::kNotFound) {
    GOBLIN_CO_TRY_VOID(co_await download(plugin));
    memfd = co_await loop_.offload(seal);
  }
  if (!memfd) {
    co_return fail(std::move(memfd).error());
  }
  auto sealed = std::make_shared<const net::UniqueFd>(std::move(*memfd));
  sealed_.add(plugin.plugin, sealed, plugin.size);
  co_return sealed;
}

net::Task<Result<void>> CoordinatorLink::download(wire::TrustPlugin plugin) {
  if (!exchange_) {
    (void)co_await connected_.wait_for(net::Milliseconds(10'000));
  }
  const auto channel = channel_;
  const auto exchange = exchange_;
  if (!exchange) {
    co_return fail(Code::kUnavailable, trouble_);
  }
  GOBLIN_CO_TRY(std::unique_ptr<store::BlobCache::Download> download,
                cache_.download(plugin.plugin));
  const auto sink = std::make_shared<SizedSink>(download->sink(), plugin);
  GOBLIN_CO_TRY_VOID(
      co_await fetch_watched(loop_, *exchange, plugin.plugin, download->offset(), sink));
  // Shared, so that the worker owns what it uses.
  const std::shared_ptr<store::BlobCache::Download> kept = std::move(download);
  const auto commit = [kept] { return kept->commit(); };
  auto committed = co_await loop_.offload(commit);
  if (!committed) {
    co_return fail(std::move(committed).error());
  }
  co_return Result<void>{};
}

}  // namespace goblin::link
