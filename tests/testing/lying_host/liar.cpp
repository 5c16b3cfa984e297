// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/testing/lying_host/liar.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "core/net/blob_hash.hpp"
#include "tests/testing/lies/lies.hpp"

namespace goblin::testing {
namespace {

// A test that fails before it opens the gate must not leave a host that cannot be ended.
constexpr std::chrono::seconds kLongestAtGate{25};
// A lie drawn anew may hit an element that it does not change: the NaN that is to become NaN.
constexpr int kTries = 64;

using Computed = volunteer::ResultFilter::Computed;

wire::Digest digest_of(const std::vector<wire::Bytes>& inputs, const wire::Lease& lease) {
  net::BlobHash hash;
  for (const wire::Bytes& input : inputs) hash.update(input);
  for (const wire::Value& param : lease.params) hash.update(std::as_bytes(std::span(&param.i, 1)));
  return hash.finish();
}

class Liar final : public volunteer::ResultFilter {
 public:
  explicit Liar(const LiarOptions& options)
      : options_(options), lie_(find_lie(options.mode)), random_(options.seed) {}

  net::Milliseconds apply(Computed result) override {
    const bool awake = seen_++ >= options_.after &&
                       (options_.until.empty() || std::filesystem::exists(options_.until));
    lies_ = std::uniform_real_distribution<double>(0, 1)(random_) < options_.rate && awake;
    delay_ = net::Milliseconds(0);
    wire::Bytes honest;
    if (!result.outputs.empty() && !result.outputs[0].empty()) {
      honest.assign(result.outputs[0].begin(), result.outputs[0].end());
      if (lies_) lie(result);
    }
    last_ = honest;
    by_job_[result.lease.job] = std::move(honest);
    known_.insert(digest_of(result.inputs, result.lease));
    return delay_;
  }

  void after_commit(const wire::Lease&, std::vector<std::span<std::byte>> outputs) override {
    if (lies_ && options_.mode == "swap" && !outputs.empty() && !outputs[0].empty()) {
      outputs[0][0] ^= std::byte{1};
    }
  }

  /// Modes that are not about one product.
  using Tell = void (Liar::*)(Computed& result);
  static const std::map<std::string, Tell>& modes() {
    static const std::map<std::string, Tell> all = {
        {"boast", &Liar::boast},    {"collude", &Liar::collude}, {"dtype", &Liar::dtype},
        {"new", &Liar::only_new},   {"refuse", &Liar::refuse},   {"replay", &Liar::replay},
        {"seen", &Liar::only_seen}, {"shape", &Liar::shape},     {"slow", &Liar::slow},
        {"stale", &Liar::stale},    {"swap", &Liar::swap},       {"tile", &Liar::tile}};
    return all;
  }

 private:
  void lie(Computed& result) {
    const auto mode = modes().find(options_.mode);
    mode != modes().end() ? (this->*mode->second)(result) : tell(result);
  }

  /// A lie about a product, which a task of kind matmul/1 may hold several of.
  void tell(Computed& result) {
    Task task;
    for (const wire::Value& param : result.lease.params) {
      task.params.push_back(param.type == GOBLIN_VALUE_F64 ? Value(param.f) : Value(param.i));
    }
    for (std::size_t i = 0; i < result.inputs.size(); ++i) {
      const auto& spec = result.lease.inputs[i].spec;
      task.inputs.emplace_back(TensorSpec{spec.dtype, spec.shape},
                               const_cast<std::byte*>(result.inputs[i].data()));
    }
    for (std::size_t i = 0; i < result.outputs.size(); ++i) {
      const auto& spec = result.lease.outputs[i];
      task.outputs.emplace_back(TensorSpec{spec.dtype, spec.shape}, result.outputs[i].data());
    }
    const auto view = matmul::TaskView::read(task);
    if (!view || view->products() == 0) return flip(result);
    const wire::Bytes honest(result.outputs[0].begin(), result.outputs[0].end());
    for (int i = 0;
         i < kTries && std::equal(honest.begin(), honest.end(), result.outputs[0].begin()); ++i) {
      const matmul::Product product = view->product(
          static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(view->products())));
      Scene scene{product, random_, {}};
      lie_->tell(scene);
    }
  }

  void flip(Computed& result) { result.outputs[0][0] ^= std::byte{1}; }
  void noise(Computed& result, std::mt19937_64& random) {
    for (auto& byte : result.outputs[0]) byte = static_cast<std::byte>(random());
    if (result.specs[0].dtype != GOBLIN_F32) return;
    for (std::size_t at = 0; at + sizeof(float) <= result.outputs[0].size(); at += sizeof(float)) {
      const auto value = std::uniform_real_distribution<float>(-1, 1)(random);
      std::memcpy(result.outputs[0].data() + at, &value, sizeof value);
    }
  }
  void tile(Computed& result) { return noise(result, random_); }
  void collude(Computed& result) {
    std::uint64_t first = 0;
    std::memcpy(&first, digest_of(result.inputs, result.lease).bytes.data(), sizeof first);
    std::mt19937_64 agreed(first ^ options_.seed);
    return noise(result, agreed);
  }
  void say(Computed& result, const wire::Bytes& other) {
    std::copy_n(other.begin(), std::min(other.size(), result.outputs[0].size()),
                result.outputs[0].begin());
  }
  void stale(Computed& result) { say(result, last_); }
  void replay(Computed& result) {
    for (const auto& [job, bytes] : by_job_) {
      if (job != result.lease.job) say(result, bytes);
    }
  }
  void only_new(Computed& result) {
    const bool seen = known_.contains(digest_of(result.inputs, result.lease));
    if (!seen) flip(result);
  }
  void only_seen(Computed& result) {
    const bool seen = known_.contains(digest_of(result.inputs, result.lease));
    if (seen) flip(result);
  }
  void shape(Computed& result) { result.specs[0].shape.push_back(1); }
  void dtype(Computed& result) {
    result.specs[0].dtype = result.specs[0].dtype == GOBLIN_I32 ? GOBLIN_U32 : GOBLIN_I32;
  }
  void swap(Computed&) {}  // after_commit() does it
  void refuse(Computed& result) { result.said.status = GOBLIN_UNSUPPORTED; }
  void boast(Computed& result) {
    result.said.compute_us = 0;
    result.said.peak_bytes = 0;
  }
  void slow(Computed&) {
    const auto end = std::chrono::steady_clock::now() + kLongestAtGate;
    while (!options_.gate.empty() && std::filesystem::exists(options_.gate) &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(net::Milliseconds(2));
    }
    delay_ = options_.delay;
  }

  LiarOptions options_;
  const Lie* lie_;  ///< or null: one of modes()
  std::mt19937_64 random_;
  wire::Bytes last_;
  std::map<std::uint64_t, wire::Bytes> by_job_;  ///< the last honest result of each
  std::set<wire::Digest> known_;                 ///< inputs of tasks
  std::uint64_t seen_ = 0;
  net::Milliseconds delay_{0};
  bool lies_ = false;
};

}  // namespace

Result<std::shared_ptr<volunteer::ResultFilter>> make_liar(const LiarOptions& options) {
  if (find_lie(options.mode) == nullptr && !Liar::modes().contains(options.mode)) {
    std::string list;
    for (const auto& [name, tell] : Liar::modes()) {
      list += (list.empty() ? "" : ", ") + name;
    }
    for (const Lie& lie : lies()) list += ", " + std::string(lie.name);
    return fail(Code::kInvalidArgument, "mode '" + options.mode + "' is none of: " + list);
  }
  if (!(options.rate >= 0 && options.rate <= 1)) {
    return fail(Code::kInvalidArgument, "rate must lie between 0 and 1");
  }
  return std::make_shared<Liar>(options);
}

}  // namespace goblin::testing
