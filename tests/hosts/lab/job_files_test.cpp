// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Files of the researcher under a job: opened, held apart, missed when somebody takes them away.
#include "hosts/lab/job_files.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/hosts/lab/temp_file.hpp"

namespace goblin::lab {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kLength = 1 << 17;
constexpr std::uint64_t kBytes = kLength * sizeof(double);

class JobFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto staging = store::Staging::open(dir_.path() + "/staging", 0);
    ASSERT_TRUE(staging) << staging.error().message;
    staging_ = std::move(*staging);
  }

  [[nodiscard]] std::string path(const std::string& name) const { return dir_.path() + "/" + name; }
  /// A file of so many bytes, all of them a hole.
  std::string make(const std::string& name, std::uint64_t bytes) const {
    const net::UniqueFd fd(::open(path(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    return path(name);
  }
  static net::UniqueFd open_rw(const std::string& path) {
    return net::UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  }

  struct Opened {
    store::JobRecord record;
    JobFiles files;
  };
  /// A job that reads x from a file (unless empty) and writes y to a file (unless empty).
  Result<Opened> open(const std::string& x, const std::string& y, std::uint64_t y_offset = 0) {
    Opened job;
    std::vector<net::UniqueFd> fds;
    if (!x.empty()) {
      wire::JobInput input;
      input.name = "x";
      input.dtype = GOBLIN_F64;
      input.shape = {kLength};
      input.strides = {sizeof(double)};
      input.storage = wire::Storage::kFile;
      input.fd_index = static_cast<std::uint32_t>(fds.size());
      input.path = x;
      fds.push_back(open_rw(x));
      job.record.inputs.push_back(std::move(input));
    }
    wire::OutputInfo info;
    info.name = "y";
    info.spec = {GOBLIN_F64, {kLength}};
    job.record.outputs.push_back(std::move(info));
    if (!y.empty()) {
      job.record.output_files.push_back({"y", static_cast<std::uint32_t>(fds.size()), y, y_offset});
      fds.push_back(open_rw(y));
    }
    GOBLIN_TRY(job.files, open_job_files(*staging_, job.record, &fds));
    return job;
  }
  static std::optional<Error> conflict(const Opened& mine, const Opened& running) {
    return find_conflict(mine.record, mine.files, running.record, running.files, 7);
  }

  test::TempDir dir_;
  std::unique_ptr<store::Staging> staging_;
};

TEST_F(JobFilesTest, HolesOfAnOutputAreFilledBeforeTheJobRuns) {
  const std::string out = make("y.bin", kBytes);
  const auto job = open("", out);
  ASSERT_TRUE(job) << job.error().message;
  struct stat info {};
  ASSERT_EQ(::stat(out.c_str(), &info), 0);
  EXPECT_GE(static_cast<std::uint64_t>(info.st_blocks) * 512, kBytes);
  EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), kBytes);
}

/// After a restart the lab node opens the paths by its own rights: a sender must have had them.
TEST_F(JobFilesTest, ADescriptorMustAllowWhatTheJobDoes) {
  const std::string file = make("x.bin", kBytes);
  const auto refused = [&](bool output, int flags) {
    Opened job;
    wire::OutputInfo info;
    info.name = "y";
    info.spec = {GOBLIN_F64, {kLength}};
    wire::JobInput input;
    input.name = "x";
    input.dtype = GOBLIN_F64;
    input.shape = {kLength};
    input.strides = {sizeof(double)};
    input.storage = wire::Storage::kFile;
    input.path = file;
    if (output) {
      job.record.outputs.push_back(info);
      job.record.output_files.push_back({"y", 0, file, 0});
    } else {
      job.record.inputs.push_back(input);
    }
    std::vector<net::UniqueFd> fds;
    fds.emplace_back(::open(file.c_str(), flags | O_CLOEXEC));
    auto opened = open_job_files(*staging_, job.record, &fds);
    if (opened) {
      return std::string();
    }
    EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
    return opened.error().message;
  };
  EXPECT_EQ(refused(false, O_RDONLY), "");
  EXPECT_EQ(refused(false, O_RDWR), "");
  for (const int flags : {O_PATH, O_WRONLY}) {
    EXPECT_THAT(refused(false, flags), HasSubstr("array 'x': its descriptor cannot be read;"));
  }
  EXPECT_EQ(refused(true, O_RDWR), "");
  for (const int flags : {O_PATH, O_WRONLY, O_RDONLY}) {
    EXPECT_THAT(refused(true, flags),
                HasSubstr("output 'y': its descriptor cannot be read and written;"));
  }
}

TEST_F(JobFilesTest, AFileThatTheDiskCannotHoldIsRefusedBeforeItIsMade) {
  const std::string out = make("y.bin", 10);
  const auto job = open("", out, 1ULL << 61);
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, Code::kExhausted);
  EXPECT_THAT(job.error().message, HasSubstr("output 'y'"));
  struct stat info {};
  ASSERT_EQ(::stat(out.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 10) << "nothing was allocated";
}

TEST_F(JobFilesTest, ARefusalLeavesNoStagedOutput) {
  Opened job;
  for (const char* name : {"y", "z"}) {
    wire::OutputInfo info;
    info.name = name;
    info.spec = {GOBLIN_F64, {8}};
    job.record.outputs.push_back(std::move(info));
  }
  job.record.output_files.push_back({"z", 0, path("none"), 0});
  std::vector<net::UniqueFd> none;
  EXPECT_FALSE(open_job_files(*staging_, job.record, &none));
  const auto left = staging_->list();
  ASSERT_TRUE(left);
  EXPECT_THAT(*left, IsEmpty());
}

TEST_F(JobFilesTest, OneFileIsWrittenByOneJobAtATime) {
  const std::string out = make("y.bin", 3 * kBytes);
  const auto first = open("", out);
  const auto same = open("", out, kBytes - 8);
  const auto apart = open("", out, kBytes);
  ASSERT_TRUE(first && same && apart);
  const auto refused = conflict(*same, *first);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, Code::kInvalidArgument);
  EXPECT_THAT(refused->message, HasSubstr("'" + out + "'"));
  EXPECT_THAT(refused->message, HasSubstr("job 7"));
  EXPECT_FALSE(conflict(*apart, *first)) << "other bytes of the same file";
  EXPECT_FALSE(conflict(*open("", ""), *first)) << "a staged output";
}

TEST_F(JobFilesTest, AnotherNameOfTheFileIsTheSameFile) {
  const std::string out = make("y.bin", kBytes);
  ASSERT_EQ(::link(out.c_str(), path("other.bin").c_str()), 0);
  const auto first = open("", out);
  const auto second = open("", path("other.bin"));
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(conflict(*second, *first));
}

TEST_F(JobFilesTest, AFileOnItsWayToThePathIsTheSamePlace) {
  const auto first = open("", make("y.bin", kBytes));
  auto second = open("", make("new.bin", kBytes));
  ASSERT_TRUE(first && second);
  second->files.out_files[0].path = first->files.out_files[0].path;
  EXPECT_TRUE(conflict(*second, *first));
}

TEST_F(JobFilesTest, NobodyReadsWhatAnotherWrites) {
  const std::string file = make("x.bin", 2 * kBytes);
  const auto reader = open(file, "");
  const auto writer = open("", file, 8);
  const auto beside = open("", file, kBytes);
  ASSERT_TRUE(reader && writer && beside);
  const auto writes = conflict(*writer, *reader);
  ASSERT_TRUE(writes);
  EXPECT_THAT(writes->message, HasSubstr("job 7 reads"));
  const auto reads = conflict(*reader, *writer);
  ASSERT_TRUE(reads);
  EXPECT_THAT(reads->message, HasSubstr("array 'x': job 7 writes"));
  EXPECT_FALSE(conflict(*beside, *reader));
  EXPECT_FALSE(conflict(*reader, *beside));
  const auto own = open(file, file, 8);
  ASSERT_TRUE(own);
  const auto overlap = find_overlap(own->record, own->files);
  ASSERT_TRUE(overlap);
  EXPECT_THAT(overlap->message, HasSubstr("output 'y' overlaps array 'x'"));
  EXPECT_FALSE(find_overlap(reader->record, reader->files));
}

TEST_F(JobFilesTest, AnOutputThatIsTakenAwayIsMissed) {
  const std::string out = make("y.bin", kBytes);
  const auto job = open("", out);
  ASSERT_TRUE(job);
  std::vector<OutSeen> seen;
  ASSERT_TRUE(check_out_files(job->files.out_files, seen));
  ASSERT_EQ(::truncate(out.c_str(), kBytes - 1), 0);
  const auto cut = check_out_files(job->files.out_files, seen);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::kCorrupt);
  EXPECT_THAT(cut.error().message, HasSubstr("output 'y': '" + out + "' was cut to"));
  ASSERT_EQ(::truncate(out.c_str(), 2 * kBytes), 0);
  EXPECT_TRUE(check_out_files(job->files.out_files, seen)) << "longer does no harm";

  ASSERT_EQ(::link(out.c_str(), path("kept.bin").c_str()), 0);
  ASSERT_EQ(::unlink(out.c_str()), 0);
  const auto removed = check_out_files(job->files.out_files, seen);
  ASSERT_FALSE(removed);
  EXPECT_THAT(removed.error().message, HasSubstr("was removed"));
  make("y.bin", kBytes);
  const auto replaced = check_out_files(job->files.out_files, seen);
  ASSERT_FALSE(replaced);
  EXPECT_THAT(replaced.error().message, HasSubstr("was replaced by another file"));
}

/// Nothing was accepted yet, so nobody has looked at the path.
TEST_F(JobFilesTest, AnOutputThatIsRemovedAtOnceIsMissed) {
  for (const bool replaced : {false, true}) {
    const std::string out = make("y.bin", kBytes);
    const auto job = open("", out);
    ASSERT_TRUE(job);
    if (replaced) {
      ASSERT_EQ(::rename(make("other.bin", kBytes).c_str(), out.c_str()), 0);
    } else {
      ASSERT_EQ(::unlink(out.c_str()), 0);
    }
    std::vector<OutSeen> seen;
    const auto removed = check_out_files(job->files.out_files, seen);
    ASSERT_FALSE(removed);
    EXPECT_EQ(removed.error().code, Code::kCorrupt);
    EXPECT_THAT(removed.error().message,
                HasSubstr("output 'y': '" + out + "' was removed while the job was running"));
  }
}

TEST_F(JobFilesTest, AnOutputThatIsCutAndMadeLongAgainIsMissed) {
  for (const std::uint64_t kept : {std::uint64_t{0}, std::uint64_t{kBytes / 2}, kBytes - 8192}) {
    const std::string out = make("y.bin", kBytes);
    const auto job = open("", out);
    ASSERT_TRUE(job);
    if (!job->files.out_files[0].allocated) {
      GTEST_SKIP() << "this file system does not allocate beforehand";
    }
    std::vector<OutSeen> seen;
    ASSERT_TRUE(check_out_files(job->files.out_files, seen));
    // What the job and others write does no harm, wherever it is.
    const net::UniqueFd fd = open_rw(out);
    ASSERT_EQ(::pwrite(fd.get(), "result", 6, kBytes / 3), 6);
    ASSERT_EQ(::pwrite(fd.get(), "behind", 6, kBytes + 70'000), 6);
    ASSERT_EQ(::fsync(fd.get()), 0);
    ASSERT_TRUE(check_out_files(job->files.out_files, seen));
    ASSERT_EQ(::truncate(out.c_str(), kBytes), 0);
    ASSERT_TRUE(check_out_files(job->files.out_files, seen)) << "cut behind what is the job's";

    ASSERT_EQ(::truncate(out.c_str(), static_cast<off_t>(kept)), 0);
    ASSERT_EQ(::truncate(out.c_str(), kBytes), 0);
    store::JobRecord record = job->record;
    const auto again = open_job_files(*staging_, record, nullptr);
    ASSERT_FALSE(again);
    EXPECT_THAT(again.error().message, HasSubstr("made long again since the job was submitted"));
    // The restart has filled the hole.
    ASSERT_EQ(::truncate(out.c_str(), static_cast<off_t>(kept)), 0);
    ASSERT_EQ(::truncate(out.c_str(), kBytes), 0);
    const auto cut = check_out_files(job->files.out_files, seen);
    ASSERT_FALSE(cut) << kept;
    EXPECT_EQ(cut.error().code, Code::kCorrupt);
    EXPECT_THAT(cut.error().message,
                HasSubstr("'" + out + "' was cut and made long again while the job was running"));
    ASSERT_EQ(::unlink(out.c_str()), 0);
  }
}

TEST_F(JobFilesTest, AClientMayMoveTheFileToItsPathLater) {
  auto job = open("", make("temporary.bin", kBytes));
  ASSERT_TRUE(job);
  job->files.out_files[0].path = make("y.bin", 5);
  std::vector<OutSeen> seen;
  EXPECT_TRUE(check_out_files(job->files.out_files, seen));
  ASSERT_EQ(::rename(path("temporary.bin").c_str(), path("y.bin").c_str()), 0);
  EXPECT_TRUE(check_out_files(job->files.out_files, seen));
  ASSERT_EQ(::rename(make("third.bin", kBytes).c_str(), path("y.bin").c_str()), 0);
  EXPECT_FALSE(check_out_files(job->files.out_files, seen));
}

TEST_F(JobFilesTest, AfterARestartAShortOutputIsNoOutput) {
  const std::string out = make("y.bin", kBytes);
  auto job = open("", out);
  ASSERT_TRUE(job);
  const auto again = open_job_files(*staging_, job->record, nullptr);
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(::truncate(out.c_str(), 100), 0);
  const auto cut = open_job_files(*staging_, job->record, nullptr);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::kCorrupt);
  EXPECT_THAT(cut.error().message, HasSubstr("became shorter"));
  struct stat info {};
  ASSERT_EQ(::stat(out.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 100) << "zeros must not take the place of what was merged";
}

}  // namespace
}  // namespace goblin::lab
