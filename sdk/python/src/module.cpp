// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// gpugoblin._core: blocking calls that release the GIL and notice Ctrl-C.
#include <fcntl.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "client.hpp"
#include "convert.hpp"
#include "core/net/blob_hash.hpp"
#include "spawn.hpp"

namespace py = pybind11;

namespace goblin::client {
namespace {

constexpr net::Milliseconds kSlice{50};

/// A copy of a fork must not destroy what its parent uses.
struct Destroy {
  void operator()(Client* client) const {
    if (client->same_process()) {
      const py::gil_scoped_release release;
      delete client;
    }
  }
};

void check_usable(const Client& client) {
  if (!client.same_process()) {
    raise({Code::kUnavailable,
           "this connection belongs to the process that this one was forked from: call "
           "gpugoblin.connect() again"});
  }
  if (client.is_closed()) {
    raise({Code::kCancelled,
           "this connection was closed: call gpugoblin.connect() again; a network of local() ended "
           "with its connection, and what was not fetched with it"});
  }
}

/// Counts who waits here, so that close() can see them out: a thread that still waits when the
/// interpreter ends could not come back into it.
class Waiting {
 public:
  Waiting() { ++count_; }
  ~Waiting() { --count_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  static bool anybody() { return count_ != 0; }

 private:
  static inline std::atomic<int> count_{0};
};

/// Repeats `ready(limit)` without the GIL until it says true or the time is over; raises what a
/// signal handler raises.
template <typename Ready>
bool wait_for(double timeout, Ready ready) {
  const Waiting waiting;
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(timeout < 1e8 ? timeout : 1e8));
  while (true) {
    const auto left =
        std::chrono::ceil<net::Milliseconds>(until - std::chrono::steady_clock::now());
    bool done = false;
    {
      const py::gil_scoped_release release;
      done = ready(std::clamp(left, net::Milliseconds(0), kSlice));
    }
    if (done) {
      return true;
    }
    if (PyErr_CheckSignals() != 0) {
      throw py::error_already_set();
    }
    if (left.count() <= 0) {
      return false;
    }
  }
}

Answer answer_of(Client& client, const std::shared_ptr<Call>& call) {
  wait_for(1e9,
           [&](net::Milliseconds limit) { return call->wait_for(limit) || client.is_closed(); });
  if (!call->wait_for(net::Milliseconds(0))) {
    check_usable(client);
  }
  Answer answer = call->take();
  if (!answer.body) {
    raise(answer.body.error(), answer.lost);
  }
  return answer;
}

Answer ask(Client& client, wire::RequestBody body, bool repeat = true) {
  check_usable(client);
  return answer_of(client, client.call(std::move(body), {}, repeat));
}

py::list release(std::vector<net::UniqueFd>& fds) {
  py::list out;
  for (auto& fd : fds) {
    out.append(fd.release());
  }
  return out;
}

py::tuple view_of(const JobView& view) {
  if (view.version == 0) {
    return py::make_tuple(0, py::none());
  }
  if (!view.status) {
    raise(view.status.error());
  }
  return py::make_tuple(view.version, to_python(*view.status));
}

/// A C-contiguous buffer that stays alive until the last copy of the Memory is gone.
Memory memory_of(const py::object& buffer, bool writable) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(buffer.ptr(), view.get(),
                         PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)) != 0) {
    throw py::error_already_set();
  }
  Memory memory;
  memory.data = static_cast<std::byte*>(view->buf);
  memory.size = static_cast<std::size_t>(view->len);
  memory.owner = std::shared_ptr<void>(view.release(), [](void* held) {
    const py::gil_scoped_acquire acquire;
    auto* pointer = static_cast<Py_buffer*>(held);
    PyBuffer_Release(pointer);
    delete pointer;
  });
  return memory;
}

wire::Digest digest_from(const std::string& bytes) {
  wire::Digest digest;
  std::memcpy(digest.bytes.data(), bytes.data(), std::min(bytes.size(), digest.bytes.size()));
  return digest;
}

py::bytes digest_bytes(const wire::Digest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

std::unique_ptr<Client, Destroy> make_client(const std::string& socket, const std::string& host,
                                             std::uint16_t port, const std::string& pin,
                                             const std::string& identity, double patience) {
  Address address{socket, host, port, {}, identity};
  if (socket.empty()) {
    auto digest = wire::Digest::from_hex(pin);
    if (!digest) {
      raise(digest.error());
    }
    address.pin = *digest;
  }
  auto client = Client::create(std::move(address),
                               net::Milliseconds(static_cast<std::int64_t>(patience * 1000)));
  if (!client) {
    raise(client.error());
  }
  return std::unique_ptr<Client, Destroy>(client->release());
}

py::object submit(Client& client, const py::dict& request, const std::vector<int>& fds,
                  std::uint64_t epoch) {
  check_usable(client);
  std::vector<net::UniqueFd> copies;
  for (const int fd : fds) {
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!copies.back()) {
      PyErr_SetFromErrno(PyExc_OSError);
      throw py::error_already_set();
    }
  }
  wire::Submit submission = submit_from(request);
  if (const auto sendable = check_sendable(submission, copies.size()); !sendable) {
    raise(sendable.error());
  }
  // Asking for shapes and sizes changes nothing, so a broken connection does not matter.
  const bool repeat = submission.dry_run;
  const auto call = client.call(std::move(submission), std::move(copies), repeat, epoch);
  try {
    return to_python(*answer_of(client, call).body);
  } catch (const py::error_already_set& error) {
    // Interrupted: nobody will know the job, so it shall not run.
    if (!error.matches(PyExc_Exception) && !call->abandon()) {
      const Answer late = call->take();
      if (const auto* status = late.body ? std::get_if<wire::JobStatus>(&*late.body) : nullptr) {
        client.call(wire::CancelJob{status->job}, {}, true);
      }
    }
    throw;
  }
}

py::tuple stage(Client& client, std::uint64_t size) {
  Answer answer = ask(client, wire::Stage{size}, false);
  if (answer.fds.size() != 1) {
    raise({Code::kInternal, "the lab node sent no descriptor for a staging file"});
  }
  return py::make_tuple(to_python(*answer.body), answer.fds[0].release(), answer.epoch);
}

void close(Client& client) {
  const py::gil_scoped_release release;
  client.close();
}

void pull(Client& client, const std::string& digest, const py::object& buffer) {
  check_usable(client);
  const Memory memory = memory_of(buffer, true);
  const auto expected = digest_from(digest);
  auto received = std::make_shared<std::atomic<std::uint64_t>>(0);
  answer_of(client, client.pull(expected, memory, 0, received));
  bool same = false;
  {
    const py::gil_scoped_release release;
    same = net::blob_digest({memory.data, memory.size}) == expected;
  }
  if (!same) {
    raise({Code::kCorrupt, "the result's bytes do not hash to its digest: ask for it again"});
  }
}

}  // namespace
}  // namespace goblin::client

PYBIND11_MODULE(_core, m) {
  namespace gc = goblin::client;
  namespace wire = goblin::wire;
  using gc::Client;
  py::class_<Client, std::unique_ptr<Client, gc::Destroy>>(m, "Client")
      .def(py::init(&gc::make_client))
      .def("connect",
           [](Client& c, double timeout) {
             gc::check_usable(c);
             const auto call = c.connected();
             if (!gc::wait_for(
                     timeout, [&](auto limit) { return call->wait_for(limit) || c.is_closed(); })) {
               return false;
             }
             gc::answer_of(c, call);
             return true;
           })
      .def("stage", &gc::stage)
      .def("submit", &gc::submit)
      .def("cancel_submission",
           [](Client& c, const std::string& token) {
             Client::Token bytes{};
             std::memcpy(bytes.data(), token.data(), std::min(token.size(), bytes.size()));
             c.cancel_submission(bytes);
           })
      .def("job",
           [](Client& c, std::uint64_t job) {
             return gc::to_python(*gc::ask(c, wire::GetJob{job, false}).body);
           })
      .def("job_now",
           [](Client& c, std::uint64_t job, double timeout) -> py::object {
             gc::check_usable(c);
             const auto call = c.call(wire::GetJob{job, false}, {}, true);
             if (!gc::wait_for(timeout, [&](auto limit) { return call->wait_for(limit); })) {
               return py::none();
             }
             return gc::to_python(*gc::answer_of(c, call).body);
           })
      .def("jobs", [](Client& c) { return gc::to_python(*gc::ask(c, wire::GetJobs{}).body); })
      .def("cancel", [](Client& c, std::uint64_t job) { gc::ask(c, wire::CancelJob{job}); })
      .def("explain",
           [](Client& c, std::uint64_t job) {
             return gc::to_python(*gc::ask(c, wire::ExplainJob{job}).body);
           })
      .def("estimate",
           [](Client& c, std::uint64_t job) {
             return gc::to_python(*gc::ask(c, wire::EstimateJob{job}).body);
           })
      .def("result",
           [](Client& c, std::uint64_t job) {
             gc::Answer answer = gc::ask(c, wire::GetResult{job});
             py::object status = gc::to_python(*answer.body);
             return py::make_tuple(status, gc::release(answer.fds));
           })
      .def("forget", [](Client& c, std::uint64_t job) { gc::ask(c, wire::ForgetJob{job}, false); })
      .def("hosts", [](Client& c) { return gc::to_python(*gc::ask(c, wire::GetHosts{}).body); })
      .def("kinds", [](Client& c) { return gc::to_python(*gc::ask(c, wire::GetKinds{}).body); })
      .def("status", [](Client& c) { return gc::to_python(*gc::ask(c, wire::GetStatus{}).body); })
      .def("watch",
           [](Client& c, std::uint64_t job) {
             gc::check_usable(c);
             c.watch(job);
           })
      .def("unwatch", &Client::unwatch)
      .def("wait_job",
           [](Client& c, std::uint64_t job, std::uint64_t seen, double timeout) {
             gc::check_usable(c);
             gc::JobView view;
             gc::wait_for(timeout, [&](auto limit) {
               view = c.wait_job(job, seen, limit);
               return view.version != seen || c.is_closed();
             });
             return gc::view_of(view);
           })
      .def("notify_end", &Client::notify_end)
      .def("next_ended",
           [](Client& c) -> std::optional<std::uint64_t> {
             std::optional<std::uint64_t> job;
             gc::wait_for(1e9, [&](auto limit) {
               job = c.next_ended(limit);
               return job || c.is_closed();
             });
             return job;
           })
      .def("serve",
           [](Client& c, const py::object& buffer) {
             gc::check_usable(c);
             gc::Memory memory = gc::memory_of(buffer, false);
             wire::Digest digest;
             {
               const py::gil_scoped_release release;
               digest = c.serve(std::move(memory));
             }
             return gc::digest_bytes(digest);
           })
      .def("unserve",
           [](Client& c, const std::string& digest) {
             const py::gil_scoped_release release;
             c.unserve(gc::digest_from(digest));
           })
      .def("pull", &gc::pull)
      .def("close", &gc::close);

  m.attr("BOUNDS") = gc::bounds();

  m.def("see_out", [](double seconds) {
    const py::gil_scoped_release release;
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (gc::Waiting::anybody() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(goblin::net::Milliseconds(2));
    }
  });

  m.def("own_pin", [](const std::string& directory) {
    auto identity = goblin::net::Identity::load_or_create(directory);
    if (!identity) {
      gc::raise(identity.error());
    }
    return (*identity)->pin().hex();
  });
  m.def("spawn", [](std::vector<std::string> arguments, std::vector<std::string> environment,
                    int log_fd, int ready_fd) {
    goblin::Result<pid_t> pid = goblin::fail(goblin::Code::kInternal, "");
    {
      const py::gil_scoped_release release;
      pid = gc::spawn(std::move(arguments), std::move(environment), log_fd, ready_fd);
    }
    if (!pid) {
      gc::raise(pid.error());
    }
    return *pid;
  });
}
