// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "convert.hpp"

#include <pybind11/stl.h>

#include <cstring>

#include "core/wire/bounds.hpp"
#include "core/wire/frame.hpp"

namespace py = pybind11;

namespace goblin::client {
namespace {

std::string dtype_text(wire::DType dtype) { return std::string(wire::dtype_name(dtype)); }

std::vector<std::string> dtype_names(std::uint64_t set) {
  std::vector<std::string> names;
  for (wire::DType dtype = 1; dtype < 64; ++dtype) {
    if ((set & GOBLIN_DTYPE_BIT(dtype)) != 0 && wire::dtype_size(dtype) != 0) {
      names.emplace_back(wire::dtype_name(dtype));
    }
  }
  return names;
}

/// A text of a peer or a plugin, which may be cut within a character.
py::str text(const std::string& bytes) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace");
  if (decoded == nullptr) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::str>(decoded);
}

py::list pairs(const std::vector<std::pair<std::string, std::string>>& fields) {
  py::list out;
  for (const auto& [name, value] : fields) {
    out.append(py::make_tuple(text(name), text(value)));
  }
  return out;
}

std::size_t request_cap() {
  return wire::frame_caps(static_cast<std::uint16_t>(wire::FrameType::kRequest),
                          wire::PeerState::kOpen)
      .message_bytes;
}

py::object number(const wire::Value& value) {
  return value.type == GOBLIN_VALUE_F64 ? py::object(py::float_(value.f))
                                        : py::object(py::int_(value.i));
}

py::dict convert(const wire::JobStatus& status);
py::dict convert(const wire::OutputInfo& info);
py::dict convert(const wire::HostReport& host);
py::dict convert(const wire::KindInfo& info);

template <typename T>
py::list list_of(const std::vector<T>& items) {
  py::list out;
  for (const T& item : items) {
    out.append(convert(item));
  }
  return out;
}

py::dict convert(const wire::OutputInfo& info) {
  py::dict out;
  out["name"] = text(info.name);
  out["dtype"] = dtype_text(info.spec.dtype);
  out["shape"] = py::tuple(py::cast(info.spec.shape));
  out["staged"] = info.staged;
  out["offset"] = info.offset;
  out["digest"] =
      py::bytes(reinterpret_cast<const char*>(info.digest.bytes.data()), info.digest.bytes.size());
  return out;
}

py::dict convert(const wire::HostReport& host) {
  constexpr const char* kStates[] = {"unknown", "ready", "paused", "stopping"};
  const auto state = static_cast<std::size_t>(host.state);
  py::dict out;
  out["host"] = host.host.hex();
  out["connected"] = host.connected;
  out["validator"] = host.validator;
  out["threads"] = host.capacity.threads;
  out["memory_bytes"] = host.capacity.memory_bytes;
  out["state"] = state < std::size(kStates) ? kStates[state] : "unknown";
  out["leases"] = host.leases;
  out["accepted"] = host.accepted;
  out["confirmed"] = host.confirmed;
  out["refused"] = host.refused;
  out["failed"] = host.failed;
  out["passed"] = host.passed;
  out["faults"] = host.faults;
  out["forgiven"] = host.forgiven;
  out["compute_us"] = host.compute_us;
  out["bytes_sent"] = host.bytes_sent;
  out["bytes_received"] = host.bytes_received;
  out["peak_bytes"] = host.peak_bytes;
  out["quarantined"] = host.quarantined;
  out["reason"] = text(host.reason);
  return out;
}

py::dict convert(const wire::KindInfo& info) {
  const auto& kind = info.description;
  py::list inputs;
  for (const auto& input : kind.inputs) {
    py::dict item;
    item["name"] = text(input.name);
    item["doc"] = text(input.doc);
    item["dtypes"] = dtype_names(input.dtypes);
    item["min_rank"] = input.min_rank;
    item["max_rank"] = input.max_rank;
    item["optional"] = input.optional;
    inputs.append(item);
  }
  py::list params;
  for (const auto& param : kind.params) {
    py::dict item;
    item["name"] = text(param.name);
    item["doc"] = text(param.doc);
    item["default"] = number(param.default_value);
    item["low"] = number(param.min_value);
    item["high"] = number(param.max_value);
    item["required"] = param.required;
    params.append(item);
  }
  py::list outputs;
  for (const auto& output : kind.outputs) {
    py::dict item;
    item["name"] = text(output.name);
    item["doc"] = text(output.doc);
    outputs.append(item);
  }
  py::dict out;
  out["name"] = text(kind.name);
  out["version"] = kind.version;
  out["doc"] = text(kind.doc);
  out["inputs"] = inputs;
  out["params"] = params;
  out["outputs"] = outputs;
  out["default_policy"] = kind.default_policy;
  out["default_replicas"] = kind.default_replicas;
  out["plugin"] = info.plugin.hex();
  return out;
}

py::dict convert(const wire::Explanation& explanation) {
  py::list incidents;
  for (const auto& incident : explanation.incidents) {
    py::dict item;
    item["task"] = incident.task;
    item["host"] = incident.host.hex();
    item["what"] = text(incident.what);
    item["detail"] = text(incident.detail);
    incidents.append(item);
  }
  py::dict out;
  out["status"] = convert(explanation.status);
  out["policy"] = static_cast<int>(explanation.policy);
  out["replicas"] = explanation.replicas;
  out["hosts"] = list_of(explanation.hosts);
  out["incidents"] = incidents;
  out["incident_count"] = explanation.incident_count;
  out["plan"] = pairs(explanation.plan);
  return out;
}

py::dict convert(const wire::Estimated& estimated) {
  py::dict out;
  out["outputs"] = list_of(estimated.outputs);
  out["flops"] = estimated.flops;
  out["bytes"] = estimated.bytes;
  out["min_task_bytes"] = estimated.min_task_bytes;
  if (!estimated.forecast) {
    return out;
  }
  out["seconds"] = estimated.seconds;
  out["bound"] = static_cast<int>(estimated.bound);
  out["hosts_speed_s"] = estimated.hosts_speed_s;
  out["lab_link_s"] = estimated.lab_link_s;
  out["host_link_s"] = estimated.host_link_s;
  out["bytes_to_hosts"] = estimated.bytes_to_hosts;
  out["bytes_from_hosts"] = estimated.bytes_from_hosts;
  out["flops_computed"] = estimated.flops_computed;
  out["flops_per_s"] = estimated.flops_per_s;
  out["lab_to_hosts"] = estimated.lab_to_hosts;
  out["lab_from_hosts"] = estimated.lab_from_hosts;
  out["slowest_to_host"] = estimated.slowest_to_host;
  out["slowest_from_host"] = estimated.slowest_from_host;
  out["longest_rtt_s"] = estimated.longest_rtt_s;
  out["hosts"] = estimated.hosts;
  out["starts"] = estimated.starts;
  out["planned_share"] = estimated.planned_share;
  out["speeds_assumed"] = estimated.speeds_assumed;
  out["jobs_beside"] = estimated.jobs_beside;
  out["remaining"] = estimated.remaining;
  return out;
}

template <typename T>
T field(const py::dict& from, const char* name) {
  return from[name].cast<T>();
}

py::dict convert(const wire::JobStatus& status) {
  py::dict out;
  out["job"] = status.job;
  out["kind"] = text(status.kind);
  out["state"] = static_cast<int>(status.state);
  out["status"] = status.status;
  out["message"] = text(status.message);
  out["outputs"] = list_of(status.outputs);
  out["tasks_planned"] = status.tasks_planned;
  out["tasks_running"] = status.tasks_running;
  out["tasks_accepted"] = status.tasks_accepted;
  out["plan_done"] = status.plan_done;
  out["flops_total"] = status.flops_total;
  out["flops_accepted"] = status.flops_accepted;
  out["results_checked"] = status.results_checked;
  out["results_refused"] = status.results_refused;
  out["recomputed"] = status.recomputed;
  out["bytes_sent"] = status.bytes_sent;
  out["bytes_received"] = status.bytes_received;
  out["compute_us"] = status.compute_us;
  out["check_us"] = status.check_us;
  out["wall_us"] = status.wall_us;
  out["hosts"] = status.hosts;
  return out;
}

}  // namespace

void raise(const Error& error, bool lost) {
  const py::object exception =
      py::module_::import("gpugoblin._errors")
          .attr("error_of")(static_cast<int>(error.code), text(error.message), lost);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

py::dict to_python(const wire::JobStatus& status) { return convert(status); }

py::object to_python(const wire::ReplyBody& body) {
  return std::visit(
      [](const auto& reply) -> py::object {
        using T = std::decay_t<decltype(reply)>;
        if constexpr (std::is_same_v<T, wire::Ok>) {
          return py::none();
        } else if constexpr (std::is_same_v<T, wire::Staged>) {
          return py::int_(reply.stage);
        } else if constexpr (std::is_same_v<T, wire::JobList>) {
          py::list out;
          for (const auto& job : reply.jobs) {
            out.append(convert(job));
          }
          return out;
        } else if constexpr (std::is_same_v<T, wire::HostList>) {
          return list_of(reply.hosts);
        } else if constexpr (std::is_same_v<T, wire::KindList>) {
          return list_of(reply.kinds);
        } else if constexpr (std::is_same_v<T, wire::StatusReport>) {
          return pairs(reply.fields);
        } else {
          return convert(reply);
        }
      },
      body);
}

wire::Submit submit_from(const py::dict& request) {
  wire::Submit submit;
  const auto token = field<std::string>(request, "token");
  std::memcpy(submit.token.data(), token.data(), std::min(token.size(), submit.token.size()));
  submit.kind = field<std::string>(request, "kind");
  for (const auto& handle : request["inputs"]) {
    const auto item = handle.cast<py::dict>();
    wire::JobInput input;
    input.name = field<std::string>(item, "name");
    input.dtype = field<wire::DType>(item, "dtype");
    input.shape = field<std::vector<std::int64_t>>(item, "shape");
    input.strides = field<std::vector<std::int64_t>>(item, "strides");
    input.storage = static_cast<wire::Storage>(field<int>(item, "storage"));
    input.stage = field<std::uint64_t>(item, "stage");
    input.fd_index = field<std::uint32_t>(item, "fd_index");
    input.path = field<std::string>(item, "path");
    input.offset = field<std::uint64_t>(item, "offset");
    const auto digest = field<std::string>(item, "digest");
    std::memcpy(input.digest.bytes.data(), digest.data(),
                std::min(digest.size(), input.digest.bytes.size()));
    submit.inputs.push_back(std::move(input));
  }
  for (const auto& [name, value] : field<py::dict>(request, "params")) {
    submit.params.push_back(
        {name.cast<std::string>(), py::isinstance<py::float_>(value)
                                       ? wire::Value::of(value.cast<double>())
                                       : wire::Value::of(value.cast<std::int64_t>())});
  }
  for (const auto& handle : request["outputs"]) {
    const auto item = handle.cast<py::dict>();
    submit.outputs.push_back(
        {field<std::string>(item, "name"), field<std::uint32_t>(item, "fd_index"),
         field<std::string>(item, "path"), field<std::uint64_t>(item, "offset")});
  }
  submit.policy = static_cast<wire::Policy>(field<int>(request, "policy"));
  submit.replicas = field<std::uint32_t>(request, "replicas");
  submit.weight = field<std::uint32_t>(request, "weight");
  submit.dry_run = field<bool>(request, "dry_run");
  submit.forecast = request.contains("forecast") && field<bool>(request, "forecast");
  return submit;
}

py::dict bounds() {
  py::dict out;
  out["rank"] = GOBLIN_MAX_RANK;
  out["name_bytes"] = wire::kMaxNameBytes;
  out["path_bytes"] = wire::kMaxPathBytes;
  out["arrays"] = wire::kMaxTensors;
  out["numbers"] = wire::kMaxParams;
  out["files"] = wire::kMaxFrameFds;
  out["request_bytes"] = request_cap();
  return out;
}

Result<void> check_sendable(const wire::Submit& submit, std::size_t fds) {
  if (fds > wire::kMaxFrameFds) {
    return fail(Code::kInvalidArgument, "a submission with " + std::to_string(fds) +
                                            " files cannot be sent; at most " +
                                            std::to_string(wire::kMaxFrameFds) + " travel with it");
  }
  if (submit.inputs.size() > wire::kMaxTensors || submit.outputs.size() > wire::kMaxTensors ||
      submit.params.size() > wire::kMaxParams) {
    return fail(Code::kInvalidArgument,
                "a submission with " + std::to_string(submit.inputs.size()) + " arrays, " +
                    std::to_string(submit.outputs.size()) + " places and " +
                    std::to_string(submit.params.size()) + " numbers cannot be sent");
  }
  wire::Request request;
  request.body = submit;
  const wire::Bytes message = encode(request);
  if (message.size() > request_cap()) {
    return fail(Code::kInvalidArgument, "a submission of " + std::to_string(message.size()) +
                                            " bytes cannot be sent; at most " +
                                            std::to_string(request_cap()) +
                                            " fit: give fewer arrays, shorter names and paths");
  }
  if (const auto read = wire::decode_request(message); !read) {
    return fail(Code::kInvalidArgument, "this submission cannot be sent: " + read.error().message);
  }
  return {};
}

}  // namespace goblin::client
