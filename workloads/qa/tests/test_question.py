import json
import unittest

from qa import question


def body(**fields):
    return json.dumps(fields).encode()


class Question(unittest.TestCase):
    def refused(self, data, words):
        with self.assertRaises(question.BadQuestion) as caught:
            question.parse(data)
        self.assertIn(words, str(caught.exception))

    def test_a_question_is_taken_as_it_is(self):
        self.assertEqual(question.parse(body(question="How?")), "How?")

    def test_every_kind_of_bad_body_is_told_apart(self):
        self.refused(b"", "not JSON")
        self.refused(b"{", "not JSON")
        self.refused(b"\xff\xfe\xfd", "not JSON")
        self.refused(b"[" * 100_000, "nested too deeply")
        self.refused(b'["How?"]', "must be an object")
        self.refused(b"{}", "'question' must be there")
        self.refused(body(question=3), "be a string")
        self.refused(body(question=" \t\x00 "), "empty")
        self.refused(body(question="How?", k=4), "no field 'k'")

    def test_the_longest_question_passes_and_a_longer_one_does_not(self):
        longest = "a" * question.MAX_QUESTION_CHARS
        self.assertEqual(question.parse(body(question=longest)), longest)
        self.refused(body(question=longest + "a"), "1001 characters")

    def test_the_query_is_tidied(self):
        query = question.to_query("  \ufb01nd\u00a0 the\x07row\n")
        self.assertEqual(query, {"text": "find the row", "nearest": 4})

    def test_the_answer_keeps_the_order_and_turns_distance_into_similarity(self):
        chunks = [
            {"text": "a", "source": "a.html", "distance": 0.25},
            {"text": "b", "source": "b.html", "distance": 0.5},
        ]
        answer = question.to_answer(" How? ", chunks)
        self.assertEqual(answer["question"], "How?")
        self.assertEqual([near["similarity"] for near in answer["answers"]], [0.75, 0.5])
        self.assertEqual(answer["answers"][1]["source"], "b.html")
