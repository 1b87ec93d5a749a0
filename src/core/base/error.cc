// SPDX-License-Identifier: Apache-2.0
#include "core/base/error.h"

#include <cerrno>
#include <cstring>

namespace ascope {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::config:
      return "config";
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::busy:
      return "busy";
    case ErrorKind::conflict:
      return "conflict";
    case ErrorKind::refused:
      return "refused";
    case ErrorKind::corrupt:
      return "corrupt";
    case ErrorKind::backend_unavailable:
      return "backend_unavailable";
    case ErrorKind::store_unavailable:
      return "store_unavailable";
    case ErrorKind::denied:
      return "denied";
    case ErrorKind::partial:
      return "partial";
    case ErrorKind::incomplete:
      return "incomplete";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::io:
      return "io";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::internal:
      return "internal";
  }
  return "internal";
}

Error Error::within(std::string_view what) && {
  message = std::string(what) + ": " + message;
  return std::move(*this);
}

Error Error::with_hint(std::string_view text) && {
  if (hint.empty()) {
    hint = text;
  }
  return std::move(*this);
}

Error make_error(ErrorKind kind, std::string message, std::string hint) {
  return Error{kind, std::move(message), std::move(hint), 0, 0};
}

Error errno_error(std::string_view what, int errno_value) {
  const ErrorKind kind = errno_value == EACCES || errno_value == EPERM ? ErrorKind::denied : ErrorKind::io;
  Error error = make_error(kind, std::string(what) + ": " + std::strerror(errno_value));
  error.os_error = errno_value;
  if (errno_value == ENOSPC || errno_value == EDQUOT) {
    error.hint = "free some space on that file system; 'ascope-sandbox gc' removes what no slot needs";
  }
  return error;
}

Error read_failure(Error error) {
  switch (error.os_error) {
    case 0:
    case ENOSPC:
    case EDQUOT:
    case EROFS:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return error;
    default:
      break;
  }
  if (error.kind == ErrorKind::denied) {
    error.hint = "make it readable for this user";
  }
  if (error.kind == ErrorKind::denied || error.kind == ErrorKind::io) {
    error.kind = ErrorKind::store_unavailable;
  }
  return error;
}

Error write_failure(Error error) {
  if (error.os_error != 0 && error.kind == ErrorKind::denied) {
    error.kind = ErrorKind::io;
    error.hint = "make it writable for this user";
  }
  return error;
}

}  // namespace ascope
