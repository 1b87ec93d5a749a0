// SPDX-License-Identifier: Apache-2.0
#include "contract/lease_worker.h"

#include <csignal>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>  // NOLINT(modernize-deprecated-headers): clock_gettime
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/lease/lease_keeper.h"

namespace ascope::testing {

namespace {

long long now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

template <typename T>
std::string kind_of(const Result<T>& result) {
  return std::string(to_string(result.error().kind));
}

std::string yes_no(const Result<bool>& result) {
  return result ? (*result ? "true" : "false") : kind_of(result);
}

std::string ok_or_kind(const Result<void>& result) {
  return result ? "ok" : kind_of(result);
}

class Child {
 public:
  Child(const LeaseFixture& fixture, const LeaseWorker::Setup& setup, int in, int out)
      : store_(fixture.open()), request_(lease_request(fixture, setup.name)), in_(in), out_(out) {
    request_.ttl = setup.ttl;
    request_.wait = setup.wait;
    if (!setup.process) {
      request_.holder.pid = 0;
    }
    request_.on_wait = [this](const LeaseInfo& /*holder*/) { say("wait"); };
  }

  void serve() {
    char command = 0;
    while (read_some(in_, {&command, 1}).value() == 1) {
      const long long before = now_ns();
      const std::string text = act(command);
      say(text, command == 'r' ? before : now_ns());
    }
  }

 private:
  void say(const std::string& text, long long stamp = now_ns()) const {
    static_cast<void>(write_all(out_, text + "\t" + std::to_string(stamp) + "\n").has_value());
  }

  std::string act(char command) {
    const OpContext ctx;
    switch (command) {
      case 'a': {
        auto grant = store_->acquire(ctx, request_);
        if (!grant) {
          return kind_of(grant);
        }
        grant_ = std::move(grant).value();
        return "got " + std::to_string(grant_.fence);
      }
      case 'k':
        keeper_ = std::make_unique<LeaseKeeper>(*store_, grant_, system_clock(), Millis(0), nullptr);
        return "ok";
      case 'c':
        return ok_or_kind(keeper_->check());
      case 'n':
        return yes_no(store_->renew(ctx, grant_));
      case 'r':
        return yes_no(store_->release(ctx, grant_));
      case 'R':
        return ok_or_kind(keeper_->release(ctx));
      default:
        return "?";
    }
  }

  std::unique_ptr<LeaseStore> store_;
  LeaseRequest request_;
  LeaseGrant grant_;
  std::unique_ptr<LeaseKeeper> keeper_;
  int in_;
  int out_;
};

}  // namespace

LeaseWorker::LeaseWorker(const LeaseFixture& fixture, const Setup& setup) {
  auto to = make_pipe();
  auto from = make_pipe();
  REQUIRE((to.has_value() && from.has_value()));
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    to->write_end.reset();
    try {
      Child(fixture, setup, to->read_end.get(), from->write_end.get()).serve();
    } catch (...) {  // a failed REQUIRE of the fixture
      ::_exit(3);
    }
    ::_exit(0);
  }
  to_ = std::move(to->write_end);
  from_ = std::move(from->read_end);
}

LeaseWorker::~LeaseWorker() {
  kill();
}

void LeaseWorker::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

void LeaseWorker::signal(int number) const {
  REQUIRE(::kill(pid_, number) == 0);
}

void LeaseWorker::send(char command) const {
  REQUIRE(write_all(to_.get(), {&command, 1}).has_value());
}

std::string LeaseWorker::answer(Millis wait) {
  while (buffer_.find('\n') == std::string::npos) {
    pollfd item{from_.get(), POLLIN, 0};
    if (::poll(&item, 1, static_cast<int>(wait.count())) <= 0) {
      return {};
    }
    char bytes[256];
    const auto count = read_some(from_.get(), bytes);
    if (!count || *count == 0) {
      return "ended";
    }
    buffer_.append(bytes, *count);
  }
  const auto end = buffer_.find('\n');
  const std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  const auto tab = line.find('\t');
  stamp_ = std::stoll(line.substr(tab + 1));
  return line.substr(0, tab);
}

}  // namespace ascope::testing
