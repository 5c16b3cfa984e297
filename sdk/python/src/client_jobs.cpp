// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The client's view of jobs: kept current by events, waited for by any thread.
#include "client.hpp"

namespace goblin::client {
namespace {

bool has_ended(const Result<wire::JobStatus>& status) {
  return !status || status->state == wire::JobState::kDone ||
         status->state == wire::JobState::kFailed || status->state == wire::JobState::kCancelled;
}

}  // namespace

void Client::watch(std::uint64_t job) {
  {
    const std::lock_guard lock(mutex_);
    JobView& view = jobs_[job];
    if (view.version != 0 && view.status) {
      return;
    }
    view.version = 0;
  }
  loop_->post([this, job] { send_watch(job); });
}

void Client::send_watch(std::uint64_t job) {
  for (const auto& [number, pending] : pending_) {
    if (pending.watched == job) {
      return;
    }
  }
  Pending pending;
  pending.request.body = wire::GetJob{job, true};
  pending.repeat = true;
  pending.watched = job;
  begin(std::move(pending));
}

void Client::unwatch(std::uint64_t job) {
  const std::lock_guard lock(mutex_);
  const auto it = jobs_.find(job);
  if (it != jobs_.end() && !it->second.notify) {
    jobs_.erase(it);
  }
}

std::vector<std::uint64_t> Client::followed() {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> all;
  for (const auto& [job, view] : jobs_) {
    if (view.version == 0 || !has_ended(view.status)) {
      all.push_back(job);
    }
  }
  return all;
}

void Client::update(std::uint64_t job, Result<wire::JobStatus> status) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = jobs_.find(job);
    if (it == jobs_.end()) {
      return;
    }
    it->second.status = std::move(status);
    it->second.version = ++versions_;
    if (it->second.notify && has_ended(it->second.status)) {
      it->second.notify = false;
      ended_.push_back(job);
    }
  }
  changed_.notify_all();
}

JobView Client::wait_job(std::uint64_t job, std::uint64_t seen, net::Milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] {
    const auto it = jobs_.find(job);
    return closed_ || it == jobs_.end() || it->second.version != seen;
  });
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? JobView{} : it->second;
}

void Client::notify_end(std::uint64_t job) {
  {
    const std::lock_guard lock(mutex_);
    JobView& view = jobs_[job];
    if (view.version != 0 && has_ended(view.status)) {
      ended_.push_back(job);
    } else {
      view.notify = true;
    }
  }
  changed_.notify_all();
}

std::optional<std::uint64_t> Client::next_ended(net::Milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return closed_ || !ended_.empty(); });
  if (ended_.empty()) {
    return std::nullopt;
  }
  const std::uint64_t job = ended_.front();
  ended_.pop_front();
  return job;
}

}  // namespace goblin::client
