// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <unistd.h>

#include <fmt/format.h>

#include "core/base/fd.h"
#include "core/base/op_context.h"

namespace ascope {

namespace {

constexpr Millis kQuietFor{500};  // nothing is drawn for what takes less (product 3)
constexpr Millis kDrawEvery{100};

class NoProgress final : public Progress {
 public:
  void update(std::string_view /*what*/, std::uint64_t /*done*/, std::uint64_t /*total*/) override {}
  void finish() override {}
};

class DrawnProgress final : public Progress {
 public:
  explicit DrawnProgress(bool as_json) : as_json_(as_json) {}
  ~DrawnProgress() override { clear(); }

  void update(std::string_view what, std::uint64_t done, std::uint64_t total) override {
    const Millis now = system_clock().boottime();
    if (what != what_) {
      clear();
      what_ = what;
      begin_ = now;
      drawn_ = now;
      return;
    }
    if (now - begin_ < kQuietFor || now - drawn_ < kDrawEvery) {
      return;
    }
    drawn_ = now;
    const double seconds = static_cast<double>((now - begin_).count()) / 1000.0;
    const double rate = static_cast<double>(done) / seconds;
    const bool known = total > done && rate > 0;
    const double eta = known ? static_cast<double>(total - done) / rate : 0;
    if (as_json_) {
      const Json line{{"schema", "ascope.progress/1"},
                      {"step", std::string(what)},
                      {"done_bytes", done},
                      {"total_bytes", total == 0 ? Json(nullptr) : Json(total)},
                      {"bytes_per_second", static_cast<std::uint64_t>(rate)},
                      {"eta_ms", known ? Json(static_cast<std::uint64_t>(eta * 1000)) : Json(nullptr)}};
      say(dump_json(line) + "\n");
      return;
    }
    std::string line = fmt::format("\r\033[K{}: {}", what, format_size(done));
    if (total > 0) {
      const auto filled = static_cast<std::size_t>(20.0 * static_cast<double>(std::min(done, total)) /
                                                   static_cast<double>(total));
      line += fmt::format(" of {} [{}{}]", format_size(total), std::string(filled, '#'),
                          std::string(20 - filled, '.'));
    }
    line += fmt::format(" {}/s", format_size(static_cast<std::uint64_t>(rate)));
    if (known) {
      line += fmt::format(", {:.0f} s left", eta);
    }
    say(line);
    visible_ = true;
  }

  void finish() override {
    clear();
    what_.clear();
  }

 private:
  void clear() {
    if (visible_) {
      say("\r\033[K");
      visible_ = false;
    }
  }
  static void say(const std::string& text) {
    static_cast<void>(
        write_all(STDERR_FILENO, text).has_value());  // progress has nowhere to report a failure
  }

  bool as_json_;
  bool visible_ = false;
  std::string what_;
  Millis begin_{0};
  Millis drawn_{0};
};

}  // namespace

std::unique_ptr<Progress> make_progress(const Output& out, const std::string& choice) {
  const char* term = std::getenv("TERM");
  const bool terminal = ::isatty(STDERR_FILENO) != 0 && (term == nullptr || std::string_view(term) != "dumb");
  if (choice == "json") {
    return std::make_unique<DrawnProgress>(true);
  }
  if (choice == "none" || out.quiet || !terminal) {
    return std::make_unique<NoProgress>();
  }
  return std::make_unique<DrawnProgress>(false);
}

}  // namespace ascope
