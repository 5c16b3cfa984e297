// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Random messages and their comparison, field by field. The fields are found by reflection, so a
// field that a codec forgets fails the round trip without anybody listing it here.
#pragma once

#include <gtest/gtest.h>

#include <boost/pfr.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/wire/bounds.hpp"
#include "core/wire/client.hpp"
#include "core/wire/trust.hpp"

namespace goblin::wire::testing {

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsVariant = false;
template <typename... T>
inline constexpr bool kIsVariant<std::variant<T...>> = true;
template <typename T>
inline constexpr bool kIsPair = false;
template <typename A, typename B>
inline constexpr bool kIsPair<std::pair<A, B>> = true;
template <typename T>
inline constexpr bool kIsArray = false;
template <typename T, std::size_t N>
inline constexpr bool kIsArray<std::array<T, N>> = true;

/// Field by field; NaNs by their bits.
template <typename T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, double>) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  } else if constexpr (kIsVector<T>) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!same(a[i], b[i])) return false;
    return true;
  } else if constexpr (kIsOptional<T>) {
    return a.has_value() == b.has_value() && (!a || same(*a, *b));
  } else if constexpr (kIsVariant<T>) {
    return a.index() == b.index() &&
           std::visit(
               [&b](const auto& x) { return same(x, std::get<std::decay_t<decltype(x)>>(b)); }, a);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || kIsArray<T> || kIsPair<T> ||
                       std::is_same_v<T, std::string>) {
    return a == b;
  } else {
    bool equal = true;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((equal = equal && same(boost::pfr::get<I>(a), boost::pfr::get<I>(b))), ...);
    }
    (std::make_index_sequence<boost::pfr::tuple_size_v<T>>{});
    return equal;
  }
}

/// Fills messages with values that decode must take, extremes often among them.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t end) { return random_() % end; }

  template <typename T>
  T make() {
    T value{};
    fill(value);
    return value;
  }

 private:
  template <typename T>
  void fill(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = below(2) == 1;
    } else if constexpr (std::is_same_v<T, std::byte>) {
      value = static_cast<std::byte>(random_());
    } else if constexpr (std::is_same_v<T, std::int32_t>) {
      value = static_cast<std::int32_t>(below(GOBLIN_INTERNAL + 1));  // every int32 is a status
    } else if constexpr (std::is_integral_v<T>) {
      switch (below(4)) {
        case 0:
          value = std::numeric_limits<T>::max();
          break;
        case 1:
          value = std::numeric_limits<T>::min();
          break;
        default:
          value = static_cast<T>(random_());
      }
    } else if constexpr (std::is_same_v<T, double>) {
      const double some[] = {0, 1, 1e300, 5e-324, std::numeric_limits<double>::max(), 12345.678};
      value = some[below(6)];
    } else if constexpr (std::is_same_v<T, Role>) {
      value = static_cast<Role>(1 + below(4));
    } else if constexpr (std::is_same_v<T, Refusal>) {
      value = static_cast<Refusal>(below(7));
    } else if constexpr (std::is_same_v<T, HostState> || std::is_same_v<T, Storage>) {
      value = static_cast<T>(1 + below(3));
    } else if constexpr (std::is_same_v<T, ServedFile>) {
      value = static_cast<ServedFile>(1 + below(2));
    } else if constexpr (std::is_same_v<T, JobState>) {
      value = static_cast<JobState>(1 + below(6));
    } else if constexpr (std::is_same_v<T, Bound>) {
      value = static_cast<Bound>(below(3));
    } else if constexpr (std::is_same_v<T, Policy>) {
      value = static_cast<Policy>(below(4));
    } else if constexpr (std::is_same_v<T, Code>) {
      value = static_cast<Code>(1 + below(8));
    } else if constexpr (std::is_same_v<T, std::string>) {
      value.resize(below(3) == 0 ? 0 : below(41));
      for (char& c : value) c = static_cast<char>(1 + below(255));
    } else if constexpr (kIsPair<T>) {
      fill(value.first);
      fill(value.second);
    } else if constexpr (kIsArray<T>) {
      for (auto& item : value) fill(item);
    } else if constexpr (kIsVector<T>) {
      constexpr bool kNumbers = std::is_arithmetic_v<typename T::value_type>;
      value.resize(kNumbers && below(8) == 0 ? below(200) : below(5));
      for (auto& item : value) fill(item);
    } else if constexpr (kIsOptional<T>) {
      if (below(2) == 0) return value.reset();
      fill(value.emplace());
    } else if constexpr (kIsVariant<T>) {
      const std::uint64_t index = below(std::variant_size_v<T>);
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((I == index ? fill(value.template emplace<I>()) : void()), ...);
      }
      (std::make_index_sequence<std::variant_size_v<T>>{});
    } else if constexpr (std::is_same_v<T, Digest>) {
      for (auto& byte : value.bytes) byte = static_cast<std::uint8_t>(random_());
    } else if constexpr (std::is_empty_v<T>) {
    } else {
      boost::pfr::for_each_field(value, [this](auto& field) { this->fill(field); });
      mend(value);
    }
  }

  /// Brings fields with a closed meaning into their range.
  template <typename T>
  void mend(T&) {}
  void mend(Value& value) {
    const double some[] = {-0.0, std::numeric_limits<double>::quiet_NaN(),
                           -std::numeric_limits<double>::infinity(), -1.5};
    value =
        below(2) == 0 ? Value::of(static_cast<std::int64_t>(random_())) : Value::of(some[below(4)]);
  }
  void mend(HostCapacity& capacity) {
    capacity.threads %= kMaxHostThreads + 1;
    capacity.slots %= kMaxHostSlots + 1;
    capacity.memory_bytes %= kMaxHostBytes + 1;
    capacity.cache_bytes %= kMaxHostBytes + 1;
  }
  void mend(LinkProbe& probe) {
    probe.index %= kMaxLinkFrames;
    probe.count %= kMaxLinkFrames + 1;
    probe.answers %= kMaxLinkFrames + 1;
  }
  void mend(LinkEcho& echo) {
    echo.index %= kMaxLinkFrames;
    echo.count %= kMaxLinkFrames + 1;
  }
  void mend(TensorSpec& spec) { shape(spec.dtype, spec.shape, 1); }
  void mend(TensorRef& ref) {
    ref.inline_offset = kNotInline;
    const std::uint64_t size = *ref.spec.size_bytes();
    if (size <= kInlineBytes && below(2) == 0) {
      ref.inline_offset = static_cast<std::uint32_t>(below(kMaxPayloadBytes - size + 1));
      ref.digest = {};
    }
  }
  void mend(TensorAt& at) {
    shape(at.dtype, at.shape, 0);
    strides(at.strides, below(2) == 0 ? 0 : at.shape.size());
  }
  void mend(View& view) {
    view.source = static_cast<std::uint32_t>(1 + below(2));
    shape(view.dtype, view.shape, 1);
    strides(view.strides, view.shape.size());
  }
  void mend(JobInput& input) {
    shape(input.dtype, input.shape, 1);
    strides(input.strides, below(2) == 0 ? 0 : input.shape.size());
  }
  void mend(TaskResult& result) {
    if (result.status != GOBLIN_OK) result.outputs.clear();
  }
  void mend(InputDescription& input) {
    input.min_rank = static_cast<std::uint32_t>(below(GOBLIN_MAX_RANK + 1));
    input.max_rank = static_cast<std::uint32_t>(below(GOBLIN_MAX_RANK + 1));
  }
  void mend(KindDescription& kind) { kind.default_policy = static_cast<std::uint32_t>(below(4)); }
  void mend(Planned& planned) { planned.progress = static_cast<std::uint32_t>(below(4)); }
  void mend(AcceptedTask& task) { task.disposition = static_cast<std::uint32_t>(below(3)); }
  void mend(CheckedTask& task) { task.verdict = static_cast<std::uint32_t>(below(4)); }

  void shape(DType& dtype, std::vector<std::int64_t>& extents, DType least) {
    dtype = static_cast<DType>(least + below(GOBLIN_C128 + 1 - least));
    extents.resize(below(6) == 0 ? GOBLIN_MAX_RANK : below(4));
    for (auto& extent : extents) extent = static_cast<std::int64_t>(below(12));
    if (extents.size() == 1 && below(4) == 0) extents[0] = std::int64_t{1} << 58;  // 2^62 of c128
  }
  void strides(std::vector<std::int64_t>& bytes, std::size_t rank) {
    bytes.resize(rank);
    for (auto& stride : bytes) stride = static_cast<std::int64_t>(random_());
  }

  std::mt19937_64 random_;
};

/// The seed of a test: from GOBLIN_TEST_SEED, else a fixed one; printed with a failure.
inline std::uint64_t test_seed() {
  const char* text = std::getenv("GOBLIN_TEST_SEED");
  return text == nullptr ? 20250607 : std::strtoull(text, nullptr, 10);
}

/// `rounds` random messages survive encode and decode, field for field, and take the same bytes
/// when encoded again.
template <typename T, typename Decode>
void expect_round_trips(Decode decode, int rounds = 400) {
  const std::uint64_t seed = test_seed();
  Generator generate(seed);
  for (int round = 0; round < rounds; ++round) {
    const T message = generate.template make<T>();
    const Bytes bytes = encode(message);
    ASSERT_EQ(bytes.size() % 8, 0u);
    const Result<T> back = decode(bytes);
    ASSERT_TRUE(back) << back.error().message << " (seed " << seed << ", round " << round << ")";
    ASSERT_TRUE(same(message, *back)) << "seed " << seed << ", round " << round;
    ASSERT_EQ(encode(*back), bytes) << "seed " << seed << ", round " << round;
  }
}

}  // namespace goblin::wire::testing

/// A test of each message's round trip.
#define GOBLIN_ROUND_TRIP(Type, name)                                                         \
  TEST(RoundTrip, Type) {                                                                     \
    ::goblin::wire::testing::expect_round_trips<::goblin::wire::Type>(                        \
        [](::goblin::wire::ByteView bytes) { return ::goblin::wire::decode_##name(bytes); }); \
  }
