// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "gemm_contenders.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

#include "goblin/abi/backend.h"

namespace goblin::bench {
namespace {

// cblas.h: row-major, no transposition.
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;

template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

void* load(const char* name) {
  // DEEPBIND: OpenBLAS and BLIS export the same names.
  return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

goblin_dtype_v1 dtype_of(Real real) { return real == Real::kF32 ? GOBLIN_F32 : GOBLIN_F64; }

class Goblin final : public Contender {
 public:
  Goblin(const goblin_backend_v1* backend, std::uint32_t device, std::string details)
      : backend_(opened(backend)),
        matmul_(backend_->find_operator(backend_.get(), "matmul", 1)),
        details_(std::move(details)) {
    if (matmul_ == nullptr) throw std::runtime_error("the backend has no matmul/1");
    exec_.struct_size = sizeof exec_;
    exec_.device = device;
  }
  [[nodiscard]] std::string name() const override { return "goblin"; }
  [[nodiscard]] std::string details() const override { return details_; }
  [[nodiscard]] bool offers(Real) const override { return true; }

  void prepare(Real real, std::int64_t n, int threads) override {
    exec_.threads = static_cast<std::uint32_t>(threads);
    std::uint64_t bytes = 0;
    with_operands(real, n, nullptr, nullptr, nullptr, [&](const goblin_operands_v1& operands) {
      require(matmul_->scratch_bytes(matmul_, &operands, &exec_, &bytes, nullptr));
    });
    scratch_.reset(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    exec_.scratch = scratch_.get();
    exec_.scratch_size = bytes;
  }

  void multiply(Real real, std::int64_t n, const void* a, const void* b, void* c) override {
    with_operands(real, n, a, b, c, [&](const goblin_operands_v1& operands) {
      require(matmul_->run(matmul_, &operands, &exec_, nullptr));
    });
  }

 private:
  static void require(goblin_status_v1 status) {
    if (status != GOBLIN_OK) throw std::runtime_error("matmul failed: " + std::to_string(status));
  }

  template <class Use>
  static void with_operands(Real real, std::int64_t n, const void* a, const void* b, void* c,
                            const Use& use) {
    const std::int64_t item = real == Real::kF32 ? 4 : 8;
    const auto tensor = [&](const void* data) {
      return goblin_tensor_v1{const_cast<void*>(data), dtype_of(real), 2, {n, n}, {n * item, item}};
    };
    const goblin_tensor_v1 inputs[2] = {tensor(a), tensor(b)};
    const goblin_tensor_v1 output = tensor(c);
    const goblin_operands_v1 operands{sizeof operands, inputs, 2, &output, 1, nullptr, 0};
    use(operands);
  }

  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  struct Close {
    void operator()(const goblin_backend_v1* opened) const { opened->close(opened); }
  };
  using Backend = std::unique_ptr<const goblin_backend_v1, Close>;
  /// As a runner opens it: threads stay from one product to the next.
  static Backend opened(const goblin_backend_v1* table) {
    const goblin_backend_v1* backend = nullptr;
    require(table->open(table, &backend, nullptr));
    return Backend(backend);
  }

  Backend backend_;
  const goblin_operator_v1* matmul_;
  std::string details_;
  goblin_exec_v1 exec_{};
  std::unique_ptr<void, Free> scratch_;
};

/// A library with the C interface of BLAS.
class Blas final : public Contender {
 public:
  using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int,
                     float, float*, int);
  using Dgemm = void(int, int, int, int, int, int, double, const double*, int, const double*, int,
                     double, double*, int);

  Blas(std::string name, void* library, std::string details, std::function<void(int)> set_threads)
      : name_(std::move(name)),
        details_(std::move(details)),
        set_threads_(std::move(set_threads)),
        sgemm_(find<Sgemm>(library, "cblas_sgemm")),
        dgemm_(find<Dgemm>(library, "cblas_dgemm")) {}
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::string details() const override { return details_; }
  [[nodiscard]] bool offers(Real real) const override {
    return real == Real::kF32 ? sgemm_ != nullptr : dgemm_ != nullptr;
  }
  void prepare(Real, std::int64_t, int threads) override { set_threads_(threads); }
  void multiply(Real real, std::int64_t n, const void* a, const void* b, void* c) override {
    const int size = static_cast<int>(n);
    if (real == Real::kF32) {
      sgemm_(kRowMajor, kNoTranspose, kNoTranspose, size, size, size, 1.0F,
             static_cast<const float*>(a), size, static_cast<const float*>(b), size, 0.0F,
             static_cast<float*>(c), size);
    } else {
      dgemm_(kRowMajor, kNoTranspose, kNoTranspose, size, size, size, 1.0,
             static_cast<const double*>(a), size, static_cast<const double*>(b), size, 0.0,
             static_cast<double*>(c), size);
    }
  }

 private:
  std::string name_;
  std::string details_;
  std::function<void(int)> set_threads_;
  Sgemm* sgemm_;
  Dgemm* dgemm_;
};

/// oneDNN offers sgemm only.
class OneDnn final : public Contender {
 public:
  using Sgemm = int(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                    std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);

  OneDnn(Sgemm* sgemm, std::function<void(int)> set_threads)
      : sgemm_(sgemm), set_threads_(std::move(set_threads)) {}
  [[nodiscard]] std::string name() const override { return "oneDNN"; }
  [[nodiscard]] std::string details() const override { return "libdnnl"; }
  [[nodiscard]] bool offers(Real real) const override { return real == Real::kF32; }
  void prepare(Real, std::int64_t, int threads) override { set_threads_(threads); }
  void multiply(Real, std::int64_t n, const void* a, const void* b, void* c) override {
    const int status = sgemm_('N', 'N', n, n, n, 1.0F, static_cast<const float*>(a), n,
                              static_cast<const float*>(b), n, 0.0F, static_cast<float*>(c), n);
    if (status != 0) throw std::runtime_error("dnnl_sgemm failed: " + std::to_string(status));
  }

 private:
  Sgemm* sgemm_;
  std::function<void(int)> set_threads_;
};

}  // namespace

std::unique_ptr<Contender> make_goblin(const std::string& library, const std::string& device) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) throw std::runtime_error(dlerror());
  auto* const entry = find<const goblin_backend_v1*()>(loaded, GOBLIN_BACKEND_ENTRY_V1);
  const goblin_backend_v1* const backend = entry != nullptr ? entry() : nullptr;
  if (backend == nullptr) throw std::runtime_error(library + " cannot run on this machine");
  for (std::uint64_t i = 0; i < backend->device_count(backend); ++i) {
    goblin_device_v1 text{};
    text.struct_size = sizeof text;
    backend->describe_device(backend, i, &text);
    if (device.empty() || device == text.name) {
      return std::make_unique<Goblin>(backend, static_cast<std::uint32_t>(i), text.description);
    }
  }
  throw std::runtime_error("no device called " + device);
}

std::vector<std::unique_ptr<Contender>> make_peers() {
  unsetenv("OPENBLAS_CORETYPE");
  unsetenv("OPENBLAS_L2_SIZE");
  std::vector<std::unique_ptr<Contender>> peers;
  if (void* const library = load("libopenblas.so.0")) {
    auto* const config = find<char*()>(library, "openblas_get_config");
    auto* const set = find<void(int)>(library, "openblas_set_num_threads");
    if (set != nullptr) {
      peers.push_back(std::make_unique<Blas>("OpenBLAS", library,
                                             config != nullptr ? config() : "libopenblas", set));
    }
  }
  if (void* const library = load("libblis.so.4")) {
    auto* const version = find<const char*()>(library, "bli_info_get_version_str");
    auto* const arch = find<int()>(library, "bli_arch_query_id");
    auto* const arch_name = find<const char*(int)>(library, "bli_arch_string");
    auto* const set = find<void(std::int64_t)>(library, "bli_thread_set_num_threads");
    if (set != nullptr) {
      std::string details = "BLIS ";
      if (version != nullptr) details += version();
      if (arch != nullptr && arch_name != nullptr) details += std::string(" ") + arch_name(arch());
      peers.push_back(std::make_unique<Blas>("BLIS", library, details, [set](int n) { set(n); }));
    }
  }
  if (void* const library = load("libdnnl.so.2")) {
    auto* const sgemm = find<OneDnn::Sgemm>(library, "dnnl_sgemm");
    auto* const set = find<void(int)>(library, "omp_set_num_threads");
    if (sgemm != nullptr && set != nullptr) peers.push_back(std::make_unique<OneDnn>(sgemm, set));
  }
  return peers;
}

}  // namespace goblin::bench
