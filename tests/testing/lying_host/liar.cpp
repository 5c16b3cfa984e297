// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/testing/lying_host/liar.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>

namespace goblin::testing {
namespace {

constexpr std::array<const char*, 9> kModes = {"ulp",   "tile", "stale", "nan", "shape",
                                               "zeros", "slow", "swap",  "bias"};

// A test that fails before it opens the gate must not leave a host that cannot be ended.
constexpr std::chrono::seconds kLongestAtGate{25};

template <typename T>
void set_element(std::span<std::byte> bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
T element(std::span<const std::byte> bytes, std::size_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

class Liar final : public volunteer::ResultFilter {
 public:
  explicit Liar(const LiarOptions& options) : options_(options), random_(options.seed) {}

  net::Milliseconds apply(const wire::Lease& lease, std::vector<wire::TensorSpec>& specs,
                          std::vector<std::span<std::byte>> outputs) override {
    const bool awake = seen_++ >= options_.after;
    lies_ = std::uniform_real_distribution<double>(0, 1)(random_) < options_.rate && awake;
    const wire::Bytes honest(outputs.empty() ? wire::Bytes{}
                                             : wire::Bytes(outputs[0].begin(), outputs[0].end()));
    if (lies_ && !outputs.empty() && !outputs[0].empty()) {
      lie(lease, specs, outputs[0]);
    }
    last_ = honest;
    if (!lies_ || options_.mode != "slow") {
      return net::Milliseconds(0);
    }
    wait_at_gate();
    return options_.delay;
  }

  void after_commit(const wire::Lease&, std::vector<std::span<std::byte>> outputs) override {
    if (lies_ && options_.mode == "swap" && !outputs.empty() && !outputs[0].empty()) {
      outputs[0][0] ^= std::byte{1};
    }
  }

 private:
  void wait_at_gate() const {
    const auto end = std::chrono::steady_clock::now() + kLongestAtGate;
    while (!options_.gate.empty() && std::filesystem::exists(options_.gate) &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(net::Milliseconds(2));
    }
  }

  void lie(const wire::Lease&, std::vector<wire::TensorSpec>& specs, std::span<std::byte> bytes) {
    const std::uint64_t item = wire::dtype_size(specs[0].dtype);
    const std::size_t count = bytes.size() / item;
    const std::size_t at = std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
    if (options_.mode == "ulp") {
      bytes[at * item] ^= std::byte{1};  // little endian: the last place of the element
    } else if (options_.mode == "tile") {
      noise(specs[0].dtype, bytes, count);
    } else if (options_.mode == "stale") {
      std::copy_n(last_.begin(), std::min(last_.size(), bytes.size()), bytes.begin());
    } else if (options_.mode == "nan") {
      if (specs[0].dtype == GOBLIN_F64) {
        set_element(bytes, at, std::numeric_limits<double>::quiet_NaN());
      } else if (specs[0].dtype == GOBLIN_F32) {
        set_element(bytes, at, std::numeric_limits<float>::quiet_NaN());
      }
    } else if (options_.mode == "shape") {
      specs[0].shape.push_back(1);
    } else if (options_.mode == "zeros") {
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    } else if (options_.mode == "bias") {
      for (std::size_t i = 0; i < count && specs[0].dtype == GOBLIN_F32; ++i) {
        set_element(bytes, i, element<float>(bytes, i) * 1.00001F);
      }
    }
  }

  void noise(wire::DType dtype, std::span<std::byte> bytes, std::size_t count) {
    if (dtype == GOBLIN_F32) {
      for (std::size_t i = 0; i < count; ++i) {
        set_element(bytes, i, std::uniform_real_distribution<float>(-1, 1)(random_));
      }
    } else {
      for (auto& byte : bytes) {
        byte = static_cast<std::byte>(random_());
      }
    }
  }

  LiarOptions options_;
  std::mt19937_64 random_;
  wire::Bytes last_;
  std::uint64_t seen_ = 0;
  bool lies_ = false;
};

}  // namespace

Result<std::shared_ptr<volunteer::ResultFilter>> make_liar(const LiarOptions& options) {
  const bool known = std::any_of(kModes.begin(), kModes.end(),
                                 [&](const char* mode) { return options.mode == mode; });
  if (!known) {
    std::string list;
    for (const char* mode : kModes) {
      list += std::string(list.empty() ? "" : ", ") + mode;
    }
    return fail(Code::kInvalidArgument, "mode '" + options.mode + "' is none of: " + list);
  }
  if (!(options.rate >= 0 && options.rate <= 1)) {
    return fail(Code::kInvalidArgument, "rate must lie between 0 and 1");
  }
  return std::make_shared<Liar>(options);
}

}  // namespace goblin::testing
