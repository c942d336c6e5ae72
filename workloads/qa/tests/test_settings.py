import unittest

from qa import settings

GOOD = {
    "METASCHED_PARAM_PORT": "8099",
    "METASCHED_PARAM_LAYOUT": "split",
    "METASCHED_PARAM_ENCODER": "lsa",
    "METASCHED_PARAM_CALLERS": "1",
    "METASCHED_RUN": "/run/x",
    "METASCHED_DURATION_S": "2.5",
}


class Settings(unittest.TestCase):
    def test_the_environment_is_read(self):
        given = settings.read(GOOD)
        self.assertEqual((given.port, given.layout, given.duration_s), (8099, "split", 2.5))
        self.assertEqual(str(given.socket), "/run/x/back.sock")

    def test_each_wrong_value_is_named(self):
        for name, value in (
            ("METASCHED_PARAM_PORT", "0"),
            ("METASCHED_PARAM_PORT", "65536"),
            ("METASCHED_PARAM_PORT", "http"),
            ("METASCHED_PARAM_CALLERS", "-1"),
            ("METASCHED_PARAM_LAYOUT", "both"),
            ("METASCHED_PARAM_ENCODER", "auto"),
            ("METASCHED_RUN", ""),
        ):
            with self.subTest(name=name, value=value), self.assertRaisesRegex(ValueError, name):
                settings.read(GOOD | {name: value})
