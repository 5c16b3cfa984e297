// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/control_server.hpp"

namespace goblin::link {

struct ControlServer::State {
  net::Loop& loop;
  wire::Role role;
  Hooks hooks;
  std::unique_ptr<net::Listener> listener;
  bool closed = false;
};

namespace {

wire::Reply reply_to(const ControlServer::Hooks& hooks, const wire::Request& request) {
  wire::Reply reply;
  reply.number = request.number;
  if (std::holds_alternative<wire::GetStatus>(request.body)) {
    reply.body = hooks.status();
  } else if (const auto* control = std::get_if<wire::Control>(&request.body)) {
    if (auto done = hooks.control(*control)) {
      reply.body = *std::move(done);
    } else {
      reply.status = static_cast<std::int32_t>(done.error().code);
      reply.message = done.error().message;
    }
  } else {
    reply.status = GOBLIN_UNSUPPORTED;
    reply.message = "this daemon answers status and control requests only; ask a lab node";
  }
  return reply;
}

template <typename State>
net::Task<void> serve(std::shared_ptr<State> state, std::unique_ptr<net::Channel> channel) {
  const auto hello = co_await net::greet_client(
      state->loop, *channel, state->role, [](const net::Peer&, const wire::Hello& h) {
        return h.role == wire::Role::kClient ? wire::Refusal::kNone : wire::Refusal::kWrongRole;
      });
  while (hello && !state->closed) {
    auto frame = co_await channel->receive();
    if (!frame || frame->type != wire::FrameType::kRequest || state->closed) {
      co_return;
    }
    auto request = wire::decode_request(frame->message);
    if (!request) {
      co_return;
    }
    const wire::Reply reply = reply_to(state->hooks, *request);
    if (const auto done = co_await channel->send(net::make_frame(wire::FrameType::kReply, reply));
        !done) {
      co_return;
    }
  }
}

template <typename State>
net::Task<void> accept_loop(std::shared_ptr<State> state) {
  while (!state->closed) {
    auto channel = co_await state->listener->accept();
    if (!channel) {
      co_return;
    }
    state->loop.spawn(serve(state, std::move(*channel)));
  }
}

}  // namespace

ControlServer::ControlServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<ControlServer>> ControlServer::open(net::Loop& loop, const std::string& path,
                                                           wire::Role role, Hooks hooks) {
  GOBLIN_TRY(std::unique_ptr<net::Listener> listener, net::listen_unix(loop, path));
  auto state = std::make_shared<State>(State{loop, role, std::move(hooks), std::move(listener)});
  loop.spawn(accept_loop(state));
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(state)));
}

ControlServer::~ControlServer() {
  state_->closed = true;
  state_->listener->close();
}

}  // namespace goblin::link
