// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Hosts that say on the wire what the real program never would, and what a host can learn there.
#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "tests/hosts/lab/engine_fixture.hpp"

namespace goblin::lab::test {
namespace {

using testing::Each;

constexpr std::int64_t kLength = 5000;

class EngineAttacksTest : public EngineFixture {
 protected:
  EngineAttacksTest() {
    // Nobody but whom the test means to ask gets a task.
    scheduler_config_.straggler_factor = 1e6;
    scheduler_config_.first_deadline = 3'600'000'000;
    scheduler_config_.suspend_min = 0;  // the same key lies in job after job
  }

  net::Task<Result<std::uint64_t>> submit(wire::Policy policy, std::uint32_t replicas = 0) {
    wire::Submit submit;
    submit.kind = "faulty";
    submit.inputs.push_back(co_await vector(kLength));
    submit.params.push_back({"mode", wire::Value::of(std::int64_t{0})});
    submit.policy = policy;
    submit.replicas = replicas;
    co_return co_await send(std::move(submit));
  }

  /// A right result of a lease, that a test may spoil.
  wire::Results right(FakeHost& host, const wire::Lease& lease) {
    const wire::Bytes bytes = doubled(kLength);
    wire::TaskResult result;
    result.lease = lease.lease;
    result.compute_us = 1000;
    wire::TensorRef output;
    output.spec = lease.outputs.at(0);
    output.digest = net::blob_digest(bytes);
    host.held[output.digest] = bytes;
    result.outputs.push_back(output);
    wire::Results results;
    results.results.push_back(std::move(result));
    return results;
  }

  /// A host says something spoiled about the only task; then another computes it. What was said of
  /// it.
  void spoil(const std::function<Result<void>(FakeHost& host, wire::Results)>& say,
             std::vector<wire::Incident>& incidents) {
    run([&]() -> net::Task<void> {
      const auto liar = join("a");
      const auto job = co_await submit(wire::Policy::kAlgebraic);
      CO_ASSERT(job);
      CO_ASSERT_UNTIL(liar->leases.size() == 1);
      const auto said = say(*liar, right(*liar, liar->leases[0]));
      // A connection that breaks a rule ends (HostSession); so does its part in the job.
      if (!said) engine_->host_left(liar->id, liar.get());
      const auto other = join("b");
      CO_ASSERT_UNTIL(!other->leases.empty());
      EXPECT_EQ(status(*job).tasks_accepted, 0u);
      commit(*other, other->leases[0], doubled(kLength));
      CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
      const auto told = co_await engine_->explain(*job);
      CO_ASSERT(told);
      incidents = told->incidents;
      for (const auto& host : told->hosts) {
        EXPECT_EQ(host.accepted, host.host == other->pin() ? 1u : 0u);
        EXPECT_EQ(host.quarantined, host.host == liar->pin() && said.has_value());
      }
    });
  }
};

// ---- 33: results that are none

TEST_F(EngineAttacksTest, ResultsOfAnotherFormAreRefused) {
  const std::vector<std::pair<const char*, std::function<void(wire::TaskResult&)>>> forms = {
      {"no output", [](wire::TaskResult& r) { r.outputs.clear(); }},
      {"two outputs", [](wire::TaskResult& r) { r.outputs.push_back(r.outputs[0]); }},
      {"another dtype", [](wire::TaskResult& r) { r.outputs[0].spec.dtype = GOBLIN_I64; }},
      {"no dtype", [](wire::TaskResult& r) { r.outputs[0].spec.dtype = 0xffff; }},
      {"another shape",
       [](wire::TaskResult& r) {
         r.outputs[0].spec.shape = {1, kLength};
       }},
      {"a larger shape", [](wire::TaskResult& r) { r.outputs[0].spec.shape = {kLength + 1}; }},
      {"a shape without end",
       [](wire::TaskResult& r) {
         r.outputs[0].spec.shape.assign(8, std::numeric_limits<std::int64_t>::max());
       }},
      {"a negative shape", [](wire::TaskResult& r) { r.outputs[0].spec.shape = {-kLength}; }},
  };
  for (const auto& [name, form] : forms) {
    std::vector<wire::Incident> incidents;
    spoil(
        [&](FakeHost& host, wire::Results results) -> Result<void> {
          form(results.results[0]);
          return engine_->results(host.id, results, {});
        },
        incidents);
    EXPECT_THAT(incidents, testing::Not(testing::IsEmpty())) << name;
  }
}

TEST_F(EngineAttacksTest, InlineBytesOutsideTheFrameEndTheConnection) {
  for (const std::uint32_t offset : {0U, 8U, 0x7fffffffU, 0xfffffffeU}) {
    std::vector<wire::Incident> incidents;
    spoil(
        [&](FakeHost& host, wire::Results results) -> Result<void> {
          results.results[0].outputs[0].inline_offset = offset;
          return engine_->results(host.id, results, wire::Bytes(16));
        },
        incidents);
  }
}

TEST_F(EngineAttacksTest, BytesOfAnotherLengthAreRefused) {
  for (const std::int64_t length : {std::int64_t{0}, kLength - 1, kLength + 1, 100 * kLength}) {
    std::vector<wire::Incident> incidents;
    spoil(
        [&](FakeHost& host, wire::Results results) -> Result<void> {
          // It committed to what it sends: only the length is not the task's.
          wire::Bytes bytes(static_cast<std::size_t>(length) * sizeof(double));
          auto& output = results.results[0].outputs[0];
          output.digest = net::blob_digest(bytes);
          host.held[output.digest] = std::move(bytes);
          return engine_->results(host.id, results, {});
        },
        incidents);
    EXPECT_THAT(incidents, testing::Not(testing::IsEmpty())) << length;
  }
}

TEST_F(EngineAttacksTest, ASecondWordAboutALeaseIsIgnored) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto job = co_await submit(wire::Policy::kAlgebraic);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(host->leases.size() == 1);
    wire::Results first = right(*host, host->leases[0]);
    wire::Results second = first;
    wire::Bytes wrong(static_cast<std::size_t>(kLength) * sizeof(double));
    second.results[0].outputs[0].digest = net::blob_digest(wrong);
    host->held[second.results[0].outputs[0].digest] = std::move(wrong);
    first.results.push_back(second.results[0]);
    EXPECT_TRUE(engine_->results(host->id, first, {}));
    EXPECT_TRUE(engine_->results(host->id, second, {}));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
    EXPECT_EQ(status(*job).results_refused, 0u) << "it is held to what it said first";
  });
}

TEST_F(EngineAttacksTest, ResultsOfOtherHostsLeasesAreIgnored) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto job = co_await submit(wire::Policy::kAlgebraic);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(host->leases.size() == 1);
    const auto thief = join("b");
    wire::Results results = right(*thief, host->leases[0]);
    for (const std::uint64_t lease :
         {host->leases[0].lease, std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
      results.results[0].lease = lease;
      EXPECT_TRUE(engine_->results(thief->id, results, {}));
    }
    hand_back(*thief, host->leases[0].lease, Code::kUnavailable);
    wire::Heartbeat beat;
    beat.running = {host->leases[0].lease};
    engine_->heartbeat(thief->id, beat);
    commit(*host, host->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
    const auto told = co_await engine_->explain(*job);
    CO_ASSERT(told);
    for (const auto& entry : told->hosts) {
      EXPECT_EQ(entry.accepted, entry.host == host->pin() ? 1u : 0u);
    }
  });
}

// ---- 21: nobody gets a peer's result

TEST_F(EngineAttacksTest, APeersResultIsNotServed) {
  run([&]() -> net::Task<void> {
    const auto first = join("a");
    const auto second = join("b");
    const auto job = co_await submit(wire::Policy::kReplicate, 2);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(first->leases.size() == 1 && second->leases.size() == 1);
    commit(*first, first->leases[0], doubled(kLength));
    const wire::Digest digest = net::blob_digest(doubled(kLength));
    // The lab node comes to have the bytes, and the copier has a lease of the same task.
    CO_ASSERT_UNTIL(status(*job).bytes_received > 0);
    const auto asked = engine_->find_blob(second->id, digest);
    CO_ASSERT(!asked);
    EXPECT_EQ(asked.error().code, Code::kNotFound);
    commit(*second, second->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
    EXPECT_FALSE(engine_->find_blob(second->id, digest));
    EXPECT_FALSE(engine_->find_blob(first->id, digest));
  });
}

// ---- 19: a host cannot tell whether it is checked

/// All of a lease but its numbers and its deadline.
wire::Bytes shown(wire::Lease lease) {
  lease.lease = 0;
  lease.job = 0;
  lease.deadline_ms = 0;
  wire::Leases leases;
  leases.leases.push_back(std::move(lease));
  return net::make_frame(wire::FrameType::kLeases, leases).message;
}

TEST_F(EngineAttacksTest, LeasesOfAllPurposesLookTheSame) {
  std::vector<wire::Bytes> seen;
  std::vector<std::uint32_t> deadlines;
  std::vector<std::vector<std::size_t>> sizes;
  const auto take = [&](const FakeHost& host) {
    seen.push_back(shown(host.leases.at(0)));
    deadlines.push_back(host.leases[0].deadline_ms);
    std::vector<std::size_t> all;
    for (const auto& frame : host.frames) {
      if (frame.type != wire::FrameType::kLeases) continue;
      all.push_back(frame.message_bytes);
      all.push_back(frame.payload_bytes);
    }
    sizes.push_back(std::move(all));
  };
  run([&]() -> net::Task<void> {
    // A first try that the kind's check judges.
    auto host = join("a");
    auto job = co_await submit(wire::Policy::kAlgebraic);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(host->leases.size() == 1);
    take(*host);
    engine_->host_left(host->id, host.get());
    EXPECT_TRUE(co_await engine_->cancel(*job));

    // A first try that a validator will judge, and the validator's own lease.
    host = join("b");
    const auto validator = join("v", 64u << 20, true);
    job = co_await submit(wire::Policy::kValidator);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(host->leases.size() == 1);
    take(*host);
    commit(*host, host->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(validator->leases.size() == 1);
    take(*validator);
    commit(*validator, validator->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
    engine_->host_left(host->id, host.get());
    engine_->host_left(validator->id, validator.get());

    // Two replicas, and the third that decides between them.
    const auto one = join("c");
    const auto two = join("d");
    job = co_await submit(wire::Policy::kReplicate, 2);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(one->leases.size() == 1 && two->leases.size() == 1);
    take(*one);
    take(*two);
    commit(*one, one->leases[0], doubled(kLength));
    commit(*two, two->leases[0], wire::Bytes(static_cast<std::size_t>(kLength) * sizeof(double)));
    const auto third = join("e");
    CO_ASSERT_UNTIL(third->leases.size() == 1);
    take(*third);
    commit(*third, third->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
  });
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_THAT(seen, Each(seen[0]));
  EXPECT_THAT(sizes, Each(sizes[0]));
  // A deadline says what is known of the job's speed, and that alone: nothing before its first
  // result, the same for whoever comes after it.
  EXPECT_EQ(deadlines[1], deadlines[0]) << "checked by a validator, by the kind";
  EXPECT_EQ(deadlines[3], deadlines[0]) << "a replica";
  EXPECT_EQ(deadlines[4], deadlines[0]) << "a replica";
  EXPECT_EQ(deadlines[5], deadlines[2]) << "a replica, a validator's";
}

// ---- 23: false claims of hardware

TEST_F(EngineAttacksTest, ClaimsBeyondAllMeasureBuyNothing) {
  run([&]() -> net::Task<void> {
    auto boaster = std::make_shared<FakeHost>("a");
    wire::HostCapacity claim;
    claim.threads = ~0U;
    claim.slots = ~0U;
    claim.memory_bytes = ~std::uint64_t{0};
    claim.cache_bytes = ~std::uint64_t{0};
    boaster->id = engine_->host_joined(boaster, claim, wire::HostState::kReady, false, 1);
    const auto job = co_await submit(wire::Policy::kReplicate, 2);
    CO_ASSERT(job);
    const auto honest = join("b");
    CO_ASSERT_UNTIL(boaster->leases.size() == 1 && honest->leases.size() == 1);
    wire::Results results = right(*boaster, boaster->leases[0]);
    results.results[0].compute_us = ~std::uint64_t{0};
    results.results[0].fetch_us = ~std::uint64_t{0};
    results.results[0].peak_bytes = ~std::uint64_t{0};
    EXPECT_TRUE(engine_->results(boaster->id, results, {}));
    commit(*honest, honest->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
    EXPECT_EQ(status(*job).results_refused, 0u);
  });
}

// ---- 16, 17: one person with many keys

TEST_F(EngineAttacksTest, KeysOfOneAddressAreNoQuorum) {
  run([&]() -> net::Task<void> {
    std::vector<std::shared_ptr<FakeHost>> sybils;
    const auto join_as = [&](const std::string& name, std::uint64_t group) {
      auto host = std::make_shared<FakeHost>(name);
      host->id = engine_->host_joined(host, capacity(), wire::HostState::kReady, false, group);
      return host;
    };
    for (int i = 0; i < 5; ++i) sybils.push_back(join_as("sybil " + std::to_string(i), 1));
    const auto job = co_await submit(wire::Policy::kReplicate, 2);
    CO_ASSERT(job);
    const auto honest = join_as("honest", 2);
    const auto taken = [&] {
      std::size_t all = 0;
      for (const auto& sybil : sybils) all += sybil->leases.size();
      return all;
    };
    CO_ASSERT_UNTIL(honest->leases.size() == 1 && taken() == 1);
    const wire::Bytes lie(static_cast<std::size_t>(kLength) * sizeof(double));
    commit(*honest, honest->leases[0], doubled(kLength));
    // The next key of the address is asked when the check has refused the last one's result.
    std::set<const FakeHost*> lied;
    const auto next = [&]() -> FakeHost* {
      for (const auto& sybil : sybils) {
        if (!sybil->leases.empty() && !lied.contains(sybil.get())) return sybil.get();
      }
      return nullptr;
    };
    for (std::size_t i = 0; i < sybils.size(); ++i) {
      CO_ASSERT_UNTIL(next() != nullptr);
      EXPECT_EQ(taken(), i + 1) << "one at a time";
      FakeHost* const sybil = next();
      lied.insert(sybil);
      commit(*sybil, sybil->leases[0], lie);
    }
    CO_ASSERT_UNTIL(status(*job).results_refused == sybils.size());
    EXPECT_EQ(status(*job).tasks_accepted, 0u);
    const auto third = join_as("third", 3);
    CO_ASSERT_UNTIL(third->leases.size() == 1);
    commit(*third, third->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
    EXPECT_EQ(status(*job).results_refused, sybils.size());
  });
}

}  // namespace
}  // namespace goblin::lab::test
