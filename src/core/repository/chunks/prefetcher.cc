// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/prefetcher.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <variant>

namespace ascope::chunks {

namespace {

constexpr std::uint64_t kWindowBytes = 16U << 20U;  // unpacked, in use or on the way
constexpr std::uint64_t kIdleBytes = 4U << 20U;     // unpacked, kept in case they are wanted again
constexpr std::size_t kItems = 8192;                // entries and chunks ahead
constexpr unsigned kFetchers = 2;
constexpr std::uint64_t kFetchBytes = 1U
                                      << 20U;  // unpacked, of one request: small enough for both to be busy

using FrameKey = std::pair<std::uint32_t, std::uint32_t>;  // pack and offset

// Frames of one request. With the mutex but for `loaded`, which its fetcher writes before `done`.
struct Group {
  std::uint32_t pack = 0;
  std::vector<ChunkRef> refs;  // frames ascend
  std::vector<FrameKey> frames;
  std::uint64_t raw = 0;
  std::size_t uses = 0;  // chunks not taken yet
  bool handed_out = false;
  bool done = false;
  std::optional<Error> error;
  LoadedChunks loaded;
};

struct ChunkItem {
  Group* group = nullptr;
  ChunkRef ref;
  std::size_t index = 0;  // of refs; or of frames, where `shared`
  bool shared = false;    // in a frame that was asked for by another chunk
};
struct EndItem {};
using Item = std::variant<TreeEntry, ChunkItem, Error, EndItem>;

}  // namespace

struct Prefetcher::State {
  State(const OpContext& op, ChunkReader& reader, const RepositoryKey& repository_key, const Manifest& of,
        SelectedEntries& from)
      : ctx(op), chunks(reader), key(repository_key), manifest(of), entries(from) {}

  void plan();
  Result<void> plan_all();
  Result<bool> plan_refs();
  // False: nobody wants it any more.
  bool push(Item item);
  bool add_chunk(const ChunkRef& ref);
  bool make_room(std::unique_lock<std::mutex>& lock, std::uint64_t bytes);
  void hand_out();
  void fetch();
  void release(Group& group);
  void drop(Group& group);
  Result<ByteView> take(const ChunkItem& item);

  const OpContext ctx;
  ChunkReader& chunks;
  const RepositoryKey& key;
  const Manifest& manifest;
  SelectedEntries& entries;

  std::mutex mutex;
  std::condition_variable changed;
  // All with `mutex`:
  std::deque<Item> items;
  std::list<Group> groups;  // all that are in memory
  std::map<FrameKey, std::pair<Group*, std::size_t>> frames;
  Group* open = nullptr;  // being filled
  std::deque<Group*> jobs;
  std::deque<Group*> idle;  // done, and no chunk is wanted of them now
  std::uint64_t bytes = 0;
  std::uint64_t idle_bytes = 0;
  bool stop = false;

  // The taker's own:
  Group* taken = nullptr;
  std::string single;
  FrameDecompressor decompressor;
  bool ended = false;

  std::vector<std::thread> threads;  // last
};

bool Prefetcher::State::push(Item item) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return stop || items.size() < kItems; });
  if (stop) {
    return false;
  }
  items.push_back(std::move(item));
  lock.unlock();
  changed.notify_all();
  return true;
}

void Prefetcher::State::hand_out() {
  if (open != nullptr) {
    open->handed_out = true;
    jobs.push_back(open);
    open = nullptr;
    changed.notify_all();
  }
}

void Prefetcher::State::drop(Group& group) {
  for (const FrameKey& frame : group.frames) {
    const auto found = frames.find(frame);
    if (found != frames.end() && found->second.first == &group) {
      frames.erase(found);
    }
  }
  bytes -= group.raw;
  const auto place =
      std::find_if(groups.begin(), groups.end(), [&](const Group& one) { return &one == &group; });
  groups.erase(place);
}

// A chunk of it was taken, or will not be.
void Prefetcher::State::release(Group& group) {
  if (--group.uses > 0) {
    return;
  }
  if (!group.done) {
    return;  // its fetcher finds that nobody waits
  }
  idle.push_back(&group);
  idle_bytes += group.raw;
  while (idle_bytes > kIdleBytes) {
    Group* oldest = idle.front();
    idle.pop_front();
    idle_bytes -= oldest->raw;
    drop(*oldest);
  }
  changed.notify_all();
}

bool Prefetcher::State::make_room(std::unique_lock<std::mutex>& lock, std::uint64_t wanted) {
  while (!stop && bytes - idle_bytes > 0 && bytes - idle_bytes + wanted > kWindowBytes) {
    hand_out();
    changed.wait(lock);
  }
  while (!idle.empty() && bytes + wanted > kWindowBytes) {
    Group* oldest = idle.front();
    idle.pop_front();
    idle_bytes -= oldest->raw;
    drop(*oldest);
  }
  return !stop;
}

bool Prefetcher::State::add_chunk(const ChunkRef& ref) {
  const FrameKey frame{ref.pack, ref.frame.offset};
  ChunkItem item;
  item.ref = ref;
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return stop || items.size() < kItems; });
  const auto known = frames.find(frame);
  const bool is_last = known != frames.end() && known->second.first == open && open != nullptr &&
                       open->refs.back().frame == ref.frame;
  if (known != frames.end() && !is_last) {
    item.group = known->second.first;
    item.index = known->second.second;
    item.shared = true;
    if (item.group->uses == 0) {
      const auto place = std::find(idle.begin(), idle.end(), item.group);
      if (place != idle.end()) {
        idle.erase(place);
        idle_bytes -= item.group->raw;
      }
    }
  } else {
    if (!is_last) {
      const bool joins = open != nullptr && open->pack == ref.pack &&
                         open->raw + ref.frame.raw <= kFetchBytes &&
                         can_join(open->refs.front().frame, open->refs.back().frame, ref.frame);
      if (!joins) {
        hand_out();
      }
      if (!make_room(lock, ref.frame.raw)) {
        return false;
      }
      if (open == nullptr) {
        open = &groups.emplace_back();
        open->pack = ref.pack;
      }
      frames[frame] = {open, open->frames.size()};
      open->frames.push_back(frame);
      open->raw += ref.frame.raw;
      bytes += ref.frame.raw;
    }
    item.group = open;
    item.index = open->refs.size();
    open->refs.push_back(ref);
  }
  if (stop) {
    return false;
  }
  ++item.group->uses;
  items.emplace_back(item);
  lock.unlock();
  changed.notify_all();
  return true;
}

Result<bool> Prefetcher::State::plan_refs() {
  std::vector<ChunkRef> refs;
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool more, entries.next_refs(ctx, refs));
    if (!more) {
      return true;
    }
    for (const ChunkRef& ref : refs) {
      if (!add_chunk(ref)) {
        return false;
      }
    }
  }
}

Result<void> Prefetcher::State::plan_all() {
  while (true) {
    ASCOPE_TRY_ASSIGN(const bool wanted, plan_refs());
    if (!wanted) {
      return ok();
    }
    TreeEntry entry;
    ASCOPE_TRY_ASSIGN(const bool more, entries.next(ctx, entry));
    if (!more) {
      push(EndItem{});
      return ok();
    }
    if (!push(std::move(entry))) {
      return ok();
    }
  }
}

void Prefetcher::State::plan() {
  Result<void> done = plan_all();
  {
    const std::lock_guard lock(mutex);
    hand_out();
  }
  if (!done) {
    push(std::move(done).error());
  }
}

void Prefetcher::State::fetch() {
  FrameDecompressor unpacker;
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return stop || !jobs.empty(); });
    if (stop) {
      return;
    }
    Group* group = jobs.front();
    jobs.pop_front();
    if (group->uses > 0) {
      lock.unlock();
      Result<LoadedChunks> loaded =
          chunks.load(ctx, manifest.root.packs[group->pack].name, group->refs, unpacker);
      lock.lock();
      if (loaded) {
        group->loaded = std::move(*loaded);
      } else {
        group->error = std::move(loaded).error();
      }
    } else {
      group->error = make_error(ErrorKind::internal, "a frame that nobody wanted was not read");
    }
    group->done = true;
    if (group->uses == 0) {
      drop(*group);
    }
    changed.notify_all();
  }
}

Result<ByteView> Prefetcher::State::take(const ChunkItem& item) {
  {
    std::unique_lock lock(mutex);
    if (item.group == open) {
      hand_out();  // it is wanted before it is full
    }
    changed.wait(lock, [&] { return item.group->done; });
  }
  const LoadedChunks& loaded = item.group->loaded;
  if (!item.shared) {
    return item.group->error ? Result<ByteView>(*item.group->error) : loaded.chunks[item.index];
  }
  const bool fits = !item.group->error && item.index < loaded.frames.size() &&
                    item.ref.at + std::uint64_t{item.ref.raw} <= loaded.frames[item.index].size();
  if (fits) {
    const ByteView content = ByteView(loaded.frames[item.index]).substr(item.ref.at, item.ref.raw);
    if (key.chunk_id(content) == item.ref.id) {
      return content;
    }
  }
  // Its frame could not be read as others asked for it, or came from a pack that took over: on its own, then.
  ASCOPE_TRY_ASSIGN(const LoadedChunks alone, chunks.load(ctx, manifest.root.packs[item.ref.pack].name,
                                                          std::span(&item.ref, 1), decompressor));
  single = alone.chunks.front();
  return ByteView(single);
}

Prefetcher::Prefetcher(const OpContext& ctx, ChunkReader& chunks, const RepositoryKey& key,
                       const Manifest& manifest, SelectedEntries& entries)
    : state_(std::make_unique<State>(ctx, chunks, key, manifest, entries)) {
  State& state = *state_;
  state.threads.emplace_back([&state] { state.plan(); });
  for (unsigned i = 0; i < kFetchers; ++i) {
    state.threads.emplace_back([&state] { state.fetch(); });
  }
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  for (std::thread& thread : state_->threads) {
    thread.join();
  }
}

Result<bool> Prefetcher::next(TreeEntry& entry) {
  State& state = *state_;
  while (!state.ended) {
    std::unique_lock lock(state.mutex);
    if (state.taken != nullptr) {
      state.release(*std::exchange(state.taken, nullptr));
    }
    state.changed.wait(lock, [&] { return !state.items.empty(); });
    Item item = std::move(state.items.front());
    if (std::holds_alternative<Error>(item)) {
      state.items.front() = std::get<Error>(item);  // it stays what it is
      return std::get<Error>(std::move(item));
    }
    state.items.pop_front();
    if (auto* skipped = std::get_if<ChunkItem>(&item)) {
      state.release(*skipped->group);
    }
    lock.unlock();
    state.changed.notify_all();
    if (auto* found = std::get_if<TreeEntry>(&item)) {
      entry = std::move(*found);
      return true;
    }
    state.ended = std::holds_alternative<EndItem>(item);
  }
  return false;
}

Result<std::optional<ByteView>> Prefetcher::chunk() {
  State& state = *state_;
  ChunkItem item;
  {
    std::unique_lock lock(state.mutex);
    if (state.taken != nullptr) {
      state.release(*std::exchange(state.taken, nullptr));
      state.changed.notify_all();
    }
    if (state.ended) {
      return std::optional<ByteView>();
    }
    state.changed.wait(lock, [&] { return !state.items.empty(); });
    if (const auto* error = std::get_if<Error>(&state.items.front())) {
      return *error;
    }
    if (!std::holds_alternative<ChunkItem>(state.items.front())) {
      return std::optional<ByteView>();
    }
    item = std::get<ChunkItem>(state.items.front());
    state.items.pop_front();
  }
  state.changed.notify_all();
  state.taken = item.group;
  Result<ByteView> bytes = state.take(item);
  return bytes ? Result<std::optional<ByteView>>(std::optional<ByteView>(*bytes)) : std::move(bytes).error();
}

}  // namespace ascope::chunks
