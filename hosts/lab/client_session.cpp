// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/client_session.hpp"

#include <unistd.h>

namespace goblin::lab {
namespace {

/// Events of one job follow each other at this distance at least.
constexpr net::Milliseconds kEventPause{100};
/// Requests of one client at once; the next one is read when one is answered.
constexpr std::size_t kMaxRequests = 64;
/// Staged arrays that no submission has used yet.
constexpr std::size_t kMaxStages = 2048;

bool has_ended(const wire::JobStatus& status) {
  return status.state == wire::JobState::kDone || status.state == wire::JobState::kFailed ||
         status.state == wire::JobState::kCancelled;
}

}  // namespace

ClientSession::ClientSession(net::Loop& loop, Engine& engine, store::Staging& staging,
                             Daemon daemon, std::unique_ptr<net::Channel> channel)
    : loop_(loop),
      engine_(engine),
      staging_(staging),
      daemon_(std::move(daemon)),
      channel_(std::move(channel)),
      outgoing_(loop),
      room_(loop) {
  blobs_ = net::BlobExchange::create(
      loop_, *channel_, [this](const wire::Digest& digest) { return find_blob(digest); });
}

ClientSession::~ClientSession() = default;

net::Task<void> ClientSession::run() {
  net::ChannelLimits limits;
  limits.idle = channel_->peer().local ? net::Milliseconds(0) : net::Milliseconds(60'000);
  channel_->set_limits(limits);
  loop_.spawn(write_loop(shared_from_this()));
  while (true) {
    auto frame = co_await channel_->receive();
    if (!frame || frame->type == wire::FrameType::kGoodbye) {
      break;
    }
    if (frame->type == wire::FrameType::kRequest) {
      auto request = wire::decode_request(frame->message);
      if (!request) {
        break;
      }
      // Replies that wait for a client who does not read count, too.
      while (under_way_ + outgoing_.size() >= kMaxRequests && channel_->is_open()) {
        room_.reset();
        co_await room_.wait();
      }
      ++under_way_;
      loop_.spawn(answer(shared_from_this(), std::move(*request), std::move(frame->fds)));
      // Other clients' requests come between this one and the next.
      co_await loop_.sleep(net::Milliseconds(0));
    } else if (!blobs_->handle(std::move(*frame))) {
      break;
    }
  }
  closed_ = true;
  channel_->close();
  outgoing_.close();
  blobs_->shut_down();
  std::vector<std::uint64_t> unused(stages_.begin(), stages_.end());
  co_await engine_.unstage(std::move(unused));
}

net::Task<void> ClientSession::write_loop(std::shared_ptr<ClientSession> self) {
  while (auto frame = co_await self->outgoing_.pop()) {
    if (const auto done = co_await self->channel_->send(std::move(*frame)); !done) {
      self->channel_->close();
      self->room_.set();
      co_return;
    }
    self->room_.set();
  }
}

net::Task<void> ClientSession::answer(std::shared_ptr<ClientSession> self, wire::Request request,
                                      std::vector<net::UniqueFd> fds) {
  std::uint64_t watched = 0;
  if (const auto* get = std::get_if<wire::GetJob>(&request.body); get != nullptr && get->watch) {
    watched = get->job;
  }
  std::vector<net::UniqueFd> out;
  auto body = co_await self->reply_to(std::move(request.body), fds, out);
  wire::Reply reply;
  reply.number = request.number;
  if (body) {
    reply.body = std::move(*body);
  } else {
    reply.status = static_cast<std::int32_t>(body.error().code);
    reply.message = std::move(body.error().message);
  }
  net::Frame frame = net::make_frame(wire::FrameType::kReply, reply);
  frame.fds = std::move(out);
  self->outgoing_.push(std::move(frame));
  --self->under_way_;
  self->room_.set();
  if (body && watched != 0 && self->watched_.insert(watched).second) {
    co_await self->watch(self, watched);
    self->watched_.erase(watched);
  }
}

net::Task<void> ClientSession::watch(std::shared_ptr<ClientSession> self, std::uint64_t job) {
  // Held while it is followed: its end is told even if somebody forgets it before the next event.
  const auto followed = self->engine_.follow(job);
  std::uint64_t seen = UINT64_MAX;
  while (followed && !self->closed_) {
    seen = co_await self->engine_.wait_change(followed, seen);
    if (self->closed_) {
      co_return;
    }
    wire::JobStatus status = self->engine_.status_of(*followed);
    const bool ended = has_ended(status);
    const wire::Event event{std::move(status)};
    self->outgoing_.push(net::make_frame(wire::FrameType::kEvent, event));
    if (ended) {
      co_return;
    }
    co_await self->loop_.sleep(kEventPause);
  }
}

net::Task<Result<wire::ReplyBody>> ClientSession::reply_to(wire::RequestBody body,
                                                           std::vector<net::UniqueFd>& fds,
                                                           std::vector<net::UniqueFd>& out) {
  if (auto* stage_request = std::get_if<wire::Stage>(&body)) {
    co_return co_await on(*stage_request, out);
  }
  if (auto* submit = std::get_if<wire::Submit>(&body)) {
    co_return co_await on(std::move(*submit), fds);
  }
  if (auto* result = std::get_if<wire::GetResult>(&body)) {
    co_return co_await on(*result, out);
  }
  if (auto* get = std::get_if<wire::GetJob>(&body)) {
    GOBLIN_CO_TRY(wire::JobStatus status, engine_.status(get->job));
    co_return wire::ReplyBody(std::move(status));
  }
  if (std::holds_alternative<wire::GetJobs>(body)) {
    co_return wire::ReplyBody(engine_.jobs());
  }
  if (auto* cancel = std::get_if<wire::CancelJob>(&body)) {
    GOBLIN_CO_TRY_VOID(co_await engine_.cancel(cancel->job));
    co_return wire::ReplyBody(wire::Ok{});
  }
  if (auto* explain = std::get_if<wire::ExplainJob>(&body)) {
    GOBLIN_CO_TRY(wire::Explanation explanation, co_await engine_.explain(explain->job));
    co_return wire::ReplyBody(std::move(explanation));
  }
  if (auto* forget = std::get_if<wire::ForgetJob>(&body)) {
    GOBLIN_CO_TRY_VOID(co_await engine_.forget(forget->job));
    co_return wire::ReplyBody(wire::Ok{});
  }
  if (std::holds_alternative<wire::GetHosts>(body)) {
    co_return wire::ReplyBody(engine_.hosts());
  }
  if (std::holds_alternative<wire::GetKinds>(body)) {
    const auto turn = co_await engine_.runner_turns().take(this);
    GOBLIN_CO_TRY(wire::KindList kinds, co_await engine_.kinds());
    co_return wire::ReplyBody(std::move(kinds));
  }
  if (std::holds_alternative<wire::GetStatus>(body)) {
    co_return wire::ReplyBody(daemon_.status());
  }
  if (auto* control = std::get_if<wire::Control>(&body)) {
    GOBLIN_CO_TRY_VOID(daemon_.control(*control));
    co_return wire::ReplyBody(wire::Ok{});
  }
  co_return fail(Code::kUnsupported, "this lab node does not know the request: upgrade it");
}

net::Task<Result<wire::ReplyBody>> ClientSession::on(wire::Stage body,
                                                     std::vector<net::UniqueFd>& out) {
  if (!channel_->peer().local) {
    co_return fail(Code::kUnsupported,
                   "shared memory needs the lab node's Unix socket; over TLS arrays are pulled");
  }
  if (stages_.size() >= kMaxStages) {
    co_return fail(Code::kExhausted, "this client has staged " + std::to_string(stages_.size()) +
                                         " arrays and submitted none of them: submit them, or "
                                         "close the connection");
  }
  const auto turn = co_await engine_.disk_turns().take(this);
  if (closed_) {
    co_return fail(Code::kUnavailable, "the client has gone");
  }
  GOBLIN_CO_TRY(store::Staging::File file, co_await engine_.stage(body.size));
  if (closed_) {
    std::vector<std::uint64_t> unused(1, file.number);
    co_await engine_.unstage(std::move(unused));
    co_return fail(Code::kUnavailable, "the client has gone");
  }
  stages_.insert(file.number);
  out.push_back(std::move(file.fd));
  co_return wire::ReplyBody(wire::Staged{file.number});
}

net::Task<Result<wire::ReplyBody>> ClientSession::on(wire::Submit body,
                                                     std::vector<net::UniqueFd>& fds) {
  const bool local = channel_->peer().local;
  if (body.dry_run) {  // shapes and numbers only: nothing was staged for it
    const auto turn = co_await engine_.runner_turns().take(this);
    co_return co_await engine_.submit(std::move(body), std::move(fds));
  }
  for (const auto& input : body.inputs) {
    if (local && input.storage == wire::Storage::kBlob) {
      co_return fail(Code::kInvalidArgument,
                     "array '" + input.name + "' comes as a blob over a Unix socket: stage it");
    }
    if (!local && input.storage != wire::Storage::kBlob) {
      co_return fail(Code::kInvalidArgument,
                     "array '" + input.name + "' lies on another machine: send it as a blob");
    }
    if (input.storage == wire::Storage::kStaged && !stages_.contains(input.stage)) {
      co_return fail(Code::kInvalidArgument, "array '" + input.name + "' names staging file " +
                                                 std::to_string(input.stage) +
                                                 ", which was not made for this client");
    }
    if (input.storage == wire::Storage::kStaged && !engine_.is_staged(input.stage)) {
      co_return fail(Code::kNotFound, "array '" + input.name +
                                          "' was staged so long ago that it was removed: stage "
                                          "it again");
    }
    if (input.storage == wire::Storage::kFile && input.fd_index >= fds.size()) {
      co_return fail(Code::kInvalidArgument,
                     "array '" + input.name + "': its file's descriptor is missing");
    }
  }
  std::set<std::string> outputs;
  for (const auto& output : body.outputs) {
    if (!outputs.insert(output.name).second) {
      co_return fail(Code::kInvalidArgument, "output '" + output.name + "' is given twice");
    }
    if (!local || output.fd_index >= fds.size()) {
      co_return fail(Code::kInvalidArgument,
                     "output '" + output.name + "': " +
                         (local ? "its file's descriptor is missing"
                                : "only a client on the lab node's machine may name a file"));
    }
  }
  if (!local) {
    GOBLIN_CO_TRY_VOID(co_await pull_inputs(body));
  }
  std::vector<std::uint64_t> used;
  for (const auto& input : body.inputs) {
    if (input.storage == wire::Storage::kStaged) {
      used.push_back(input.stage);
    }
  }
  for (const auto stage : used) {
    stages_.erase(stage);  // the client's end must not take it away while it is submitted
  }
  const auto turn = co_await engine_.runner_turns().take(this);
  auto reply = co_await engine_.submit(std::move(body), std::move(fds));
  if (!reply) {
    // Nobody submits them again: a refused submission must not keep its room.
    co_await engine_.unstage(std::move(used));
  }
  co_return reply;
}

net::Task<Result<store::Staging::File>> ClientSession::stage_in_turn(std::uint64_t bytes) {
  const auto turn = co_await engine_.disk_turns().take(this);
  co_return co_await engine_.stage(bytes);
}

net::Task<Result<void>> ClientSession::pull_inputs(wire::Submit& submit) {
  for (auto& input : submit.inputs) {
    GOBLIN_CO_TRY(const std::uint64_t bytes,
                  (wire::TensorSpec{input.dtype, input.shape}.size_bytes()));
    if (!input.strides.empty() || input.offset != 0) {
      co_return fail(Code::kInvalidArgument,
                     "array '" + input.name + "': a blob is row-major and begins at byte 0");
    }
    GOBLIN_CO_TRY(store::Staging::File file, co_await stage_in_turn(bytes));
    if (closed_) {
      std::vector<std::uint64_t> unused(1, file.number);
      co_await engine_.unstage(std::move(unused));
      co_return fail(Code::kUnavailable, "the client has gone");
    }
    stages_.insert(file.number);
    auto fd = std::make_shared<const net::UniqueFd>(std::move(file.fd));
    auto sink = std::make_shared<SlotSink>(std::move(fd), 0, bytes);
    auto fetched = co_await blobs_->fetch(input.digest, 0, sink);
    if (!fetched) {
      co_return fail(fetched.error().with_context("array '" + input.name + "'"));
    }
    if (sink->digest() != input.digest) {
      co_return fail(Code::kCorrupt,
                     "array '" + input.name + "' does not hash to its digest: send it again");
    }
    input.storage = wire::Storage::kStaged;
    input.stage = file.number;
  }
  co_return Result<void>{};
}

net::Task<Result<wire::ReplyBody>> ClientSession::on(wire::GetResult body,
                                                     std::vector<net::UniqueFd>& out) {
  GOBLIN_CO_TRY(Engine::Outputs outputs, co_await engine_.result(body.job));
  if (channel_->peer().local) {
    out = std::move(outputs.fds);
    co_return wire::ReplyBody(std::move(outputs.status));
  }
  std::size_t next = 0;
  for (auto& info : outputs.status.outputs) {
    TensorFile tensor;
    tensor.fd = std::make_shared<const net::UniqueFd>(std::move(outputs.fds.at(next++)));
    tensor.dtype = info.spec.dtype;
    tensor.shape = info.spec.shape;
    tensor.strides = TensorFile::row_major(tensor.dtype, tensor.shape);
    GOBLIN_CO_TRY(tensor.file_bytes, info.spec.size_bytes());
    const auto turn = co_await engine_.disk_turns().take(this);
    auto hash = [tensor] { return hash_source(*make_view_source(tensor)); };
    GOBLIN_CO_TRY(info.digest, co_await loop_.offload(hash));
    results_.insert_or_assign(info.digest, std::move(tensor));
  }
  co_return wire::ReplyBody(std::move(outputs.status));
}

net::Task<Result<std::shared_ptr<net::BlobSource>>> ClientSession::find_blob(wire::Digest digest) {
  const auto it = results_.find(digest);
  if (it == results_.end()) {
    co_return fail(Code::kNotFound, "ask for the job's result first");
  }
  co_return make_view_source(it->second);
}

}  // namespace goblin::lab
