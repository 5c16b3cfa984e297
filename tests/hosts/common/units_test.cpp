// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/common/units.hpp"

#include <gtest/gtest.h>

namespace goblin::hosts {
namespace {

using std::chrono::milliseconds;

TEST(Units, Bytes) {
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("4096").value(), 4096u);
  EXPECT_EQ(parse_bytes("7B").value(), 7u);
  EXPECT_EQ(parse_bytes("256MiB").value(), 256u << 20);
  EXPECT_EQ(parse_bytes("256 MiB").value(), 256u << 20);
  EXPECT_EQ(parse_bytes("1GB").value(), 1'000'000'000u);
  EXPECT_EQ(parse_bytes("1.5GiB").value(), 3u << 29);
  EXPECT_EQ(parse_bytes("0.1KB").value(), 100u);
  EXPECT_EQ(parse_bytes("2.999999999999999999999 KB").value(), 2999u);
  EXPECT_EQ(parse_bytes("0.3B").value(), 0u);
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), ~0ull);
  EXPECT_EQ(parse_bytes("16777215TiB").value(), 16'777'215ull << 40);
}

TEST(Units, WrongBytes) {
  for (const char* text : {"", "MiB", "256mib", "256M", "256 mb", "-1", "1..5GB", "1.GB", ".5GB",
                           "1 5", "1GBx", "0x10", "1e9", " 1", "1  GB", "18446744073709551616",
                           "16777216TiB", "99999999999999999999999GB"}) {
    const auto refused = parse_bytes(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_NE(refused.error().message.find("'" + std::string(text) + "'"), std::string::npos);
  }
  EXPECT_NE(parse_bytes("256M").error().message.find("for example 256MiB"), std::string::npos);
}

TEST(Units, Durations) {
  EXPECT_EQ(parse_duration("250ms").value(), milliseconds(250));
  EXPECT_EQ(parse_duration("5s").value(), milliseconds(5'000));
  EXPECT_EQ(parse_duration("1.5m").value(), milliseconds(90'000));
  EXPECT_EQ(parse_duration("2h").value(), milliseconds(7'200'000));
  EXPECT_EQ(parse_duration("7d").value(), milliseconds(604'800'000));
  EXPECT_EQ(parse_duration("0").value(), milliseconds(0));
  EXPECT_EQ(parse_duration("36525d").value().count(), 3'155'760'000'000);
  for (const char* text :
       {"", "5", "s", "5 sec", "-5s", "5S", "36526d", "1h30m", "9999999999999d"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(Units, Percents) {
  EXPECT_EQ(parse_percent("50%").value(), 0.5);
  EXPECT_EQ(parse_percent("0%").value(), 0);
  EXPECT_EQ(parse_percent("100%").value(), 1);
  EXPECT_DOUBLE_EQ(parse_percent("12.5%").value(), 0.125);
  for (const char* text : {"", "%", "50", "0.5", "101%", "-1%", "nan%", "inf%", "5 %", "1e1%"}) {
    EXPECT_FALSE(parse_percent(text)) << text;
  }
}

TEST(Units, BoolsAndNumbers) {
  EXPECT_TRUE(parse_bool("true").value());
  EXPECT_FALSE(parse_bool("false").value());
  EXPECT_FALSE(parse_bool("yes"));
  EXPECT_EQ(parse_u64("18446744073709551615").value(), ~0ull);
  for (const char* text : {"", "-1", "+1", "1.0", "18446744073709551616", "12 "}) {
    EXPECT_FALSE(parse_u64(text)) << text;
  }
}

TEST(Units, Formats) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(3u << 29), "1.5 GiB");
  EXPECT_EQ(format_bytes(~0ull), "16.0 EiB");
  EXPECT_EQ(format_duration(milliseconds(250)), "250 ms");
  EXPECT_EQ(format_duration(milliseconds(5'090)), "5.0 s");
  EXPECT_EQ(format_duration(milliseconds(90'000)), "1 m 30 s");
  EXPECT_EQ(format_duration(milliseconds(7'260'000)), "2 h 1 m");
  EXPECT_EQ(format_duration(milliseconds(273'600'000)), "3 d 4 h");
  EXPECT_EQ(format_duration(milliseconds(-250)), "-250 ms");
}

}  // namespace
}  // namespace goblin::hosts
