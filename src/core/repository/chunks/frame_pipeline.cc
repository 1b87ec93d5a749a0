// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/frame_pipeline.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "core/repository/chunks/frame.h"

namespace ascope::chunks {

namespace {

constexpr std::size_t kFramesInFlight = 8;
constexpr std::size_t kPagesTogether = 1U << 20U;
constexpr std::size_t kSpareBuffers = 4;

struct Job {
  std::uint64_t number = 0;  // in the order of submission
  std::uint32_t label = 0;
  std::string raw;
  std::vector<ChunkPart> parts;
  bool page = false;
};

struct Packed {
  Job job;
  std::uint32_t raw_bytes = 0;
  FrameCompressor::Packed packed;
};

}  // namespace

struct FramePipeline::State {
  State(const OpContext& op, StoreAccess& blobs, const RepositoryKey& repository_key,
        const PipelineOptions& how, std::function<Result<void>(const FinishedPack&)> done)
      : ctx(op), store(blobs), key(repository_key), options(how), on_put(std::move(done)) {}

  void work();
  void place_all();
  void put_all();
  Result<void> place(Packed frame);
  Result<void> place_pages();
  Result<void> hand_over_pack();
  void fail(Error what);

  const OpContext ctx;
  StoreAccess& store;
  const RepositoryKey& key;
  const PipelineOptions options;
  const std::function<Result<void>(const FinishedPack&)> on_put;

  std::mutex mutex;
  std::condition_variable changed;
  // All with `mutex`:
  std::deque<Job> jobs;
  std::map<std::uint64_t, Packed> packed;  // by number
  std::uint64_t next_number = 0;
  std::uint64_t next_place = 0;
  std::uint32_t data_in_flight = 0;  // data frames without a place
  std::vector<PlacedFrame> placed;
  std::vector<std::string> spare;
  std::optional<FinishedPack> to_put;
  std::vector<PutPack> put;
  bool closing = false;  // nothing more is submitted
  bool all_placed = false;
  bool all_put = false;
  bool stop = false;
  std::optional<Error> error;

  // The placing thread's own:
  std::optional<PackBuilder> builder;
  std::vector<Packed> pages;
  std::size_t page_bytes = 0;

  std::vector<std::thread> threads;  // last: they use all of the above
};

void FramePipeline::State::fail(Error what) {
  {
    const std::lock_guard lock(mutex);
    if (!error) {
      error = std::move(what);
    }
    stop = true;
  }
  changed.notify_all();
}

void FramePipeline::State::work() {
  FrameCompressor compressor(options.level);
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return stop || !jobs.empty() || closing; });
    if (stop || jobs.empty()) {
      return;
    }
    Packed out;
    out.job = std::move(jobs.front());
    jobs.pop_front();
    lock.unlock();
    out.raw_bytes = static_cast<std::uint32_t>(out.job.raw.size());
    Result<std::string> squeezed = compressor.squeeze(out.job.raw);
    if (!squeezed) {
      fail(std::move(squeezed).error());
      return;
    }
    std::string unused;
    if (squeezed->size() < out.raw_bytes) {
      out.packed = {Codec::zstd, std::move(squeezed).value()};
      unused = std::move(out.job.raw);
    } else {
      out.packed = {Codec::raw, std::move(out.job.raw)};
    }
    lock.lock();
    if (unused.capacity() > 0 && spare.size() < kSpareBuffers) {
      unused.clear();
      spare.push_back(std::move(unused));
    }
    const std::uint64_t number = out.job.number;
    packed.emplace(number, std::move(out));
    changed.notify_all();
  }
}

void FramePipeline::State::place_all() {
  std::unique_lock lock(mutex);
  while (true) {
    const auto is_last = [this] { return closing && next_place == next_number; };
    changed.wait(lock, [&] { return stop || packed.contains(next_place) || is_last(); });
    if (stop) {
      return;
    }
    if (!packed.contains(next_place)) {
      break;
    }
    Packed frame = std::move(packed.extract(next_place).mapped());
    lock.unlock();
    if (Result<void> done = place(std::move(frame)); !done) {
      fail(std::move(done).error());
      return;
    }
    lock.lock();
    ++next_place;
    changed.notify_all();
  }
  lock.unlock();
  Result<void> done = place_pages();
  if (done && builder) {
    done = hand_over_pack();
  }
  if (!done) {
    fail(std::move(done).error());
    return;
  }
  lock.lock();
  all_placed = true;
  changed.notify_all();
}

Result<void> FramePipeline::State::place(Packed frame) {
  if (frame.job.page) {
    page_bytes += frame.packed.bytes.size();
    pages.push_back(std::move(frame));
    return page_bytes >= kPagesTogether ? place_pages() : ok();
  }
  if (!builder) {
    builder.emplace(key);
  }
  PlacedFrame out{frame.job.label, builder->name(), {}};
  ASCOPE_TRY_ASSIGN(out.frame, builder->add(frame.packed.codec, std::move(frame.packed.bytes),
                                            frame.raw_bytes, frame.job.parts));
  {
    const std::lock_guard lock(mutex);
    placed.push_back(out);
    --data_in_flight;
  }
  return builder->size_bytes() >= options.pack_bytes ? hand_over_pack() : ok();
}

Result<void> FramePipeline::State::place_pages() {
  for (Packed& page : pages) {
    if (!builder) {
      builder.emplace(key);
    }
    PlacedFrame out{page.job.label, builder->name(), {}};
    ASCOPE_TRY_ASSIGN(out.frame, builder->add(page.packed.codec, std::move(page.packed.bytes), page.raw_bytes,
                                              page.job.parts));
    {
      const std::lock_guard lock(mutex);
      placed.push_back(out);
    }
    if (builder->size_bytes() >= options.pack_bytes) {
      ASCOPE_TRY(hand_over_pack());
    }
  }
  pages.clear();
  page_bytes = 0;
  return ok();
}

Result<void> FramePipeline::State::hand_over_pack() {
  ASCOPE_TRY_ASSIGN(FinishedPack pack, builder->finish());
  builder.reset();
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return stop || !to_put; });
  if (stop) {
    return make_error(ErrorKind::cancelled, "saving was given up");
  }
  to_put = std::move(pack);
  changed.notify_all();
  return ok();
}

void FramePipeline::State::put_all() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return stop || to_put || all_placed; });
    if (stop) {
      return;
    }
    if (!to_put) {
      break;
    }
    // It keeps its slot while it is put: no third one is made meanwhile.
    const FinishedPack& pack = *to_put;
    lock.unlock();
    Result<void> done = put_pack(ctx, store, pack);
    if (done) {
      done = on_put(pack);
    }
    if (!done) {
      fail(std::move(done).error());
      return;
    }
    lock.lock();
    put.push_back({pack.name, pack.size_bytes});
    to_put.reset();
    changed.notify_all();
  }
  all_put = true;
  changed.notify_all();
}

FramePipeline::FramePipeline(const OpContext& ctx, StoreAccess& store, const RepositoryKey& key,
                             const PipelineOptions& options,
                             std::function<Result<void>(const FinishedPack&)> on_put)
    : state_(std::make_unique<State>(ctx, store, key, options, std::move(on_put))) {
  State& state = *state_;
  for (unsigned i = 0; i < std::max(1U, options.workers); ++i) {
    state.threads.emplace_back([&state] { state.work(); });
  }
  state.threads.emplace_back([&state] { state.place_all(); });
  state.threads.emplace_back([&state] { state.put_all(); });
}

FramePipeline::~FramePipeline() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  for (std::thread& thread : state_->threads) {
    thread.join();
  }
}

Result<void> FramePipeline::submit(std::uint32_t label, std::string& raw, std::vector<ChunkPart> parts,
                                   bool page) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock,
                     [&] { return state.stop || state.next_number - state.next_place < kFramesInFlight; });
  if (state.error) {
    return *state.error;
  }
  state.data_in_flight += page ? 0 : 1;
  state.jobs.push_back({state.next_number++, label, std::move(raw), std::move(parts), page});
  raw = std::string();
  if (!page && !state.spare.empty()) {
    raw = std::move(state.spare.back());
    state.spare.pop_back();
  }
  lock.unlock();
  state.changed.notify_all();
  return ok();
}

Result<std::vector<PlacedFrame>> FramePipeline::placed(bool wait) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (wait) {
    state.changed.wait(lock,
                       [&] { return state.stop || !state.placed.empty() || state.data_in_flight == 0; });
  }
  if (state.error) {
    return *state.error;
  }
  return std::exchange(state.placed, {});
}

Result<std::vector<PlacedFrame>> FramePipeline::finish() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  state.closing = true;
  state.changed.notify_all();
  state.changed.wait(lock, [&] { return state.stop || state.all_put; });
  if (state.error) {
    return *state.error;
  }
  return std::exchange(state.placed, {});
}

std::vector<FramePipeline::PutPack> FramePipeline::packs_put() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->put, {});
}

Result<void> put_pack(const OpContext& ctx, StoreAccess& store, const FinishedPack& pack) {
  const std::string object = pack_key(pack.name);
  PackSource source(pack);
  Result<std::optional<BlobInfo>> done = store.put(ctx, object, source);
  if (done && *done && (**done).size_bytes == pack.size_bytes) {
    return ok();
  }
  const bool unknown =
      done || done.error().kind == ErrorKind::store_unavailable || done.error().kind == ErrorKind::timeout;
  if (unknown) {
    Result<std::string> there = store.read(ctx, object, static_cast<std::size_t>(pack.size_bytes));
    std::string wanted;
    for (const std::string& piece : pack.pieces) {
      wanted += piece;
    }
    if (there && *there == wanted) {
      return ok();
    }
  }
  if (!done) {
    return std::move(done).error();
  }
  return make_error(ErrorKind::store_unavailable,
                    "the store holds other bytes under '" + object + "' than it was given");
}

}  // namespace ascope::chunks
