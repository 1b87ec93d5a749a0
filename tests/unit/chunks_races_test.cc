// SPDX-License-Identifier: Apache-2.0
// Saves beside gcs: no order of their calls, with kills, takes a pack from a snapshot that was saved. The
// real code of all of them runs, one store call at a time.
#include <cstdlib>

#include <doctest/doctest.h>

#include "core/repository/chunks/collect.h"
#include "core/repository/chunks/repack.h"
#include "fakes/chunk_race.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)
using chunks::CollectOptions;
using test::ChunkRace;

namespace {

const OpContext kCtx;
constexpr CollectOptions kNow{std::chrono::seconds(0), false};

// A save that wants what an old pack holds, which nothing names, beside gcs.
struct Beside {
  std::size_t gcs = 1;
  std::size_t saves = 1;
  std::size_t dying = test::Turns::kNever;  // number of an actor
  std::size_t dies_at = 0;
  // What stands between an actor and the store, to make it worse than it is.
  ChunkRace::Wrap wrap_save;
  ChunkRace::Wrap wrap_gc;
  [[nodiscard]] std::size_t actors() const { return saves + gcs; }
};

// False: a snapshot that was saved lacks something.
bool race(const Beside& scene, test::Schedule& schedule, ChunkRace::Counts& counts) {
  ChunkRace race;
  const std::string content = test::noise(20'000, 1);
  race.leave_unnamed({{"old", content}});
  for (std::size_t i = 0; i < scene.saves; ++i) {
    race.add_save({{"new", "of save " + std::to_string(i)}, {"wanted", content}}, scene.wrap_save);
  }
  for (std::size_t i = 0; i < scene.gcs; ++i) {
    race.add(
        [](const chunks::Access& access) {
          static_cast<void>(chunks::collect(kCtx, access, kNow).has_value());
        },
        scene.wrap_gc);
  }
  if (scene.dying != test::Turns::kNever) {
    race.kill(scene.dying, scene.dies_at);
  }
  race.run(schedule);
  const bool whole = race.is_whole(counts);
  if (!whole || scene.wrap_gc || scene.wrap_save) {
    return whole;
  }
  // What is left can be cleared, and then nothing is left.
  race.rig.blobs.now += std::chrono::seconds(1);
  CHECK(chunks::collect(kCtx, race.rig.repository->access(kCtx).value(), kNow).has_value());
  CHECK(race.rig.keys("condemned/").empty());
  return race.is_whole(counts);
}

std::size_t bound() {
  return std::getenv("ASCOPE_TEST_FULL") != nullptr ? 3 : 2;
}
std::size_t throws() {
  return std::getenv("ASCOPE_TEST_FULL") != nullptr ? 20'000 : 100;
}

// The first order in which a snapshot is lost is enough.
template <typename Scene>
bool finds_loss(const Scene& scene, std::size_t most = 3) {
  ChunkRace::Counts counts;
  std::size_t orders = 0;
  for (std::size_t changes = 1; changes <= most; ++changes) {
    const bool lost = !test::each_schedule(scene.actors(), changes, [&](test::ChangeSchedule& one) {
      ++orders;
      return race(scene, one, counts);
    });
    if (lost) {
      MESSAGE("found in order " << orders << ", with " << changes << " changes");
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("chunks races: a save and a gc in every order with few changes") {
  ChunkRace::Counts counts;
  std::size_t orders = 0;
  CHECK(test::each_schedule(2, bound(), [&](test::ChangeSchedule& schedule) {
    ++orders;
    return race({}, schedule, counts);
  }));
  CHECK(orders > 100);
  CHECK(counts.saved > orders / 2);
  CHECK(counts.rewritten > 0);
  CHECK(counts.reused > 0);
  MESSAGE(orders << " orders");
}

TEST_CASE("chunks races: several saves and gcs in orders by dice, some of them killed") {
  ChunkRace::Counts counts;
  for (std::size_t seed = 1; seed <= throws(); ++seed) {
    CAPTURE(seed);
    test::RandomSchedule schedule(seed);
    Beside scene;
    scene.saves = 1 + schedule.roll() % 2;
    scene.gcs = 1 + schedule.roll() % 2;
    if (schedule.roll() % 2 == 0) {
      scene.dying = schedule.roll() % (scene.saves + scene.gcs);
      scene.dies_at = schedule.roll() % 30;
    }
    REQUIRE(race(scene, schedule, counts));
  }
  CHECK(counts.rewritten > 0);
  CHECK(counts.reused > 0);
}

TEST_CASE("chunks races: this test sees a save that asks for packs before it reads what is condemned") {
  Beside scene;
  scene.wrap_save = test::asks_too_early;
  CHECK(finds_loss(scene));
}

TEST_CASE("chunks races: this test sees a gc that lifts its list too early") {
  Beside scene;
  scene.wrap_gc = test::lifts_too_early;
  CHECK(finds_loss(scene));
}

TEST_CASE("chunks races: this test sees a gc that does not look again") {
  Beside scene;
  scene.wrap_gc = test::looks_once;
  CHECK(finds_loss(scene));
}

TEST_CASE("chunks races: this test sees a gc that condemns nothing") {
  Beside scene;
  scene.wrap_gc = test::condemns_nothing;
  CHECK(finds_loss(scene));
}

namespace {

void collect_now(const chunks::Access& access) {
  static_cast<void>(chunks::collect(kCtx, access, kNow).has_value());
}

void repack_now(const chunks::Access& access) {
  static_cast<void>(chunks::repack(kCtx, access, chunks::RepackOptions{}).has_value());
}

// A pack of which a snapshot needs a little, saves that want what else it holds, a repack, and perhaps a gc.
struct Repacked {
  bool with_parent = false;  // the save's parent is that snapshot
  std::size_t saves = 1;
  std::size_t repacks = 1;
  std::size_t gcs = 0;
  std::size_t dying = test::Turns::kNever;
  std::size_t dies_at = 0;
  ChunkRace::Wrap wrap_repack;
  ChunkRace::Wrap wrap_gc;
  [[nodiscard]] std::size_t actors() const { return saves + repacks + gcs; }
};

bool race(const Repacked& scene, test::Schedule& schedule, ChunkRace::Counts& counts) {
  ChunkRace race;
  const std::string little = test::noise(4000, 2);
  const std::string content = test::noise(20'000, 1);
  race.leave_unnamed({{"a little", little}, {"wanted", content}});
  const HistoryItem kept = race.save({{"a little", little}});
  for (std::size_t i = 0; i < scene.saves; ++i) {
    race.add_save({{"a little", little}, {"new", "of save " + std::to_string(i)}, {"wanted", content}},
                  nullptr, scene.with_parent ? &kept : nullptr);
  }
  for (std::size_t i = 0; i < scene.repacks; ++i) {
    race.add(repack_now, scene.wrap_repack);
  }
  for (std::size_t i = 0; i < scene.gcs; ++i) {
    race.add(collect_now, scene.wrap_gc);
  }
  if (scene.dying != test::Turns::kNever) {
    race.kill(scene.dying, scene.dies_at);
  }
  race.run(schedule);
  if (!race.is_whole(counts)) {
    return false;
  }
  if (scene.wrap_repack || scene.wrap_gc) {
    return true;
  }
  // What is left can be cleared, in three steps at most.
  const auto access = race.rig.repository->access(kCtx).value();
  race.rig.blobs.now += std::chrono::seconds(1);
  chunks::RepackOptions again;
  again.also = chunks::collect(kCtx, access, kNow).value().to_repack;
  CHECK(chunks::repack(kCtx, access, again).has_value());
  race.rig.blobs.now += std::chrono::seconds(1);
  CHECK(chunks::collect(kCtx, access, kNow).has_value());
  CHECK(race.rig.keys("condemned/").empty());
  return race.is_whole(counts);
}

}  // namespace

TEST_CASE("chunks races: a save and a repack in every order with few changes") {
  for (const bool with_parent : {false, true}) {
    CAPTURE(with_parent);
    ChunkRace::Counts counts;
    Repacked scene;
    scene.with_parent = with_parent;
    CHECK(test::each_schedule(2, with_parent ? bound() : bound() - 1,
                              [&](test::ChangeSchedule& schedule) { return race(scene, schedule, counts); }));
    CHECK(counts.saved > 0);
    CHECK(counts.rewritten > 0);
    CHECK(counts.reused > 0);
  }
}

TEST_CASE("chunks races: a repack and a gc in every order with few changes") {
  ChunkRace::Counts counts;
  Repacked scene;
  scene.saves = 0;
  scene.gcs = 1;
  CHECK(test::each_schedule(2, bound(),
                            [&](test::ChangeSchedule& schedule) { return race(scene, schedule, counts); }));
}

TEST_CASE("chunks races: saves, repacks and gcs in orders by dice, some of them killed") {
  ChunkRace::Counts counts;
  for (std::size_t seed = 1; seed <= throws(); ++seed) {
    CAPTURE(seed);
    test::RandomSchedule schedule(seed);
    Repacked scene;
    scene.with_parent = schedule.roll() % 2 == 0;
    scene.saves = scene.with_parent ? 1 : schedule.roll() % 3;
    scene.repacks = 1 + schedule.roll() % 2;
    scene.gcs = schedule.roll() % 2;
    if (schedule.roll() % 2 == 0) {
      scene.dying = schedule.roll() % scene.actors();
      scene.dies_at = schedule.roll() % 40;
    }
    REQUIRE(race(scene, schedule, counts));
  }
  CHECK(counts.rewritten > 0);
  CHECK(counts.reused > 0);
}

TEST_CASE("chunks races: this test sees a repack that does not ask whether its pack is condemned") {
  Repacked scene;
  scene.saves = 0;
  scene.gcs = 1;
  scene.wrap_repack = test::sees_nothing_condemned;
  CHECK(finds_loss(scene, 4));
}

TEST_CASE("chunks races: this test sees a gc that does not follow forwarders") {
  Repacked scene;
  scene.saves = 0;
  scene.gcs = 1;
  scene.wrap_gc = test::sees_no_forwarders;
  CHECK(finds_loss(scene, 2));
}

TEST_CASE("chunks races: this test sees a repack that does not look again") {
  Repacked scene;
  scene.wrap_repack = test::looks_once;
  CHECK(finds_loss(scene, 3));
}
