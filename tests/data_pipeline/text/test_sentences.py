import random

import pytest

from data_pipeline.text.sentences import sentences
from tests.support.steps import check_linear

# Each "|" is a boundary labelled by hand.
LABELLED = """
The mill burned down in 1802.| It was rebuilt within a year.| Nobody was hurt.
Dr. Orla Finch met Mrs. Pell at noon.| They spoke for an hour.
The river is 3.5 km long.| Its depth is 2.1 m.| The bed is clay.
He lives in the U.S. Virgin Islands.| She moved to the U.S. in May.| They write.| It left the U.S.| The crew stayed.
Many tools, e.g. Hammers and saws, were lost.| Others, i.e. Chisels, were not.
See No. 5 for details.| The answer was no.| Then he left.| He asked for No. 7.| "No," she said.| "Take No. 9."
"Go home," he said.| "It is late."| She went.| "Is it late?" he asked.| Nobody knew.
Is it late?| Nobody knew!| They waited... and waited.| Then it came.| They waited...| Nothing came.| The end…| Truly.
(This stands alone.)| The next does too.| (So does this.)| The guild (founded c. 1400 by A. Wren) is old.| It is rich.
The firm Gall & Sons Ltd. built it.| Later Horn Inc. and Co. bought the yard.
Acme Corp.| It was sold.| The price was $5.| $6 was asked.| We met at 5 p.m.| Rain fell.| By 6 a.m. the road was gone.
She holds a Ph.D.| The thesis was lost.| 1. Mix the clay.| Let it rest.
2. Fire it at 900 degrees.| Cool it for a day.| It took vitamin C.| The sailors lived.| Plan B.| It failed.
The treaty of St. Olm holds.| Mt. Barrow is high.| Ft. Kell fell.| On Jan. 5 it snowed.| In Sept. the sea froze.
Eek ! The Cat is a series .| It ran for years .| The end .
He said " Go home . "| She went .| It was late ( very late . )| They slept .
The bird ( b . 1900 ) died .| Its mate lived .| Yahoo! Mail is a service.| Stop there!| Then go.| Help me!| Quick!
Prices fell by 3.| Wages did not.| 12 men left.| 1990 was worse.
Smith et al. Reported it in vol. 3, pp. 12–14.| Others et al. disagreed.
It ended.[3]| The king died.[a]| His son ruled.| “Come in.”| ‘No.’| «Oui.»| She left.
What?!| You cannot mean it!!| I do.| Gov. Hale and Sen. Ost met Gen. Roe vs. Col. Mar.| They won.
Élan fell.| Über lost.| Жизнь goes on.| 彼は来た。|彼女は去った。|「そう。」|終わり
He won Jeopardy! Teen Tournament twice.| They sang "Turn! Turn!" at noon.| It was over!| He left.
The films are Flood! (1976), Fire! (1977) and Storm (1980).| They lost money.| (See the list.)| He wrote, "... I doubt it."
The space was forgotten.|The next sentence follows.| Node.js and St.Louis are names.
The dominant is used on I, IV, and V.| See the table.| In Marbury v. Madison the court ruled.
Maj. Gen. Hale met Brig. Gen. Ost.| He paid Rs. 30 for it.| No stop at all
""".strip().splitlines()


@pytest.mark.parametrize("line", LABELLED)
def test_boundaries_labelled_by_hand(line):
    text = line.replace("|", "")
    assert [text[start:end] for start, end in sentences(text)] == [part.strip() for part in line.split("|")]


# Boundaries of sentencex, "|" as above.
OTHERS = {
    "de": "Dr. Müller wohnt in der Str. 5.| Am 3. Mai kam er 😀 z. B. bzw. ca. um 8 Uhr nach Hause.| Und dann?",
    "fr": "Mme Dupont habite ici.| Il est parti.",
    "ja": "彼は来た。|彼女は去った！|終わり",
    "zh-Hans": "他来了。|她走了！",
    "hi": "वह आया।| वह गया।",
}


@pytest.mark.parametrize("language", OTHERS)
def test_boundaries_of_other_languages(language):
    text = "\n".join(2 * [OTHERS[language].replace("|", "")])
    expected = [part.strip() for part in OTHERS[language].split("|")]
    assert [text[start:end] for start, end in sentences(text, language)] == 2 * expected


@pytest.mark.parametrize("language", ["en", "de"])
def test_random_text_keeps_its_invariants(language):
    random_ = random.Random(0)
    parts = ["a", "Bee", ". ", "! ", "? ", "... ", '"', " ", "\n", "(", ")", "U.S. ", "Dr. ", "1. "]
    parts += ["。", "’", "'", "\u3000", "\t\u00a0", "\n \n"]
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
    *(".", "!", ". ", '. "', '" . ', "。", "A. ", "(", ". (", "''", " ", "\n", "a. B", ".)", "U.S.", "a.B", "ab.Cd", "! A", "Mr. "),
    *("Ab! Cd ", ".[1]", ".[", '."', "? ('", "… ", ".\u00a0", "x ", "No. 1 ", "1. ", '"a. B" ', "。」", ". ”", "I. A "),
]  # fmt: skip


@pytest.mark.parametrize("part", RUNS)
def test_steps_grow_linearly(part):
    check_linear(lambda n: sentences(part * n), most=2.1)
    # Not by `steps`: a regular expression is one step; a quadratic one takes minutes, and so does "。」" unless read in windows.
    sentences(part * 10_000, "de")
    sentences(part * 25_000)
