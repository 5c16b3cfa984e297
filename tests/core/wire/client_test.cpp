// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/wire/client.hpp"

#include "tests/core/wire/generate.hpp"

namespace goblin::wire {
namespace {

GOBLIN_WIRE_CLIENT_MESSAGES(GOBLIN_ROUND_TRIP)

template <std::size_t I, typename Message, typename Decode>
void expect_case(Decode decode) {
  testing::Generator generate(testing::test_seed() + I);
  using Body = std::variant_alternative_t<I, decltype(Message::body)>;
  Message message;
  message.number = I;
  message.body = generate.make<Body>();
  const auto back = decode(encode(message));
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->body.index(), I);
  EXPECT_TRUE(testing::same(message, *back)) << "case " << I;
}

TEST(Request, EveryCase) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (expect_case<I, Request>([](const Bytes& bytes) { return decode_request(bytes); }), ...);
  }
  (std::make_index_sequence<std::variant_size_v<RequestBody>>{});
}

TEST(Reply, EveryCase) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (expect_case<I, Reply>([](const Bytes& bytes) { return decode_reply(bytes); }), ...);
  }
  (std::make_index_sequence<std::variant_size_v<ReplyBody>>{});
}

template <typename T>
void expect_refused(const Result<T>& result, const std::string& field) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  EXPECT_NE(result.error().message.find(field), std::string::npos) << result.error().message;
}

TEST(Request, Bounds) {
  Request request;
  Submit submit;
  submit.kind.assign(kMaxNameBytes + 1, 'k');
  request.body = submit;
  expect_refused(decode_request(encode(request)), "Submit.kind: 257 bytes, at most 256");
  submit.kind = "matmul/1";
  submit.policy = static_cast<Policy>(5);
  request.body = submit;
  expect_refused(decode_request(encode(request)), "Submit.policy: 5");
  submit.policy = Policy::kDefault;
  submit.inputs.resize(1);
  submit.inputs[0].dtype = GOBLIN_F32;
  submit.inputs[0].storage = static_cast<Storage>(0);
  request.body = submit;
  expect_refused(decode_request(encode(request)), "JobInput.storage: 0");
  submit.inputs[0].storage = Storage::kFile;
  submit.inputs[0].path.assign(kMaxPathBytes + 1, '/');
  request.body = submit;
  expect_refused(decode_request(encode(request)), "JobInput.path");
  submit.inputs[0].path = std::string("/data/a\0b", 9);
  request.body = submit;
  expect_refused(decode_request(encode(request)), "JobInput.path: text with a NUL");
  submit.inputs[0].path = "/data/a";
  submit.inputs[0].shape = {2, 2};
  submit.inputs[0].strides = {8};
  request.body = submit;
  expect_refused(decode_request(encode(request)), "JobInput.strides");
  submit.inputs[0].strides = {8, 4};
  request.body = submit;
  EXPECT_TRUE(decode_request(encode(request)));
}

TEST(Reply, IncidentsAreBounded) {
  Reply reply;
  Explanation explanation;
  explanation.incidents.resize(kMaxIncidents);
  reply.body = explanation;
  EXPECT_TRUE(decode_reply(encode(reply)));
  explanation.incidents.emplace_back();
  reply.body = explanation;
  expect_refused(decode_reply(encode(reply)), "Explanation.incidents");
}

}  // namespace
}  // namespace goblin::wire
