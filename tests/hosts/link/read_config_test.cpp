// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/read_config.hpp"

#include <gmock/gmock.h>

namespace goblin::link {
namespace {

using ::testing::HasSubstr;

TEST(ParseEndpoint, NamesAddressesAndPorts) {
  const auto is = [](const std::string& text, const std::string& host, std::uint16_t port) {
    const auto place = parse_endpoint(text, 7420);
    ASSERT_TRUE(place.has_value()) << place.error().message;
    EXPECT_EQ(place->host, host) << text;
    EXPECT_EQ(place->port, port) << text;
  };
  is("science.example:7", "science.example", 7);
  is("science.example", "science.example", 7420);
  is("node_1-b", "node_1-b", 7420);
  is("192.0.2.1:65535", "192.0.2.1", 65535);
  is("[2001:db8::1]:1", "2001:db8::1", 1);
  is("[2001:db8::1]", "2001:db8::1", 7420);
  is("2001:db8::1", "2001:db8::1", 7420);
  is("fe80::1%eth0", "fe80::1%eth0", 7420);
}

TEST(ParseEndpoint, RefusesWhatIsNoPlace) {
  for (const char* text : {"",
                           ":7420",
                           "name:",
                           "name:0",
                           "name:65536",
                           "name:port",
                           "name:7420x",
                           "name:-1",
                           "https://science.example",
                           "science.example/lab",
                           "two words:1",
                           "a:1:2",
                           "[::1",
                           "[::1]x",
                           "[::1]:",
                           "[name]:1",
                           "[192.0.2.1]:1",
                           "[]:1",
                           ".",
                           "a..b:1",
                           "-a:1",
                           "user@name:1",
                           "n\xC3\xA4me:1"}) {
    const auto place = parse_endpoint(text, 7420);
    ASSERT_FALSE(place.has_value()) << text;
    EXPECT_EQ(place.error().code, Code::kInvalidArgument);
    EXPECT_THAT(place.error().message, HasSubstr("science.example:7420"));
  }
  EXPECT_FALSE(parse_endpoint(std::string(254, 'a'), 7420).has_value());
}

TEST(ReadCoordinator, ComplainsOfTheAddressByItsKey) {
  auto reader = hosts::ConfigReader::open(
      "", {{"coordinator.address", ":7420"}, {"coordinator.pin", std::string(64, 'a')}});
  ASSERT_TRUE(reader.has_value());
  static_cast<void>(read_coordinator(*reader));
  const auto finished = reader->finish();
  ASSERT_FALSE(finished.has_value());
  EXPECT_THAT(finished.error().message,
              HasSubstr("coordinator.address = ':7420' has no name before the port"));
}

}  // namespace
}  // namespace goblin::link
