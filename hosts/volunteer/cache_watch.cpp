// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/cache_watch.hpp"

#include <algorithm>

namespace goblin::volunteer {

CacheWatch::CacheWatch(net::Loop& loop, std::vector<store::BlobCache*> caches, Pace pace,
                       std::uint64_t seed, log::Logger logger)
    : loop_(loop),
      caches_(std::move(caches)),
      pace_(pace),
      seed_(seed),
      logger_(std::move(logger)),
      stop_(loop),
      mended_(loop) {}

void CacheWatch::start(std::function<void()> on_change, std::function<void()> on_lost) {
  on_change_ = std::move(on_change);
  on_lost_ = std::move(on_lost);
  loop_.spawn(run());
}

void CacheWatch::stop() {
  stopped_ = true;
  stop_.set();
}

net::Task<void> CacheWatch::run() {
  net::Backoff backoff(seed_, pace_.retry, pace_.most);
  while (!stopped_) {
    if (trouble_.empty()) {
      backoff.reset();
    }
    const net::Milliseconds pause = trouble_.empty() ? pace_.look : backoff.next();
    (void)co_await stop_.wait_for(pause);
    if (stopped_) {
      co_return;
    }
    if (trouble_.empty()) {
      auto look = [this] {
        return std::all_of(caches_.begin(), caches_.end(),
                           [](const auto* cache) { return cache->looks_sound(); });
      };
      const bool sound = co_await loop_.offload(look);
      if (sound) {
        continue;
      }
    }
    co_await mend_all();
  }
}

net::Task<bool> CacheWatch::mend() {
  if (trouble_.empty()) {
    co_await mend_all();
  }
  co_return trouble_.empty();
}

net::Task<void> CacheWatch::mend_all() {
  if (mending_) {
    co_await mended_.wait();
    co_return;
  }
  mending_ = true;
  mended_.reset();
  struct Round {
    std::string trouble;
    bool lost = false;
  };
  auto mend = [this] {
    Round round;
    for (auto* cache : caches_) {
      const auto mended = cache->mend();
      if (!mended) {
        round.trouble += (round.trouble.empty() ? "" : "; ") + mended.error().message;
      } else if (*mended == store::BlobCache::Mended::kAnew) {
        round.lost = true;
      }
    }
    return round;
  };
  Round round = co_await loop_.offload(mend);
  const bool before = !trouble_.empty();
  const bool same = round.trouble == trouble_;
  trouble_ = std::move(round.trouble);
  mending_ = false;
  mended_.set();
  if (stopped_) {
    co_return;
  }
  if (!trouble_.empty() && !same) {
    logger_.warn("no tasks are taken, the host tries again by itself: " + trouble_);
  }
  if (round.lost) {
    logger_.warn("a cache directory had gone: it was opened anew");
  }
  if (before && trouble_.empty()) {
    logger_.info("the caches can be used again");
  }
  if (before != !trouble_.empty()) {
    on_change_();
  } else if (round.lost && trouble_.empty()) {
    on_lost_();
  }
}

}  // namespace goblin::volunteer
