import tempfile
import unittest
from pathlib import Path

from qa import corpus

PAGE = """<html><head><title>Not this</title><style>p { x }</style></head>
<body><div class="navheader"><table><tr><td>Prev <div>and</div> Next</td></tr></table></div>
<h1>Locks &amp; waits</h1><p>A <code>lock</code>
   is held.<br>Until commit.</p><hr/><ul><li>one<li>two</ul>
<script>var x = "<p>no</p>";</script><p>After all.</body></html>"""


class Text(unittest.TestCase):
    def test_a_page_gives_its_paragraphs_without_navigation_and_scripts(self):
        self.assertEqual(
            corpus.paragraphs(PAGE),
            ["Locks & waits", "A lock is held.", "Until commit.", "one", "two", "After all."],
        )

    def test_a_stray_end_tag_hides_nothing(self):
        self.assertEqual(corpus.paragraphs("</div><nav>x</b></nav><p>seen</p>"), ["seen"])

    def test_an_empty_page_has_no_paragraphs(self):
        self.assertEqual(corpus.paragraphs(""), [])


class Chunks(unittest.TestCase):
    def test_no_chunk_is_longer_than_the_limit_and_no_word_is_lost(self):
        texts = [
            "Short.",
            "A sentence of words. " * 60,
            "word " * 300,
            "x" * 1234,
            "End of it.",
        ]
        chunks = list(corpus.chunks(texts))
        self.assertTrue(all(0 < len(chunk) <= corpus.MAX_CHUNK_CHARS for chunk in chunks))
        letters = "".join("".join(texts).split())
        self.assertEqual("".join("".join(chunks).split()), letters)

    def test_paragraphs_that_fit_stay_together(self):
        self.assertEqual(list(corpus.chunks(["a b", "c d"], limit=10)), ["a b\nc d"])

    def test_a_long_paragraph_is_cut_between_sentences(self):
        self.assertEqual(
            list(corpus.chunks(["One two. Three. Four five."], limit=16)),
            ["One two. Three.", "Four five."],
        )

    def test_a_long_sentence_is_cut_between_words(self):
        self.assertEqual(list(corpus.chunks(["one two three"], limit=8)), ["one two", "three"])

    def test_nothing_gives_no_chunks(self):
        self.assertEqual(list(corpus.chunks([])), [])


class Read(unittest.TestCase):
    def test_chunks_name_their_page_and_a_text_counts_once(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "sub").mkdir()
            same = "<p>The same sentence, long enough to be kept, on two pages.</p>"
            (folder / "a.html").write_text(same)
            (folder / "sub" / "b.html").write_text(same + "<p>" + "Other words. " * 50)
            (folder / "c.htmlx").write_text(same.replace("two", "three"))
            found = corpus.read(folder)
        self.assertEqual(found[0].source, "a.html")
        self.assertEqual({chunk.source for chunk in found[1:]}, {"sub/b.html"})
        self.assertEqual(len({chunk.text for chunk in found}), len(found))

    def test_a_selection_is_spread_over_the_whole(self):
        everything = [corpus.Chunk(str(number), "") for number in range(10)]
        chosen = corpus.spread(everything, 4)
        self.assertEqual([chunk.text for chunk in chosen], ["0", "2", "5", "7"])
        self.assertEqual(corpus.spread(everything, 10), everything)

    def test_more_chunks_than_there_are_is_an_error_with_both_numbers(self):
        with self.assertRaisesRegex(ValueError, "has 1 chunks, and 5000 were asked for"):
            corpus.spread([corpus.Chunk("a", "")], 5000)
