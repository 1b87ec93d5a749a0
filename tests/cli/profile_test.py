# SPDX-License-Identifier: Apache-2.0
"""`profile init|validate|show|trust` of the built program, and settings from every layer."""
import json
import os

import harness


class ProfileTest(harness.CliTest):
    def write(self, name, text):
        with open(os.path.join(self.place.cwd, name), "w", encoding="utf-8") as file:
            file.write(text)

    def test_init_writes_trusts_and_never_overwrites(self):
        done = self.place.run("profile", "init", "--agent", "a: b")
        self.assertEqual((done.code, done.text), (0, "ascope.yaml\n"), done)
        path = os.path.join(self.place.cwd, "ascope.yaml")
        with open(path, encoding="utf-8") as file:
            before = file.read()
        again = self.place.run("profile", "init", "-o", "json")
        self.assertEqual(again.code, 6, again)
        self.assertEqual(again.error()["kind"], "conflict")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), before)
        shown = self.place.run("profile", "show", "-o", "json")
        values = {row["key"]: row for row in shown.json()["values"]}
        self.assertEqual(values["agent"]["value"], "a: b")
        self.assertEqual(values["agent"]["where"], "ascope.yaml:3:8")
        trusted = self.place.run("profile", "trust", "-o", "json").json()
        self.assertEqual((trusted["trusted"], trusted["changed"]), (True, False))

    def test_show_is_a_profile_again(self):
        first = self.place.run("profile", "show", "--set", "workspace.exclude=['*.o']", "--user", "no")
        self.assertEqual(first.code, 0, first)
        self.write("shown.yaml", first.text)
        again = self.place.run("profile", "show", "--profile", "shown.yaml")
        self.assertEqual((again.code, again.text), (0, first.text), again)

    def test_errors_name_place_and_mend(self):
        self.write("ascope.yaml", "backend:\n  netwrok: none\nrelease: stopp\n")
        done = self.place.run("profile", "show")
        self.assertEqual((done.code, done.out), (2, b""), done)
        self.assertEqual(done.errors, "ascope-sandbox: error: ascope.yaml:2:3: unknown key 'netwrok' in 'backend'\n"
                                      "hint: did you mean 'network'?\n")
        done = self.place.run("profile", "validate")
        self.assertEqual(done.code, 2, done)
        self.assertIn("ascope.yaml:2:3:", done.errors)
        self.assertIn("ascope.yaml:3:10: unknown value 'stopp' for 'release'", done.errors)
        done = self.place.run("profile", "validate", "-o", "json")
        self.assertEqual([p["exit_code"] for p in done.json()["problems"]], [2, 2], done)
        self.assertFalse(done.json()["valid"])
        self.assertEqual(done.error()["kind"], "config")

    def test_a_found_profile_needs_trust(self):
        self.write("ascope.yaml", "snapshots: {store: 'local:/srv/x'}\n")
        done = self.place.run("profile", "show", "-o", "json")
        self.assertEqual((done.code, done.error()["hint"]),
                         (2, "read it, then: ascope-sandbox profile trust ascope.yaml"), done)
        self.assertEqual(self.place.run("profile", "show", "--profile", "ascope.yaml").code, 0)
        self.assertEqual(self.place.run("profile", "trust", "ascope.yaml").code, 0)
        self.assertEqual(self.place.run("profile", "show").code, 0)
        self.write("ascope.yaml", "snapshots: {store: 'local:/srv/y'}\n")
        self.assertEqual(self.place.run("profile", "show").code, 2)
        self.assertEqual(self.place.run("profile", "trust").code, 0)
        self.assertEqual(self.place.run("profile", "trust", "--revoke").code, 0)
        self.assertEqual(self.place.run("profile", "show").code, 2)
        self.assertEqual(self.place.run("profile", "trust", "none.yaml").code, 4)

    def test_layers(self):
        self.write("ascope.yaml", "agent: file\nuser: file\nsession: file\nscope: agent\n")
        done = self.place.run("profile", "show", "-o", "json", "--agent", "flag", "--set", "user=set", "--set",
                              "agent=set", env={"ASCOPE_USER": "env", "ASCOPE_SESSION": "env"})
        self.assertEqual(done.code, 0, done)
        values = {row["key"]: (row["value"], row["where"]) for row in done.json()["values"]}
        self.assertEqual(values["agent"], ("flag", "--agent"))
        self.assertEqual(values["user"], ("set", "--set user"))
        self.assertEqual(values["session"], ("env", "ASCOPE_SESSION"))
        self.assertEqual(values["scope"], ("agent", "ascope.yaml:4:8"))
        self.assertEqual(values["release"], ("keep", "built in"))

    def test_secrets_are_covered(self):
        self.write("p.yaml", "workspace: {environment: {TOKEN: 'x${SECRET}'}}\n")
        for form in ("text", "json", "jsonl"):
            done = self.place.run("profile", "show", "--origin", "--profile", "p.yaml", "-o", form, "-vv",
                                  env={"SECRET": "hunter2"})
            self.assertEqual(done.code, 0, done)
            self.assertIn("x********", done.text)
            self.assertNotIn("hunter2", done.text + done.errors)
        done = self.place.run("profile", "show", "--profile", "p.yaml")
        self.assertEqual(done.code, 2, done)
        self.assertIn("p.yaml:1:34: environment variable 'SECRET' is not set", done.errors)

    def test_one_json_object(self):
        for words in (("profile", "show"), ("profile", "validate"), ("profile", "init")):
            done = self.place.run(*words, "-o", "json")
            self.assertEqual(done.code, 0, done)
            self.assertTrue(json.loads(done.out)["schema"].startswith("ascope.profile"), done)
