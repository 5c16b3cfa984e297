// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/client_session.hpp"

#include <unistd.h>

#include <algorithm>

#include "hosts/lab/job_state.hpp"

namespace goblin::lab {
namespace {

/// Requests of one client at once; the next one is read when one is answered.
constexpr std::size_t kMaxRequests = 64;
/// An event waits while so many frames wait for the client; replies need room beside them.
constexpr std::size_t kEventRoom = kMaxRequests / 2;
/// Staged arrays that no submission has used yet.
constexpr std::size_t kMaxStages = 2048;
/// Outputs that may be pulled; those of the job that was asked for last may be more.
constexpr std::size_t kMaxOffered = 256;

}  // namespace

ClientSession::ClientSession(net::Loop& loop, Engine& engine, store::Staging& staging,
                             Daemon daemon, std::unique_ptr<net::Channel> channel,
                             net::Milliseconds event_pause)
    : loop_(loop),
      engine_(engine),
      staging_(staging),
      daemon_(std::move(daemon)),
      channel_(std::move(channel)),
      event_pause_(event_pause),
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
  room_.set();
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
    (void)co_await self->engine_.wait_change(followed, seen);
    while (self->outgoing_.size() >= kEventRoom && !self->closed_) {
      self->room_.reset();
      co_await self->room_.wait();
    }
    if (self->closed_) {
      co_return;
    }
    seen = followed->version;
    wire::JobStatus status = self->engine_.status_of(*followed);
    const bool ended = is_ended(status.state);
    const wire::Event event{std::move(status)};
    self->outgoing_.push(net::make_frame(wire::FrameType::kEvent, event));
    if (ended) {
      co_return;
    }
    (void)co_await followed->over.wait_for(self->event_pause_);
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
  if (auto* estimate = std::get_if<wire::EstimateJob>(&body)) {
    GOBLIN_CO_TRY(wire::Estimated estimated, co_await engine_.estimate(estimate->job));
    co_return wire::ReplyBody(std::move(estimated));
  }
  if (auto* forget = std::get_if<wire::ForgetJob>(&body)) {
    co_return co_await on(*forget);
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
  GOBLIN_CO_TRY(store::Staging::File file, co_await stage_in_turn(body.size));
  out.push_back(std::move(file.fd));
  co_return wire::ReplyBody(wire::Staged{file.number});
}

net::Task<Result<store::Staging::File>> ClientSession::stage_in_turn(std::uint64_t bytes) {
  const auto turn = co_await engine_.disk_turns().take(this);
  if (closed_) {
    co_return fail(Code::kUnavailable, "the client has gone");
  }
  if (stages_.size() >= kMaxStages) {
    std::erase_if(stages_, [this](auto stage) { return !engine_.is_staged(stage); });
  }
  if (stages_.size() >= kMaxStages) {
    co_return fail(Code::kExhausted, "this client has staged " + std::to_string(stages_.size()) +
                                         " arrays and submitted none of them: submit them, or "
                                         "close the connection");
  }
  GOBLIN_CO_TRY(store::Staging::File file, co_await engine_.stage(bytes));
  if (closed_) {
    std::vector<std::uint64_t> unused(1, file.number);
    co_await engine_.unstage(std::move(unused));
    co_return fail(Code::kUnavailable, "the client has gone");
  }
  stages_.insert(file.number);
  co_return file;
}

std::vector<std::uint64_t> ClientSession::take_stages(const wire::Submit& submit) {
  std::vector<std::uint64_t> taken;
  for (const auto& input : submit.inputs) {
    if (input.storage == wire::Storage::kStaged && stages_.erase(input.stage) != 0) {
      taken.push_back(input.stage);
    }
  }
  return taken;
}

net::Task<Result<wire::ReplyBody>> ClientSession::on(wire::Submit body,
                                                     std::vector<net::UniqueFd>& fds) {
  const bool local = channel_->peer().local;
  if (body.dry_run) {  // shapes and numbers only: nothing was staged for it
    const auto turn = co_await engine_.runner_turns().take(this);
    co_return co_await engine_.submit(std::move(body), std::move(fds));
  }
  auto ready = check_places(body, fds.size());
  if (ready && !local) {
    ready = co_await pull_inputs(body);
  }
  // The client's end must not take them away while they are submitted.
  auto used = take_stages(body);
  Result<wire::ReplyBody> reply = fail(Code::kInternal, "not submitted");
  if (ready) {
    const auto turn = co_await engine_.runner_turns().take(this);
    reply = co_await engine_.submit(std::move(body), std::move(fds));
  } else {
    reply = fail(std::move(ready).error());
  }
  if (!reply) {
    // Nobody submits them again: a refused submission must not keep its room.
    co_await engine_.unstage(std::move(used));
  }
  co_return reply;
}

Result<void> ClientSession::check_places(const wire::Submit& submit, std::size_t fds) const {
  const bool local = channel_->peer().local;
  for (const auto& input : submit.inputs) {
    if (local && input.storage == wire::Storage::kBlob) {
      return fail(Code::kInvalidArgument,
                  "array '" + input.name + "' comes as a blob over a Unix socket: stage it");
    }
    if (!local && input.storage != wire::Storage::kBlob) {
      return fail(Code::kInvalidArgument,
                  "array '" + input.name + "' lies on another machine: send it as a blob");
    }
    if (input.storage == wire::Storage::kStaged && !stages_.contains(input.stage)) {
      return fail(Code::kInvalidArgument, "array '" + input.name + "' names staging file " +
                                              std::to_string(input.stage) +
                                              ", which was not made for this client, or was "
                                              "removed long ago: stage it again");
    }
    if (input.storage == wire::Storage::kStaged && !engine_.is_staged(input.stage)) {
      return fail(Code::kNotFound, "array '" + input.name +
                                       "' was staged so long ago that it was removed: stage "
                                       "it again");
    }
    if (input.storage == wire::Storage::kFile && input.fd_index >= fds) {
      return fail(Code::kInvalidArgument,
                  "array '" + input.name + "': its file's descriptor is missing");
    }
  }
  std::set<std::string> outputs;
  for (const auto& output : submit.outputs) {
    if (!outputs.insert(output.name).second) {
      return fail(Code::kInvalidArgument, "output '" + output.name + "' is given twice");
    }
    if (!local || output.fd_index >= fds) {
      return fail(Code::kInvalidArgument,
                  "output '" + output.name + "': " +
                      (local ? "its file's descriptor is missing"
                             : "only a client on the lab node's machine may name a file"));
    }
  }
  return {};
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
    const wire::Digest digest = input.digest;
    input.storage = wire::Storage::kStaged;
    input.stage = file.number;
    auto fd = std::make_shared<const net::UniqueFd>(std::move(file.fd));
    auto sink = std::make_shared<SlotSink>(std::move(fd), 0, bytes);
    auto fetched = co_await blobs_->fetch(digest, 0, sink);
    if (!fetched) {
      co_return fail(fetched.error().with_context("array '" + input.name + "'"));
    }
    if (sink->digest() != digest) {
      co_return fail(Code::kCorrupt,
                     "array '" + input.name + "' does not hash to its digest: send it again");
    }
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
  GOBLIN_CO_TRY_VOID(co_await offer(outputs.status, std::move(outputs.fds)));
  co_return wire::ReplyBody(std::move(outputs.status));
}

net::Task<Result<void>> ClientSession::offer(wire::JobStatus& status,
                                             std::vector<net::UniqueFd> fds) {
  const auto staged = std::count_if(status.outputs.begin(), status.outputs.end(),
                                    [](const auto& info) { return info.staged; });
  if (staged == 0 && !status.outputs.empty()) {
    co_return fail(Code::kNotFound, "output '" + status.outputs[0].name + "' of job " +
                                        std::to_string(status.job) +
                                        " was written to a file on the lab node's machine: read "
                                        "it there");
  }
  Offer offered;
  offered.job = status.job;
  auto fd = fds.begin();
  for (auto& info : status.outputs) {
    if (!info.staged) {
      continue;  // the client sees that it is in a file
    }
    if (fd == fds.end()) {
      co_return fail(Code::kInternal, "the file of output '" + info.name + "' of job " +
                                          std::to_string(status.job) + " is missing");
    }
    TensorFile tensor;
    tensor.fd = std::make_shared<const net::UniqueFd>(std::move(*fd++));
    tensor.dtype = info.spec.dtype;
    tensor.shape = info.spec.shape;
    tensor.strides = TensorFile::row_major(tensor.dtype, tensor.shape);
    GOBLIN_CO_TRY(tensor.file_bytes, info.spec.size_bytes());
    const auto turn = co_await engine_.disk_turns().take(this);
    auto hash = [tensor] { return hash_source(*make_view_source(tensor)); };
    GOBLIN_CO_TRY(info.digest, co_await loop_.offload(hash));
    offered.outputs.insert_or_assign(info.digest, std::move(tensor));
  }
  std::erase_if(offers_, [&](const Offer& old) { return old.job == offered.job; });
  offers_.push_back(std::move(offered));
  drop_offers();
  co_return Result<void>{};
}

void ClientSession::drop_offers() {
  std::erase_if(offers_, [this](const Offer& offer) { return !engine_.follow(offer.job); });
  std::size_t outputs = 0;
  for (const auto& offer : offers_) {
    outputs += offer.outputs.size();
  }
  while (outputs > kMaxOffered && offers_.size() > 1) {
    outputs -= offers_.front().outputs.size();
    offers_.pop_front();
  }
}

net::Task<Result<wire::ReplyBody>> ClientSession::on(wire::ForgetJob body) {
  auto done = co_await engine_.forget(body.job);
  drop_offers();
  GOBLIN_CO_TRY_VOID(std::move(done));
  co_return wire::ReplyBody(wire::Ok{});
}

net::Task<Result<std::shared_ptr<net::BlobSource>>> ClientSession::find_blob(wire::Digest digest) {
  for (auto offer = offers_.rbegin(); offer != offers_.rend(); ++offer) {
    if (const auto found = offer->outputs.find(digest); found != offer->outputs.end()) {
      co_return make_view_source(found->second);
    }
  }
  co_return fail(Code::kNotFound, digest == wire::Digest{}
                                      ? "the output was written to a file on the lab node's machine"
                                      : "ask for the job's result first");
}

}  // namespace goblin::lab
