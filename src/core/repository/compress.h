// SPDX-License-Identifier: Apache-2.0
// gzip and zstd streams, with their checksums.
#pragma once

#include <memory>

#include "core/repository/tar.h"

namespace ascope {

// A sink that must be finished to be whole.
class FinishedSink : public ByteSink {
 public:
  virtual Result<void> finish() = 0;
};

// Compresses into `sink`. REQUIRES: `compression` is not none.
Result<std::unique_ptr<FinishedSink>> compressing_sink(ByteSink& sink, TarCompression compression);
// Decompresses `bytes`; `corrupt` for a cut or damaged stream. REQUIRES: `compression` is not none.
Result<std::unique_ptr<ByteSource>> decompressing_source(ByteSource& bytes, TarCompression compression);

}  // namespace ascope
