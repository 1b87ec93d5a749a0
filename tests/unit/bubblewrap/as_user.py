# SPDX-License-Identifier: Apache-2.0
"""Runs a test program as an ordinary user: as_user.py PROGRAM. Needs root; else the program ran as one anyway (77).

The program is started by descriptor, so that the folders above it need not be open to the user.
"""
import os
import sys

USER = 61234  # no account has it

if os.geteuid() != 0:
    print("skipped: only root can become another user")
    sys.exit(77)
program = os.open(sys.argv[1], os.O_RDONLY)
os.chdir("/tmp")
os.setgroups([])
os.setresgid(USER, USER, USER)
os.setresuid(USER, USER, USER)
environment = dict(os.environ, HOME="/tmp", USER="tester")
os.execve(program, [sys.argv[1]], environment)
