# SPDX-License-Identifier: Apache-2.0
"""The backend contract against containers of a real engine."""
import os
import subprocess
import unittest

import dockerd


def tearDownModule():
    dockerd.close_engine()


class Contract(unittest.TestCase):
    def test_docker_keeps_it(self):
        dockerd.need_docker()
        engine = dockerd.engine()
        done = subprocess.run([os.environ["ASCOPE_CONTRACT_BACKENDS"], "--test-case=*docker*"], capture_output=True,
                              env={**os.environ, "ASCOPE_TEST_DOCKER_HOST": engine.host}, timeout=500, check=False)
        self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace") + done.stderr.decode())
        self.assertIn(b"1 passed | 0 failed", done.stdout)
        self.assertNotIn(b"skipped:", done.stdout + done.stderr)
        self.assertEqual(engine.containers(), [])


if __name__ == "__main__":
    unittest.main()
