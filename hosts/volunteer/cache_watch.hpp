// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Whether a host's caches on disk can be used; mends those that cannot, again and again. Loop's
// thread only.
#pragma once

#include <string>
#include <vector>

#include "core/log/log.hpp"
#include "core/net/channel.hpp"
#include "core/net/loop.hpp"
#include "core/store/blob_cache.hpp"

namespace goblin::volunteer {

class CacheWatch {
 public:
  struct Pace {
    net::Milliseconds look{2'000};   ///< between two looks while all is well
    net::Milliseconds retry{1'000};  ///< after a failure, doubled each time up to …
    net::Milliseconds most{60'000};
  };
  /// The caches outlive the watch and the loop's run.
  CacheWatch(net::Loop& loop, std::vector<store::BlobCache*> caches, Pace pace, std::uint64_t seed,
             log::Logger logger);

  /// `on_change`: trouble() begins or ends. `on_lost`: a cache had to start anew, which takes no
  /// more than this call; not called while there is trouble.
  void start(std::function<void()> on_change, std::function<void()> on_lost);
  void stop();

  /// Empty while the caches can be used; else why one cannot, for people.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  /// A cache refused something (BlobCache::trouble()): mends it now. True: try again. False:
  /// trouble() says why not, and the watch goes on trying by itself.
  net::Task<bool> mend();

 private:
  net::Task<void> run();
  net::Task<void> mend_all();

  net::Loop& loop_;
  const std::vector<store::BlobCache*> caches_;
  const Pace pace_;
  const std::uint64_t seed_;
  log::Logger logger_;
  std::function<void()> on_change_ = [] {}, on_lost_ = [] {};
  net::Event stop_, mended_;
  bool mending_ = false, stopped_ = false;
  std::string trouble_;
};

}  // namespace goblin::volunteer
