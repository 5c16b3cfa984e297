// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Records of the journal: descriptions of jobs (byte 0: 0), planned tasks (1), with a sum that is
// right, so that the reader behind it is reached, and any bytes (2).
#include <algorithm>

#include "core/store/record_codec.hpp"
#include "tests/core/store/records.hpp"
#include "tests/fuzz/target.hpp"

namespace goblin::fuzz {
namespace {

void refused(const Error& error) {
  expect(error.code == Code::kCorrupt, "a record that does not read is kCorrupt");
}

void run_description(ByteView bytes) {
  store::JobRecord job;
  if (auto read = store::decode_description(bytes, job); !read) {
    return refused(read.error());
  }
  store::JobRecord again;
  expect(store::decode_description(store::encode_description(job), again).has_value(),
         "what was read is written and read");
  expect(store::encode_description(job) == store::encode_description(again),
         "a round trip keeps every field");
}

void run_planned(ByteView bytes) {
  store::AcceptedRecord record = store::test::sample_accepted(1, 2);
  record.planned = {};
  if (auto read = store::decode_planned(bytes, record); !read) {
    return refused(read.error());
  }
  Bytes written, twice;
  store::encode_planned(record, written);
  store::AcceptedRecord again = store::test::sample_accepted(1, 2);
  expect(store::decode_planned(written, again).has_value(), "what was read is written and read");
  store::encode_planned(again, twice);
  expect(written == twice, "a round trip keeps every field");
}

void run(ByteView input) {
  Draw draw(input);
  const std::uint64_t seed = store::planned_seed(store::test::sample_accepted(1, 2));
  switch (draw.u8() % 3) {
    case 0:
      return run_description(store::seal(draw.rest()));
    case 1:
      return run_planned(store::seal(draw.rest(), seed));
    default:
      if (auto opened = store::unseal(draw.rest()); !opened) refused(opened.error());
      run_description(draw.rest());
      run_planned(draw.rest());
  }
}

std::vector<Bytes> seeds() {
  Bytes planned;
  store::encode_planned(store::test::sample_accepted(1, 2), planned);
  const Bytes job = store::encode_description(store::test::sample_job(1));
  constexpr std::size_t kSum = 8;
  return {Script().u8(0).bytes(ByteView(job).first(job.size() - kSum)).take(),
          Script().u8(1).bytes(ByteView(planned).first(planned.size() - kSum)).take(),
          Script().u8(2).bytes(planned).take(), Script().u8(2).bytes(job).take()};
}

}  // namespace

Target records_target() { return {"records", run, seeds, nullptr}; }

}  // namespace goblin::fuzz
