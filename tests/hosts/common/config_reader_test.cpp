// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/common/config_reader.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace goblin::hosts {
namespace {

using namespace std::chrono_literals;

ConfigReader reader(const std::string& text, std::map<std::string, std::string> flags = {}) {
  auto values = parse_config(text, "host.toml");
  EXPECT_TRUE(values.has_value()) << values.error().message;
  return {*values, std::move(flags)};
}
std::string error_of(const ConfigReader& config) {
  const auto finished = config.finish();
  return finished ? "none" : finished.error().message;
}

TEST(ConfigReader, EveryType) {
  ConfigReader config = reader(R"(
name = "goblin"
memory = "256MiB"
cache = 1000
heartbeat = "250ms"
cpu = "50%"
ratio = 0.25
paused = true
kinds = ["matmul", "train/1"]
one = "matmul"
level = "warn"
[listen]
port = 7_400
)");
  EXPECT_EQ(config.string("name", "x"), "goblin");
  EXPECT_EQ(config.bytes("memory", 0), 256u << 20);
  EXPECT_EQ(config.bytes("cache", 0), 1000u);
  EXPECT_EQ(config.duration("heartbeat", 1s), 250ms);
  EXPECT_EQ(config.percent("cpu", 1), 0.5);
  EXPECT_EQ(config.real("ratio", 1), 0.25);
  EXPECT_TRUE(config.boolean("paused", false));
  EXPECT_EQ(config.list("kinds", {}), (std::vector<std::string>{"matmul", "train/1"}));
  EXPECT_EQ(config.list("one", {}), std::vector<std::string>{"matmul"});
  EXPECT_EQ(config.choice("level", "info", {"info", "warn"}), "warn");
  EXPECT_EQ(config.u64("listen.port", 1, {1, 65535}), 7400u);
  EXPECT_EQ(error_of(config), "none");
}

TEST(ConfigReader, AListOnTheCommandLineMayBeWrittenAsInTheFile) {
  ConfigReader config =
      reader("", {{"a", R"(["x, y", "z"])"}, {"b", "[]"}, {"c", "[1, 2]"}, {"d", "['q']"}});
  EXPECT_EQ(config.list("a", {}), (std::vector<std::string>{"x, y", "z"}));
  EXPECT_TRUE(config.list("b", {"default"}).empty());
  EXPECT_EQ(config.list("c", {}), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(config.list("d", {}), std::vector<std::string>{"q"});
  EXPECT_EQ(error_of(config), "none");
  for (const char* text : {"[a]", "[\"a\"", "[\"a\"]\nother = 1", "[[1]]", "[1979-05-27]", "["}) {
    ConfigReader wrong = reader("", {{"k", text}});
    EXPECT_EQ(wrong.list("k", {"default"}), std::vector<std::string>{"default"});
    EXPECT_NE(error_of(wrong).find("is no list; write a,b or [\"a\", \"b\"]"), std::string::npos)
        << text;
  }
}

TEST(ConfigReader, DefaultsWhereNothingIsSet) {
  ConfigReader config = reader("");
  EXPECT_EQ(config.string("name", "x"), "x");
  EXPECT_EQ(config.bytes("memory", 7), 7u);
  EXPECT_EQ(config.duration("heartbeat", 2s), 2s);
  EXPECT_EQ(config.list("kinds", {"a"}), std::vector<std::string>{"a"});
  EXPECT_FALSE(config.has("name"));
  EXPECT_EQ(error_of(config), "none");
}

TEST(ConfigReader, CommandLineWinsOverFileOverDefault) {
  ConfigReader config = reader("port = 1\nname = \"file\"\n", {{"port", "2"},
                                                               {"memory", "1GB"},
                                                               {"wait", "5s"},
                                                               {"cpu", "10%"},
                                                               {"paused", "true"},
                                                               {"ratio", "0.5"},
                                                               {"kinds", "a,b,c"},
                                                               {"none", ""}});
  EXPECT_EQ(config.u64("port", 3), 2u);
  EXPECT_EQ(config.string("name", "default"), "file");
  EXPECT_EQ(config.bytes("memory", 0), 1'000'000'000u);
  EXPECT_EQ(config.duration("wait", 1s), 5s);
  EXPECT_EQ(config.percent("cpu", 1), 0.1);
  EXPECT_TRUE(config.boolean("paused", false));
  EXPECT_EQ(config.real("ratio", 0), 0.5);
  EXPECT_EQ(config.list("kinds", {}), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(config.list("none", {"x"}).empty());
  EXPECT_EQ(config.u64("other", 9), 9u);
  EXPECT_EQ(error_of(config), "none");
  EXPECT_EQ(config.effective().at("port").origin, "command line");
  EXPECT_EQ(config.effective().at("port").value, "2");
  EXPECT_EQ(config.effective().at("name").origin, "host.toml:2");
  EXPECT_EQ(config.effective().at("other").origin, "default");
}

TEST(ConfigReader, WrongTypesNameFileLineKeyValueAndRemedy) {
  const auto refused = [](const std::string& line, auto ask, const std::string& expected) {
    ConfigReader config = reader("\n" + line + "\n");
    ask(config);
    EXPECT_EQ(error_of(config), "host.toml:2: " + expected);
  };
  refused(
      "k = 5", [](ConfigReader& c) { EXPECT_EQ(c.string("k", "d"), "d"); },
      "k = 5 has the wrong type; write a text in quotes");
  refused(
      "k = \"5\"", [](ConfigReader& c) { EXPECT_EQ(c.u64("k", 1), 1u); },
      "k = \"5\" has the wrong type; write a whole number without quotes");
  refused(
      "k = -5", [](ConfigReader& c) { EXPECT_EQ(c.u64("k", 1), 1u); },
      "k = -5 is negative; write a whole number from 0");
  refused(
      "k = 1.5", [](ConfigReader& c) { EXPECT_EQ(c.u64("k", 1), 1u); },
      "k = 1.5 has the wrong type; write a whole number from 0");
  refused(
      "k = \"yes\"", [](ConfigReader& c) { EXPECT_TRUE(c.boolean("k", true)); },
      "k = \"yes\" has the wrong type; write true or false, without quotes");
  refused(
      "k = \"lots\"", [](ConfigReader& c) { EXPECT_EQ(c.bytes("k", 3), 3u); },
      "k = \"lots\" is wrong: 'lots' is not a size; write a number with B, KB, MB, GB, TB, "
      "KiB, MiB, GiB or TiB, for example 256MiB");
  refused(
      "k = 5", [](ConfigReader& c) { EXPECT_EQ(c.duration("k", 1s), 1s); },
      "k = 5 has no unit; write a time such as \"5s\"");
  refused(
      "k = 0.5", [](ConfigReader& c) { EXPECT_EQ(c.percent("k", 1), 1); },
      "k = 0.5 has the wrong type; write a share such as \"50%\"");
  refused(
      "k = [1, [2]]", [](ConfigReader& c) { EXPECT_TRUE(c.list("k", {}).empty()); },
      "k = [ 1, [ 2 ] ] has the wrong type; write a list such as [\"a\", \"b\"]");
  refused(
      "k = \"x\"",
      [](ConfigReader& c) {
        EXPECT_EQ(c.choice("k", "a", {"a", "b"}), "a");
      },
      "k = \"x\" is not allowed; use one of a, b");
  refused(
      "k = 1979-05-27", [](ConfigReader& c) { EXPECT_EQ(c.real("k", 2), 2); },
      "k = 1979-05-27 is no number; write one such as 0.5, without quotes");
  refused(
      "k = nan",
      [](ConfigReader& c) {
        EXPECT_EQ(c.real("k", 2, {0, 1}), 2);
      },
      "k = nan is below the least allowed value, 0");
}

TEST(ConfigReader, RangesNameTheirEnds) {
  ConfigReader config = reader("a = 0\nb = 70000\nc = \"1KiB\"\nd = \"2h\"\n", {{"e", "90%"}});
  EXPECT_EQ(config.u64("a", 5, {1, 65535}), 5u);
  EXPECT_EQ(config.u64("b", 5, {1, 65535}), 5u);
  EXPECT_EQ(config.bytes("c", 5, {1 << 20, ~0ull}), 5u);
  EXPECT_EQ(config.duration("d", 1s, {0ms, 1h}), 1s);
  EXPECT_EQ(config.percent("e", 0.2, {0, 0.5}), 0.2);
  EXPECT_EQ(error_of(config),
            "host.toml:1: a = 0 is below the least allowed value, 1\n"
            "host.toml:2: b = 70000 is over the largest allowed value, 65535\n"
            "host.toml:3: c = \"1KiB\" is below the least allowed value, 1.0 MiB\n"
            "host.toml:4: d = \"2h\" is over the largest allowed value, 1 h 0 m\n"
            "command line: e = '90%' is over the largest allowed value, 50%");
}

TEST(ConfigReader, UnknownKeysWithNearMatches) {
  ConfigReader config = reader("memroy = \"1GB\"\nzzzzzz = 1\n[liste]\nport = 1\n",
                               {{"heart-beat", "5s"}, {"port", "7"}});
  config.bytes("memory", 0);
  config.u64("listen.port", 0);
  config.duration("heartbeat", 1s);
  EXPECT_EQ(error_of(config),
            "command line: unknown key 'heart-beat'; did you mean 'heartbeat'?\n"
            "command line: unknown key 'port'; did you mean 'listen.port'?\n"
            "host.toml:4: unknown key 'liste.port'; did you mean 'listen.port'?\n"
            "host.toml:1: unknown key 'memroy'; did you mean 'memory'?\n"
            "host.toml:2: unknown key 'zzzzzz'; remove it");
}

TEST(ConfigReader, RequiredValues) {
  ConfigReader config = reader("empty = \"\"\nright = \"x\"\nwrong = 1\n");
  EXPECT_EQ(config.required_string("right", "a path"), "x");
  config.required_string("empty", "a path");
  config.required_string("missing", "the coordinator's pin");
  config.required_string("wrong", "a path");
  EXPECT_EQ(error_of(config),
            "host.toml:1: empty = \"\" is empty; give a path\n"
            "missing is missing; give the coordinator's pin in the configuration file or on the "
            "command line\n"
            "host.toml:3: wrong = 1 has the wrong type; write a text in quotes");
}

TEST(ConfigReader, WhatIsMissingSaysWhereItWasLookedFor) {
  const std::string source = "no configuration file: /etc/x.toml does not exist";
  ConfigReader config = reader("");
  config.set_source(source);
  config.required_string("a.key", "a path");
  EXPECT_EQ(
      error_of(config),
      "a.key is missing; give a path in the configuration file or on the command line\n" + source);
  ConfigReader other = reader("number = \"x\"");
  other.set_source(source);
  other.u64("number", 1);
  EXPECT_EQ(error_of(other).find(source), std::string::npos);
}

TEST(ConfigReader, ATextWhereATableIsExpected) {
  ConfigReader config = reader("coordinator = \"x:1\"", {{"log", "debug"}});
  config.string("coordinator.address", "");
  config.string("coordinator.pin", "");
  config.string("coordinators", "");
  config.string("log.level", "");
  EXPECT_EQ(error_of(config),
            "command line: 'log' is a table; set one of log.level = …\n"
            "host.toml:1: 'coordinator' is a table; write [coordinator] and below it "
            "address = …, pin = …");
}

TEST(ConfigReader, CallersOwnChecksNameTheOrigin) {
  ConfigReader config = reader("pin = \"xyz\"\n", {{"port", "1"}});
  config.string("pin", "");
  config.u64("port", 0);
  config.complain("pin", "is no digest; write 64 hexadecimal digits");
  config.complain("port", "is taken");
  EXPECT_EQ(error_of(config),
            "host.toml:1: pin = \"xyz\" is no digest; write 64 hexadecimal digits\n"
            "command line: port = '1' is taken");
}

TEST(ConfigReader, FilesThatAreNotToml) {
  const auto refused = parse_config("a = 1\nb = = 2\n", "host.toml");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(refused.error().message.starts_with("host.toml:2:5: not TOML: "))
      << refused.error().message;
  EXPECT_FALSE(parse_config("a = 1\na = 2\n", "host.toml"));
  EXPECT_FALSE(parse_config(std::string("a = \"\xff\xfe\"\n"), "host.toml"));
  EXPECT_FALSE(parse_config(std::string((1 << 20) + 1, '\n'), "host.toml"));
}

TEST(ConfigReader, Files) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "goblin-config-XXXXXX").string();
  std::string pattern = path;
  const int fd = ::mkstemp(pattern.data());
  ASSERT_GE(fd, 0);
  std::ofstream(pattern) << "port = 7\n";
  auto config = ConfigReader::open(pattern, {});
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->u64("port", 0), 7u);
  EXPECT_EQ(config->effective().at("port").origin, pattern + ":1");
  std::filesystem::remove(pattern);
  const auto missing = ConfigReader::open(pattern, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_NE(missing.error().message.find(pattern), std::string::npos);
  EXPECT_TRUE(ConfigReader::open("", {}));
  const auto directory = ConfigReader::open("/", {});
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, Code::kUnavailable);
  ::close(fd);
}

TEST(Nearest, OnlyWhatComesNear) {
  const std::set<std::string> words = {"memory", "cache.bytes", "listen.port"};
  EXPECT_EQ(nearest("memroy", words), "memory");
  EXPECT_EQ(nearest("memorry", words), "memory");
  EXPECT_EQ(nearest("bytes", words), "cache.bytes");
  EXPECT_EQ(nearest("network", words), std::nullopt);
  EXPECT_EQ(nearest("", words), std::nullopt);
}

}  // namespace
}  // namespace goblin::hosts
