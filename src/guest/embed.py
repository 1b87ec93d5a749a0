# SPDX-License-Identifier: Apache-2.0
"""Writes a C++ source that holds the bytes of a file: embed.py INPUT OUTPUT.

The assembler takes the bytes itself (.incbin): a megabyte as a C array would take the compiler seconds. The hash
makes the source change whenever the file does.
"""
import hashlib
import os
import sys

source, output = sys.argv[1:]
with open(source, "rb") as stream:
    digest = hashlib.sha256(stream.read()).hexdigest()
with open(output, "w", encoding="ascii") as stream:
    stream.write(f"""// sha256 {digest}
#include "guest/embedded.h"

__asm__(
    ".section .rodata\\n"
    ".balign 16\\n"
    ".globl ascope_guest_begin\\n.hidden ascope_guest_begin\\n"
    ".globl ascope_guest_end\\n.hidden ascope_guest_end\\n"
    "ascope_guest_begin:\\n.incbin \\"{os.path.abspath(source)}\\"\\n"
    "ascope_guest_end:\\n.byte 0\\n.previous\\n");

extern "C" {{
extern const char ascope_guest_begin[];
extern const char ascope_guest_end[];
}}

namespace ascope::guest {{

ByteView guest_program() {{
  return {{ascope_guest_begin, static_cast<std::size_t>(ascope_guest_end - ascope_guest_begin)}};
}}

}}  // namespace ascope::guest
""")
