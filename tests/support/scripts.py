"""Lines of ten scripts: sentences, and random words from each script's letters with digits, marks and spaces."""

from harp_jax.base.randomness import generator
from harp_jax.text.tokenizer import load_tokenizer
from tests.support.tokenizers import save_trained

SENTENCES = (
    "The cat sat on the mat; it's 3.14 o'clock, isn't it?", "Die Übergröße kostet 5 € – naïve façades!",
    "Кошка сидит на коврике, а собака спит.", "Η γάτα κάθεται στο χαλί.", "القطة تجلس على السجادة، أليس كذلك؟",
    "החתול יושב על המחצלת.", "बिल्ली चटाई पर बैठी है।", "แมวนั่งอยู่บนเสื่อ",
    "猫坐在垫子上。猫が座っている、と思う。", "고양이가 매트 위에 앉아 있다.",
    "კატა ხალიჩაზე ზის.", "ﬁne ① ｆｕｌｌ　ｗｉｄｔｈ ½ \u00a0 e\u0301 👩‍🚀 \t tab",
)  # fmt: skip
LETTERS = {
    "Latin": (0x61, 0x24F), "Greek": (0x391, 0x3C9), "Cyrillic": (0x410, 0x44F), "Hebrew": (0x5D0, 0x5EA), "Arabic": (0x621, 0x64A),
    "Devanagari": (0x905, 0x94D), "Thai": (0xE01, 0xE4D), "Georgian": (0x10D0, 0x10F0), "Hangul": (0xAC00, 0xD7A3),
    "Han": (0x4E00, 0x9FA5), "Kana": (0x3041, 0x30FE),
}  # fmt: skip
BETWEEN = (" ", "  ", ", ", ". ", "-", "7", "\u00a0", "\n", "é")


def lines_of_scripts(count: int) -> list[str]:
    """`count` lines; the sentences come first."""
    lines = list(SENTENCES[:count])
    for number in range(len(lines), count):
        rng = generator("scripts", number)
        low, high = list(LETTERS.values())[number % len(LETTERS)]
        words = ["".join(map(chr, rng.integers(low, high + 1, rng.integers(1, 9)))) for _ in range(rng.integers(1, 12))]
        lines.append("".join(word + BETWEEN[rng.integers(len(BETWEEN))] for word in words))
    return lines


def compare_scripts(kind: str, directory: str, count: int) -> None:
    """Ids and offsets of `count` lines by a tokenizer trained on the first 300, here and in transformers."""
    import transformers

    lines = lines_of_scripts(count)
    save_trained(kind, directory, lines[:300], 4000)
    theirs = transformers.AutoTokenizer.from_pretrained(directory)(
        lines, add_special_tokens=False, return_offsets_mapping=True
    )
    for line, mine, ids, offsets in zip(
        lines, load_tokenizer(directory).encode_batch(lines), theirs["input_ids"], theirs["offset_mapping"]
    ):
        assert mine.ids == ids and mine.offsets == offsets, line
