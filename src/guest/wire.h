// SPDX-License-Identifier: Apache-2.0
// What a client (a backend) and the guest helper say to each other over a stream socket. Linked into the
// guest, so nothing here needs more than the C++ library. To add a message: a FrameType and its row in the
// table.
//
// Stream of frames: u32 payload length (little endian, at most kMaxFrame) · u8 type · u8 0[3] · payload.
// Integers are little endian, strings are u32 length + bytes. An unknown type or a wrong length ends the
// connection.
//
//   client → guest                                            guest → client
//   hello      u32 version, u64 fence (0: none)               welcome  u32 version, u64 highest fence, str
//   sandbox config     GuestConfig                                    done exec_part  bytes that go before
//   those of `exec` exec       ExecHead, ExecBody (+ the pipe ends)           accepted; then started u32 pid
//   or failed u8 stage,
//                                                             i32 errno; then exit ExitReport
//   signal     i32 number       (after `started`)
//   window     u16 rows, u16 columns
//   detach     (end of the connection no longer ends the job)
//   freeze     (until thaw or the end of the connection)      done
//   thaw                                                      done
//   clear      (kills every process but the guest)            done
//   status                                                    status_reply u32 count, count × str
//   terminate  u32 grace in ms                                done, then the guest exits
//   anything with a fence below the highest one               refused u64 highest fence
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ascope::guest {

constexpr std::uint32_t kWireVersion = 1;
constexpr std::uint32_t kHeaderBytes = 8;
constexpr std::uint32_t kMaxFrame = 1U << 20U;
constexpr std::uint32_t kMaxExec = 8U << 20U;  // argv and environment together; Linux takes 6 MiB at most

enum class FrameType : std::uint8_t {
  hello = 1,
  welcome,
  config,
  exec_part,
  exec,
  accepted,
  started,
  failed,
  exit,
  signal,
  window,
  detach,
  freeze,
  thaw,
  status,
  status_reply,
  terminate,
  done,
  refused,
  clear,
};

// Appends fields to anything with append(const char*, std::size_t).
template <typename Out>
class Encoder {
 public:
  explicit Encoder(Out& out) : out_(out) {}
  void u8(std::uint8_t value) { integer(value, 1); }
  void u16(std::uint16_t value) { integer(value, 2); }
  void u32(std::uint32_t value) { integer(value, 4); }
  void u64(std::uint64_t value) { integer(value, 8); }
  void i32(std::int32_t value) { integer(static_cast<std::uint32_t>(value), 4); }
  void str(std::string_view value) {
    u32(static_cast<std::uint32_t>(value.size()));
    out_.append(value.data(), value.size());
  }

 private:
  void integer(std::uint64_t value, int bytes) {
    char text[8];
    for (int i = 0; i < bytes; ++i) {
      text[i] = static_cast<char>((value >> (8U * static_cast<unsigned>(i))) & 0xffU);
    }
    out_.append(text, static_cast<std::size_t>(bytes));
  }
  Out& out_;
};

// Takes fields off a payload; once it has run short everything is zero and ok() stays false.
class Decoder {
 public:
  explicit Decoder(std::string_view rest) : rest_(rest) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(integer(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(integer(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::uint64_t u64() { return integer(8); }
  std::int32_t i32() { return static_cast<std::int32_t>(u32()); }
  std::string_view str();
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return ok_ && rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::uint64_t integer(std::size_t bytes);
  std::string_view rest_;
  bool ok_ = true;
};

// A message of bounded size without allocation; what does not fit is cut off by `full()`.
class SmallFrame {
 public:
  explicit SmallFrame(FrameType type);
  void append(const char* data, std::size_t count);
  // Fills in the length; the whole frame.
  std::string_view finish();
  [[nodiscard]] bool full() const { return full_; }
  [[nodiscard]] std::size_t room() const { return sizeof bytes_ - used_; }

 private:
  char bytes_[4096];
  std::size_t used_ = kHeaderBytes;
  bool full_ = false;
};

// The eight bytes before a payload.
std::string frame_header(FrameType type, std::size_t payload_bytes);
struct FrameHeader {
  std::uint32_t length = 0;
  FrameType type = FrameType::hello;
};
// nullopt if the bytes (at least kHeaderBytes) are no header of this protocol.
std::optional<FrameHeader> parse_header(std::string_view bytes);

// What every command of the sandbox shares; sent once after its start, and again when a start finds it
// running.
struct GuestConfig {
  std::uint64_t idle_ms = 0;  // 0: never ends by itself
  std::uint32_t uid = 1000, gid = 1000;
  bool one_user = false;  // no other user than this one can be had
  std::string user = "agent";
  std::string home = "/home/agent";
  std::string cwd = "/workspace";
  std::uint64_t max_processes = 0;   // RLIMIT_NPROC, 0: as inherited
  std::uint64_t max_data_bytes = 0;  // RLIMIT_DATA, 0: as inherited
  std::vector<std::pair<std::string, std::string>> environment;
  bool no_capabilities = false;  // commands get none, root's neither
};
void encode(std::string& out, const GuestConfig& config);
bool decode(std::string_view payload, GuestConfig& config);

// Flags of an ExecHead. The pipe ends come in this order: in, out, err; a missing one is /dev/null.
constexpr std::uint32_t kHasIn = 1U << 0U;
constexpr std::uint32_t kHasOut = 1U << 1U;
constexpr std::uint32_t kHasErr = 1U << 2U;
constexpr std::uint32_t kTty = 1U << 3U;
constexpr std::uint32_t kKillSandbox = 1U << 4U;  // a timeout ends everything in the sandbox
constexpr std::uint32_t kApplet = 1U << 5U;       // argv names a part of the guest itself ("unpack")
constexpr std::uint32_t kAsRoot = 1U << 6U;       // applets only: as the sandbox's root where it has one
constexpr std::uint32_t kWhileFrozen = 1U << 7U;  // applets only, that change nothing

// The part of a request that the first process reads; the job's own process reads the rest.
struct ExecHead {
  std::uint32_t flags = 0;
  std::uint64_t timeout_ms = 0;  // 0: none
  std::uint64_t grace_ms = 5000;
  std::uint16_t rows = 0, columns = 0;
  std::string_view job;  // shown by `status`
};
struct ExecBody {
  std::string_view user;  // empty: the config's
  std::string_view cwd;   // empty: the config's
  std::vector<std::string_view> argv;
  std::vector<std::pair<std::string_view, std::string_view>> environment;  // over the config's
};
void encode(std::string& out, const ExecHead& head, const ExecBody& body);
// The views point into `payload`. `rest` is what decode(ExecBody) takes.
bool decode(std::string_view payload, ExecHead& head, std::string_view& rest);
bool decode(std::string_view rest, ExecBody& body);

// Why a command did not start.
enum class FailStage : std::uint8_t { fork = 1, request, user, cwd, terminal, exec };

enum class ExitWhy : std::uint8_t { ended = 0, timed_out = 1, hung_up = 2 };
struct ExitReport {
  std::int32_t wait_status = 0;
  ExitWhy why = ExitWhy::ended;
  std::uint64_t killed = 0;
};

}  // namespace ascope::guest
