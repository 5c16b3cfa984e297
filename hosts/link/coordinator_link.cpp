// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/coordinator_link.hpp"

#include <algorithm>

#include "core/net/sha256.hpp"
#include "core/plugin/sealed_file.hpp"
#include "hosts/link/watched_fetch.hpp"

namespace goblin::link {
namespace {

net::Task<Result<std::shared_ptr<net::BlobSource>>> serve_nothing() {
  co_return fail(Code::kNotFound, "a daemon serves no blobs to its coordinator");
}

}  // namespace

CoordinatorLink::CoordinatorLink(net::Loop& loop, std::shared_ptr<const net::Identity> self,
                                 Options options, Hooks hooks, store::BlobCache& plugins,
                                 log::Logger logger)
    : loop_(loop),
      self_(std::move(self)),
      options_(std::move(options)),
      hooks_(std::move(hooks)),
      cache_(plugins),
      logger_(std::move(logger)),
      catalog_here_(loop),
      nudge_(loop),
      stop_(loop),
      connected_(loop) {}

CoordinatorLink::~CoordinatorLink() = default;

void CoordinatorLink::stop() {
  stopped_ = true;
  stop_.set();
  nudge_.set();
  if (channel_) {
    channel_->close();
  }
}

net::Task<void> CoordinatorLink::run() {
  const auto self = shared_from_this();
  net::Backoff backoff(options_.seed, net::Milliseconds(200), options_.retry_last);
  while (!stopped_) {
    const auto started = loop_.now();
    const auto end = co_await session();
    nudge_.set();
    if (channel_) {
      channel_->close();
    }
    connected_.reset();
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
    hooks_.on_change();
    (void)co_await stop_.wait_for(pause);
  }
}

net::Task<Result<void>> CoordinatorLink::session() {
  GOBLIN_CO_TRY(channel_, co_await net::connect_tls(loop_, self_, options_.host, options_.port,
                                                    options_.pin));
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
  hooks_.on_change();
  while (true) {
    GOBLIN_CO_TRY(net::Frame frame, co_await channel_->receive());
    switch (frame.type) {
      case wire::FrameType::kCatalog: {
        GOBLIN_CO_TRY(catalog_, wire::decode_catalog(frame.message));
        has_catalog_ = true;
        catalog_here_.set();
        hooks_.on_change();
        break;
      }
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
  auto catalog_due = loop_.now();
  while (!self->stopped_ && channel->is_open()) {
    nudge_.reset();
    if (loop_.now() >= catalog_due) {
      catalog_due = loop_.now() + options_.catalog_every;
      (void)co_await channel->send(
          net::make_frame(wire::FrameType::kCatalogGet, wire::CatalogGet{}));
    }
    if (!channel->is_open()) {
      co_return;
    }
    (void)co_await channel->send(hooks_.status());
    (void)co_await nudge_.wait_for(options_.heartbeat);
  }
}

net::Task<bool> CoordinatorLink::wait_catalog(net::Milliseconds limit) {
  if (!has_catalog_) {
    (void)co_await catalog_here_.wait_for(limit);
  }
  co_return has_catalog_;
}

net::Task<Result<std::shared_ptr<const net::UniqueFd>>> CoordinatorLink::plugin(wire::Digest digest,
                                                                                bool from_catalog) {
  if (from_catalog) {
    const bool named = std::any_of(catalog_.entries.begin(), catalog_.entries.end(),
                                   [&](const auto& entry) { return entry.plugin == digest; });
    if (!named) {
      co_return fail(Code::kNotFound, "plugin " + digest.hex().substr(0, 16) +
                                          " is not in the coordinator's catalogue");
    }
  }
  while (true) {
    if (const auto it = sealed_.find(digest); it != sealed_.end()) {
      co_return it->second;
    }
    const auto under_way = downloading_.find(digest);
    if (under_way == downloading_.end()) {
      break;
    }
    const auto done = under_way->second;
    co_await done->wait();
  }
  const auto done = std::make_shared<net::Event>(loop_);
  downloading_.emplace(digest, done);
  auto pin = cache_.find(digest);
  Result<void> here;
  if (!pin) {
    here = co_await download(digest);
    if (here) {
      pin = cache_.find(digest);
    }
  }
  Result<std::shared_ptr<const net::UniqueFd>> result = fail(Code::kNotFound, "");
  if (!here) {
    result = fail(here.error().with_context("plugin " + digest.hex().substr(0, 16)));
  } else if (!pin) {
    result = fail(std::move(pin).error());
  } else {
    auto memfd = plugin::make_sealed_memfd_from("/proc/self/fd/" + std::to_string((*pin)->fd()));
    if (memfd) {
      // What the cache holds may have been changed on disk: what is sealed is what counts.
      auto map = plugin::FileMap::open(memfd->get());
      if (!map) {
        result = fail(std::move(map).error());
      } else if (net::sha256(map->bytes()) != digest) {
        result = fail(Code::kCorrupt, "plugin " + digest.hex().substr(0, 16) +
                                          " in the cache was changed: remove it and try again");
      } else {
        result = std::make_shared<const net::UniqueFd>(std::move(*memfd));
        sealed_.emplace(digest, *result);
      }
    } else {
      result = fail(std::move(memfd).error());
    }
  }
  downloading_.erase(digest);
  done->set();
  co_return result;
}

net::Task<Result<void>> CoordinatorLink::download(wire::Digest digest) {
  if (!exchange_) {
    (void)co_await connected_.wait_for(net::Milliseconds(10'000));
  }
  const auto channel = channel_;
  const auto exchange = exchange_;
  if (!exchange) {
    co_return fail(Code::kUnavailable, trouble_);
  }
  GOBLIN_CO_TRY(std::unique_ptr<store::BlobCache::Download> download, cache_.download(digest));
  auto fetched =
      co_await fetch_watched(loop_, *exchange, digest, download->offset(), download->sink());
  if (!fetched) {
    co_return fail(std::move(fetched).error());
  }
  auto committed = download->commit();
  if (!committed) {
    co_return fail(std::move(committed).error());
  }
  co_return Result<void>{};
}

}  // namespace goblin::link
