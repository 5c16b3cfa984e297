// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/job_spec.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "hosts/lab/view.hpp"

namespace goblin::lab {
namespace {

template <typename T>
std::string names_of(const std::vector<T>& items) {
  std::string text;
  for (const auto& item : items) {
    text += (text.empty() ? "" : ", ") + item.name;
  }
  return text.empty() ? "none" : text;
}

Result<wire::Value> resolve_param(const std::string& kind, const wire::ParamDescription& param,
                                  const wire::Value* given) {
  if (given == nullptr) {
    if (param.required) {
      return fail(Code::kInvalidArgument,
                  kind + ": argument '" + param.name + "' is missing (" + param.doc + ")");
    }
    return param.default_value;
  }
  wire::Value value = *given;
  if (param.default_value.type == GOBLIN_VALUE_F64 && value.type == GOBLIN_VALUE_I64) {
    value = wire::Value::of(static_cast<double>(value.i));
  }
  if (value.type != param.default_value.type) {
    return fail(Code::kInvalidArgument, kind + ": argument '" + param.name + "' is " +
                                            value.text() + ", but an integer is expected");
  }
  const bool in_range = value.type == GOBLIN_VALUE_F64
                            ? value.f >= param.min_value.f && value.f <= param.max_value.f
                            : value.i >= param.min_value.i && value.i <= param.max_value.i;
  if (!in_range) {
    return fail(Code::kInvalidArgument, kind + ": argument '" + param.name + "' is " +
                                            value.text() + ", but must lie between " +
                                            param.min_value.text() + " and " +
                                            param.max_value.text());
  }
  return value;
}

Result<wire::JobInput> resolve_input(const std::string& kind, const wire::InputDescription& input,
                                     const wire::JobInput* given) {
  if (given == nullptr) {
    if (!input.optional) {
      return fail(Code::kInvalidArgument,
                  kind + ": array '" + input.name + "' is missing (" + input.doc + ")");
    }
    return wire::JobInput{.name = input.name};
  }
  const std::string what = kind + ": array '" + input.name + "'";
  if (wire::dtype_size(given->dtype) == 0 || (input.dtypes & GOBLIN_DTYPE_BIT(given->dtype)) == 0) {
    return fail(Code::kInvalidArgument,
                what + " has dtype " + std::string(wire::dtype_name(given->dtype)) + "; it takes " +
                    wire::dtype_names(input.dtypes) + ": convert the array first");
  }
  const auto rank = given->shape.size();
  if (rank < input.min_rank || rank > input.max_rank) {
    return fail(Code::kInvalidArgument, what + " has shape " + shape_text(given->shape) + " with " +
                                            std::to_string(rank) + " dimensions; it takes " +
                                            std::to_string(input.min_rank) + " to " +
                                            std::to_string(input.max_rank));
  }
  wire::JobInput resolved = *given;
  if (const auto size = wire::tensor_bytes(resolved.dtype, resolved.shape); !size) {
    return fail(size.error().with_context(what));
  }
  if (resolved.strides.empty()) {
    resolved.strides = TensorFile::row_major(resolved.dtype, resolved.shape);
  }
  const auto extent = extent_of(resolved.dtype, resolved.shape, resolved.strides);
  if (!extent) {
    return fail(extent.error().with_context(what));
  }
  const auto item = static_cast<std::int64_t>(wire::dtype_size(resolved.dtype));
  for (const auto stride : resolved.strides) {
    if (stride % item != 0) {
      return fail(Code::kInvalidArgument, what + " has a stride of " + std::to_string(stride) +
                                              " bytes, which is no multiple of its item size " +
                                              std::to_string(item) + ": copy the array first");
    }
  }
  if (resolved.offset % static_cast<std::uint64_t>(item) != 0) {
    return fail(Code::kInvalidArgument, what + " begins at byte " +
                                            std::to_string(resolved.offset) +
                                            " of its file, which is no multiple of its item size " +
                                            std::to_string(item) + ": copy the array first");
  }
  return resolved;
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

Result<KindName> parse_kind_name(const std::string& text) {
  const auto slash = text.find('/');
  KindName kind{text.substr(0, slash), std::nullopt};
  const bool name_ok =
      !kind.name.empty() && kind.name.size() < 64 &&
      std::all_of(kind.name.begin(), kind.name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
      });
  if (slash != std::string::npos) {
    std::uint32_t version = 0;
    const char* first = text.data() + slash + 1;
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, version);
    if (error == std::errc() && end == last && first != last && version > 0) {
      kind.version = version;
    }
  }
  if (!name_ok || (slash != std::string::npos && !kind.version)) {
    return fail(Code::kInvalidArgument,
                "kind '" + text.substr(0, 80) + "' is not of the form \"matmul\" or \"matmul/1\"");
  }
  return kind;
}

Result<ResolvedSpec> resolve_spec(const wire::KindDescription& kind, const wire::Submit& submit) {
  const std::string name = kind.name + "/" + std::to_string(kind.version);
  for (std::size_t i = 0; i < submit.inputs.size(); ++i) {
    const auto& given = submit.inputs[i];
    const auto known = [&](const auto& d) { return d.name == given.name; };
    if (std::any_of(kind.params.begin(), kind.params.end(), known)) {
      return fail(Code::kInvalidArgument,
                  name + ": argument '" + given.name + "' is an array, but a number is expected");
    }
    if (std::none_of(kind.inputs.begin(), kind.inputs.end(), known)) {
      return fail(Code::kInvalidArgument, name + " has no array argument '" + given.name +
                                              "'; its arrays are: " + names_of(kind.inputs));
    }
    if (std::count_if(submit.inputs.begin(), submit.inputs.end(),
                      [&](const auto& other) { return other.name == given.name; }) > 1) {
      return fail(Code::kInvalidArgument, name + ": array '" + given.name + "' is given twice");
    }
  }
  for (const auto& given : submit.params) {
    const auto known = [&](const auto& d) { return d.name == given.name; };
    if (std::any_of(kind.inputs.begin(), kind.inputs.end(), known)) {
      return fail(Code::kInvalidArgument,
                  name + ": argument '" + given.name + "' is a number, but an array is expected");
    }
    if (std::none_of(kind.params.begin(), kind.params.end(), known)) {
      return fail(Code::kInvalidArgument, name + " has no argument '" + given.name +
                                              "'; its numbers are: " + names_of(kind.params) +
                                              ", its arrays: " + names_of(kind.inputs));
    }
    if (std::count_if(submit.params.begin(), submit.params.end(),
                      [&](const auto& other) { return other.name == given.name; }) > 1) {
      return fail(Code::kInvalidArgument, name + ": argument '" + given.name + "' is given twice");
    }
  }
  ResolvedSpec spec;
  for (const auto& input : kind.inputs) {
    const auto it = std::find_if(submit.inputs.begin(), submit.inputs.end(),
                                 [&](const auto& given) { return given.name == input.name; });
    GOBLIN_TRY(wire::JobInput resolved,
               resolve_input(name, input, it == submit.inputs.end() ? nullptr : &*it));
    spec.inputs.push_back(std::move(resolved));
  }
  for (const auto& param : kind.params) {
    const auto it = std::find_if(submit.params.begin(), submit.params.end(),
                                 [&](const auto& given) { return given.name == param.name; });
    GOBLIN_TRY(wire::Value value,
               resolve_param(name, param, it == submit.params.end() ? nullptr : &it->value));
    spec.params.push_back(value);
  }
  return spec;
}

}  // namespace goblin::lab
