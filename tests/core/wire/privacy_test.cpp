// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What hosts and lab nodes tell each other about work has no place for text. Proved on the compiled
// schema: from each such message, only numbers, structs of them and lists of those are reachable.
#include <capnp/schema.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "client.capnp.h"
#include "peer.capnp.h"
#include "task.capnp.h"

namespace goblin::wire {
namespace {

using Which = capnp::schema::Type::Which;

/// Walks everything reachable and lists the fields that could carry text or anything at all.
class Walk {
 public:
  void visit(capnp::StructSchema type, const std::string& path) {
    if (!seen_.insert(type.getProto().getId()).second) return;
    for (const auto field : type.getFields())
      visit(field.getType(), path + "." + field.getProto().getName().cStr());
  }

  std::vector<std::string> open_fields;
  std::size_t fields = 0;

 private:
  void visit(capnp::Type type, const std::string& path) {
    ++fields;
    switch (type.which()) {
      case Which::TEXT:
      case Which::DATA:
      case Which::ANY_POINTER:
      case Which::INTERFACE:
        open_fields.push_back(path);
        break;
      case Which::LIST:
        visit(type.asList().getElementType(), path + "[]");
        break;
      case Which::STRUCT:
        visit(type.asStruct(), path);
        break;
      default:
        break;
    }
  }

  std::set<std::uint64_t> seen_;
};

template <typename T>
void expect_numbers_only(const char* name) {
  Walk walk;
  walk.visit(capnp::Schema::from<T>(), name);
  EXPECT_GT(walk.fields, 0u) << name;
  EXPECT_TRUE(walk.open_fields.empty()) << walk.open_fields.front() << " can carry text";
}

TEST(Privacy, MessagesAboutWorkHoldNumbersOnly) {
  expect_numbers_only<schema::Leases>("Leases");
  expect_numbers_only<schema::Results>("Results");
  expect_numbers_only<schema::CancelLeases>("CancelLeases");
  expect_numbers_only<schema::HandBack>("HandBack");
  expect_numbers_only<schema::Heartbeat>("Heartbeat");
  expect_numbers_only<schema::ReleaseResults>("ReleaseResults");
  expect_numbers_only<schema::Standing>("Standing");
  expect_numbers_only<schema::LinkProbe>("LinkProbe");
  expect_numbers_only<schema::LinkEcho>("LinkEcho");
  expect_numbers_only<schema::HostOffer>("HostOffer");
}

TEST(Privacy, SoDoBlobsGreetingsAndStatus) {
  expect_numbers_only<schema::Hello>("Hello");
  expect_numbers_only<schema::Welcome>("Welcome");
  expect_numbers_only<schema::Goodbye>("Goodbye");
  expect_numbers_only<schema::BlobGet>("BlobGet");
  expect_numbers_only<schema::BlobInfo>("BlobInfo");
  expect_numbers_only<schema::BlobData>("BlobData");
  expect_numbers_only<schema::BlobCredit>("BlobCredit");
  expect_numbers_only<schema::BlobCancel>("BlobCancel");
  expect_numbers_only<schema::HostStatus>("HostStatus");
  expect_numbers_only<schema::HostAssignments>("HostAssignments");
}

TEST(Privacy, TheWalkFindsTextWhereThereIsSome) {
  Walk labs;
  labs.visit(capnp::Schema::from<schema::LabAssignments>(), "LabAssignments");
  EXPECT_EQ(labs.open_fields, (std::vector<std::string>{"LabAssignments.labs[].address"}));
  Walk request;
  request.visit(capnp::Schema::from<schema::Request>(), "Request");
  EXPECT_GT(request.open_fields.size(), 5u);  // through unions and groups
}

}  // namespace
}  // namespace goblin::wire
