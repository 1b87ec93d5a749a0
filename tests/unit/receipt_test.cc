// SPDX-License-Identifier: Apache-2.0
#include "core/receipt.h"

#include <doctest/doctest.h>

using namespace ascope;

namespace {

class StepClock final : public Clock {
 public:
  [[nodiscard]] Millis boottime() const override { return now; }
  [[nodiscard]] std::chrono::system_clock::time_point wall() const override { return {}; }
  Millis now{1000};
};

}  // namespace

TEST_CASE("receipt: every member stands in it, and comes back") {
  Receipt receipt;
  receipt.id = "0123456789abcdef";
  receipt.command = "start";
  receipt.slot = "user/a/\xff";
  receipt.outcome = "failed";
  receipt.error_kind = "busy";
  receipt.error_message = "held";
  receipt.exit_code = 5;
  receipt.priority = 3;
  receipt.branch = "C";
  receipt.evidence = {{"record", "ours", "rev 12"}};
  receipt.rejected = {{"A", "the sandbox is gone"}};
  receipt.phases = {{"lease", Millis(12)}};
  receipt.snapshot = "s2";
  receipt.changed = true;
  receipt.replaced_settings = {"network: none → host"};
  receipt.fence = 1795976507358174;
  receipt.rev = 9;
  receipt.claimed_over = 7;
  receipt.lock_wait = Millis(3);
  receipt.frozen = Millis(4);
  receipt.not_enforced = {"memory"};
  receipt.entries = Json::array({Json{{"path", "a"}, {"action", "written"}}});
  receipt.projection = {{"copied", 1}};
  receipt.exec = {{"exit_code", 0}};
  receipt.notes = {{"a\xfe", "socket skipped"}};
  receipt.warnings = {"w"};
  const Json json = receipt_json(receipt);
  CHECK(json["schema"] == "ascope.receipt/1");
  CHECK(json["fence"] == "1795976507358174");
  CHECK(json["stranded"].is_null());
  CHECK(json["slot"].contains("base64"));
  CHECK(json["phases"][0]["ms"] == 12);
  auto back = parse_receipt(parse_json(dump_json(json)).value());
  REQUIRE(back.has_value());
  CHECK(dump_json(receipt_json(back.value())) == dump_json(json));
  CHECK(back->slot == receipt.slot);
  CHECK(back->notes[0].path == receipt.notes[0].path);
}

TEST_CASE("receipt: an empty one has the same members as a full one") {
  CHECK(receipt_json(Receipt{}).size() == 44);
  CHECK(parse_receipt(receipt_json(Receipt{})).has_value());
}

TEST_CASE("receipt: another schema or a wrong type is no receipt") {
  Json json = receipt_json(Receipt{});
  json["schema"] = "ascope.receipt/2";
  CHECK(parse_receipt(json).error().kind == ErrorKind::unsupported);
  for (const char* key :
       {"exit_code", "changed", "phases", "rejected", "notes", "fence", "why", "lock_wait_ms"}) {
    Json wrong = receipt_json(Receipt{});
    wrong[key] = Json::object();
    auto parsed = parse_receipt(wrong);
    CHECK_MESSAGE((!parsed && parsed.error().kind == ErrorKind::corrupt), key);
  }
  CHECK(parse_receipt(Json::array()).error().kind == ErrorKind::corrupt);
}

TEST_CASE("receipt: a phase is measured once") {
  StepClock clock;
  Receipt receipt;
  {
    PhaseTimer timer(receipt, "lease", clock);
    clock.now += Millis(25);
    timer.done();
    clock.now += Millis(100);
  }
  {
    const PhaseTimer timer(receipt, "claim", clock);
  }
  REQUIRE(receipt.phases.size() == 2);
  CHECK(receipt.phases[0].name == "lease");
  CHECK(receipt.phases[0].duration == Millis(25));
  CHECK(receipt.phases[1].duration == Millis(0));
}
