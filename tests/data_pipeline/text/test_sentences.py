import random

import pytest

from data_pipeline.text.sentences import sentences
from tests.support.steps import check_linear

# Each "|" is a boundary labelled by hand.
LABELLED = """
Dr. Orla Finch met Mrs. Pell at noon.| They spoke for an hour.| The river is 3.5 km long.| Its depth is 2.1 m.| It is clay.
He lives in the U.S. Virgin Islands.| She moved to the U.S. in May.| They write.| It left the U.S.| The crew stayed.
See No. 5 for details.| The answer was no.| Then he left.| He asked for No. 7.| "No," she said.| "Take No. 9."
"Go home," he said.| "It is late."| She went.| "Is it late?" he asked.| Nobody knew.
Is it late?| Nobody knew!| They waited... and waited.| Then it came.| They waited...| Nothing came.| The end…| Truly.
(This stands alone.)| (So does this.)| The guild (founded c. 1400 by A. Wren) is old.| It is rich.
Acme Corp.| It was sold by Gall & Sons Ltd. of Ohio.| $6 was asked.| We met at 5 p.m.| By 6 a.m. the road was gone.
She holds a Ph.D.| The thesis was lost.| 1. Mix the clay.| It took vitamin C.| The sailors lived.| Plan B.| It failed.
Eek ! The Cat is a series .| He said " Go home . "| She went .| It was late ( very late . )| They slept .
Yahoo! Mail is a service.| Stop there!| Then go.| Prices fell by 3.| Wages did not.| 12 men left.| 1990 was worse.
Smith et al. Reported it in vol. 3, pp. 12–14.| It ended.[3]| The king died.[a]| “Come in.”| ‘No.’| «Oui.»| She left.
What?!| You cannot mean it!!| I do.| Élan fell.| Über lost.| Жизнь goes on.| 彼は来た。|彼女は去った。|「そう。」|終わり
The space was forgotten.|The next follows.| Node.js is.| They sang "Turn! Turn!" and Flood! (1976).| "... I doubt it."
The dominant is used on I, IV, and V.| See the table.| In Marbury v. Madison the court ruled.| No stop at all
""".strip().splitlines()


# Of sentencex.
OTHERS = [
    ("de", "Dr. Müller wohnt in der Str. 5.| Am 3. Mai kam er 😀 z. B. bzw. ca. um 8 Uhr nach Hause.| Und dann?"),
    ("zh-Hans", "他来了。|她走了！"),
]


@pytest.mark.parametrize(("language", "line"), [*(("en", line) for line in LABELLED), *OTHERS])
def test_boundaries_labelled_by_hand(language, line):
    text = "\n".join(2 * [line.replace("|", "")])
    expected = 2 * [part.strip() for part in line.split("|")]
    assert [text[start:end] for start, end in sentences(text, language)] == expected


@pytest.mark.parametrize("language", ["en", "de"])
def test_random_text_keeps_its_invariants(language):
    random_ = random.Random(0)
    parts = ["a", "Bee", ". ", "! ", "... ", '"', " ", "\n", "(", ")", "U.S. ", "1. ", "。", "’", "\u3000", "\n \n"]
    for _ in range(3000):
        text = "".join(random_.choices(parts, k=random_.randint(0, 40)))
        position = 0
        for start, end in sentences(text, language):
            sentence = text[start:end]
            assert position <= start < end and sentence == sentence.strip() and "\n" not in sentence
            assert not text[position:start].strip()
            position = end
        assert not text[position:].strip()


RUNS = [
    *(".", "!", ". ", '" . ', "A. ", ". (", " ", "\n", ".)", "U.S.", "ab.Cd", "! A", "Ab! Cd ", ".[1]", ".[", "? ('"),
    *("… ", ".\u00a0", "No. 1 ", '"a. B" ', "。」", ". ”"),
]


@pytest.mark.parametrize("part", RUNS)
def test_steps_grow_linearly(part):
    check_linear(lambda n: sentences(part * n), most=2.1)
    # Not by `steps`: a regular expression is one step; a quadratic one takes minutes, and so does "。」" unless read in windows.
    sentences(part * 10_000, "de")
    sentences(part * 25_000)
