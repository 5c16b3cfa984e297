// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/wire/peer.hpp"

#include "tests/core/wire/generate.hpp"

namespace goblin::wire {
namespace {

GOBLIN_WIRE_PEER_MESSAGES(GOBLIN_ROUND_TRIP)

/// A lease of the least that decode takes.
Lease small_lease() {
  Lease lease;
  lease.lease = 7;
  lease.plugin.bytes[0] = 1;
  return lease;
}

template <typename T>
void expect_refused(const Result<T>& result, const std::string& field) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  EXPECT_NE(result.error().message.find(field), std::string::npos) << result.error().message;
}

TEST(HostOffers, NoHostOffersMoreThanItsConfigurationAllows) {
  HostOffer most;
  most.capacity.threads = kMaxHostThreads;
  most.capacity.slots = kMaxHostSlots;
  most.capacity.memory_bytes = kMaxHostBytes;
  most.capacity.cache_bytes = kMaxHostBytes;
  ASSERT_TRUE(decode_host_offer(encode(most)));
  HostOffer offer = most;
  offer.capacity.threads += 1;
  expect_refused(decode_host_offer(encode(offer)), "HostCapacity.threads: 4097, where 0 to 4096");
  offer.capacity.threads = 0xffffffff;
  expect_refused(decode_host_offer(encode(offer)), "HostCapacity.threads");
  offer = most;
  offer.capacity.slots += 1;
  expect_refused(decode_host_offer(encode(offer)), "HostCapacity.slots");
  for (const std::uint64_t bytes : {kMaxHostBytes + 1, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    offer = most;
    offer.capacity.memory_bytes = bytes;
    expect_refused(decode_host_offer(encode(offer)), "HostCapacity.memory_bytes");
    offer = most;
    offer.capacity.cache_bytes = bytes;
    expect_refused(decode_host_offer(encode(offer)), "HostCapacity.cache_bytes");
  }
}

TEST(Leases, AsManyAsMayStandAndOneMore) {
  Leases leases;
  leases.leases.assign(kMaxTasks, small_lease());
  const auto most = decode_leases(encode(leases));
  ASSERT_TRUE(most) << most.error().message;
  EXPECT_EQ(most->leases.size(), kMaxTasks);
  leases.leases.push_back(small_lease());
  expect_refused(decode_leases(encode(leases)), "Leases.leases: list of 4097 items, at most 4096");
}

TEST(Leases, ParametersAndTensorsAreBounded) {
  Leases leases;
  leases.leases.push_back(small_lease());
  Lease& lease = leases.leases[0];
  lease.params.assign(kMaxParams, Value::of(std::int64_t{-1}));
  lease.outputs.assign(kMaxTensors, TensorSpec{GOBLIN_F32, {2}});
  ASSERT_TRUE(decode_leases(encode(leases)));
  lease.params.push_back(Value::of(1.0));
  expect_refused(decode_leases(encode(leases)), "Lease.params");
  lease.params.clear();
  lease.outputs.push_back(TensorSpec{GOBLIN_F32, {2}});
  expect_refused(decode_leases(encode(leases)), "Lease.outputs");
}

TEST(Leases, TensorsThatCannotBe) {
  Leases leases;
  leases.leases.push_back(small_lease());
  auto& outputs = leases.leases[0].outputs;
  outputs = {TensorSpec{0, {2}}};
  expect_refused(decode_leases(encode(leases)), "TensorSpec.dtype: 0, where 1 to 15");
  outputs = {TensorSpec{16, {2}}};
  expect_refused(decode_leases(encode(leases)), "TensorSpec.dtype: 16");
  outputs = {TensorSpec{0xffffffff, {2}}};
  expect_refused(decode_leases(encode(leases)), "TensorSpec.dtype: 4294967295");
  outputs = {TensorSpec{GOBLIN_F32, {2, -1}}};
  expect_refused(decode_leases(encode(leases)), "extent -1 of dimension 1");
  outputs = {TensorSpec{GOBLIN_U8, {std::int64_t{1} << 32, std::int64_t{1} << 31}}};
  expect_refused(decode_leases(encode(leases)), "over 2^62 bytes");
  outputs = {TensorSpec{GOBLIN_U8, std::vector<std::int64_t>(GOBLIN_MAX_RANK + 1, 1)}};
  expect_refused(decode_leases(encode(leases)), "TensorSpec.shape: list of 17 items, at most 16");
  outputs = {TensorSpec{GOBLIN_U8, std::vector<std::int64_t>(GOBLIN_MAX_RANK, 1)}};
  EXPECT_TRUE(decode_leases(encode(leases)));
}

TEST(Leases, InlineTensorsStayInThePayload) {
  Leases leases;
  leases.leases.push_back(small_lease());
  auto& inputs = leases.leases[0].inputs;
  const auto inlined = [](std::int64_t bytes, std::uint32_t offset) {
    return std::vector<TensorRef>{{TensorSpec{GOBLIN_U8, {bytes}}, {}, offset}};
  };
  inputs = inlined(1024, kMaxPayloadBytes - 1024);
  EXPECT_TRUE(decode_leases(encode(leases)));
  inputs = inlined(1024, kMaxPayloadBytes - 1023);
  expect_refused(decode_leases(encode(leases)), "TensorRef.inline_offset");
  inputs = inlined(1025, 0);
  expect_refused(decode_leases(encode(leases)), "TensorRef.inline_offset");
  inputs = inlined(8, kNotInline - 1);
  expect_refused(decode_leases(encode(leases)), "TensorRef.inline_offset");
  inputs = inlined(8, kNotInline);  // and no digest
  expect_refused(decode_leases(encode(leases)), "neither a digest nor a place");
}

TEST(Leases, NumbersOutOfRange) {
  Leases leases;
  leases.leases.push_back(small_lease());
  leases.leases[0].flops = std::numeric_limits<double>::quiet_NaN();
  expect_refused(decode_leases(encode(leases)), "Lease.flops");
  leases.leases[0].flops = std::numeric_limits<double>::infinity();
  expect_refused(decode_leases(encode(leases)), "Lease.flops");
  leases.leases[0].flops = -1;
  expect_refused(decode_leases(encode(leases)), "Lease.flops");
  leases.leases[0].flops = 0;
  leases.leases[0].params = {Value{3, 1, 0}};
  expect_refused(decode_leases(encode(leases)), "Value.type: 3");
}

TEST(Results, ClosedCodesAndNoOutputsOfAFailure) {
  Results results;
  results.results.push_back({});
  results.results[0].status = GOBLIN_INTERNAL + 1;
  expect_refused(decode_results(encode(results)), "TaskResult.status: 9");
  results.results[0].status = -1;
  expect_refused(decode_results(encode(results)), "TaskResult.status: -1");
  results.results[0].status = GOBLIN_EXHAUSTED;
  EXPECT_TRUE(decode_results(encode(results)));
  results.results[0].outputs = {TensorRef{TensorSpec{GOBLIN_F32, {1}}, {}, 0}};
  expect_refused(decode_results(encode(results)), "TaskResult.outputs");
  results.results[0].status = GOBLIN_OK;
  EXPECT_TRUE(decode_results(encode(results)));
}

TEST(Enumerations, OutOfRange) {
  for (const int role : {0, 5, 255}) {
    Hello hello;
    hello.role = static_cast<Role>(role);
    expect_refused(decode_hello(encode(hello)), "Hello.role");
  }
  Welcome welcome;
  welcome.refusal = static_cast<Refusal>(7);
  expect_refused(decode_welcome(encode(welcome)), "Welcome.refusal");
  for (const int reason : {0, 9, -1}) {
    Goodbye goodbye;
    goodbye.reason = static_cast<Code>(reason);
    expect_refused(decode_goodbye(encode(goodbye)), "Goodbye.reason");
  }
  for (const int state : {0, 4}) {
    HostOffer offer;
    offer.state = static_cast<HostState>(state);
    expect_refused(decode_host_offer(encode(offer)), "HostOffer.state");
  }
}

TEST(Texts, BoundedAndWithoutNul) {
  LabStatus status;
  status.address.assign(kMaxAddressBytes, 'a');
  EXPECT_TRUE(decode_lab_status(encode(status)));
  status.address += 'a';
  expect_refused(decode_lab_status(encode(status)), "LabStatus.address: 256 bytes, at most 255");
  status.address = std::string("host\0.example", 13);
  expect_refused(decode_lab_status(encode(status)), "LabStatus.address: text with a NUL");
}

TEST(Lists, OfNumbersAreBounded) {
  Heartbeat heartbeat;
  heartbeat.running.assign(kMaxIds, ~std::uint64_t{0});
  const auto back = decode_heartbeat(encode(heartbeat));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->running, heartbeat.running);
  heartbeat.running.push_back(1);
  expect_refused(decode_heartbeat(encode(heartbeat)), "Heartbeat.running");
}

TEST(Sizes, EverySmallFrameFitsItsCap) {
  testing::Generator generate(testing::test_seed());
  const auto cap = [](FrameType type, PeerState state = PeerState::kOpen) {
    return frame_caps(static_cast<std::uint16_t>(type), state).message_bytes;
  };
  EXPECT_LE(encode(generate.make<Hello>()).size(), cap(FrameType::kHello, PeerState::kGreeting));
  EXPECT_LE(encode(generate.make<Welcome>()).size(),
            cap(FrameType::kWelcome, PeerState::kGreeting));
  EXPECT_LE(encode(generate.make<Goodbye>()).size(), cap(FrameType::kGoodbye));
  EXPECT_LE(encode(generate.make<BlobGet>()).size(), cap(FrameType::kBlobGet));
  EXPECT_LE(encode(generate.make<BlobData>()).size(), cap(FrameType::kBlobData));
  EXPECT_LE(encode(generate.make<BlobInfo>()).size(), cap(FrameType::kBlobInfo));
  EXPECT_LE(encode(generate.make<MetadataGet>()).size(), cap(FrameType::kMetadataGet));
  EXPECT_LE(encode(generate.make<Metadata>()).size(), cap(FrameType::kMetadata));
  EXPECT_LE(encode(generate.make<CatalogueNews>()).size(), cap(FrameType::kCatalogueNews));
  Heartbeat heartbeat;
  heartbeat.running.resize(kMaxIds);
  EXPECT_LE(encode(heartbeat).size(), cap(FrameType::kHeartbeat));
  LabStatus status;
  status.address.assign(kMaxAddressBytes, 'a');
  EXPECT_LE(encode(status).size(), cap(FrameType::kLabStatus));
  HostAssignments hosts;
  hosts.hosts.assign(kMaxPeers, HostAssignment{generate.make<Digest>(), true, 1});
  EXPECT_LE(encode(hosts).size(), cap(FrameType::kHostAssignments));
}

}  // namespace
}  // namespace goblin::wire
