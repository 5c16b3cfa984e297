// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a kind says of itself, and `validate` under hostile specifications.
#include <cmath>
#include <limits>

#include "goblin/tensor.hpp"
#include "hosts/conformance/test_context.hpp"

namespace goblin::conformance {
namespace {

const TestContext::Codes kRefusals{Code::kInvalidArgument, Code::kUnsupported, Code::kExhausted};

Result<void> describes_itself(TestContext& test) {
  const wire::KindDescription& kind = test.kind();
  auto needs_doc = [&](const std::string& what, const std::string& doc) {
    if (doc.empty()) {
      test.problem(what + " has no documentation");
    }
  };
  needs_doc("the kind", kind.doc);
  for (const auto& input : kind.inputs) {
    needs_doc("input '" + input.name + "'", input.doc);
    if ((input.dtypes >> (GOBLIN_C128 + 1)) != 0 || (input.dtypes & 1) != 0) {
      test.problem("input '" + input.name + "' allows dtypes that do not exist");
    }
  }
  for (const auto& param : kind.params) {
    needs_doc("parameter '" + param.name + "'", param.doc);
  }
  for (const auto& output : kind.outputs) {
    needs_doc("output '" + output.name + "'", output.doc);
  }
  if (kind.outputs.empty()) {
    test.problem("the kind has no outputs");
  }
  if (kind.default_policy == 0) {
    test.problem("the kind names no policy: how are its results checked?");
  }
  if (kind.default_policy == GOBLIN_POLICY_REPLICATE && kind.default_replicas < 2) {
    test.problem("its policy is to replicate, with " + std::to_string(kind.default_replicas) +
                 " copies; at least 2 can agree");
  }
  return {};
}

wire::Validate request_of(TestContext& test, const JobSpec& spec) {
  wire::Validate request;
  request.kind = test.shared().kind;
  request.params = spec.params;
  for (const wire::TensorSpec& input : spec.inputs) {
    wire::TensorAt at;
    at.dtype = input.dtype;
    at.shape = input.shape;
    request.inputs.push_back(std::move(at));
  }
  return request;
}

std::string line_of(const wire::Validate& request) {
  std::string line = "validate(";
  for (const auto& input : request.inputs) {
    line += (line.back() == '(' ? "" : ", ") + describe_type(input.dtype, input.shape);
    line += input.strides.empty() ? "" : " strided";
  }
  for (const auto& value : request.params) {
    line += (line.back() == '(' ? "" : ", ") +
            (value.type == GOBLIN_VALUE_I64 ? std::to_string(value.i) : std::to_string(value.f));
  }
  return line + ")";
}

Result<bool> validate(TestContext& test, Runner& runner, const wire::Validate& request,
                      bool named) {
  const std::string call = line_of(request);
  const auto answer = runner.validate(request);
  if (!answer) {
    return fail(broken(call, answer.error()));
  }
  return named ? test.clean_named(call, answer->status, answer->message, kRefusals)
               : test.clean(call, answer->status, answer->message, kRefusals);
}

Result<void> wrong_counts(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  const JobSpec base = test.base();
  for (std::size_t inputs = 0; inputs <= base.inputs.size() + 2; ++inputs) {
    for (std::size_t params = 0; params <= base.params.size() + 2; ++params) {
      JobSpec spec = base;
      spec.inputs.resize(inputs, {GOBLIN_F32, {2, 2}});
      spec.params.resize(params, wire::Value::of(std::int64_t{1}));
      if (inputs == base.inputs.size() && params == base.params.size()) {
        continue;
      }
      GOBLIN_TRY(const bool taken, validate(test, *runner, request_of(test, spec), false));
      if (taken) {
        test.problem("validate took " + std::to_string(inputs) + " inputs and " +
                     std::to_string(params) + " parameters");
      }
    }
  }
  return {};
}

Result<void> hostile_types(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  const JobSpec base = test.base();
  for (std::size_t i = 0; i < base.inputs.size(); ++i) {
    for (wire::DType dtype = 0; dtype <= GOBLIN_C128; ++dtype) {
      for (std::size_t rank = 0; rank <= GOBLIN_MAX_RANK; ++rank) {
        JobSpec spec = base;
        spec.inputs[i] = {dtype, std::vector<std::int64_t>(rank, rank % 2 == 0 ? 1 : 2)};
        GOBLIN_TRY_VOID(validate(test, *runner, request_of(test, spec), true).map([](bool) {}));
      }
    }
  }
  for (std::size_t i = 0; i < base.inputs.size(); ++i) {
    for (std::size_t axis = 0; axis < base.inputs[i].shape.size(); ++axis) {
      for (const std::int64_t extent : TestContext::hostile_extents()) {
        JobSpec spec = base;
        spec.inputs[i].shape[axis] = extent;
        if (spec.inputs[i].size_bytes()) {
          GOBLIN_TRY_VOID(validate(test, *runner, request_of(test, spec), true).map([](bool) {}));
        }
      }
    }
  }
  for (int turn = 0; turn < 400; ++turn) {
    JobSpec spec = base;
    for (wire::TensorSpec& input : spec.inputs) {
      if (test.below(3) == 0) {
        continue;
      }
      const wire::DType dtype = input.dtype;
      input = test.hostile_spec(UINT64_MAX);
      if (test.below(2) == 0 && input.dtype != 0) {
        // Of the right type, so that shapes are what is judged.
        const wire::TensorSpec same{dtype, input.shape};
        input = same.size_bytes() ? same : input;
      }
    }
    wire::Validate request = request_of(test, spec);
    for (wire::TensorAt& input : request.inputs) {
      const auto item = static_cast<std::int64_t>(wire::dtype_size(input.dtype));
      static const std::vector<std::int64_t> strides{
          0, 1, -1, 2, -3, 1 << 20, std::int64_t{1} << 40, INT64_MAX / 16};
      if (test.below(3) == 0 && item != 0) {
        for (std::size_t axis = 0; axis < input.shape.size(); ++axis) {
          input.strides.push_back(item * test.pick(strides));
        }
      }
    }
    GOBLIN_TRY_VOID(validate(test, *runner, request, true).map([](bool) {}));
  }
  return {};
}

Result<void> hostile_parameters(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  const JobSpec base = test.base();
  for (std::size_t i = 0; i < base.params.size(); ++i) {
    const wire::ParamDescription& param = test.kind().params[i];
    std::vector<wire::Value> wrong;
    std::vector<wire::Value> possible{param.min_value, param.max_value, param.default_value};
    if (param.default_value.type == GOBLIN_VALUE_I64) {
      const std::int64_t low = param.min_value.i;
      const std::int64_t high = param.max_value.i;
      for (const double real : {0.5, std::nan(""), std::numeric_limits<double>::infinity()}) {
        wrong.push_back(wire::Value::of(real));
      }
      for (int turn = 0; turn < 40; ++turn) {
        const std::int64_t value = test.hostile_integer();
        (value < low || value > high ? wrong : possible).push_back(wire::Value::of(value));
      }
      if (low > INT64_MIN) wrong.push_back(wire::Value::of(low - 1));
      if (high < INT64_MAX) wrong.push_back(wire::Value::of(high + 1));
    } else {
      const double low = param.min_value.f;
      const double high = param.max_value.f;
      wrong.push_back(wire::Value::of(std::nan("")));
      for (int turn = 0; turn < 40; ++turn) {
        const double value = test.hostile_real();
        (value >= low && value <= high ? possible : wrong).push_back(wire::Value::of(value));
      }
    }
    for (const bool right : {false, true}) {
      for (const wire::Value& value : right ? possible : wrong) {
        JobSpec spec = base;
        spec.params[i] = value;
        const wire::Validate request = request_of(test, spec);
        GOBLIN_TRY(const bool taken, validate(test, *runner, request, true));
        if (taken && !right) {
          test.problem(line_of(request) + " was taken, though '" + param.name +
                       "' is not what its description allows");
        }
      }
    }
  }
  return {};
}

}  // namespace

std::vector<Test> specification_tests() {
  return {
      {"description", "names, documentation and policy make sense", false, describes_itself},
      {"validate-counts", "wrong numbers of inputs and parameters are refused", false,
       wrong_counts},
      {"validate-types", "hostile dtypes, ranks, extents and strides are refused by name", false,
       hostile_types},
      {"validate-parameters", "hostile parameters are refused by name", false, hostile_parameters},
  };
}

}  // namespace goblin::conformance
