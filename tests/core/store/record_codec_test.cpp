// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/record_codec.hpp"

#include "tests/core/store/records.hpp"

namespace goblin::store::test {
namespace {

TEST(RecordCodec, DescriptionComesBackWhole) {
  const JobRecord job = sample_job(1);
  JobRecord back;
  const wire::Bytes bytes = encode_description(job);
  GOBLIN_ASSERT_OK(decode_description(bytes, back));
  // What stands in columns is not part of the description.
  back.token = job.token;
  back.kind = job.kind;
  back.plugin = job.plugin;
  back.kind_index = job.kind_index;
  back.policy = job.policy;
  back.replicas = job.replicas;
  back.weight = job.weight;
  back.state = job.state;
  back.created_unix_ms = job.created_unix_ms;
  back.ended_unix_ms = job.ended_unix_ms;
  expect_same(job, back);
}

TEST(RecordCodec, PlannedTaskComesBackWhole) {
  const AcceptedRecord record = sample_accepted(3, 1ull << 40);
  wire::Bytes bytes;
  encode_planned(record, bytes);
  EXPECT_LT(bytes.size(), 120u);
  AcceptedRecord back = record;
  back.planned = {};
  GOBLIN_ASSERT_OK(decode_planned(bytes, back));
  EXPECT_EQ(back.planned, record.planned);
}

TEST(RecordCodec, ChecksumCoversTheColumnsBesideIt) {
  const AcceptedRecord record = sample_accepted(3, 4);
  wire::Bytes bytes;
  encode_planned(record, bytes);
  const auto refused = [&](auto change) {
    AcceptedRecord other = record;
    change(other);
    GOBLIN_EXPECT_CODE(Code::kCorrupt, decode_planned(bytes, other));
  };
  refused([](AcceptedRecord& r) { r.job = 2; });
  refused([](AcceptedRecord& r) { r.task = 5; });
  refused([](AcceptedRecord& r) { r.host.bytes[31] ^= 1; });
  refused([](AcceptedRecord& r) { r.digest.bytes[0] ^= 0x80; });
  refused([](AcceptedRecord& r) { r.stage += 1; });
  refused([](AcceptedRecord& r) { r.stage_offset += 1; });
}

TEST(RecordCodec, EveryFlippedBitAndEveryCutIsFound) {
  const wire::Bytes bytes = encode_description(sample_job(1));
  JobRecord job;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      wire::Bytes damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      GOBLIN_EXPECT_CODE(Code::kCorrupt, decode_description(damaged, job));
    }
    GOBLIN_EXPECT_CODE(Code::kCorrupt, decode_description(wire::ByteView(bytes).first(i), job));
  }
}

// Random content under a right checksum: the reader itself must bound what it reads.
TEST(RecordCodec, RandomBytesNeverDecodeToMoreThanTheyAre) {
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    wire::Bytes content = random_bytes(seed % 60, seed);
    if (!content.empty()) {
      content[0] = std::byte{1};
    }
    const wire::Bytes sealed = seal(content);
    JobRecord job;
    if (decode_description(sealed, job)) {
      EXPECT_LE(job.inputs.size() + job.params.size() + job.outputs.size(), content.size())
          << "seed " << seed;
    }
  }
}

TEST(RecordCodec, LaterVersionIsNamed) {
  const wire::Bytes content = {std::byte{9}};
  JobRecord job;
  const auto refused = decode_description(seal(content), job);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("version 9 instead of 1"), std::string::npos);
}

}  // namespace
}  // namespace goblin::store::test
