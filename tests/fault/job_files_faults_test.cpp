// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The files of a job are opened, over a disk that fails at each call: the error names the array or
// the output, and what was made is removed.
#include "hosts/lab/job_files.hpp"

#include <fcntl.h>

#include <set>

#include "tests/core/store/support.hpp"
#include "tests/fault/faults.hpp"

namespace goblin::fault {
namespace {

using store::test::TempDir;

constexpr std::int64_t kLength = 5000;

class JobFilesFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = store::Staging::open(directory_ / "staging", 0);
    GOBLIN_ASSERT_OK(opened);
    staging_ = std::move(*opened);
    auto array = staging_->create(kLength * sizeof(double));
    GOBLIN_ASSERT_OK(array);
    array_ = array->number;
    for (const char* name : {"x.bin", "out.bin"}) {
      store::test::spill(directory_ / name, std::string(kLength * sizeof(double), 'x'));
    }
  }
  [[nodiscard]] store::JobRecord record() const {
    wire::JobInput staged;
    staged.name = "s";
    staged.dtype = GOBLIN_F64;
    staged.shape = {kLength};
    staged.strides = {sizeof(double)};
    staged.stage = array_;
    wire::JobInput file = staged;
    file.name = "x";
    file.storage = wire::Storage::kFile;
    file.path = directory_ / "x.bin";
    store::JobRecord job;
    job.inputs = {staged, file};
    for (const char* name : {"y", "z", "w"}) {
      wire::OutputInfo info;
      info.name = name;
      info.spec = {GOBLIN_F64, {kLength}};
      job.outputs.push_back(std::move(info));
    }
    job.output_files.push_back({"z", 1, directory_ / "out.bin", 0});
    job.output_stages.assign(3, 0);
    return job;
  }
  [[nodiscard]] std::vector<net::UniqueFd> descriptors() const {
    std::vector<net::UniqueFd> fds;
    for (const char* name : {"x.bin", "out.bin"}) {
      fds.emplace_back(::open((directory_ / name).c_str(), O_RDWR | O_CLOEXEC));
    }
    return fds;
  }
  [[nodiscard]] std::vector<std::uint64_t> numbers() const {
    auto list = staging_->list();
    EXPECT_TRUE(list);
    return *std::move(list);
  }
  /// Errors that are the disk's, and name what of the job they met.
  static void expect_clear(const Error& error, int error_number) {
    EXPECT_EQ(error.code, error_number == EIO ? Code::kUnavailable : Code::kExhausted)
        << error.message;
    EXPECT_TRUE(error.message.find("array '") != std::string::npos ||
                error.message.find("output '") != std::string::npos)
        << error.message;
  }

  TempDir directory_;
  std::unique_ptr<store::Staging> staging_;
  std::uint64_t array_ = 0;
};

TEST_F(JobFilesFaults, ASubmissionThatFailsLeavesNothing) {
  store::JobRecord job = record();
  auto fds = descriptors();
  count(On::kDisk);
  GOBLIN_ASSERT_OK(lab::open_job_files(*staging_, job, &fds));
  const std::uint64_t calls = off();
  ASSERT_GT(calls, 6u);
  const std::vector<std::uint64_t> outputs = numbers();
  for (const std::uint64_t number : outputs) {
    if (number != array_) GOBLIN_ASSERT_OK(staging_->remove(number));
  }
  std::set<std::string> names;
  for (const int error_number : {EIO, ENOSPC}) {
    for (std::uint64_t at = 0; at < calls; ++at) {
      job = record();
      fds = descriptors();
      arm({.on = On::kDisk, .how = How::kFail, .at = at, .error_number = error_number});
      const auto opened = lab::open_job_files(*staging_, job, &fds);
      off();
      SCOPED_TRACE("call " + std::to_string(at) + ", " + last_failed());
      if (!opened) {
        names.insert(last_failed());
        expect_clear(opened.error(), error_number);
        EXPECT_EQ(numbers().size(), 1u) << "an output was left behind";
      }
      const std::vector<std::uint64_t> made = numbers();
      for (const std::uint64_t number : made) {
        if (number != array_) GOBLIN_ASSERT_OK(staging_->remove(number));
      }
    }
  }
  for (const char* name : {"open", "fallocate", "pwrite"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST_F(JobFilesFaults, ARestartThatFailsChangesNothing) {
  store::JobRecord job = record();
  auto fds = descriptors();
  GOBLIN_ASSERT_OK(lab::open_job_files(*staging_, job, &fds));
  const std::size_t files = numbers().size();
  const std::string before = store::test::slurp(directory_ / "out.bin");
  count(On::kDisk);
  GOBLIN_ASSERT_OK(lab::open_job_files(*staging_, job, nullptr));
  const std::uint64_t calls = off();
  for (const int error_number : {EIO, ENOSPC}) {
    for (std::uint64_t at = 0; at < calls; ++at) {
      arm({.on = On::kDisk, .how = How::kFail, .at = at, .error_number = error_number});
      const auto opened = lab::open_job_files(*staging_, job, nullptr);
      off();
      SCOPED_TRACE("call " + std::to_string(at) + ", " + last_failed());
      if (!opened) {
        EXPECT_NE(opened.error().code, Code::kNotFound) << opened.error().message;
        EXPECT_NE(opened.error().code, Code::kCorrupt) << opened.error().message;
      }
      EXPECT_EQ(numbers().size(), files) << "a restart lost what was accepted";
      EXPECT_EQ(store::test::slurp(directory_ / "out.bin"), before);
    }
  }
  GOBLIN_ASSERT_OK(lab::open_job_files(*staging_, job, nullptr));
}

}  // namespace
}  // namespace goblin::fault
