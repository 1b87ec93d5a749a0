// SPDX-License-Identifier: Apache-2.0
// What can go wrong, as values: an Error has a kind (what the caller may do), a message and a hint.
// To add a kind: one enum value here; the compiler then names every switch to extend.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace ascope {

enum class ErrorKind {
  usage,                // the command line is wrong
  config,               // the profile or another file of the user is wrong
  not_found,            // it does not exist; said only when the place was reached and asked
  busy,                 // held by another, or waiting for it timed out
  conflict,             // lease lost, changed meanwhile, or exists already: nothing was overwritten
  refused,              // the branch or the loss was not allowed by the caller
  corrupt,              // a checksum or a format is wrong
  backend_unavailable,  // the provider gave no answer, or refuses for now
  store_unavailable,    // the store gave no answer, or refuses for now
  denied,               // credentials or permission
  partial,              // some of several targets failed
  incomplete,           // a restore was done in part
  unsupported,          // this backend or store cannot do that
  timeout,              // a deadline passed
  io,                   // disk, file or program of this machine
  cancelled,            // interrupted by the user; the signal is in Error::signal
  internal,             // a defect of ours
};

// The kind's name as it stands in error JSON ("store_unavailable").
std::string_view to_string(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;  // a lower-case clause without a final period, names in quotes: "bucket 'a' not found"
  std::string hint;     // what the user can do next, a command where there is one; may be empty
  int signal = 0;       // for `cancelled`: the signal that interrupted us
  int os_error = 0;     // errno of the system call that failed, where one did

  // Adds what was being done, once a layer: "loading state of user/a/b: …".
  [[nodiscard]] Error within(std::string_view what) &&;
  // Sets the hint where there is none yet.
  [[nodiscard]] Error with_hint(std::string_view text) &&;
};

[[nodiscard]] Error make_error(ErrorKind kind, std::string message, std::string hint = {});
// An `io` error from `errno_value`: "WHAT: No space left on device". EACCES and EPERM become `denied`.
[[nodiscard]] Error errno_error(std::string_view what, int errno_value);
// What the failure of a system call means, in one place. A file or store of this machine that cannot be
// written is this machine's fault (`io`), as is having no room or no descriptors left; the functions of
// core/base/file.h say so themselves. A store that cannot be read is one that cannot be asked
// (`store_unavailable`). What is left as `denied` is a file of the user's that may not be read, and
// credentials. Errors that no system call caused stay as they are.
[[nodiscard]] Error read_failure(Error error);
[[nodiscard]] Error write_failure(Error error);

// A value or an Error. Look inside only after has_value().
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  // NOLINTBEGIN(google-explicit-constructor): `return value;` and `return error;`
  Result(T value) : data_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : data_(std::in_place_index<1>, std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return data_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  [[nodiscard]] T& value() & { return std::get<0>(data_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(data_); }
  [[nodiscard]] T value() && { return std::get<0>(std::move(data_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] Error& error() & { return std::get<1>(data_); }
  [[nodiscard]] const Error& error() const& { return std::get<1>(data_); }
  [[nodiscard]] Error error() && { return std::get<1>(std::move(data_)); }

 private:
  std::variant<T, Error> data_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] Error& error() & { return *error_; }
  [[nodiscard]] const Error& error() const& { return *error_; }
  [[nodiscard]] Error error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

inline Result<void> ok() {
  return {};
}

}  // namespace ascope

#define ASCOPE_CONCAT_INNER(a, b) a##b
#define ASCOPE_CONCAT(a, b) ASCOPE_CONCAT_INNER(a, b)

// Returns the error of `expr` from the enclosing function, if it has one.
#define ASCOPE_TRY(expr)                           \
  do {                                             \
    auto ascope_try_result = (expr);               \
    if (!ascope_try_result) {                      \
      return std::move(ascope_try_result).error(); \
    }                                              \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): `lhs` may be a declaration
// Declares or assigns `lhs` from the value of `expr`, or returns its error.
#define ASCOPE_TRY_ASSIGN(lhs, expr) \
  ASCOPE_TRY_ASSIGN_INNER(lhs, expr, ASCOPE_CONCAT(ascope_result_, __LINE__))
#define ASCOPE_TRY_ASSIGN_INNER(lhs, expr, result) \
  auto result = (expr);                            \
  if (!(result)) {                                 \
    return std::move(result).error();              \
  }                                                \
  lhs = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)
