// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/describe.hpp"

#include <cmath>
#include <cstring>
#include <set>

namespace goblin::plugin {
namespace {

constexpr std::uint64_t kMaxEntries = 64;
constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxDoc = 4096;

std::string text(const char* source, std::size_t limit) {
  return source == nullptr ? std::string() : std::string(source, strnlen(source, limit));
}

wire::Value value(const goblin_value_v1& raw) {
  return raw.type == GOBLIN_VALUE_F64 ? wire::Value::of(raw.as.f) : wire::Value::of(raw.as.i);
}

bool is_value(const goblin_value_v1& raw, std::uint32_t type) { return raw.type == type; }

/// min ≤ v ≤ max; false for NaN.
bool in_range(const wire::Value& v, const wire::Value& min, const wire::Value& max) {
  return v.type == GOBLIN_VALUE_I64 ? v.i >= min.i && v.i <= max.i : v.f >= min.f && v.f <= max.f;
}

/// Names become Python keyword arguments.
bool is_argument_name(const std::string& name) {
  if (name.empty() || name.size() >= kMaxName) {
    return false;
  }
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) {
      return false;
    }
  }
  return name[0] < '0' || name[0] > '9';
}

}  // namespace

Result<wire::KindDescription> describe(const goblin_kind_v1& kind) {
  wire::KindDescription out;
  out.name = kind.name;
  out.version = kind.version;
  auto bad = [&](const std::string& what) {
    return fail(Code::kInvalidArgument, "the description of kind " + out.name + "/" +
                                            std::to_string(out.version) + " is wrong: " + what);
  };
  const goblin_description_v1* raw = kind.describe(kind.self);
  constexpr std::uint64_t kSize10 =
      offsetof(goblin_description_v1, default_replicas) + sizeof(std::uint32_t);
  if (raw == nullptr) {
    return bad("there is none (describe failed)");
  }
  if (raw->struct_size < kSize10) {
    return bad("struct_size is " + std::to_string(raw->struct_size));
  }
  if (raw->input_count > kMaxEntries || raw->param_count > kMaxEntries ||
      raw->output_count > kMaxEntries) {
    return bad("over " + std::to_string(kMaxEntries) + " inputs, parameters or outputs");
  }
  if (raw->output_count == 0) {
    return bad("it has no output");
  }
  if ((raw->input_count > 0 && raw->inputs == nullptr) ||
      (raw->param_count > 0 && raw->params == nullptr) || raw->outputs == nullptr) {
    return bad("a list is missing");
  }
  out.doc = text(raw->doc, kMaxDoc);
  out.default_policy = raw->default_policy;
  out.default_replicas = raw->default_replicas;
  if (out.default_policy < GOBLIN_POLICY_ALGEBRAIC ||
      out.default_policy > GOBLIN_POLICY_REPLICATE) {
    return bad("its default policy is " + std::to_string(out.default_policy));
  }
  std::set<std::string> names;
  auto take = [&](const std::string& name) {
    return is_argument_name(name) && names.insert(name).second;
  };
  for (std::uint64_t i = 0; i < raw->input_count; ++i) {
    const goblin_input_desc_v1& in = raw->inputs[i];
    out.inputs.push_back({text(in.name, kMaxName), text(in.doc, kMaxDoc), in.dtypes, in.min_rank,
                          in.max_rank, in.optional != 0});
    const std::string& name = out.inputs.back().name;
    if (!take(name)) {
      return bad("input " + std::to_string(i) + " has no name of its own ('" + name + "')");
    }
    if (wire::dtype_names(in.dtypes).empty() || in.min_rank > in.max_rank ||
        in.max_rank > GOBLIN_MAX_RANK) {
      return bad("input '" + name + "' allows no tensor at all");
    }
  }
  for (std::uint64_t i = 0; i < raw->param_count; ++i) {
    const goblin_param_desc_v1& p = raw->params[i];
    out.params.push_back({text(p.name, kMaxName), text(p.doc, kMaxDoc), value(p.default_value),
                          value(p.min_value), value(p.max_value), p.required != 0});
    const wire::ParamDescription& made = out.params.back();
    if (!take(made.name)) {
      return bad("parameter " + std::to_string(i) + " has no name of its own ('" + made.name +
                 "')");
    }
    const std::uint32_t type = p.default_value.type;
    if ((type != GOBLIN_VALUE_I64 && type != GOBLIN_VALUE_F64) || !is_value(p.min_value, type) ||
        !is_value(p.max_value, type)) {
      return bad("parameter '" + made.name + "' mixes types");
    }
    if (!in_range(made.default_value, made.min_value, made.max_value)) {
      return bad("the default of parameter '" + made.name + "' is " + made.default_value.text() +
                 ", outside " + made.min_value.text() + " to " + made.max_value.text());
    }
  }
  std::set<std::string> output_names;
  for (std::uint64_t i = 0; i < raw->output_count; ++i) {
    out.outputs.push_back(
        {text(raw->outputs[i].name, kMaxName), text(raw->outputs[i].doc, kMaxDoc)});
    if (!is_argument_name(out.outputs.back().name) ||
        !output_names.insert(out.outputs.back().name).second) {
      return bad("output " + std::to_string(i) + " has no name of its own");
    }
  }
  return out;
}

Result<void> check_specification(const wire::KindDescription& kind,
                                 std::span<const wire::TensorSpec> inputs,
                                 std::span<const wire::Value> params) {
  auto bad = [](const std::string& message) { return fail(Code::kInvalidArgument, message); };
  if (inputs.size() != kind.inputs.size() || params.size() != kind.params.size()) {
    return bad(kind.name + " takes " + std::to_string(kind.inputs.size()) + " inputs and " +
               std::to_string(kind.params.size()) + " parameters; " +
               std::to_string(inputs.size()) + " and " + std::to_string(params.size()) +
               " were given");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const wire::InputDescription& want = kind.inputs[i];
    const wire::TensorSpec& got = inputs[i];
    if (got.dtype == 0) {
      if (!want.optional) {
        return bad("argument '" + want.name + "' is missing: " + want.doc);
      }
      continue;
    }
    if (got.dtype > GOBLIN_C128 || (want.dtypes & GOBLIN_DTYPE_BIT(got.dtype)) == 0) {
      return bad("argument '" + want.name + "' has dtype " +
                 std::string(wire::dtype_name(got.dtype)) + "; expected one of " +
                 wire::dtype_names(want.dtypes));
    }
    if (got.shape.size() < want.min_rank || got.shape.size() > want.max_rank) {
      return bad("argument '" + want.name + "' has " + std::to_string(got.shape.size()) +
                 " dimensions; expected " + std::to_string(want.min_rank) +
                 (want.min_rank == want.max_rank ? "" : " to " + std::to_string(want.max_rank)));
    }
    if (auto size = got.size_bytes(); !size) {
      return fail(size.error().with_context("argument '" + want.name + "'"));
    }
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    const wire::ParamDescription& want = kind.params[i];
    if (params[i].type != want.default_value.type) {
      return bad("argument '" + want.name + "' must be " +
                 (want.default_value.type == GOBLIN_VALUE_I64 ? "an integer" : "a float"));
    }
    if (!in_range(params[i], want.min_value, want.max_value)) {
      return bad("argument '" + want.name + "' is " + params[i].text() + "; expected " +
                 want.min_value.text() + " to " + want.max_value.text());
    }
  }
  return {};
}

}  // namespace goblin::plugin
