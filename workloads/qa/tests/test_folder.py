import os
import re
import socket
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

FOLDER = Path(__file__).parent.parent
MANIFEST = tomllib.loads((FOLDER / "manifest.toml").read_text())


def commands():
    for step in ("prepare", "stage"):
        yield MANIFEST[step]["command"]
    for form in MANIFEST["form"].values():
        yield form["load"]["command"]
        for process in form["process"].values():
            yield process["command"]
            if "command" in process.get("ready", {}):
                yield process["ready"]["command"]


class Folder(unittest.TestCase):
    def test_every_command_of_the_manifest_is_a_script_and_module_that_is_there(self):
        for command in commands():
            self.assertEqual(command[0], "bash")
            self.assertTrue((FOLDER / command[1]).is_file(), command)
            if command[1] == "run.sh":
                self.assertTrue((FOLDER / "qa" / f"{command[2]}.py").is_file(), command)

    def test_every_parameter_is_used_and_none_is_used_that_is_not_declared(self):
        texts = [path.read_text() for path in FOLDER.glob("*.sh")]
        texts += [(FOLDER / "qa" / "settings.py").read_text()]
        used = set(re.findall(r"METASCHED_PARAM_([A-Z]+)", "\n".join(texts)))
        self.assertEqual({name.lower() for name in used}, set(MANIFEST["param"]))

    def test_every_requirement_is_pinned(self):
        for path in (FOLDER / "requirements").glob("*.txt"):
            for line in path.read_text().splitlines():
                if line and not line.startswith("#"):
                    self.assertRegex(line, r"^[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*$", path.name)


class Ready(unittest.TestCase):
    def ready(self, folder):
        done = subprocess.run(
            ["bash", FOLDER / "ready.sh"],
            env={"PATH": os.environ["PATH"], "METASCHED_RUN": folder},
            capture_output=True,
            timeout=30,
            check=False,
        )
        return done.returncode == 0

    def test_the_back_end_is_ready_while_it_listens_and_not_when_only_its_file_is_left(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertFalse(self.ready(folder))
            with socket.socket(socket.AF_UNIX) as back:
                back.bind(f"{folder}/back.sock")
                self.assertFalse(self.ready(folder))
                back.listen()
                self.assertTrue(self.ready(folder))
            self.assertFalse(self.ready(folder))


class Mistakes(unittest.TestCase):
    """Each is one clear sentence, and nothing was begun."""

    def run_script(self, *command, **variables):
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                "PATH": os.environ["PATH"],
                "METASCHED_CACHE": folder,
                "METASCHED_RUN": folder,
                "METASCHED_PARAM_ENCODER": "lsa",
                "METASCHED_PARAM_CHUNKS": "5000",
                "METASCHED_PARAM_CORPUS": "postgresql-doc-15",
            }
            done = subprocess.run(
                ["bash", *command],
                cwd=FOLDER,
                env=environment | {f"METASCHED_{name}": value for name, value in variables.items()},
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^cannot .*: .*; .*\n$")
        return done.stderr

    def test_an_encoder_that_is_not_known(self):
        self.assertIn("'bert'", self.run_script("prepare.sh", PARAM_ENCODER="bert"))

    def test_a_number_of_chunks_that_is_none(self):
        for chunks in ("0", "-5", "many", "99999999"):
            self.assertIn("chunks", self.run_script("prepare.sh", PARAM_CHUNKS=chunks))

    def test_a_corpus_that_is_no_package_name(self):
        words = self.run_script("prepare.sh", PARAM_CORPUS="a-doc,/etc/passwd")
        self.assertIn("'/etc/passwd'", words)

    def test_a_start_before_staging(self):
        self.assertIn("stage the workload first", self.run_script("run.sh", "back"))

    def test_staging_before_preparing(self):
        self.assertIn("prepare it first", self.run_script("stage.sh"))
