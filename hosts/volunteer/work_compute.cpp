// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Leases are computed.
#include <algorithm>
#include <cstring>

#include "hosts/volunteer/job_runner.hpp"
#include "hosts/volunteer/lease_math.hpp"

namespace goblin::volunteer {
namespace {

constexpr std::size_t kMaxBatch = 256;

}  // namespace

std::vector<Work::EntryPtr> Work::next_batch() {
  std::vector<EntryPtr> batch;
  if (paused_) {
    return batch;
  }
  const std::uint64_t held = held_bytes();
  Key key;
  std::uint64_t arena = 0;
  std::size_t limit = kMaxBatch;
  for (const auto& entry : leases_) {
    if (!entry->ready || entry->running || entry->cancelled) {
      continue;
    }
    const std::uint64_t bytes = output_bytes(entry->lease);
    if (held > 0 && add_capped(held, memory_of(entry->lease)) > config_.memory_bytes) {
      continue;  // results wait to be collected: their memory is needed first
    }
    if (entry->lab->held().bytes() > share()) {
      continue;  // it does not collect them: the rest of the memory is for the others
    }
    const Key own{entry->lab->pin(), entry->lease.job};
    const bool small = bytes < kOwnBuffer;
    if (batch.empty()) {
      key = own;
      batch.push_back(entry);
      if (!small || entry->pins.size() > 8) {
        break;
      }
      arena = bytes + entry->inline_bytes.size();
      const auto runner = runners_.find(key);
      const std::uint64_t each =
          runner == runners_.end() ? kBatchUs : std::max<std::uint64_t>(runner->second->task_us, 1);
      limit = std::clamp<std::size_t>(kBatchUs / each, 1, kMaxBatch);
    } else if (own == key && small && !entry->lease.outputs.empty()) {
      arena += bytes + entry->inline_bytes.size();
      if (arena > kArenaBytes) {
        break;
      }
      batch.push_back(entry);
    }
    if (batch.size() >= limit) {
      break;
    }
  }
  return batch;
}

net::Task<void> Work::compute_loop() {
  while (!stopped_) {
    auto batch = next_batch();
    if (batch.empty()) {
      give_up_uncollected();
      work_.reset();
      (void)co_await work_.wait_for(net::Milliseconds(500));
      continue;
    }
    for (const auto& entry : batch) {
      entry->running = true;
    }
    co_await compute(std::move(batch));
    busy_.reset();
  }
}

std::string Work::job_text(const Entry& entry, const JobRunner* runner) {
  std::string text;
  if (runner != nullptr && entry.lease.kind < runner->client->kinds().size()) {
    const auto& kind = runner->client->kinds()[entry.lease.kind];
    text = kind.name + "/" + std::to_string(kind.version) + ", ";
  }
  return text + "job " + std::to_string(entry.lease.job) + " of lab node " +
         entry.lab->pin().hex().substr(0, 16);
}

net::Task<Result<std::shared_ptr<Work::JobRunner>>> Work::runner_for(const Entry& entry) {
  const Key key{entry.lab->pin(), entry.lease.job};
  const wire::Digest digest = entry.lease.plugin;
  if (const auto it = runners_.find(key); it != runners_.end()) {
    if (it->second->client->alive() && it->second->plugin == digest) {
      it->second->used = loop_.now();
      co_return it->second;
    }
    const auto old = it->second;
    runners_.erase(it);
    if (!old->client->alive()) {
      const Error why = co_await old->client->exited();
      logger_.warn("the runner of " + job_text(entry, old.get()) +
                   " is started anew: " + why.message);
    }
  }
  GOBLIN_CO_TRY(std::shared_ptr<const net::UniqueFd> memfd, co_await find_plugin_(digest));
  plugin::RunnerOptions options = config_.runner;
  options.plugin_fd = memfd->get();
  options.threads = config_.threads;
  options.memory_bytes = config_.memory_bytes;
  options.nice = config_.nice;
  // What an author prints is for whoever runs the host; nothing of it leaves this machine.
  options.output = [logger = logger_, job = job_text(entry, nullptr)](std::string_view line) {
    logger.warn("plugin of " + job + " says: " + std::string(line));
  };
  GOBLIN_CO_TRY(std::unique_ptr<plugin::RunnerClient> client,
                co_await plugin::RunnerClient::start(loop_, options));
  GOBLIN_CO_TRY(std::shared_ptr<SharedBuffer> arena, SharedBuffer::create(kArenaBytes));
  GOBLIN_CO_TRY(const std::uint32_t segment, co_await client->map(arena->fd(), kArenaBytes, true));
  auto runner = std::make_shared<JobRunner>();
  runner->client = std::move(client);
  runner->plugin = digest;
  runner->arena = std::move(arena);
  runner->arena_segment = segment;
  runner->used = loop_.now();
  make_room_for_runner();
  runners_.insert_or_assign(key, runner);
  co_return runner;
}

net::Task<Result<wire::RunnerTask>> Work::task_of(JobRunner& runner, EntryPtr entry,
                                                  std::uint32_t segment, std::uint64_t& offset,
                                                  std::vector<std::uint64_t>& places) {
  wire::RunnerTask task;
  task.id = entry->lease.lease;
  task.kind = entry->lease.kind;
  task.params = entry->lease.params;
  std::uint64_t arena_at = runner.arena_used;
  if (!entry->inline_bytes.empty()) {
    std::memcpy(runner.arena->bytes().data() + arena_at, entry->inline_bytes.data(),
                entry->inline_bytes.size());
    runner.arena_used += round_up(entry->inline_bytes.size());
  }
  for (std::size_t i = 0; i < entry->lease.inputs.size(); ++i) {
    const auto& input = entry->lease.inputs[i];
    wire::TensorAt at;
    at.dtype = input.spec.dtype;
    at.shape = input.spec.shape;
    if (input.is_inline()) {
      at.segment = runner.arena_segment;
      at.offset = arena_at + input.inline_offset;
    } else {
      if (entry->cancelled) {
        co_return fail(Code::kCancelled, "the lease has ended");  // its pins went with it
      }
      const auto pin = entry->pins.at(i);
      if (pin->size() != input.spec.size_bytes().value_or(0)) {
        co_return fail(Code::kInvalidArgument, "an input's blob has another size than its type");
      }
      const auto mapped = runner.inputs.find(input.digest);
      if (mapped != runner.inputs.end()) {
        at.segment = mapped->second;
      } else {
        GOBLIN_CO_TRY(at.segment, co_await runner.client->map(pin->fd(), pin->size(), false));
        runner.inputs.emplace(input.digest, at.segment);
      }
    }
    task.inputs.push_back(std::move(at));
  }
  for (const auto& spec : entry->lease.outputs) {
    wire::TensorAt at;
    at.dtype = spec.dtype;
    at.shape = spec.shape;
    at.segment = segment;
    at.offset = offset;
    places.push_back(offset);
    offset += round_up(spec.size_bytes().value_or(0));
    task.outputs.push_back(std::move(at));
  }
  co_return task;
}

net::Task<void> Work::compute(std::vector<EntryPtr> batch) {
  const auto lab = batch.front()->lab;
  auto started_runner = co_await runner_for(*batch.front());
  if (!started_runner) {
    const Error error = std::move(started_runner).error();
    logger_.warn("runner of " + job_text(*batch.front(), nullptr) + ": " + error.message);
    last_trouble_ = error.message;
    for (const auto& entry : batch) {
      if (!entry->cancelled) {
        give_back(entry, error.code);
      }
    }
    co_return;
  }
  const std::shared_ptr<JobRunner> runner = std::move(*started_runner);
  // Leases may end at every await: one that has ended has no pins any more.
  std::erase_if(batch, [](const EntryPtr& entry) { return entry->cancelled; });
  if (batch.empty()) {
    co_return;
  }
  const std::uint64_t job = batch.front()->lease.job;
  busy_ = runner;
  runner->arena_used = 0;

  std::shared_ptr<SharedBuffer> own;
  std::uint32_t own_segment = 0;
  Result<void> prepared;
  if (const auto bytes = output_bytes(batch.front()->lease); bytes >= kOwnBuffer) {
    const std::uint64_t taken = add_capped(held_bytes(), memory_of(batch.front()->lease));
    std::uint64_t room = config_.memory_bytes - std::min(taken, config_.memory_bytes);
    // Buffers of the other jobs' runners are in this memory, too.
    std::vector<std::shared_ptr<JobRunner>> others;
    for (const auto& [other_key, other] : runners_) {
      if (other != runner) {
        others.push_back(other);
      }
    }
    for (const auto& other : others) {
      co_await other->trim_buffers(room);
      room -= std::min(room, other->free_bytes());
    }
    auto buffer = co_await runner->output_buffer(bytes, room);
    if (buffer) {
      own = buffer->memory;
      own_segment = buffer->segment;
    } else {
      prepared = fail(std::move(buffer).error());
    }
  }
  wire::Execute request;
  std::vector<std::vector<std::uint64_t>> places;
  std::uint32_t deadline_ms = 1;
  std::vector<EntryPtr> wanted;
  for (std::size_t i = 0; i < batch.size() && prepared; ++i) {
    std::uint64_t own_at = 0;
    const EntryPtr& entry = batch[i];
    std::vector<std::uint64_t> at;
    auto task = co_await task_of(*runner, entry, own ? own_segment : runner->arena_segment,
                                 own ? own_at : runner->arena_used, at);
    if (entry->cancelled) {
      continue;
    }
    if (task) {
      request.tasks.push_back(std::move(*task));
      wanted.push_back(entry);
      places.push_back(std::move(at));
      deadline_ms = std::max(deadline_ms, entry->lease.deadline_ms);
    } else {
      prepared = fail(std::move(task).error());
    }
  }
  if (prepared) {
    batch = std::move(wanted);
  }
  Result<wire::Executed> executed = fail(Code::kCancelled, "every lease of the batch has ended");
  if (prepared && batch.empty()) {
    // Nothing is left to compute; what was mapped is unmapped below.
  } else if (prepared) {
    // Only while a request is outstanding is a runner ever stopped: a stopped one has no deadline.
    executing_ = runner;
    stop_or_go();
    executed = co_await runner->client->execute(request, net::Milliseconds(deadline_ms));
    executing_.reset();
    runner->client->resume();
  } else {
    executed = fail(std::move(prepared).error());
  }

  // What the next leases of this job do not need is unmapped: its memory counts.
  if (!runner->inputs.empty()) {
    std::set<wire::Digest> needed;
    for (const auto& entry : leases_) {
      if (entry->lab == lab && !entry->running && entry->lease.job == job) {
        for (const auto& input : entry->lease.inputs) {
          needed.insert(input.digest);
        }
      }
    }
    std::vector<std::uint32_t> unmapped;
    std::erase_if(runner->inputs, [&](const auto& item) {
      if (needed.contains(item.first)) {
        return false;
      }
      unmapped.push_back(item.second);
      return true;
    });
    if (!unmapped.empty()) {
      (void)co_await runner->client->unmap(std::move(unmapped));
    }
  }
  runner->used = loop_.now();

  if (batch.empty()) {
    co_return;
  }
  if (!executed) {
    logger_.warn("a task failed: " + job_text(*batch.front(), runner.get()) + ", lease " +
                 std::to_string(batch.front()->lease.lease) +
                 (batch.size() == 1 ? "" : " and those with it") + ": " + executed.error().message);
    if (!std::all_of(batch.begin(), batch.end(), [](const auto& one) { return one->cancelled; })) {
      last_trouble_ = executed.error().message;
    }
  } else {
    counters_.peak_bytes = std::max(counters_.peak_bytes, executed->peak_bytes);
  }
  Done done;
  done.batch = std::move(batch);
  done.runner = runner;
  done.own = own;
  done.places = std::move(places);
  done.executed = std::move(executed);
  if (own) {
    // The runner need not wait until large results are hashed. Small ones lie in its arena.
    loop_.spawn(deliver(std::move(done)));
  } else {
    co_await deliver(std::move(done));
  }
}

}  // namespace goblin::volunteer
