// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "backend_library.hpp"
#include "matrices.hpp"

namespace goblin::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<Device> all_devices() {
  std::vector<Device> devices = devices_under_test();
  for (auto& device : devices_of(reference_backend())) devices.push_back(std::move(device));
  return devices;
}

/// A valid product of 3×4 by 4×5 that a test then spoils.
struct Call {
  Matrix a{GOBLIN_F32, 3, 4, Layout::kRows};
  Matrix b{GOBLIN_F32, 4, 5, Layout::kRows};
  Matrix c{GOBLIN_F32, 3, 5, Layout::kRows};
  goblin_tensor_v1 inputs[2] = {a.tensor(), b.tensor()};
  goblin_tensor_v1 output = c.tensor();
  goblin_operands_v1 operands = make_operands(inputs, output);
  goblin_exec_v1 exec = make_exec(0, 1);

  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

struct Refusal {
  const char* name;
  std::function<void(Call&)> spoil;
  goblin_status_v1 status;
  const char* argument;  // the message says where …
  const char* detail;    // … and what
};

const Refusal kRefusals[] = {
    {"operands_too_short", [](Call& x) { x.operands.struct_size = 8; }, GOBLIN_INVALID_ARGUMENT,
     "operands", "shorter"},
    {"one_input", [](Call& x) { x.operands.input_count = 1; }, GOBLIN_INVALID_ARGUMENT, "inputs",
     "1"},
    {"no_input_array", [](Call& x) { x.operands.inputs = nullptr; }, GOBLIN_INVALID_ARGUMENT,
     "inputs", "two"},
    {"two_outputs", [](Call& x) { x.operands.output_count = 2; }, GOBLIN_INVALID_ARGUMENT,
     "outputs", "2"},
    {"an_attribute", [](Call& x) { x.operands.attribute_count = 1; }, GOBLIN_INVALID_ARGUMENT,
     "attributes", "none"},
    {"vector", [](Call& x) { x.inputs[0].rank = 1; }, GOBLIN_INVALID_ARGUMENT, "a has rank", "1"},
    {"rank_beyond_the_abi", [](Call& x) { x.output.rank = 17; }, GOBLIN_INVALID_ARGUMENT,
     "c has rank", "17"},
    {"no_dtype", [](Call& x) { x.inputs[1].dtype = 99; }, GOBLIN_INVALID_ARGUMENT, "b has dtype",
     "99"},
    {"dtype_zero", [](Call& x) { x.inputs[0].dtype = 0; }, GOBLIN_INVALID_ARGUMENT, "a has dtype",
     "0"},
    {"dtypes_differ", [](Call& x) { x.inputs[1].dtype = GOBLIN_I32; }, GOBLIN_INVALID_ARGUMENT,
     "b has dtype i32", "f32"},
    {"output_dtype",
     [](Call& x) {
       x.output.dtype = GOBLIN_F64;
       x.output.strides[0] = 40;
       x.output.strides[1] = 8;
     },
     GOBLIN_UNSUPPORTED, "c has dtype f64", "f32"},
    {"inner_extents", [](Call& x) { x.inputs[1].shape[0] = 3; }, GOBLIN_INVALID_ARGUMENT,
     "b has 3 rows", "4 columns"},
    {"output_rows", [](Call& x) { x.output.shape[0] = 2; }, GOBLIN_INVALID_ARGUMENT,
     "c has shape (2, 5)", "(3, 5)"},
    {"output_columns", [](Call& x) { x.output.shape[1] = 6; }, GOBLIN_INVALID_ARGUMENT,
     "c has shape (3, 6)", "(3, 5)"},
    {"negative_extent", [](Call& x) { x.inputs[0].shape[0] = -3; }, GOBLIN_INVALID_ARGUMENT,
     "a has shape[0] = -3", "0 or more"},
    {"half_an_item", [](Call& x) { x.inputs[1].strides[1] = 6; }, GOBLIN_INVALID_ARGUMENT,
     "b has strides[1] = 6", "multiple"},
    {"reach", [](Call& x) { x.inputs[0].strides[0] = INT64_MAX / 4 * 4; }, GOBLIN_INVALID_ARGUMENT,
     "a reaches", "2^63"},
    {"elements",
     [](Call& x) {
       for (int d = 0; d < 2; ++d) {
         x.inputs[0].shape[d] = INT64_C(1) << 32;
         x.inputs[0].strides[d] = 0;
       }
     },
     GOBLIN_INVALID_ARGUMENT, "a has more", "2^63"},
    {"output_repeats_a_row", [](Call& x) { x.output.strides[0] = 0; }, GOBLIN_INVALID_ARGUMENT,
     "c has strides (0, 4)", "share memory"},
    {"output_rows_overlap", [](Call& x) { x.output.strides[0] = 16; }, GOBLIN_INVALID_ARGUMENT,
     "c has strides (16, 4)", "share memory"},
    {"output_is_a", [](Call& x) { x.output.data = x.inputs[0].data; }, GOBLIN_INVALID_ARGUMENT,
     "c overlaps a", "memory of its own"},
    {"output_meets_the_end_of_b",
     [](Call& x) { x.output.data = static_cast<char*>(x.inputs[1].data) + 76; },
     GOBLIN_INVALID_ARGUMENT, "c overlaps b", "memory of its own"},
    {"a_has_no_data", [](Call& x) { x.inputs[0].data = nullptr; }, GOBLIN_INVALID_ARGUMENT, "a has",
     "no data"},
    {"c_has_no_data", [](Call& x) { x.output.data = nullptr; }, GOBLIN_INVALID_ARGUMENT, "c has",
     "no data"},
    {"c_is_unaligned", [](Call& x) { x.output.data = static_cast<char*>(x.output.data) + 1; },
     GOBLIN_INVALID_ARGUMENT, "c begins", "align"},
    {"exec_too_short", [](Call& x) { x.exec.struct_size = 8; }, GOBLIN_INVALID_ARGUMENT, "exec",
     "shorter"},
    {"no_threads", [](Call& x) { x.exec.threads = 0; }, GOBLIN_INVALID_ARGUMENT, "exec",
     "0 threads"},
    {"no_such_device", [](Call& x) { x.exec.device = 50; }, GOBLIN_NOT_FOUND, "exec", "device 50"},
    {"unknown_numerics", [](Call& x) { x.exec.numerics = 7; }, GOBLIN_UNSUPPORTED, "exec",
     "numerics 7"},
    {"cancelled", [](Call& x) { x.exec.cancelled = [](void*) { return 1; }; }, GOBLIN_CANCELLED,
     "matmul", "cancelled"},
};

class BackendMatmulRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(BackendMatmulRefusal, NamesOperatorAndArgument) {
  for (const Device& device : all_devices()) {
    Call call;
    call.exec.device = device.index;
    const std::vector<unsigned char> before = call.c.bytes();
    GetParam().spoil(call);
    const Outcome outcome = run_matmul(device, call.operands, call.exec);
    EXPECT_EQ(outcome.status, GetParam().status) << device.name << ": " << outcome.message;
    EXPECT_THAT(outcome.message, AllOf(HasSubstr("matmul"), HasSubstr(GetParam().argument),
                                       HasSubstr(GetParam().detail)))
        << device.name;
    EXPECT_EQ(call.c.bytes(), before) << device.name << " wrote although it refused";
  }
}

INSTANTIATE_TEST_SUITE_P(All, BackendMatmulRefusal, testing::ValuesIn(kRefusals),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(BackendMatmulContract, UnspoiltCallIsAccepted) {
  for (const Device& device : all_devices()) {
    Call call;
    call.exec.device = device.index;
    EXPECT_EQ(run_matmul(device, call.operands, call.exec).status, GOBLIN_OK) << device.name;
  }
}

TEST(BackendMatmulContract, CheckReadsNoData) {
  for (const Device& device : all_devices()) {
    Call call;
    call.inputs[0].data = call.inputs[1].data = call.output.data = nullptr;
    const auto* const matmul = device.backend->find_operator(device.backend, "matmul", 1);
    ASSERT_NE(matmul, nullptr);
    call.exec.device = device.index;
    std::uint64_t bytes = 0;
    EXPECT_EQ(matmul->check(matmul, &call.operands, nullptr), GOBLIN_OK);
    EXPECT_EQ(matmul->scratch_bytes(matmul, &call.operands, &call.exec, &bytes, nullptr),
              GOBLIN_OK);
  }
}

TEST(BackendMatmulContract, EmptyTensorsNeedNoData) {
  for (const Device& device : all_devices()) {
    Call call;
    call.exec.device = device.index;
    call.inputs[0].shape[1] = call.inputs[1].shape[0] = 0;
    call.inputs[0].data = call.inputs[1].data = nullptr;
    for (auto& byte : call.c.bytes()) byte = 0xff;
    EXPECT_EQ(run_matmul(device, call.operands, call.exec).status, GOBLIN_OK) << device.name;
    EXPECT_THAT(call.c.bytes(), testing::Each(0)) << device.name << ": k = 0 must give +0";
  }
}

TEST(BackendMatmulContract, TooLittleOrUnalignedScratchIsRefused) {
  for (const Device& device : devices_under_test()) {
    Call call;
    call.exec.device = device.index;
    const auto* const matmul = device.backend->find_operator(device.backend, "matmul", 1);
    std::uint64_t bytes = 0;
    ASSERT_EQ(matmul->scratch_bytes(matmul, &call.operands, &call.exec, &bytes, nullptr),
              GOBLIN_OK);
    ASSERT_GT(bytes, 0U);
    const Scratch scratch(bytes + 64);
    for (const auto& [offset, size] : {std::pair<std::uint64_t, std::uint64_t>{0, bytes - 1},
                                       std::pair<std::uint64_t, std::uint64_t>{8, bytes}}) {
      call.exec.scratch = static_cast<char*>(scratch.data()) + offset;
      call.exec.scratch_size = size;
      char words[256] = "";
      goblin_text_v1 message{words, sizeof words};
      EXPECT_EQ(matmul->run(matmul, &call.operands, &call.exec, &message), GOBLIN_INVALID_ARGUMENT);
      EXPECT_THAT(std::string(words), HasSubstr("matmul: scratch has"));
    }
  }
}

TEST(BackendMatmulContract, ScratchIsBounded) {
  for (const Device& device : devices_under_test()) {
    for (goblin_dtype_v1 dtype = GOBLIN_BOOL; dtype <= GOBLIN_C128; ++dtype) {
      const std::int64_t item = item_bytes(dtype);
      goblin_tensor_v1 inputs[2] = {};
      goblin_tensor_v1 output = {};
      for (goblin_tensor_v1* t : {&inputs[0], &inputs[1], &output}) {
        *t = {nullptr, dtype, 2, {100'000, 100'000}, {100'000 * item, item}};
      }
      goblin_operands_v1 operands = make_operands(inputs, output);
      const auto* const matmul = device.backend->find_operator(device.backend, "matmul", 1);
      for (const std::uint32_t threads : {1U, 4U}) {
        const goblin_exec_v1 exec = make_exec(device.index, threads);
        std::uint64_t bytes = 0;
        ASSERT_EQ(matmul->scratch_bytes(matmul, &operands, &exec, &bytes, nullptr), GOBLIN_OK);
        EXPECT_LE(bytes, threads * (UINT64_C(8) << 20)) << device.name << " dtype " << dtype;
      }
    }
  }
}

TEST(BackendMatmulContract, CancelReachesEveryThreadOfARunningProduct) {
  for (const Device& device : all_devices()) {
    Matrix a(GOBLIN_F32, 600, 600, Layout::kRows);
    Matrix b(GOBLIN_F32, 600, 600, Layout::kRows);
    Matrix c(GOBLIN_F32, 600, 600, Layout::kRows);
    const goblin_tensor_v1 inputs[2] = {a.tensor(), b.tensor()};
    const goblin_tensor_v1 output = c.tensor();
    goblin_exec_v1 exec = make_exec(device.index, 2);
    std::atomic<int> asked{0};
    exec.context = &asked;
    exec.cancelled = [](void* context) {
      return static_cast<std::atomic<int>*>(context)->fetch_add(1) >= 3 ? 1 : 0;
    };
    const Outcome outcome = run_matmul(device, make_operands(inputs, output), exec);
    EXPECT_EQ(outcome.status, GOBLIN_CANCELLED) << device.name;
    EXPECT_LE(asked.load(), 8) << device.name << " went on after it was told to stop";
  }
}

TEST(BackendTable, FindsByNameAndVersionOnly) {
  std::vector<const goblin_backend_v1*> backends = backends_under_test();
  backends.push_back(reference_backend());
  for (const auto* backend : backends) {
    EXPECT_EQ(backend->abi_major, GOBLIN_ABI_MAJOR);
    EXPECT_NE(backend->find_operator(backend, "matmul", 1), nullptr);
    EXPECT_EQ(backend->find_operator(backend, "matmul", 2), nullptr);
    EXPECT_EQ(backend->find_operator(backend, "matmu", 1), nullptr);
    EXPECT_EQ(backend->find_operator(backend, nullptr, 1), nullptr);
    const std::uint64_t count = backend->operator_count(backend);
    ASSERT_GT(count, 0U);
    EXPECT_NE(backend->operator_at(backend, count - 1), nullptr);
    EXPECT_EQ(backend->operator_at(backend, count), nullptr);
    goblin_device_v1 device{};
    EXPECT_EQ(backend->describe_device(backend, 0, &device), GOBLIN_INVALID_ARGUMENT);
    device.struct_size = sizeof device;
    EXPECT_EQ(backend->describe_device(backend, 0, &device), GOBLIN_OK);
    EXPECT_NE(device.name[0], '\0');
    EXPECT_EQ(backend->describe_device(backend, backend->device_count(backend), &device),
              GOBLIN_NOT_FOUND);
  }
}

}  // namespace
}  // namespace goblin::test
