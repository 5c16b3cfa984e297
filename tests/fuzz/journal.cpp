// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A damaged journal: patches over the files of a sound one, as many as the input has. Whatever it
// says then, no accepted record comes back other than it was written.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/core/store/records.hpp"
#include "tests/fuzz/target.hpp"

namespace goblin::fuzz {
namespace {

constexpr std::uint64_t kTasks = 30;

struct Files {
  std::string data_base, log;
};

/// A journal with an ended and a running job, half of it in the log as after a crash.
const Files& sound() {
  static const Files files = [] {
    const std::string path = scratch_directory() + "/sound.db";
    auto journal = store::LabJournal::open(path, false);
    expect(journal.has_value(), "a journal opens");
    std::vector<store::AcceptedRecord> accepted;
    for (std::uint64_t task = 0; task < kTasks; ++task) {
      accepted.push_back(store::test::sample_accepted(1, task));
    }
    const auto half = accepted.begin() + kTasks / 2;
    bool ok = (*journal)->add_job(store::test::sample_job(1)).has_value() &&
              (*journal)->record_accepted({accepted.begin(), half}).has_value();
    journal->reset();  // checkpoints
    journal = store::LabJournal::open(path, false);
    ok = ok && (*journal)->record_accepted({half, accepted.end()}).has_value() &&
         (*journal)->add_job(store::test::sample_job(2)).has_value() &&
         (*journal)->set_plan_state(1, Bytes(20, std::byte{3})).has_value() &&
         (*journal)
             ->record_quarantine({1, store::test::digest_of(3), 7, "wrong digest"})
             .has_value();
    expect(ok, "a journal takes records");
    return Files{store::test::slurp(path), store::test::slurp(path + "-wal")};
  }();
  return files;
}

void patch(std::string& bytes, Draw& draw) {
  const std::uint64_t where = draw.u32();
  const std::uint8_t how = draw.u8();
  if (bytes.empty()) {
    return;
  }
  if (how == 255) {  // cut
    bytes.resize(where % (bytes.size() + 1));
    return;
  }
  const std::size_t at = where % bytes.size();
  const ByteView with = draw.bytes(how % 16 + 1u);
  std::memcpy(bytes.data() + at, with.data(), std::min(with.size(), bytes.size() - at));
}

void judged(const Error& error) {
  expect(error.code != Code::kInternal, ("damage is no bug: " + error.message).c_str());
  expect(!error.message.empty(), "damage is named");
}

void run(ByteView input) {
  Files files = sound();
  Draw draw(input);
  while (!draw.empty()) {
    const bool log = draw.yes();
    patch(log ? files.log : files.data_base, draw);
  }
  const std::string path = scratch_directory() + "/journal.db";
  store::test::spill(path, files.data_base);
  store::test::spill(path + "-wal", files.log);
  auto journal = store::LabJournal::open(path, false);
  if (!journal) {
    return judged(journal.error());
  }
  if (const auto jobs = (*journal)->jobs(); !jobs) {
    judged(jobs.error());
  }
  for (std::uint64_t job = 1; job <= 2; ++job) {
    if (const auto one = (*journal)->job(job); !one) judged(one.error());
    if (const auto hosts = (*journal)->quarantines(job); !hosts) judged(hosts.error());
    const auto accepted = (*journal)->accepted(job);
    if (!accepted) {
      judged(accepted.error());
      continue;
    }
    for (const store::AcceptedRecord& record : *accepted) {
      store::AcceptedRecord expected = store::test::sample_accepted(1, record.task);
      expect(store::test::same(record, expected), "no accepted record is another");
    }
  }
  if (auto taken = (*journal)->record_accepted({store::test::sample_accepted(1, 1000)}); !taken) {
    judged(taken.error());
  }
}

std::vector<Bytes> seeds() {
  const auto page = [](std::uint64_t where, std::string_view with) {
    return Script().u8(0).u32(where).u8(with.size() - 1).text(with).take();
  };
  return {{},
          page(60, std::string_view("\0\0\0\1", 4)),        // the schema's version
          page(16, std::string_view("\2\0", 2)),            // the size of pages
          page(4096 + 3, std::string_view("\xff\xff", 2)),  // a page's number of cells
          Script().u8(0).u32(9000).u8(255).take(),          // cut
          Script().u8(1).u32(5000).u8(255).take(),          // the log cut
          Script().u8(1).u32(40).u8(3).u32(7).take()};
}

}  // namespace

Target journal_target() { return {"journal", run, seeds, nullptr}; }

}  // namespace goblin::fuzz
