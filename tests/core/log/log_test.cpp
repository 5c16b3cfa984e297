// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/log/log.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>
#include <vector>

namespace goblin::log {
namespace {

class LogTest : public ::testing::Test {
 public:
  ~LogTest() override { std::filesystem::remove_all(directory_); }

 protected:
  LogTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "goblin-log-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    options_.file = directory_ + "/daemon.log";
    options_.to_stderr = false;
  }
  [[nodiscard]] Logger make() const {
    auto logger = Logger::create("goblin-test", options_);
    EXPECT_TRUE(logger.has_value()) << logger.error().message;
    return *logger;
  }
  static std::vector<std::string> lines(const std::string& path) {
    std::vector<std::string> result;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      result.push_back(line);
    }
    return result;
  }

  std::string directory_;
  Options options_;
};

TEST_F(LogTest, ParsesLevels) {
  EXPECT_EQ(parse_level("debug").value(), Level::kDebug);
  EXPECT_EQ(parse_level("info").value(), Level::kInfo);
  EXPECT_EQ(parse_level("warn").value(), Level::kWarn);
  EXPECT_EQ(parse_level("error").value(), Level::kError);
  EXPECT_EQ(parse_level("off").value(), Level::kOff);
  const auto refused = parse_level("Info");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "log level 'Info' is unknown; use one of debug, info, warn, error, off");
}

TEST_F(LogTest, LineHasTimeLevelProgramAndText) {
  make().warn("disk is {} % full");
  const auto all = lines(options_.file);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(std::regex_match(
      all[0], std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d warning )"
                         R"(goblin-test\[\d+\] disk is \{\} % full)")))
      << all[0];
}

TEST_F(LogTest, LevelDecidesWhatIsWritten) {
  options_.level = Level::kWarn;
  const Logger logger = make();
  logger.debug("a");
  logger.info("b");
  logger.warn("c");
  logger.error("d");
  EXPECT_FALSE(logger.enabled(Level::kInfo));
  EXPECT_TRUE(logger.enabled(Level::kError));
  EXPECT_FALSE(logger.enabled(Level::kOff));
  EXPECT_EQ(lines(options_.file).size(), 2u);
}

TEST_F(LogTest, ATextCannotForgeALine) {
  make().error("one\ntwo\r\x1b[31mred\x7f");
  const auto all = lines(options_.file);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(all[0].find("one\\ntwo\\x0d\\x1b[31mred\\x7f"), std::string::npos) << all[0];
}

TEST_F(LogTest, DefaultLoggerDropsEverything) {
  const Logger logger;
  logger.error("nobody hears this");
  EXPECT_FALSE(logger.enabled(Level::kError));
}

TEST_F(LogTest, OffDropsEverything) {
  options_.level = Level::kOff;
  const Logger logger = make();
  logger.error("nobody hears this");
  EXPECT_FALSE(logger.enabled(Level::kError));
  EXPECT_TRUE(lines(options_.file).empty());
}

TEST_F(LogTest, RotatesAndKeepsSoManyFiles) {
  options_.rotate_bytes = 2000;
  options_.keep_files = 2;
  const Logger logger = make();
  for (int i = 0; i < 200; ++i) {
    logger.info("event number " + std::to_string(i));
  }
  std::size_t files = 0;
  std::size_t last = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    ++files;
    EXPECT_LE(entry.file_size(), 2000u) << entry.path();
    struct stat info {};
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0640u) << entry.path();
    for (const std::string& line : lines(entry.path())) {
      last = std::max<std::size_t>(last, std::stoul(line.substr(line.rfind(' '))));
    }
  }
  EXPECT_EQ(files, 3u);
  EXPECT_EQ(last, 199u);
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/daemon.1.log"));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/daemon.2.log"));
}

TEST_F(LogTest, GoesOnInTheSameFileAfterARestart) {
  make().info("first life");
  make().info("second life");
  EXPECT_EQ(lines(options_.file).size(), 2u);
}

TEST_F(LogTest, DescriptorsAreNotInherited) {
  const Logger logger = make();
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    const std::string name = entry.path().filename();
    std::error_code gone;
    if (std::filesystem::read_symlink("/proc/self/fd/" + name, gone) == options_.file) {
      ++seen;
      std::ifstream in(entry.path());
      const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
      std::smatch match;
      ASSERT_TRUE(std::regex_search(text, match, std::regex(R"(flags:\s*0*([0-7]+))")));
      EXPECT_NE(std::stoul(match[1], nullptr, 8) & 02000000u, 0u) << "close-on-exec is not set";
    }
  }
  EXPECT_EQ(seen, 1u);
}

TEST_F(LogTest, MissingDirectoryIsAClearError) {
  options_.file = directory_ + "/none/daemon.log";
  const auto refused = Logger::create("goblin-test", options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message.find(options_.file), std::string::npos);
  EXPECT_NE(refused.error().message.find("make its directory"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/none"));
}

TEST_F(LogTest, DirectoryAsFileAndZeroSizesAreRefused) {
  options_.file = directory_;
  auto refused = Logger::create("goblin-test", options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  options_.file = directory_ + "/daemon.log";
  options_.rotate_bytes = 0;
  refused = Logger::create("goblin-test", options_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("rotate_bytes"), std::string::npos);
}

TEST_F(LogTest, StandardErrorGetsTheSameLines) {
  options_.to_stderr = true;
  testing::internal::CaptureStderr();
  make().error("both");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines(options_.file).at(0) + "\n", text);
}

TEST_F(LogTest, ManyThreadsWriteWholeLines) {
  const Logger logger = make();
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([logger] {
      for (int i = 0; i < 500; ++i) {
        logger.info("abcdefghijklmnopqrstuvwxyz");
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const auto all = lines(options_.file);
  EXPECT_EQ(all.size(), 2000u);
  for (const std::string& line : all) {
    EXPECT_TRUE(line.ends_with("] abcdefghijklmnopqrstuvwxyz")) << line;
  }
}

}  // namespace
}  // namespace goblin::log
