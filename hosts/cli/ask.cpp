// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/ask.hpp"

#include "core/net/channel.hpp"

namespace goblin::cli {
namespace {

/// As in `goblin ROLE status`.
const char* command_of(wire::Role role) {
  switch (role) {
    case wire::Role::kCoordinator:
      return "coordinator";
    case wire::Role::kLab:
      return "lab";
    case wire::Role::kHost:
      return "host";
    default:
      return "client";
  }
}

net::Task<Result<wire::ReplyBody>> exchange(net::Loop& loop, std::string socket, wire::Role role,
                                            wire::Request request) {
  GOBLIN_CO_TRY(std::unique_ptr<net::Channel> channel, co_await net::connect_unix(loop, socket));
  auto welcome = co_await net::greet_server(loop, *channel, wire::Role::kClient);
  if (!welcome) {
    co_return fail(std::move(welcome).error());
  }
  if (welcome->role != role) {
    const std::string there = command_of(welcome->role);
    co_return fail(Code::kInvalidArgument, "a " + std::string(wire::role_name(welcome->role)) +
                                               ", not a " + std::string(wire::role_name(role)) +
                                               ", answers at '" + socket + "': ask it by `goblin " +
                                               there + "`, or name another --socket");
  }
  net::ChannelLimits limits;
  limits.idle = net::Milliseconds(600'000);
  channel->set_limits(limits);
  GOBLIN_CO_TRY_VOID(co_await channel->send(net::make_frame(wire::FrameType::kRequest, request)));
  GOBLIN_CO_TRY(net::Frame frame, co_await channel->receive());
  GOBLIN_CO_TRY(wire::Reply reply, wire::decode_reply(frame.message));
  if (reply.status != GOBLIN_OK) {
    co_return fail(code_from_status(reply.status), std::move(reply.message));
  }
  co_return std::move(reply.body);
}

net::Task<void> run(net::Loop& loop, std::string socket, wire::Role role, wire::Request request,
                    Result<wire::ReplyBody>& out) {
  out = co_await exchange(loop, std::move(socket), role, std::move(request));
  loop.stop();
}

}  // namespace

Result<wire::ReplyBody> ask(const std::string& socket, wire::Role role, wire::RequestBody body) {
  GOBLIN_TRY(std::unique_ptr<net::Loop> loop, net::Loop::create(1));
  wire::Request request;
  request.number = 1;
  request.body = std::move(body);
  Result<wire::ReplyBody> out = fail(Code::kCancelled, "interrupted");
  loop->spawn(run(*loop, socket, role, std::move(request), out));
  loop->run();
  return out;
}

}  // namespace goblin::cli
