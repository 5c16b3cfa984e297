// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/conformance/job.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace goblin::conformance {
namespace {

tl::unexpected<Error> bad_word(std::string_view word, const std::string& why) {
  return fail(Code::kInvalidArgument, "'" + std::string(word) + "' of the job: " + why);
}

/// The next word of a line; empty at its end.
std::string_view next_word(std::string_view& line) {
  const auto begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) {
    return {};
  }
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

template <typename Number>
bool parse_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

Result<wire::TensorSpec> parse_type(std::string_view word, std::string_view text) {
  const auto open = text.find('[');
  if (open == std::string_view::npos || text.back() != ']') {
    return bad_word(word, "write an input as dtype and shape, such as f32[3,4]");
  }
  wire::TensorSpec spec;
  for (wire::DType dtype = GOBLIN_BOOL; dtype <= GOBLIN_C128; ++dtype) {
    if (wire::dtype_name(dtype) == text.substr(0, open)) {
      spec.dtype = dtype;
    }
  }
  if (spec.dtype == 0) {
    return bad_word(word, "'" + std::string(text.substr(0, open)) + "' is no dtype");
  }
  std::string_view shape = text.substr(open + 1, text.size() - open - 2);
  while (!shape.empty()) {
    const auto comma = std::min(shape.find(','), shape.size());
    std::int64_t extent = 0;
    if (!parse_number(shape.substr(0, comma), extent) || extent < 0) {
      return bad_word(word, "'" + std::string(shape.substr(0, comma)) + "' is no extent");
    }
    spec.shape.push_back(extent);
    shape.remove_prefix(std::min(comma + 1, shape.size()));
  }
  if (auto size = spec.size_bytes(); !size) {
    return bad_word(word, size.error().message);
  }
  return spec;
}

Result<wire::Value> parse_value(std::string_view word, std::string_view text,
                                const wire::ParamDescription& param) {
  if (param.default_value.type == GOBLIN_VALUE_I64) {
    std::int64_t value = 0;
    if (parse_number(text, value)) {
      return wire::Value::of(value);
    }
    return bad_word(word, "an integer was expected");
  }
  double value = 0;
  if (parse_number(text, value)) {
    return wire::Value::of(value);
  }
  return bad_word(word, "a number was expected");
}

std::string value_text(const wire::Value& value) {
  return value.type == GOBLIN_VALUE_I64 ? std::to_string(value.i) : std::to_string(value.f);
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace

std::string_view kind_of_line(std::string_view line) { return next_word(line); }

Result<JobSpec> parse_job(std::string_view line, const wire::KindDescription& kind) {
  JobSpec job;
  job.inputs.resize(kind.inputs.size());
  std::vector<bool> given(kind.params.size(), false);
  for (const auto& param : kind.params) {
    job.params.push_back(param.default_value);
  }
  (void)next_word(line);
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) {
      return bad_word(word, "write NAME=VALUE");
    }
    const std::string_view name = word.substr(0, equals);
    const std::string_view text = word.substr(equals + 1);
    auto named = [&](const auto& described) { return described.name == name; };
    const auto input = std::find_if(kind.inputs.begin(), kind.inputs.end(), named);
    const auto param = std::find_if(kind.params.begin(), kind.params.end(), named);
    if (input != kind.inputs.end()) {
      GOBLIN_TRY(job.inputs[static_cast<std::size_t>(input - kind.inputs.begin())],
                 parse_type(word, text));
    } else if (param != kind.params.end()) {
      const auto at = static_cast<std::size_t>(param - kind.params.begin());
      GOBLIN_TRY(job.params[at], parse_value(word, text, *param));
      given[at] = true;
    } else {
      return bad_word(word, kind.name + " has no argument '" + std::string(name) + "'");
    }
  }
  for (std::size_t i = 0; i < kind.inputs.size(); ++i) {
    if (job.inputs[i].dtype == 0 && !kind.inputs[i].optional) {
      return bad_word(kind.inputs[i].name, "the input is missing");
    }
  }
  for (std::size_t i = 0; i < kind.params.size(); ++i) {
    if (kind.params[i].required && !given[i]) {
      return bad_word(kind.params[i].name, "the parameter is missing, and it has no default");
    }
  }
  return job;
}

std::string job_line(const JobSpec& job, const wire::KindDescription& kind) {
  std::string line = kind.name + "/" + std::to_string(kind.version);
  for (std::size_t i = 0; i < job.inputs.size(); ++i) {
    if (job.inputs[i].dtype == 0) {
      continue;
    }
    line += " " + kind.inputs[i].name + "=" + std::string(wire::dtype_name(job.inputs[i].dtype));
    line += "[";
    for (std::size_t axis = 0; axis < job.inputs[i].shape.size(); ++axis) {
      line += (axis == 0 ? "" : ",") + std::to_string(job.inputs[i].shape[axis]);
    }
    line += "]";
  }
  for (std::size_t i = 0; i < job.params.size(); ++i) {
    line += " " + kind.params[i].name + "=" + value_text(job.params[i]);
  }
  return line;
}

std::vector<JobSpec> guess_jobs(const wire::KindDescription& kind) {
  std::vector<JobSpec> jobs;
  for (const bool least : {true, false}) {
    std::vector<wire::Value> params;
    for (const auto& param : kind.params) {
      params.push_back(least || param.required ? param.min_value : param.default_value);
    }
    for (const std::int64_t extent : {6, 16, 1}) {
      for (wire::DType dtype = GOBLIN_C128; dtype >= GOBLIN_BOOL; --dtype) {
        JobSpec job;
        job.params = params;
        bool possible = true;
        for (const auto& input : kind.inputs) {
          wire::DType own = dtype;
          if ((input.dtypes & GOBLIN_DTYPE_BIT(own)) == 0) {
            own = GOBLIN_C128;
            while (own > 0 && (input.dtypes & GOBLIN_DTYPE_BIT(own)) == 0) {
              --own;
            }
          }
          possible = possible && own != 0;
          const std::uint32_t rank = std::min(std::max(input.min_rank, 2U), input.max_rank);
          job.inputs.push_back({own, std::vector<std::int64_t>(rank, extent)});
        }
        if (possible) {
          jobs.push_back(std::move(job));
        }
        if (kind.inputs.empty()) {
          break;  // dtypes and extents change nothing
        }
      }
      if (kind.inputs.empty()) {
        break;
      }
    }
  }
  return jobs;
}

std::vector<std::byte> make_elements(const wire::TensorSpec& spec, Random& random) {
  const auto size = spec.size_bytes();
  std::vector<std::byte> bytes(size ? *size : 0);
  const std::uint64_t item = wire::dtype_size(spec.dtype);
  auto small = [&] { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; };
  for (std::uint64_t at = 0; at + item <= bytes.size(); at += item) {
    std::byte* to = bytes.data() + at;
    const std::uint64_t bits = random();
    switch (spec.dtype) {
      case GOBLIN_BOOL:
        store<std::uint8_t>(to, bits & 1);
        break;
      case GOBLIN_F16:  // ±[0.125, 1)
        store(to, static_cast<std::uint16_t>((bits & 0x8000) | (0x3000 + (bits >> 16) % 0x0C00)));
        break;
      case GOBLIN_BF16:
        store(to, static_cast<std::uint16_t>((bits & 0x8000) | (0x3E00 + (bits >> 16) % 0x0180)));
        break;
      case GOBLIN_F32:
        store(to, static_cast<float>(small()));
        break;
      case GOBLIN_F64:
        store(to, small());
        break;
      case GOBLIN_C64:
        store(to, static_cast<float>(small()));
        store(to + 4, static_cast<float>(small()));
        break;
      case GOBLIN_C128:
        store(to, small());
        store(to + 8, small());
        break;
      default:
        std::memcpy(to, &bits, item);
    }
  }
  return bytes;
}

}  // namespace goblin::conformance
