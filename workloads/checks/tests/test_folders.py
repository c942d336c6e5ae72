"""What holds for every workload."""

import re
import tomllib
import unittest
from pathlib import Path

WORKLOADS = Path(__file__).parent.parent.parent
SHARED = ("common", "jvm")
FOLDERS = sorted(path.parent for path in WORKLOADS.glob("*/manifest.toml"))
SOURCES = (".sh", ".py", ".lua", ".java")
MOST_LETTERS = 110


def manifest(folder):
    return tomllib.loads((folder / "manifest.toml").read_text())


def commands(described):
    for step in ("prepare", "stage"):
        if step in described:
            yield described[step]["command"]
    for form in described["form"].values():
        yield form["load"]["command"]
        for process in form.get("process", {}).values():
            yield process["command"]
            if "command" in process.get("ready", {}):
                yield process["ready"]["command"]


def sources(folder):
    return [path for path in sorted(folder.rglob("*")) if path.suffix in SOURCES]


def parameters_in(text):
    used = set(re.findall(r"METASCHED_PARAM_([A-Z_]+)", text))
    used |= set(re.findall(r"\bneed_count ([a-z_-]+)", text))
    # In Java.
    used |= set(re.findall(r'\bSetting\.\w+\("(\w+)"', text))
    if re.search(r"\b(need_port|port_free|port_open)\b|/ready\.sh", text):
        used.add("PORT")
    return {name.upper().replace("-", "_") for name in used}


def parameters_read(folder):
    return set().union(*(parameters_in(path.read_text()) for path in sources(folder)))


class Folders(unittest.TestCase):
    def test_every_command_is_a_script_that_is_there(self):
        for folder in FOLDERS:
            for command in commands(manifest(folder)):
                self.assertEqual(command[0], "bash", folder)
                self.assertTrue((folder / command[1]).is_file(), (folder, command))

    def test_a_workload_that_reads_a_shared_file_says_so(self):
        for folder in FOLDERS:
            texts = [path.read_text() for path in [*sources(folder), folder / "manifest.toml"]]
            read = [name for name in SHARED if any(f"../{name}/" in text for text in texts)]
            self.assertEqual(manifest(folder).get("uses", []), read, folder)

    def test_every_parameter_is_used_and_none_that_is_not_declared(self):
        for folder in FOLDERS:
            described = manifest(folder)
            own = parameters_read(folder) | parameters_in(str(list(commands(described))))
            names = {name.upper().replace("-", "_") for name in described.get("param", {})}
            self.assertLessEqual(own, names, folder)
            # Those who share this read what they share of it.
            if "jvm" in described.get("uses", []):
                own |= parameters_read(WORKLOADS / "jvm")
            self.assertLessEqual(names, own, folder)

    def test_ports_differ_so_that_two_workloads_can_run_at_once(self):
        ports = [
            described["param"]["port"]["default"]
            for described in map(manifest, FOLDERS)
            if "port" in described.get("param", {})
        ]
        self.assertEqual(len(ports), len(set(ports)), sorted(ports))

    def test_every_form_says_what_it_counts_and_is_driven_by_time(self):
        for folder in FOLDERS:
            for name, form in manifest(folder)["form"].items():
                self.assertTrue(form["unit"] and form["summary"], (folder, name))
                self.assertEqual(form["load"]["reads"], "metrics", (folder, name))

    def test_every_workload_has_a_short_readme(self):
        for folder in FOLDERS:
            self.assertRegex((folder / "README.md").read_text(), f"^# {folder.name}: ", folder)

    def test_sources_name_their_licence_and_have_short_lines(self):
        for folder in [*FOLDERS, *(WORKLOADS / name for name in SHARED)]:
            for path in sources(folder):
                text = path.read_text()
                if folder.name != "qa":
                    self.assertIn("SPDX-License-Identifier: GPL-2.0-only", text[:200], path)
                for line in text.splitlines():
                    self.assertLessEqual(len(line), MOST_LETTERS, (path, line))
