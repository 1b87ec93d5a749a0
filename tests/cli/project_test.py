# SPDX-License-Identifier: Apache-2.0
"""Host → workspace by the built program: what start projects, and project plan, apply and status by hand."""
import os
import shutil
import subprocess
import unittest

import harness

PROFILE = """version: 1
workspace:
  projection: {source: ./workspace, include: [AGENTS.md, skills]}
"""


class ProjectTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)
        self.place.write("ascope.yaml", PROFILE)
        self.place.write("workspace/AGENTS.md", "# one\n")
        self.place.write("workspace/skills/a/run.sh", "#!/bin/sh\necho ran\n", 0o755)

    def inside(self, script, code=0):
        done = self.place.run("exec", "--", "sh", "-c", script)
        self.assertEqual(done.code, code, done)
        return done.text

    def status(self):
        return self.place.run("project", "status").code

    def test_start_projects_and_a_change_follows(self):
        started = self.place.ok("start", "-o", "json").json()
        self.assertEqual(started["projection"]["copy"], 2, started)
        self.assertEqual(self.inside("cat AGENTS.md; skills/a/run.sh; stat -c %U AGENTS.md skills/a"),
                         "# one\nran\nagent\nagent\n")
        self.assertEqual(self.status(), 0)
        self.place.write("workspace/AGENTS.md", "# two\n")
        os.unlink(self.place.path("workspace/skills/a/run.sh"))
        self.place.write("workspace/skills/b", "new\n")
        self.assertEqual(self.status(), 1)
        plan = self.place.ok("project", "plan", "-o", "json").json()
        self.assertEqual({(s["action"], s["path"]) for s in plan["steps"]},
                         {("copy", "AGENTS.md"), ("remove", "skills/a/run.sh"), ("copy", "skills/b")})
        self.assertEqual(self.inside("cat AGENTS.md"), "# one\n", "a plan changed something")
        self.place.ok("project", "apply", "--dry-run")
        self.assertEqual(self.inside("cat AGENTS.md"), "# one\n", "a dry run changed something")
        self.place.ok("project", "apply")
        self.assertEqual(self.inside("cat AGENTS.md; ls skills"), "# two\nb\n")
        self.assertEqual(self.status(), 0)

    def test_the_agents_work_is_kept(self):
        self.place.ok("start")
        self.inside("echo mine > AGENTS.md; echo mine > skills/a/run.sh; echo own > skills/own")
        self.assertEqual(self.status(), 0)
        self.place.write("workspace/AGENTS.md", "# two\n")
        shutil.rmtree(self.place.path("workspace/skills"))
        done = self.place.ok("project", "apply")
        self.assertIn("AGENTS.md.agent", done.text)
        self.assertEqual(self.inside("cat AGENTS.md AGENTS.md.agent skills/a/run.sh skills/own"),
                         "# two\nmine\nmine\nown\n")
        self.inside("echo mine too > AGENTS.md")
        self.place.write("workspace/AGENTS.md", "# three\n")
        self.place.ok("project", "apply")
        self.assertEqual(self.inside("cat AGENTS.md AGENTS.md.agent AGENTS.md.agent.2"), "# three\nmine\nmine too\n")
        self.inside("echo agent > AGENTS.md")
        self.place.write("workspace/AGENTS.md", "# four\n")
        self.place.ok("--set", "workspace.projection.on_conflict=agent", "project", "apply")
        self.assertEqual(self.inside("cat AGENTS.md"), "agent\n")

    def test_what_was_projected_survives_a_restore(self):
        self.place.ok("run", "--release", "destroy", "--", "sh", "-c", "echo mine > AGENTS.md")
        started = self.place.ok("start", "-o", "json").json()
        self.assertEqual(started["branch"], "C", started)
        self.assertEqual(self.inside("cat AGENTS.md; skills/a/run.sh"), "mine\nran\n")
        self.assertEqual(self.status(), 0)

    def test_links_do_not_lead_out(self):
        secret = os.path.join(self.place.home, "secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write("host secret")
        os.symlink(secret, self.place.path("workspace/skills/out"))
        os.symlink("a/run.sh", self.place.path("workspace/skills/in"))
        done = self.place.ok("start", "-o", "json").json()
        self.assertEqual([r["path"] for r in done["projection"]["refused"]], ["skills/out"])
        self.assertEqual(self.inside("ls skills; skills/in"), "a\nin\nran\n")

    def test_a_link_of_the_agents_does_not_lead_out(self):
        self.place.ok("start")
        self.inside("rm -rf skills; ln -s /home/agent skills")
        self.place.ok("project", "apply")
        self.assertEqual(self.inside("ls /home/agent; readlink skills.agent; skills/a/run.sh"), "/home/agent\nran\n")

    def test_skills_arrive_as_a_cache(self):
        repository = self.place.path("repository")
        self.place.write("repository/skills/pdf/SKILL.md", "# pdf\n")
        self.place.write("repository/skills/pdf/run", "#!/bin/sh\necho pdf\n", 0o755)
        for args in (["init", "-q"], ["add", "-A"],
                     ["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "c"]):
            subprocess.run(["git", "-C", repository, *args], check=True, env=self.place.env())
        profile = self.place.write("other.yaml", PROFILE + f"  skills: [{{git: \"file://{repository}\"}}]\n")
        self.place.ok("--profile", profile, "start")
        self.assertIn("# pdf", self.inside("cat .skills-cache/*/pdf/SKILL.md; .skills-cache/*/pdf/run"))
        os.rename(repository, repository + ".away")
        again = self.place.ok("--profile", profile, "project", "status")
        self.assertIn("fetched last", again.errors)

    def test_codes(self):
        self.assertEqual(self.place.run("project", "plan").code, 4)
        self.assertEqual(self.place.run("project", "apply").code, 4)
        self.place.ok("start")
        self.assertEqual(self.place.run("project", "push", "./workspace").code, 13)
        self.place.ok("stop")
        self.assertEqual(self.place.run("project", "apply").code, 4)
        self.assertEqual(self.status(), 0)
        shutil.rmtree(self.place.path("workspace"))
        done = self.place.run("project", "plan", "-o", "json")
        self.assertEqual((done.code, done.error()["kind"]), (2, "config"), done)


if __name__ == "__main__":
    unittest.main(verbosity=2)
