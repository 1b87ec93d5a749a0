// SPDX-License-Identifier: Apache-2.0
#include "guest/session.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

namespace ascope::guest {

void Session::open(int fd) {
  fd_ = fd;
  data_ = small_;
  capacity_ = sizeof small_;
  used_ = 0;
  greeted = false;
  waiting = false;
  fence = 0;
}

void Session::close() {
  ::close(fd_);
  fd_ = -1;
  if (data_ != small_) {
    std::free(data_);
  }
  data_ = small_;
  std::free(gathered_);
  gathered_ = nullptr;
  gathered_used_ = 0;
  int ignored[3];
  const int count = take_descriptors(ignored);
  for (int i = 0; i < count; ++i) {
    ::close(ignored[i]);
  }
}

bool Session::grow(std::size_t needed) {
  if (needed <= capacity_) {
    return true;
  }
  char* bigger = static_cast<char*>(std::malloc(needed));
  if (bigger == nullptr) {
    return false;
  }
  std::memcpy(bigger, data_, used_);
  if (data_ != small_) {
    std::free(data_);
  }
  data_ = bigger;
  capacity_ = needed;
  return true;
}

bool Session::receive() {
  if (used_ >= kHeaderBytes) {
    const auto header = parse_header({data_, used_});
    if (!header || !grow(kHeaderBytes + header->length)) {
      return false;
    }
  }
  if (used_ == capacity_) {
    return true;  // a whole frame waits
  }
  iovec piece{data_ + used_, capacity_ - used_};
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = ::recvmsg(fd_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t number = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < number; ++i) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(item) + i * sizeof(int), sizeof received);
      if (descriptor_count_ < 3) {
        descriptors_[descriptor_count_++] = received;
      } else {
        ::close(received);
      }
    }
  }
  used_ += static_cast<std::size_t>(count);
  return count > 0;
}

bool Session::peek(FrameHeader& header, std::string_view& payload, bool& broken) const {
  broken = false;
  if (used_ < kHeaderBytes) {
    return false;
  }
  const auto parsed = parse_header({data_, used_});
  if (!parsed) {
    broken = true;
    return false;
  }
  header = *parsed;
  if (used_ < kHeaderBytes + header.length) {
    return false;
  }
  payload = {data_ + kHeaderBytes, header.length};
  return true;
}

void Session::drop(const FrameHeader& header) {
  const std::size_t whole = kHeaderBytes + header.length;
  used_ -= whole;
  std::memmove(data_, data_ + whole, used_);
}

bool Session::reply(SmallFrame& frame) const {
  const std::string_view bytes = frame.finish();
  return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

bool Session::gather(std::string_view part) {
  if (gathered_used_ + part.size() > kMaxExec) {
    return false;
  }
  char* bigger = static_cast<char*>(std::realloc(gathered_, gathered_used_ + part.size() + 1));
  if (bigger == nullptr) {
    return false;
  }
  gathered_ = bigger;
  std::memcpy(gathered_ + gathered_used_, part.data(), part.size());
  gathered_used_ += part.size();
  return true;
}

int Session::take_descriptors(int (&out)[3]) {
  const int count = descriptor_count_;
  for (int i = 0; i < count; ++i) {
    out[i] = descriptors_[i];
    descriptors_[i] = -1;
  }
  descriptor_count_ = 0;
  return count;
}

}  // namespace ascope::guest
