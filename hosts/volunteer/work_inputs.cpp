// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Inputs of leases come in.
#include <algorithm>

#include "hosts/volunteer/job_runner.hpp"
#include "hosts/volunteer/lease_math.hpp"

namespace goblin::volunteer {
namespace {

/// Inputs from here on come one lease after another: shared among several, the connection would
/// have the first of them compute only when all could. On a link of 10 Mbit/s this takes a second.
constexpr std::uint64_t kLargeInput = 1u << 20;

/// A cache that is mended so often for one input breaks again and again: others take the task.
constexpr int kMostMended = 2;

}  // namespace

bool Work::has_to_wait(const EntryPtr& entry) const {
  for (const auto& other : leases_) {
    if (other == entry) {
      return false;
    }
    if (other->lab == entry->lab && other->fetching && !other->starved && !other->cancelled) {
      return true;
    }
  }
  return false;
}

/// The first whose lab node has fetchers left; null when there is none.
Work::EntryPtr Work::next_to_fetch() {
  std::erase_if(to_fetch_, [](const auto& entry) { return entry->cancelled; });
  const auto it = std::find_if(to_fetch_.begin(), to_fetch_.end(), [this](const auto& entry) {
    const auto busy = fetching_.find(entry->lab.get());
    return busy == fetching_.end() || busy->second < kFetchersPerLab;
  });
  if (it == to_fetch_.end()) {
    return nullptr;
  }
  EntryPtr entry = *it;
  to_fetch_.erase(it);
  return entry;
}

net::Task<void> Work::fetch_loop() {
  while (!stopped_) {
    const EntryPtr entry = next_to_fetch();
    if (!entry) {
      fetch_.reset();
      co_await fetch_.wait();
      continue;
    }
    const LabPort* const lab = entry->lab.get();
    ++fetching_[lab];
    const bool known = co_await fetch_plugin(entry);
    const auto started = loop_.now();
    Result<void> done;
    if (known && !entry->cancelled) {
      entry->fetching = true;
      done = co_await fetch_inputs(entry);
      entry->fetching = false;
      wake_.set();
    }
    if (--fetching_[lab] == 0) {
      fetching_.erase(lab);
    }
    fetch_.set();
    if (entry->cancelled) {
      continue;
    }
    if (done) {
      entry->fetch_us = micros(started, loop_.now());
      entry->ready = true;
      work_.set();
    } else {
      if (watch_.trouble().empty()) {  // the watch has said the rest
        logger_.warn("inputs of a lease: " + done.error().message);
        last_trouble_ = "inputs could not be fetched: " + done.error().message;
      }
      give_back(entry, done.error().code);
    }
  }
}

// Here and not where leases are computed, one job after another: a coordinator that does not send
// one lab node's plugin must not keep a host from the others'.
net::Task<bool> Work::fetch_plugin(EntryPtr entry) {
  const wire::Digest plugin = entry->lease.plugin;
  if (plugins_here_.contains(plugin)) {
    co_return true;
  }
  const auto found = co_await find_plugin_(plugin);
  if (found) {
    plugins_here_.insert(plugin);
    co_return true;
  }
  if (entry->cancelled || stopped_) {
    co_return false;
  }
  logger_.warn("runner of " + job_text(*entry, nullptr) + ": " + found.error().message);
  last_trouble_ = found.error().message;
  std::vector<EntryPtr> without;
  for (const auto& other : leases_) {
    if (other->lab == entry->lab && other->lease.plugin == plugin && !other->running) {
      without.push_back(other);
    }
  }
  for (const auto& other : without) {
    give_back(other, found.error().code);
  }
  co_return false;
}

net::Task<Result<void>> Work::fetch_inputs(EntryPtr entry) {
  if (entry->inputs_here) {
    co_return Result<void>{};
  }
  for (const auto& input : entry->lease.inputs) {
    if (input.is_inline()) {
      entry->pins.push_back(nullptr);
      continue;
    }
    for (int mended = 0;; ++mended) {
      auto pin = co_await fetch_input(entry, input);
      if (pin) {
        entry->pins.push_back(std::move(*pin));
        break;
      }
      if (entry->cancelled || stopped_ || !cache_.trouble()) {
        co_return fail(std::move(pin).error());
      }
      // This host's disk is to blame, not the task: mended at once, or others take the task.
      if (mended == kMostMended) {
        co_return fail(Code::kUnavailable, pin.error().message);
      }
      const bool again = co_await watch_.mend();
      if (!again) {
        co_return fail(Code::kUnavailable, watch_.trouble());
      }
    }
  }
  co_return Result<void>{};
}

net::Task<Result<Work::PinPtr>> Work::fetch_input(EntryPtr entry, wire::TensorRef input) {
  const wire::Digest digest = input.digest;
  while (true) {
    if (entry->cancelled || stopped_) {
      co_return fail(Code::kCancelled, "the lease has ended");
    }
    if (cache_.unverified(digest)) {  // an earlier process left it
      const auto verify = [&cache = cache_, digest] { return cache.find(digest); };
      (void)co_await loop_.offload(verify);
    }
    auto found = cache_.find(digest);
    if (found) {
      co_return std::move(*found);
    }
    if (found.error().code != Code::kNotFound) {
      co_return fail(std::move(found).error());
    }
    if (input.spec.size_bytes().value_or(0) >= kLargeInput && has_to_wait(entry)) {
      wake_.reset();
      co_await wake_.wait();
      continue;
    }
    auto download = cache_.download(digest);
    if (!download) {
      if (download.error().code != Code::kUnavailable) {
        co_return fail(std::move(download).error());
      }
      // Another lease fetches the same blob.
      wake_.reset();
      (void)co_await wake_.wait_for(net::Milliseconds(200));
      continue;
    }
    const std::uint64_t offset = (*download)->offset();
    auto fetched = co_await entry->lab->fetch(digest, offset, (*download)->sink());
    if (!fetched) {
      const bool others = std::any_of(leases_.begin(), leases_.end(), [&](const auto& other) {
        return other != entry && !other->pins.empty();
      });
      download->reset();
      if (fetched.error().code == Code::kExhausted && others) {
        entry->starved = true;  // those that wait for this one may hold what it waits for
        wake_.set();
        wake_.reset();
        (void)co_await wake_.wait_for(net::Milliseconds(1000));
        continue;
      }
      co_return fail(std::move(fetched).error());
    }
    entry->starved = false;
    // Shared, so that the worker owns what it uses.
    std::shared_ptr<store::BlobCache::Download> kept = std::move(*download);
    auto commit = [kept] { return kept->commit(); };
    auto pin = co_await loop_.offload(commit);
    wake_.set();
    co_return pin;
  }
}

}  // namespace goblin::volunteer
