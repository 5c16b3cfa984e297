// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What was computed is hashed, held and reported.
#include <unistd.h>

#include "core/net/blob_hash.hpp"
#include "hosts/volunteer/job_runner.hpp"
#include "hosts/volunteer/lease_math.hpp"
#include "hosts/volunteer/result_frames.hpp"

namespace goblin::volunteer {

std::vector<wire::Bytes> Work::inputs_of(const Entry& entry) {
  std::vector<wire::Bytes> inputs;
  for (std::size_t i = 0; i < entry.lease.inputs.size(); ++i) {
    const auto& input = entry.lease.inputs[i];
    wire::Bytes bytes(input.spec.size_bytes().value_or(0));
    if (input.is_inline()) {
      const auto from = std::span(entry.inline_bytes).subspan(input.inline_offset, bytes.size());
      std::copy(from.begin(), from.end(), bytes.begin());
    } else {
      // A short read leaves zeros: whoever lies from them lies all the same.
      (void)::pread(entry.pins.at(i)->fd(), bytes.data(), bytes.size(), 0);
    }
    inputs.push_back(std::move(bytes));
  }
  return inputs;
}

net::Task<void> Work::deliver(Done done) {
  const auto lab = done.batch.front()->lab;
  const std::uint64_t memory = done.own ? done.own->size() : 0;
  delivering_bytes_ += memory;
  ResultFrames frames([&lab](net::Frame frame) { lab->send(std::move(frame)); });
  for (std::size_t i = 0; i < done.batch.size(); ++i) {
    const EntryPtr& entry = done.batch[i];
    if (entry->cancelled) {
      continue;
    }
    if (!done.executed && done.batch.size() > 1) {
      entry->running = false;  // one of them broke the runner: each is tried by itself
      done.runner->task_us = kBatchUs;
      continue;
    }
    wire::TaskResult result;
    wire::Bytes payload;  // its inline outputs
    result.lease = entry->lease.lease;
    result.fetch_us = entry->fetch_us;
    if (!done.executed) {
      result.status = static_cast<std::int32_t>(done.executed.error().code);
    } else if (i >= done.executed->tasks.size() || done.executed->tasks[i].id != result.lease) {
      result.status = GOBLIN_INTERNAL;
    } else {
      result.status = done.executed->tasks[i].status;
      result.compute_us = done.executed->tasks[i].compute_us;
      result.peak_bytes = done.executed->peak_bytes;
      if (result.status != GOBLIN_OK) {
        logger_.warn("a task failed: " + job_text(*entry, done.runner.get()) + ", lease " +
                     std::to_string(result.lease) + ": " + done.executed->tasks[i].message);
      }
    }
    if (result.status == GOBLIN_OK) {
      done.runner->task_us = (done.runner->task_us * 7 + result.compute_us + 20) / 8;
      const auto& buffer = done.own ? done.own : done.runner->arena;
      std::vector<std::span<std::byte>> outputs;
      std::vector<wire::TensorSpec> specs = entry->lease.outputs;
      for (std::size_t o = 0; o < specs.size(); ++o) {
        outputs.push_back(
            buffer->bytes().subspan(done.places[i][o], specs[o].size_bytes().value_or(0)));
      }
      if (config_.filter) {
        const auto inputs = inputs_of(*entry);
        ResultFilter::Computed computed{entry->lease, inputs, specs, outputs, result};
        const auto delay = config_.filter->apply(computed);
        if (delay.count() > 0) {
          co_await loop_.sleep(delay);
          if (entry->cancelled || stopped_) {
            continue;
          }
        }
        if (result.status != GOBLIN_OK) {
          outputs.clear();
        }
      }
      std::vector<HeldOutput> held;
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        wire::TensorRef ref;
        ref.spec = specs[o];
        const auto bytes = outputs[o];
        if (bytes.size() <= wire::kInlineBytes) {
          ref.inline_offset = static_cast<std::uint32_t>(payload.size());
          payload.insert(payload.end(), bytes.begin(), bytes.end());
        } else {
          HeldOutput output;
          output.bytes = bytes.size();
          if (done.own) {
            output.shared = done.own;
            output.offset = done.places[i][o];
            auto hash = [own = done.own, bytes] { return net::blob_digest(wire::ByteView(bytes)); };
            output.digest = co_await loop_.offload(hash);
            if (entry->cancelled || stopped_) {
              break;
            }
          } else {
            output.heap = std::make_shared<const wire::Bytes>(bytes.begin(), bytes.end());
            output.digest = net::blob_digest(wire::ByteView(*output.heap));
          }
          ref.digest = output.digest;
          held.push_back(std::move(output));
        }
        result.outputs.push_back(std::move(ref));
      }
      if (entry->cancelled || stopped_) {
        continue;
      }
      if (config_.filter) {
        config_.filter->after_commit(entry->lease, outputs);
      }
      if (!held.empty()) {
        lab->held().hold(result.lease, std::move(held), loop_.now());
      }
      ++counters_.computed;
      counters_.compute_us += result.compute_us;
      last_trouble_.clear();
    } else {
      ++counters_.failed;
    }
    frames.add(std::move(result), std::move(payload));
    finish(entry);
  }
  frames.flush();
  // From here on what the lab node has not collected counts as held.
  delivering_bytes_ -= memory;
  work_.set();
}

}  // namespace goblin::volunteer
